"""Hidden states and retrieval: every item is listed, runs on real data and ends in a verdict or a note."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.geometry.trajectories import word_trajectories
from likewise.reproduce.hidden_states import STUDY
from likewise.reproduce.hidden_states_recall import K, both_ways, difference, recalls
from likewise.reproduce.hidden_states_trajectories import (
    ADJECTIVE_SET,
    ANTONYMS,
    BANK_SET,
    CERTAINTY_SET,
    IDIOM_SET,
    SENTENCE_TESTS,
    VEHICLE_SET,
    WORD_TESTS,
    across_frames,
    by_sense,
    in_frames,
    matrix,
)
from likewise.reproduce.records import draw
from likewise.reproduce.study import Context
from likewise.reproduce.verdicts import NOT_COMPARABLE
from likewise.search.evaluation import EncodedRanker, RetrievalTask, evaluate_ranker
from likewise.search.ranker import Corpus
from likewise.search.recall import Relevant, Setting

ITEMS = [
    "inspection", "word-trajectories", "sentence-trajectories", "pooling", "layers", "models", "queries", "baselines",
    "ties",
]  # fmt: skip
FIGURES = {
    "word-trajectories": {"bank", "banks", "weather", "vehicles"},
    "sentence-trajectories": {"idiom", "certainty"},
    "pooling": {"recall"},
    "layers": {"layers"},
    "queries": {"recall"},
    "baselines": {"recall"},
}
ENGLISH = {"word-trajectories", "sentence-trajectories", "queries", "baselines"}


def test_every_item_is_listed_with_its_claim() -> None:
    assert [item.name for item in STUDY.items] == ITEMS
    assert all(item.claim.endswith(".") for item in STUDY.items)


def test_published_recalls_are_shares_that_grow_with_k() -> None:
    found = STUDY.published.of("models")
    rows = list(dict.fromkeys(row for row, _ in found))
    assert rows == ["BERT, mean", "BERT, CLS", "MSMARCO-BERT, mean", "MSMARCO-BERT, CLS"]
    for row in rows:
        values = [found[row, f"R@{k}"].value for k in (1, 5, 10, 20, 50)]
        assert values == sorted(values) and values[0] > 0 and values[-1] < 1
    pooling = STUDY.published.of("pooling")
    assert all(found[cell].value == one.value for cell, one in pooling.items())


def test_built_in_sentences_are_distinct_and_have_their_word() -> None:
    for one in (BANK_SET, ADJECTIVE_SET, VEHICLE_SET, IDIOM_SET, CERTAINTY_SET):
        assert len(set(one.texts)) == len(one.texts)
        words = one.words * len(one.texts) if len(one.words) == 1 else one.words
        assert not words or all(word in text for word, text in zip(words, one.texts, strict=True))
    assert {test.sentences.name for test in (*WORD_TESTS, *SENTENCE_TESTS)} == {
        "bank", "adjectives", "vehicles", "idioms", "certainty",
    }  # fmt: skip


def cosines(n: int, layers: int = 3) -> np.ndarray:
    half = np.random.default_rng(0).random((layers, n, n))
    both = half + half.transpose(0, 2, 1)
    both[:, range(n), range(n)] = 1.0
    return both


def test_frames_equal_their_slow_twin() -> None:
    found, frames = cosines(12), 4
    one, other = in_frames(found, ANTONYMS), across_frames(found, ANTONYMS)
    for layer, frame in product(range(3), range(frames)):
        own = [found[layer, 3 * frame + left, 3 * frame + right] for left, right in ANTONYMS]
        rest = [
            found[layer, 3 * frame + left, 3 * far + right]
            for left, right in ANTONYMS
            for far in range(frames)
            if far != frame
        ]
        assert one[layer, frame] == pytest.approx(np.mean(own))
        assert other[layer, frame] == pytest.approx(np.mean(rest))


def test_senses_equal_their_slow_twin() -> None:
    found = cosines(8)
    own, other = by_sense(found)
    for layer, one in product(range(3), range(8)):
        same = [found[layer, one, two] for two in range(8) if two != one and two // 4 == one // 4]
        others = [found[layer, one, two] for two in range(8) if two // 4 != one // 4]
        assert own[layer, one] == pytest.approx(np.mean(same))
        assert other[layer, one] == pytest.approx(np.mean(others))


def test_a_matrix_has_every_pair(minilm: Encoder) -> None:
    found = word_trajectories(minilm, BANK_SET.texts[:3], "bank")
    whole = matrix(found)
    assert whole.shape == (7, 3, 3)
    for pair in found.pairs:
        assert tuple(whole[:, pair.right, pair.left]) == pair.cosine


def ranked(texts: np.ndarray, queries: np.ndarray) -> tuple[EncodedRanker, RetrievalTask]:
    names = [str(row) for row in range(len(texts))]
    task = RetrievalTask("made", Corpus(names, names), names[: len(queries)], Relevant.single(range(len(queries))))
    return EncodedRanker(texts, queries, {name: row for row, name in enumerate(names)}), task


def test_ties_count_both_ways() -> None:
    equal = np.ones((30, 1), np.float32)
    favour, against = both_ways(*ranked(equal, equal))
    assert favour.mean() == 1 and against.mean() == 0
    vectors = np.random.default_rng(1).normal(size=(60, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[1:13] = vectors[0]  # texts 0 to 12 tie
    ranker, task = ranked(vectors, vectors)
    favour, against = both_ways(ranker, task)
    assert favour.tolist() == [1.0] * 60
    assert against.tolist() == [0.0] * 13 + [1.0] * 47
    assert np.array_equal(recalls(evaluate_ranker(ranker, task, Setting())), favour)


def test_the_difference_is_over_the_same_queries() -> None:
    first = np.array([1.0] * 30 + [0.0] * 10)
    found = difference(first, first)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    found = difference(first, 1 - first)
    assert found.value == pytest.approx(0.5) and found.low < 0.5 < found.high
    assert K == 10


def context(folder: Path, data: Path, model: str = "minilm", language: str = "en") -> Context:
    return Context(STUDY.name, model, folder, "tiny", data_dir=data, language=language, threads=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ITEMS)
def test_every_item_runs(name: str, shared_data: Path, tmp_path: Path) -> None:
    one = context(tmp_path, shared_data)
    finding = STUDY.item(name).run(one)
    assert finding.tables and (finding.verdicts or finding.notes)
    assert set(draw(finding, tmp_path, name)) == FIGURES.get(name, set())
    assert all(verdict.control or verdict.verdict == NOT_COMPARABLE for verdict in finding.verdicts)
    shown = "\n".join(cell for table in finding.tables.values() for row in table.texts() for cell in row)
    assert not any(pair.left in shown for pair in one.dataset("compression/test_36k", 60).pairs())


@pytest.mark.slow
@pytest.mark.parametrize("name", ITEMS)
def test_a_plain_chinese_model(name: str, shared_data: Path, shared_models: Path, tmp_path: Path) -> None:
    one = context(tmp_path, shared_data, str(shared_models / "albert-tiny-zh"), "zh")
    if name in ENGLISH:
        with pytest.raises((DataError, UsageError), match="English"):
            STUDY.item(name).run(one)
        return
    finding = STUDY.item(name).run(one)
    assert all(verdict.verdict != NOT_COMPARABLE for verdict in finding.verdicts)
    assert "shared" not in str([table.texts() for table in finding.tables.values()])
