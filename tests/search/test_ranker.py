"""The best rows against a plain stable sort, and rankings put together from blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from likewise.errors import Cancelled
from likewise.search import ranker
from likewise.search.ranker import Blocks, Scores, best, block_rows, ranked


def plainly_best(scores: Scores, k: int) -> list[list[int]]:
    return [sorted(range(len(row)), key=lambda place: -row[place])[:k] for row in scores.tolist()]


class Table:
    """A ranker whose queries are the numbers of rows of a table of scores."""

    name = "table"
    floor = -np.inf

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        rows = block_rows(self.scores.shape[1])
        for start in range(0, len(queries), rows):
            yield start, self.scores[[int(query) for query in queries[start : start + rows]]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [1, 2, 5, 10_000])
@pytest.mark.parametrize("k", [0, 1, 3, 40, 41])
def test_best_is_the_stable_sorts(seed: int, levels: int, k: int) -> None:
    scores = (np.random.default_rng(seed).integers(-levels, levels, (7, 40)) / levels).astype(np.float32)
    found = best(scores, k)
    assert found.rows.tolist() == plainly_best(scores, k)
    assert np.array_equal(found.scores, np.take_along_axis(scores, found.rows, axis=1))
    assert found.rows.dtype == np.int64 and found.scores.dtype == np.float32


def test_best_takes_zero_of_either_sign_as_equal() -> None:
    assert best(np.array([[-0.0, 0.0, -1.0, 0.0]], np.float32), 3).rows.tolist() == [[0, 1, 3]]


def test_best_of_infinite_scores() -> None:
    assert best(np.array([[-np.inf, np.inf, 0.0, -np.inf]], np.float32), 3).rows.tolist() == [[1, 2, 0]]


def test_best_leaves_the_scores_alone() -> None:
    scores = np.array([[3.0, 1.0, 2.0]], np.float32)
    best(scores, 2)
    assert scores.tolist() == [[3.0, 1.0, 2.0]]


@pytest.mark.parametrize("block_bytes", [1, 100, 2**26])
def test_ranked_is_the_same_in_blocks_of_any_size(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranker, "BLOCK_BYTES", block_bytes)
    scores = np.random.default_rng(0).integers(0, 4, (9, 11)).astype(np.float32)
    found = ranked(Table(scores), [str(row) for row in range(9)], 5)
    assert found.rows.tolist() == plainly_best(scores, 5)


def test_ranked_counts_queries_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 1)
    table, seen = Table(np.zeros((4, 2), np.float32)), []
    ranked(table, ["0", "1", "2"], 1, lambda *call: seen.append(call))
    assert seen[-1] == (3, 3, "queries")

    def cancel(*call: object) -> None:
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        ranked(table, ["0"], 1, cancel)


def test_ranked_of_no_queries() -> None:
    found = ranked(Table(np.zeros((1, 2), np.float32)), [], 5)
    assert found.rows.shape == (0, 0) and found.scores.shape == (0, 0)


def test_block_rows_is_never_zero() -> None:
    assert block_rows(0) == ranker.BLOCK_BYTES // 4
    assert block_rows(2**40) == 1
