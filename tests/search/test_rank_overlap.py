"""Overlap, rank-biased overlap and Kendall's tau against their definitions; the order of texts that tie."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from likewise.errors import DataError, UsageError
from likewise.search.rank_overlap import first_texts, overlaps, rank_biased_overlap, shared_kendall
from likewise.search.ranker import TIE

SEEDS = (0, 1, 2)


def random_rankings(seed: int, queries: int = 20, depth: int = 12, texts: int = 18) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.array([rng.permutation(texts)[:depth] for _ in range(queries)]) for _ in range(2)]


def plain_overlap(first: list[int], second: list[int], depth: int) -> float:
    return len(set(first[:depth]) & set(second[:depth])) / depth


def plain_rbo(first: list[int], second: list[int], p: float) -> float:
    """Equation 4 of Webber et al., (1 - p) sum p^(d - 1) A_d over all depths; beyond the last the overlap stays."""
    last = len(first)
    agreement = [plain_overlap(first, second, min(depth, last)) for depth in range(1, 2001)]
    return (1 - p) * sum(p ** (depth - 1) * share for depth, share in enumerate(agreement, start=1))


def plain_kendall(first: list[int], second: list[int]) -> float:
    """The pairs of shared texts in the same order, minus those in opposite order, over all pairs."""
    shared = set(first) & set(second)
    signs = [
        np.sign(first.index(one) - first.index(other)) * np.sign(second.index(one) - second.index(other))
        for one, other in combinations(shared, 2)
    ]
    return float(np.mean(signs)) if signs else float("nan")


@pytest.mark.parametrize("seed", SEEDS)
def test_overlap_is_that_of_sets(seed: int) -> None:
    first, second = random_rankings(seed)
    plain = [
        [plain_overlap(one, other, depth) for depth in range(1, 13)]
        for one, other in zip(first.tolist(), second.tolist(), strict=True)
    ]
    np.testing.assert_allclose(overlaps(first, second), plain, atol=1e-15)


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("seed", SEEDS)
def test_rbo_is_the_infinite_sum(seed: int, p: float) -> None:
    first, second = random_rankings(seed)
    plain = [plain_rbo(one, other, p) for one, other in zip(first.tolist(), second.tolist(), strict=True)]
    np.testing.assert_allclose(rank_biased_overlap(overlaps(first, second), p), plain, atol=1e-12)


def test_rbo_of_equal_and_of_disjoint_rankings() -> None:
    same = np.arange(5)[None]
    assert rank_biased_overlap(overlaps(same, same)) == pytest.approx([1.0], abs=1e-15)
    assert rank_biased_overlap(overlaps(same, same + 5)).tolist() == [0.0]


def test_rbo_weighs_the_first_texts_most() -> None:
    base = np.arange(10)
    early, late = base.copy(), base.copy()
    early[[0, 1]], late[[8, 9]] = early[[1, 0]], late[[9, 8]]
    found = rank_biased_overlap(overlaps(np.stack([base, base]), np.stack([early, late])))
    assert found[0] < found[1] < 1


@pytest.mark.parametrize("p", [0.0, 1.0, -1.0, float("nan")])
def test_a_persistence_outside_is_refused(p: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        rank_biased_overlap(np.ones((1, 3)), p)


@pytest.mark.parametrize("seed", SEEDS)
def test_kendall_counts_pairs(seed: int) -> None:
    first, second = random_rankings(seed, depth=6)
    plain = [plain_kendall(one, other) for one, other in zip(first.tolist(), second.tolist(), strict=True)]
    np.testing.assert_allclose(shared_kendall(first, second), plain, atol=1e-12)


def test_rankings_of_other_shapes_are_refused() -> None:
    with pytest.raises(DataError, match="one depth"):
        overlaps(np.zeros((1, 3), np.int64), np.zeros((1, 2), np.int64))


def plain_order(scores: list[float], depth: int) -> list[int]:
    """By the number of texts that score more than a tie above, then by the place in the corpus."""
    better = [sum(other > score + TIE for other in scores) for score in scores]
    return sorted(range(len(scores)), key=lambda row: (better[row], row))[:depth]


@pytest.mark.parametrize("depth", [1, 4, 30, 50])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_texts_with_many_ties(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 6, (8, 30)) * 0.1 + rng.uniform(-1, 1, (8, 30)) * TIE
    scores = levels.astype(np.float32)
    found = first_texts(scores, depth)
    plain = [plain_order([float(each) for each in row], depth) for row in scores]
    assert found.tolist() == plain


def test_rounding_does_not_change_an_order() -> None:
    scores = np.full((1, 100), 0.7, np.float32)
    noisy = scores + np.random.default_rng(0).uniform(-1e-7, 1e-7, scores.shape).astype(np.float32)
    assert first_texts(noisy, 10).tolist() == first_texts(scores, 10).tolist() == [list(range(10))]


def test_no_texts() -> None:
    assert first_texts(np.empty((2, 0), np.float32), 5).shape == (2, 0)
