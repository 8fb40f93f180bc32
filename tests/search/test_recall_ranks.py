"""Ranks and places against plain Python, with ties, over any blocks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from likewise.errors import Cancelled, DataError
from likewise.search.ranker import TIE
from likewise.search.recall import Relevant, per_query, positions, ranks

SEEDS = (0, 1, 2)


def random_scores(seed: int, queries: int = 17, texts: int = 23) -> np.ndarray:
    """Few distinct values, so that ties abound, and some that differ by less or little more than a tie."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, (queries, texts)) / 8 + rng.integers(0, 3, (queries, texts)) * 0.7e-6
    return scores.astype(np.float32)


def random_judgements(seed: int, queries: int = 17, texts: int = 23) -> list[dict[int, float]]:
    rng = np.random.default_rng(seed + 100)
    rows = (rng.choice(texts, rng.integers(1, 5), replace=False) for _ in range(queries))
    return [{int(row): float(rng.integers(1, 4)) for row in some} for some in rows]


def plain_ranks(scores: np.ndarray, judged: list[dict[int, float]]) -> list[int]:
    """From the definition, one comparison at a time."""
    bar = np.float32(TIE)
    return [
        sum(1 for other in row if other > row[relevant] + bar)
        for row, query in zip(scores, judged, strict=True)
        for relevant in query
    ]


def plain_positions(found: list[int], judged: list[dict[int, float]]) -> list[int]:
    """Query by query, by rank, and by gain among equals: each takes its rank, or the next place if that is taken."""
    result, start = [], 0
    for query in judged:
        gains, own = list(query.values()), found[start : start + len(query)]
        taken, last = {}, -1
        for one in sorted(range(len(own)), key=lambda one: (own[one], -gains[one])):
            last = taken[one] = max(own[one], last + 1)
        result += [taken[one] for one in range(len(own))]
        start += len(query)
    return result


def blocks(scores: np.ndarray, size: int) -> Iterator[tuple[int, np.ndarray]]:
    return ((start, scores[start : start + size]) for start in range(0, len(scores), size))


@pytest.mark.parametrize("size", [1, 4, 17, 100])
@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_are_those_of_the_definition(seed: int, size: int) -> None:
    scores, judged = random_scores(seed), random_judgements(seed)
    assert ranks(blocks(scores, size), Relevant.of(judged)).tolist() == plain_ranks(scores, judged)


@pytest.mark.parametrize("seed", SEEDS)
def test_single_answers_are_the_general_case(seed: int) -> None:
    scores = random_scores(seed)
    wanted = np.random.default_rng(seed).integers(0, scores.shape[1], len(scores))
    one, other = Relevant.single(wanted), Relevant.of([{int(row): 1.0} for row in wanted])
    found = ranks([(0, scores)], one)
    assert found.tolist() == ranks([(0, scores)], other).tolist()
    assert positions(found, one).tolist() == found.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_places_are_those_of_the_definition(seed: int) -> None:
    scores, judged = random_scores(seed), random_judgements(seed)
    found = plain_ranks(scores, judged)
    assert positions(np.array(found), Relevant.of(judged)).tolist() == plain_positions(found, judged)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_two_answers_of_a_query_share_a_place(seed: int) -> None:
    judged = Relevant.of(random_judgements(seed))
    taken = positions(ranks([(0, random_scores(seed))], judged), judged)
    assert len(set(zip(judged.query_of.tolist(), taken.tolist(), strict=True))) == len(taken)


@pytest.mark.parametrize(
    ("gap", "rank"), [(0.0, 0), (0.9e-6, 0), (1.2e-6, 1), (0.1, 1)], ids=["equal", "rounding", "above", "far above"]
)
def test_ties_are_in_the_querys_favour(gap: float, rank: int) -> None:
    scores = np.array([[0.5, 0.5 + gap, 0.1]], np.float32)
    assert ranks([(0, scores)], Relevant.single([0])).tolist() == [rank]


def test_tied_answers_stand_by_gain() -> None:
    judged = Relevant.of([{0: 1.0, 1: 3.0, 2: 2.0}])
    found = ranks([(0, np.ones((1, 5), np.float32))], judged)
    assert found.tolist() == [0, 0, 0] and positions(found, judged).tolist() == [2, 0, 1]


def test_tied_answers_below_another_text_do_not_share_its_next_place() -> None:
    judged = Relevant.of([{0: 1.0, 1: 3.0, 2: 2.0}, {3: 1.0}])
    found = ranks([(0, np.array([[1, 1, 0, 5], [1, 1, 1, 1]], np.float32))], judged)
    assert found.tolist() == [1, 1, 3, 0] and positions(found, judged).tolist() == [2, 1, 3, 0]


def test_queries_without_answers_cost_nothing() -> None:
    judged = Relevant.of([{}, {1: 1.0}, {}])
    assert ranks([(0, random_scores(0)[:3])], judged).shape == (1,)
    assert per_query([2.0], judged).tolist() == [0, 2, 0]
    assert judged.query_of.tolist() == [1] and judged.offset.tolist() == [0]


@pytest.mark.parametrize("count", [16, 0])
def test_missing_scores_are_told(count: int) -> None:
    with pytest.raises(DataError, match=f"scores of {count} queries for judgements of 17"):
        ranks(blocks(random_scores(0)[:count], 4), Relevant.of(random_judgements(0)))


def test_progress_is_told_and_can_cancel() -> None:
    seen: list[tuple[int, int | None, str]] = []
    judged = Relevant.of(random_judgements(0))
    ranks(blocks(random_scores(0), 4), judged, lambda *call: seen.append(call))
    assert seen[-1] == (17, 17, "queries")

    def cancel(*_: object) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        ranks(blocks(random_scores(0), 4), judged, cancel)
