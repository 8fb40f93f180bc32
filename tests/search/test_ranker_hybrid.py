"""Reciprocal rank fusion against a plain twin."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from likewise.errors import UsageError
from likewise.search import ranker
from likewise.search.ranker import TIE, Blocks, Hybrid, Ranker, Scores, block_rows
from likewise.search.word_rankers import TfIdf


class Table:
    """A ranker whose queries are the numbers of rows of a table of scores."""

    floor = -np.inf

    def __init__(self, scores: Sequence[Sequence[float]] | Scores, name: str = "table") -> None:
        self.scores, self.name = np.asarray(scores, np.float32), name

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        rows = block_rows(self.scores.shape[1])
        for start in range(0, len(queries), rows):
            yield start, self.scores[[int(query) for query in queries[start : start + rows]]]


class Floored(Table):
    """A table whose zeros mean "nothing in common"."""

    floor = 0.0


def fused(rankers: Sequence[Ranker], queries: Sequence[str] = ("0",), **settings: float) -> Scores:
    return np.concatenate([scores for _, scores in Hybrid(rankers, **settings).score_blocks(queries)])  # type: ignore[arg-type]


def plainly_fused(rankers: Sequence[Table], constant: float, depth: int) -> list[list[float]]:
    result = []
    for query in range(len(rankers[0].scores)):
        total = [0.0] * rankers[0].scores.shape[1]
        for each in rankers:
            row = each.scores[query].tolist()
            for place, score in enumerate(row):
                rank = 1 + sum(other > score for other in row)
                if rank <= depth and not (isinstance(each, Floored) and score <= 0):
                    total[place] += (constant + 1) / (constant + rank) / len(rankers)
        result.append(total)
    return result


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("constant", "depth"), [(60, 1000), (60, 5), (0, 1), (10.5, 40)])
@pytest.mark.parametrize("levels", [1, 3, 1000])
def test_equals_the_plain_twin(
    seed: int, constant: float, depth: int, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    tables = [rng.integers(low * levels, levels + 1, (10, 40)) / levels for low in (-1, 0, -1)]
    rankers = [Table(tables[0]), Floored(tables[1]), Table(tables[2])]
    queries = [str(row) for row in range(10)]
    found = fused(rankers, queries, constant=constant, depth=depth)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, plainly_fused(rankers, constant, depth), atol=1e-6)
    monkeypatch.setattr(ranker, "BLOCK_BYTES", 4 * 40 * 3)
    assert np.array_equal(fused(rankers, queries, constant=constant, depth=depth), found)


def test_first_everywhere_is_one_and_outside_is_nothing() -> None:
    found = fused([Table([[3, 2, 1]]), Table([[0.9, -0.9, -0.5]])], depth=2)
    assert found.tolist() == [[1.0, pytest.approx(61 / 62 / 2), pytest.approx(61 / 62 / 2)]]


def test_no_word_in_common_is_no_credit_but_a_negative_cosine_is_ranked() -> None:
    scores = [[0.0, 0.5, 0.0]]
    assert fused([Floored(scores)]).tolist() == [[0.0, 1.0, 0.0]]
    assert fused([Table(scores)])[0].tolist() == pytest.approx([61 / 62, 1.0, 61 / 62])
    assert fused([Table([[-0.5, -0.1, -0.9]])])[0].tolist() == pytest.approx([61 / 62, 1.0, 61 / 63])
    assert fused([Floored([[0.0, 0.0, 0.0]])]).tolist() == [[0.0] * 3]


def test_lexical_rankers_have_a_floor_and_so_have_hybrids() -> None:
    lexical = TfIdf(["a cat", "a dog", "birds"])
    found = fused([Hybrid([lexical]), lexical], ["cat"])
    assert found.tolist() == [[1.0, 0.0, 0.0]]


def test_equal_scores_share_their_rank_wherever_they_stand() -> None:
    assert fused([Table([[1, 2, 2, 2, 0]])])[0].tolist() == pytest.approx([61 / 64, 1, 1, 1, 61 / 65])


def test_depth_does_not_cut_through_equals() -> None:
    assert fused([Table([[1, 2, 1, 1, 0]])], depth=2)[0].tolist() == pytest.approx([61 / 62, 1, 61 / 62, 61 / 62, 0])


def test_rounding_makes_no_ranks() -> None:
    nearly = np.float32(0.5) + np.float32(TIE / 4)
    assert nearly != np.float32(0.5)
    assert fused([Table([[0.5, nearly, 0.4, 0.3]])], depth=1)[0].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("depth", [1000, 3844])
def test_neighbouring_ranks_stay_apart(depth: int) -> None:
    scores = Table([np.linspace(1, 0.1, 4000)])
    found = np.sort(fused([scores, Table(np.zeros((1, 4000)) + scores.scores)], depth=depth)[0])[-depth:]
    one_ranker_apart = np.diff(found) / 2
    assert one_ranker_apart.min() > TIE


def test_a_single_text_and_no_queries() -> None:
    assert fused([Table([[-0.2]]), Floored([[0.0]])]).tolist() == [[0.5]]
    assert list(Hybrid([Table([[1.0]])]).score_blocks([])) == []


def test_name_says_what_is_fused() -> None:
    assert Hybrid([Table([[1]], "bm25"), Table([[1]], "minilm")]).name == "bm25+minilm"


class Single(Table):
    """A ranker that does not keep to the size of a block."""

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        for start, query in enumerate(queries):
            yield start, self.scores[[int(query)]]


class Lazy(Table):
    """A ranker that forgets its last block."""

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        yield from super().score_blocks(queries[:-1])


@pytest.mark.parametrize("other", [Table([[1, 2]] * 2), Single([[1, 2, 3]] * 2), Lazy([[1, 2, 3]] * 2)])
@pytest.mark.parametrize("is_first", [True, False])
def test_rankers_of_other_blocks_are_refused(other: Table, is_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(other, Lazy):
        monkeypatch.setattr(ranker, "BLOCK_BYTES", 1)
    pair = [Table([[1, 2, 3]] * 2), other]
    with pytest.raises(UsageError, match=r"table\+table do not score the same texts; build them from one corpus"):
        fused(pair[::-1] if is_first else pair, ["0", "1"])


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        ({"constant": -1}, "at least 0 and at least 1"),
        ({"constant": math.nan}, "at least 0 and at least 1"),
        ({"constant": math.inf}, "at least 0 and at least 1"),
        ({"depth": 0}, "at least 0 and at least 1"),
        ({"depth": 10_000}, "choose a depth of at most 5461"),
        ({"constant": 1e9}, "choose a lower constant"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, float], cure: str) -> None:
    with pytest.raises(UsageError, match=cure):
        fused([Table([[1.0]])], **settings)


def test_needs_a_ranker() -> None:
    with pytest.raises(UsageError, match="at least one ranker"):
        Hybrid([])
