"""Significance tests: whether and how much clusters differ in a variable, also with another variable held fixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.clustering import NOISE
from likewise.errors import DataError, UsageError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
ALPHA, DRAWS = 0.05, 1000
DEGREE, POINTS_PER_DEGREE = 6, 10  # of the polynomial in the other variable's ranks
PASSES = 3
DECIMALS = 8  # of residual ranks: an exact fit leaves zeros, and a test must not rank their rounding errors
CHUNK = 2**20  # shuffled values in memory at a time
SAME = 1e-12  # effects this close are equal: the same split may be summed in another order


@dataclass(frozen=True)
class PairTest:
    """The Mann-Whitney test of two clusters."""

    first: int
    second: int
    u: float  # how often a value of the first cluster is above one of the second; ties count one half
    p: float  # two-sided
    holm: float  # p with Holm's correction for the number of pairs
    rank_biserial: float  # from -1 to 1: positive if the first cluster has larger values


@dataclass(frozen=True, eq=False)
class ClusterTest:
    """The Kruskal-Wallis test of all clusters and the Mann-Whitney tests of all pairs of them.

    With fewer than two clusters every number except ``n`` and ``k`` is nan, and ``pairs`` is empty.
    """

    n: int  # points in the test: those in a cluster with a value
    k: int  # clusters with at least one such point
    h: float  # Kruskal and Wallis's H, corrected for ties
    kruskal_p: float
    epsilon2: float  # H / (n - 1) (Tomczak and Tomczak, 2014): the share of the ranks' variance between clusters
    eta2: float  # (H - k + 1) / (n - k): chance gives 0 at any n and k, so it may be negative; nan if n is k
    pairs_significant: float  # the share of pairs with a corrected p below the level
    pairs: tuple[PairTest, ...]

    def to_dict(self) -> dict[str, Any]:
        """The numbers, and a dict per pair under ``pairs``."""
        return asdict(self)


def cluster_test(values: ArrayLike, labels: ArrayLike, alpha: float = ALPHA) -> ClusterTest:
    """Whether clusters differ in a variable: values (n,), labels (n,); noise and nan are left out.

    >>> test = cluster_test([1, 2, 3, 7, 8, 9, 5], [0, 0, 0, 1, 1, 1, -1])
    >>> test.n, test.k, round(test.kruskal_p, 3), round(test.epsilon2, 3), test.pairs[0].rank_biserial
    (6, 2, 0.05, 0.771, -1.0)
    """
    kept, numbers, marks = _tested(values, labels)
    groups = {int(cluster): numbers[kept & (marks == cluster)] for cluster in np.unique(marks[kept])}
    n, k = int(kept.sum()), len(groups)
    h, p = _kruskal(list(groups.values()))
    pairs = _pair_tests(groups)
    significant = float(np.mean([pair.holm < alpha for pair in pairs])) if pairs else np.nan
    return ClusterTest(n, k, h, p, h / max(n - 1, 1), _eta2(h, n, k), significant, pairs)


def eta_squared(values: ArrayLike, labels: ArrayLike) -> float:
    """The eta squared of ``cluster_test`` alone: how much clusters (n,) differ in values (n,); 0 by chance.

    >>> round(eta_squared([1, 2, 3, 7, 8, 9, 5], [0, 0, 0, 1, 1, 1, -1]), 3)
    0.714
    """
    kept, numbers, marks = _tested(values, labels)
    groups = [numbers[kept & (marks == cluster)] for cluster in np.unique(marks[kept])]
    return _eta2(_kruskal(groups)[0], int(kept.sum()), len(groups))


def _eta2(h: float, n: int, k: int) -> float:
    return (h - k + 1) / (n - k) if n > k else np.nan


def holm(p: ArrayLike) -> Array:
    """Holm's adjusted p-values of p (m,): the i-th smallest times m - i + 1, made monotone, at most 1."""
    raw = np.asarray(p, dtype=np.float64)
    order = np.argsort(raw)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)), 1.0)
    return adjusted


def _tested(values: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.bool_], Array, Labels]:
    """Which points (n,) are in a test: those in a cluster with a value; and both as arrays."""
    numbers, marks = np.asarray(values, dtype=np.float64), np.asarray(labels)
    if numbers.ndim != 1 or numbers.shape != marks.shape:
        raise DataError(f"a value and a label for each point are needed, got {numbers.shape} and {marks.shape}")
    return (marks != NOISE) & ~np.isnan(numbers), numbers, marks


def _kruskal(groups: Sequence[Array]) -> tuple[float, float]:
    """H and its p."""
    from scipy import stats

    if len(groups) < 2:
        return np.nan, np.nan
    # SciPy would divide by a variance of zero.
    if _constant(groups):
        return 0.0, 1.0
    found = stats.kruskal(*groups)
    return float(found.statistic), float(found.pvalue)


def _pair_tests(groups: Mapping[int, Array]) -> tuple[PairTest, ...]:
    indices = list(combinations(groups, 2))
    found = [_mann_whitney(groups[first], groups[second]) for first, second in indices]
    adjusted = holm([p for _, p in found])
    return tuple(
        PairTest(first, second, u, p, float(corrected), 2 * u / (len(groups[first]) * len(groups[second])) - 1)
        for (first, second), (u, p), corrected in zip(indices, found, adjusted, strict=True)
    )


def _mann_whitney(left: Array, right: Array) -> tuple[float, float]:
    """U of the left values and its two-sided p."""
    from scipy import stats

    if _constant([left, right]):
        return len(left) * len(right) / 2, 1.0
    # Never the exact distribution: it ignores ties, and pairs of one layer would be tested in two ways.
    found = stats.mannwhitneyu(left, right, use_continuity=True, alternative="two-sided", method="asymptotic")
    return float(found.statistic), float(found.pvalue)


def _constant(groups: Sequence[Array]) -> bool:
    return bool(min(group.min() for group in groups) == max(group.max() for group in groups))


def residual_ranks(values: ArrayLike, other: ArrayLike) -> Array:
    """The residuals (n,) of the ranks of values (n,) after a regression on the ranks of another variable (n,).

    The regression is a polynomial of degree 6, less for few points or few distinct values. Residuals are ranked and
    regressed again. nan where either is nan.
    """
    numbers, others = np.asarray(values, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if numbers.ndim != 1 or numbers.shape != others.shape:
        raise DataError(f"two values for each point are needed, got {numbers.shape} and {others.shape}")
    known = ~(np.isnan(numbers) | np.isnan(others))
    result = np.full(len(numbers), np.nan)
    if known.any():
        result[known] = _residuals(numbers[known], others[known])
    return result


def partial_test(values: ArrayLike, other: ArrayLike, labels: ArrayLike, alpha: float = ALPHA) -> ClusterTest:
    """Whether clusters differ in values (n,) given another variable (n,), by residual ranks (Quade, 1967).

    The test is conservative if clusters follow the other variable: residuals are flat over it, and so between such
    clusters. ``partial_permutation_test`` keeps its level there.
    """
    return cluster_test(residual_ranks(values, other), labels, alpha)


def _residuals(values: Array, other: Array) -> Array:
    from scipy.stats import rankdata

    distinct, indices = np.unique(other, return_inverse=True)
    degree = min(DEGREE, len(distinct) - 1, max(1, len(other) // POINTS_PER_DEGREE))
    ranks = np.empty(len(distinct))
    ranks[indices] = rankdata(other)
    basis = np.polynomial.legendre.legvander(2 * (ranks - ranks[0]) / max(np.ptp(ranks), 1) - 1, degree)
    left = values
    # A test ranks the residuals. If their spread or skew varies over the other variable, so does the mean rank:
    # after one pass, half of 200 null draws with errors of varied skew were significant at 5 %.
    for _ in range(PASSES):
        left = rankdata(left)
        fit = np.linalg.lstsq(basis[indices], left, rcond=None)[0]
        # One fit per distinct value of the other, so that equal points stay ties.
        left = np.round(left - (basis @ fit)[indices], DECIMALS)
    return left


@dataclass(frozen=True)
class PermutationTest:
    """Epsilon squared compared with shuffled values; nan with fewer than two clusters."""

    p: float  # the share of draws, the observed one included, with at least the observed epsilon squared
    null_mean: float  # over the draws
    null_high: float  # the 95 % quantile over the draws
    draws: int

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)


def permutation_test(
    values: ArrayLike, labels: ArrayLike, strata: ArrayLike | None = None, draws: int = DRAWS, seed: int = 0
) -> PermutationTest:
    """Shuffle values (n,) among the points, or within strata (n,), and compare the effect of labels (n,).

    The points are those of ``cluster_test``, without stratum -1.
    """
    from scipy.stats import rankdata

    if draws < 1:
        raise UsageError(f"draws must be at least 1, got {draws}; 1000 are usual")
    kept, numbers, marks = _tested(values, labels)
    groups = np.zeros(len(kept), np.int64) if strata is None else np.asarray(strata)
    if groups.shape != kept.shape:
        raise DataError(f"a stratum for each point is needed, got {groups.shape} for {kept.shape}")
    kept = kept & (groups != NOISE)
    ranks, clusters = rankdata(numbers[kept]) - (kept.sum() + 1) / 2, marks[kept]
    if len(np.unique(clusters)) < 2:
        return PermutationTest(np.nan, np.nan, np.nan, draws)
    observed = _epsilon2(ranks[None], clusters)[0]
    null = np.concatenate([_epsilon2(rows, clusters) for rows in shuffled(ranks, groups[kept], draws, seed)])
    above = int((null >= observed - SAME).sum())
    return PermutationTest((1 + above) / (1 + draws), float(null.mean()), float(np.quantile(null, 0.95)), draws)


def partial_permutation_test(
    values: ArrayLike, other: ArrayLike, labels: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> PermutationTest:
    """Whether clusters differ in values (n,) given another variable (n,): shuffled among points similar in the other.

    Residual ranks are shuffled: values may follow the other variable within a stratum, and their variation between
    strata hides the effect of clusters.
    """
    return permutation_test(residual_ranks(values, other), labels, length_strata(other), draws, seed)


def length_strata(lengths: ArrayLike, most: int = 20, least: int = 10) -> Labels:
    """Strata (n,) of similar length, from 0: at most ``most``, of about equal size and at least ``least`` points.

    Equal lengths are never split. Too few points are one stratum; -1 where the length is nan.
    """
    if most < 1 or least < 1:
        raise UsageError(f"most and least must be at least 1, got {most} and {least}")
    numbers = np.asarray(lengths, dtype=np.float64)
    known = ~np.isnan(numbers)
    _, indices, counts = np.unique(numbers[known], return_inverse=True, return_counts=True)
    size, held, stratum = max(least, known.sum() / most), 0, 0
    stratum_of = np.zeros(len(counts), np.int64)
    for index, count in enumerate(counts):
        stratum_of[index] = stratum
        held += count
        if held >= size:
            held, stratum = 0, stratum + 1
    if 0 < held < least and stratum > 0:
        stratum_of[stratum_of == stratum] = stratum - 1
    strata = np.full(len(numbers), NOISE)
    strata[known] = stratum_of[indices]
    return strata


def _epsilon2(rows: Array, clusters: Labels) -> Array:
    """Epsilon squared (m,) of centred ranks (m, n): squares between clusters over all squares, H / (n - 1)."""
    _, indices, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    # Multiples of one half, so that sums are exact in any order.
    sums = rows @ np.eye(len(sizes))[indices]
    total = (rows[0] ** 2).sum()
    between: Array = (sums**2 / sizes).sum(1)
    return between / total if total > 0 else between


def shuffled(ranks: Array, strata: Labels, draws: int, seed: int) -> Iterator[Array]:
    """Rows of ranks (n,), shuffled within strata (n,): ``draws`` in total, in chunks."""
    rng = np.random.default_rng(seed)
    numbers = np.unique(strata, return_inverse=True)[1]
    by_stratum = np.argsort(numbers, kind="stable")
    some = max(1, CHUNK // len(ranks))
    for start in range(0, draws, some):
        # The integer part keeps a point in its stratum, the random part shuffles it there.
        keys = numbers[by_stratum] + rng.random((min(some, draws - start), len(ranks)))
        rows = np.empty_like(keys)
        rows[:, by_stratum] = ranks[by_stratum][np.argsort(keys, axis=1)]
        yield rows


@dataclass(frozen=True)
class PointTie:
    """The share of a variable's residual ranks given another variable that points explain linearly."""

    r2: float
    p: float  # the share of shuffles among points similar in the other variable with an R^2 as large

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)


def point_tie(points: ArrayLike, values: ArrayLike, other: ArrayLike, draws: int = DRAWS, seed: int = 0) -> PointTie:
    """How much points (n, d) explain of values (n,) given another variable (n,): R^2 of residual ranks."""
    every = np.column_stack([np.asarray(each, dtype=np.float64) for each in (other, values, points)])
    length, *columns = every[~np.isnan(every).any(1)].T
    if len(length) < 2:
        return PointTie(float("nan"), float("nan"))
    target, *left = (residual_ranks(column, length) for column in columns)
    target, explaining = target - target.mean(), np.column_stack(left)
    directions, sizes, _ = np.linalg.svd(explaining - explaining.mean(0), full_matrices=False)
    basis, total = directions[:, sizes > 1e-9 * max(sizes[0], 1e-300)], np.square(target).sum()

    def r2(rows: Array) -> Array:
        """The share (m,) of the squares of shuffled targets (m, n) inside the basis."""
        inside: Array = np.square(rows @ basis).sum(1)
        return inside / total if total > 0 else np.zeros(len(rows))

    observed = r2(target[None])[0]
    null = np.concatenate([r2(rows) for rows in shuffled(target, length_strata(length), draws, seed)])
    return PointTie(float(observed), (1 + int((null >= observed - SAME).sum())) / (1 + draws))
