"""All pairs from a cosine on: blocked products and faiss against a plain loop over all pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.errors import DataError, ModelError, UsageError
from likewise.search import similar_pairs as module
from likewise.search.similar_pairs import Pairs, PairSearch, components, sampled_scores, similar_pairs


def clustered(size: int, seed: int, dimension: int = 12) -> np.ndarray:
    """Vectors around few centres, of different lengths, so that many pairs are near."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(1, size // 6), dimension))
    vectors = centres[random.integers(0, len(centres), size)] + 0.2 * random.normal(size=(size, dimension))
    return (vectors * random.uniform(0.5, 3, (size, 1))).astype(np.float32)


def twin(vectors: np.ndarray, threshold: float) -> list[tuple[int, int, float]]:
    """From the definition: the float64 cosine of every pair."""
    found = []
    for left in range(len(vectors)):
        for right in range(left + 1, len(vectors)):
            a, b = vectors[left].astype(float), vectors[right].astype(float)
            score = round(float(a @ b / np.sqrt((a @ a) * (b @ b))), 7)
            if score >= threshold:
                found.append((left, right, score))
    return sorted(found, key=lambda one: (-one[2], one[0], one[1]))


def listed(pairs: Pairs) -> list[tuple[int, int, float]]:
    return list(zip(pairs.left.tolist(), pairs.right.tolist(), pairs.scores.tolist(), strict=True))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("block", [7, 64, 4096])
def test_exact_pairs_are_those_of_the_definition(seed: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", block)
    vectors = clustered(150, seed)
    expected = twin(vectors, 0.9)
    assert len(expected) > 50
    found, recall = similar_pairs(vectors, PairSearch(0.9))
    assert recall is None
    assert [one[:2] for one in listed(found)] == [one[:2] for one in expected]
    assert found.scores == pytest.approx([one[2] for one in expected], abs=1e-7)


def test_a_threshold_that_is_a_pairs_own_score_finds_it() -> None:
    vectors = clustered(40, 3)
    for left, right, score in twin(vectors, 0.5)[:20]:
        assert (left, right) in [one[:2] for one in listed(similar_pairs(vectors, PairSearch(score))[0])]


def test_equal_vectors_have_the_score_one() -> None:
    vectors = np.repeat(clustered(1, 0), 3, axis=0) * np.array([[1], [1], [7]], np.float32)
    assert listed(similar_pairs(vectors, PairSearch(1.0))[0]) == [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.0)]


def test_zero_vectors_are_similar_to_nothing() -> None:
    vectors = np.array([[0, 0], [0, 0], [1, 0]], np.float32)
    assert len(similar_pairs(vectors, PairSearch(0.1))[0]) == 0


@pytest.mark.parametrize("size", [0, 1])
def test_fewer_than_two_rows_have_no_pair(size: int) -> None:
    assert len(similar_pairs(np.ones((size, 3), np.float32), PairSearch(-1.0))[0]) == 0


def test_too_many_pairs_name_the_cure() -> None:
    with pytest.raises(DataError, match=r"more than 100 pairs .* raise --threshold or --max-pairs"):
        similar_pairs(clustered(60, 0), PairSearch(-1.0, max_pairs=100))


def test_too_many_equal_vectors_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a threshold of 1 every product lies within the rounding error, so none is sure before it is scored."""
    monkeypatch.setattr(module, "RESCORED", 50)
    scored = []
    plain = module._at_least
    monkeypatch.setattr(module, "_at_least", lambda *given: scored.append(len(given[1])) or plain(*given))
    with pytest.raises(DataError, match="more than 100 pairs"):
        similar_pairs(np.ones((200, 4), np.float32), PairSearch(1.0, max_pairs=100))
    assert sum(scored) == 150


def test_vectors_that_are_no_numbers() -> None:
    with pytest.raises(ModelError, match="not numbers"):
        similar_pairs(np.array([[1, 0], [np.nan, 1]], np.float32), PairSearch(0.5))


@pytest.mark.parametrize("threshold", [1.5, -2.0, float("nan"), float("inf")])
def test_wrong_threshold(threshold: float) -> None:
    with pytest.raises(UsageError, match="--threshold is a cosine from -1 to 1"):
        PairSearch(threshold)


def test_unknown_engine() -> None:
    with pytest.raises(UsageError, match="unknown engine 'annoy'; choose from exact, hnsw, ivf"):
        PairSearch(0.5, "annoy")


def test_an_interrupted_search_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 16)
    vectors, whole = clustered(60, 1), similar_pairs(clustered(60, 1), PairSearch(0.9))[0]
    computed: list[int] = []
    plain = module._stripe

    def stops(vectors: np.ndarray, start: int, *rest: object) -> Pairs:
        if len(computed) == 2:
            raise KeyboardInterrupt
        computed.append(start)
        return plain(vectors, start, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_stripe", stops)
    with pytest.raises(KeyboardInterrupt):
        similar_pairs(vectors, PairSearch(0.9), tmp_path)
    assert computed == [0, 16]
    (tmp_path / "pairs-0.9-16.npz").write_bytes(b"damaged")
    computed.clear()
    monkeypatch.setattr(module, "_stripe", lambda *given: computed.append(given[1]) or plain(*given))
    assert listed(similar_pairs(vectors, PairSearch(0.9), tmp_path)[0]) == listed(whole)
    assert computed == [16, 32, 48]


def test_progress_counts_all_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 16)
    calls: list[tuple[int, int | None, str]] = []
    for _ in range(2):  # computed, then read from the folder
        similar_pairs(clustered(50, 0), PairSearch(0.9), tmp_path, lambda *call: calls.append(call))
        assert calls[-1] == (50 * 49 // 2, 50 * 49 // 2, "pairs compared")


@pytest.mark.parametrize("engine", ["hnsw", "ivf"])
def test_faiss_states_the_recall_that_it_has(engine: str) -> None:
    pytest.importorskip("faiss", reason="faiss is not installed (extra: search)")
    vectors = clustered(400, 5)
    exact = {one[:2] for one in listed(similar_pairs(vectors, PairSearch(0.85))[0])}
    found, recall = similar_pairs(vectors, PairSearch(0.85, engine))
    pairs = {one[:2] for one in listed(found)}
    assert pairs <= exact
    # All rows are in the sample, which sees each pair from both ends.
    assert recall == pytest.approx(len(pairs) / len(exact)) and recall > 0.9


def test_faiss_looks_deeper_where_the_neighbours_are_many() -> None:
    pytest.importorskip("faiss", reason="faiss is not installed (extra: search)")
    vectors = np.vstack([np.ones((70, 4)), -np.ones((30, 4))]).astype(np.float32)
    found, recall = similar_pairs(vectors, PairSearch(0.99, "hnsw"))
    assert len(found) == 70 * 69 // 2 + 30 * 29 // 2 and recall == 1.0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_components_are_those_of_a_plain_walk(seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = random.integers(0, 40, (2, 25))
    labels = list(range(40))
    for _ in range(40):
        for one, other in zip(left, right, strict=True):
            labels[one] = labels[other] = min(labels[one], labels[other])
    order = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    assert components(40, left, right).tolist() == [order[label] for label in labels]


def test_sampled_scores_of_few_rows_are_all_of_them() -> None:
    vectors = clustered(20, 0)
    expected = [one[2] for one in twin(vectors, -1.0)]
    assert np.sort(sampled_scores(vectors)) == pytest.approx(sorted(expected), abs=1e-6)
