"""Engines against plain inner products: exact, HNSW and IVF, 32 and 8 bits, with rows that come and go."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.errors import DataError, UsageError
from likewise.search import engines
from likewise.search.engines import Plan, StackedVectors, built, exact_best, recall_against
from likewise.search.ranker import Ranked

KINDS = [(kind, bits) for kind in engines.KINDS for bits in engines.BITS]


def random_units(seed: int, count: int, dimension: int = 24) -> np.ndarray:
    """Unit vectors around a few centres, as texts lie around topics."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((12, dimension))
    rows = centres[rng.integers(0, 12, count)] + 0.6 * rng.standard_normal((count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def stack(rows: np.ndarray) -> StackedVectors:
    """In three parts of unequal size."""
    return StackedVectors([part for part in np.split(rows, [len(rows) // 7, len(rows) // 2]) if len(part)])


def plain_best(rows: np.ndarray, queries: np.ndarray, k: int) -> Ranked:
    scores = queries.astype(np.float64) @ rows.T.astype(np.float64)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return Ranked(np.take_along_axis(scores, order, 1).astype(np.float32), order)


@pytest.mark.parametrize("seed", range(3))
def test_exact_search_is_the_plain_one(seed: int) -> None:
    rows, queries = random_units(seed, 500), random_units(seed + 10, 40)
    found, plain = built(stack(rows), Plan.of(500)).search(queries, 10), plain_best(rows, queries, 10)
    np.testing.assert_array_equal(found.rows, plain.rows)
    np.testing.assert_allclose(found.scores, plain.scores, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "bits"), KINDS)
def test_approximate_engines_find_what_they_say_and_score_it_exactly(kind: str, bits: int, seed: int) -> None:
    rows, queries = random_units(seed, 3000), random_units(seed + 10, 100)
    engine = built(stack(rows), Plan.of(3000, kind, bits))
    found, plain = engine.search(queries, 10), plain_best(rows, queries, 10)
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(found.rows.tolist(), plain.rows.tolist(), strict=True)]
    assert np.mean(shares) >= 0.97
    scores = np.einsum("qd,qkd->qk", queries, rows[found.rows])
    np.testing.assert_allclose(found.scores, scores, atol=1e-6)
    assert (np.diff(found.scores, axis=1) <= 0).all()
    assert (engine.recall is None) == (kind == "exact" and bits == 32)
    if engine.recall is not None:
        assert engine.recall >= 0.97 and abs(engine.recall - np.mean(shares)) < 0.03


@pytest.mark.parametrize(("kind", "bits"), KINDS)
def test_a_changed_store_is_searched_without_a_new_engine(kind: str, bits: int) -> None:
    rows, extra = random_units(1, 800), random_units(2, 60)
    gone = np.arange(0, 800, 7)
    engine = built(stack(rows), Plan.of(800, kind, bits))
    kept = np.full(800, -1, np.int64)
    alive = np.setdiff1d(np.arange(800), gone)
    kept[alive] = np.arange(len(alive))
    present = np.concatenate([rows[alive], extra])
    changed = engine.extended(stack(present), kept)
    found, plain = changed.search(extra, 5), plain_best(present, extra, 5)
    assert changed.index.ntotal == 860
    assert found.rows[:, 0].tolist() == list(range(len(alive), len(present)))
    assert (
        np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.rows.tolist(), plain.rows.tolist(), strict=True)])
        > 0.95
    )
    # What is gone is never found, even by its own vector.
    again = changed.search(rows[gone], 5)
    assert again.rows.min() >= 0 and again.scores[:, 0].max() < 0.9999


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "bits"), KINDS)
def test_rows_that_are_left_out_change_no_bit_of_the_others(kind: str, bits: int) -> None:
    rows, queries = random_units(0, 2000, 383), random_units(1, 30, 383)
    keep = np.random.default_rng(2).random(2000) < 0.3
    engine = built(stack(rows), Plan.of(2000, kind, bits))
    chosen, alone = engine.search(queries, 50, keep), [engine.search(query[None], 50, keep) for query in queries]
    every = engine.search(queries, 2000)
    plain = np.flatnonzero(keep)[plain_best(rows[keep], queries, 50).rows]
    for index in range(len(queries)):
        np.testing.assert_array_equal(chosen.rows[index], plain[index])
        np.testing.assert_array_equal(chosen.scores[index], alone[index].scores[0])
        scores = dict(zip(every.rows[index].tolist(), every.scores[index].tolist(), strict=True))
        assert [scores[row] for row in chosen.rows[index].tolist()] == chosen.scores[index].tolist()
    assert engine.search(queries, 5, np.zeros(2000, bool)).rows.shape == (30, 0)


def test_more_hits_than_rows_are_all_rows() -> None:
    rows = random_units(0, 5)
    for kind, bits in KINDS:
        found = built(StackedVectors([rows]), Plan.of(5, kind, bits)).search(rows[:2], 50)
        assert found.rows.shape == (2, 5) and sorted(found.rows[0].tolist()) == [0, 1, 2, 3, 4]


def test_equal_texts_come_in_their_order() -> None:
    rows = np.repeat(random_units(3, 4), 3, axis=0)
    found = built(StackedVectors([rows]), Plan.of(12)).search(rows[3:4], 3)
    assert found.rows.tolist() == [[3, 4, 5]]


def test_the_choice_goes_by_size_and_can_be_set() -> None:
    assert [Plan.of(size).kind for size in (0, 1_000_000, 1_000_001, 8_000_001)] == ["exact", "exact", "hnsw", "ivf"]
    assert Plan.of(10, "ivf", 8) == Plan("ivf", 8, "ivf was asked for")
    assert Plan.of(10).is_plain and not Plan.of(10, bits=8).is_plain
    assert "1,000,001" in Plan.of(1_000_001).why
    for kind, bits in (("flat", 32), ("exact", 4)):
        with pytest.raises(UsageError, match="choose"):
            Plan.of(10, kind, bits)


def test_eight_bits_take_a_quarter_of_the_memory() -> None:
    rows = StackedVectors([random_units(0, 2000, 128)])
    full, small = (built(rows, Plan.of(2000, "exact", bits)).bytes_per_vector for bits in (32, 8))
    assert full == pytest.approx(512, rel=0.01) and small == pytest.approx(128, rel=0.05)


def test_queries_of_another_width_are_refused() -> None:
    engine = built(StackedVectors([random_units(0, 5)]), Plan.of(5))
    with pytest.raises(DataError, match="24 dimensions"):
        engine.search(np.zeros((1, 3), np.float32), 1)


@pytest.mark.parametrize("seed", range(3))
def test_blockwise_exact_best_is_the_plain_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "CHUNK", 64)
    rows, queries = random_units(seed, 300), random_units(seed + 1, 9)
    np.testing.assert_array_equal(exact_best(stack(rows), queries, 11).rows, plain_best(rows, queries, 11).rows)


def test_recall_is_the_share_of_the_true_best() -> None:
    truth = Ranked(np.zeros((2, 2), np.float32), np.array([[7, 1], [3, 4]]))
    found = Ranked(np.zeros((2, 2), np.float32), np.array([[1, 7], [3, 9]]))
    assert recall_against(truth, found) == 0.75


def test_stacked_rows_are_taken_across_parts() -> None:
    rows = random_units(4, 50)
    stacked = stack(rows)
    wanted = np.array([49, 0, 7, 7, 25])
    np.testing.assert_array_equal(stacked.take(wanted), rows[wanted])
    np.testing.assert_array_equal(np.concatenate(list(stacked.blocks(4, 10))), rows[10:])
    assert len(stacked.sample(10)) == 10 and len(stacked.sample(100)) == 50
    part, place = stacked.part_of(30)
    np.testing.assert_array_equal(stacked.parts[part][place], rows[30])
