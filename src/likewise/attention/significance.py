"""Significance: do clusters of points differ in a variable, and by how much?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.clusterings import NOISE
from likewise.errors import DataError

Array = NDArray[np.float64]

ALPHA = 0.05


@dataclass(frozen=True)
class PairTest:
    """The Mann-Whitney test of two clusters."""

    first: int
    second: int
    u: float
    """How often a value of the first cluster is above one of the second, a tie being one half."""
    p: float
    """Two-sided."""
    holm: float
    """The same, adjusted for the number of pairs by Holm's method."""
    rank_biserial: float
    """From -1 to 1: positive where the first cluster has the larger values."""


@dataclass(frozen=True, eq=False)
class ClusterTest:
    """The Kruskal-Wallis test of all clusters and the Mann-Whitney tests of all pairs of them.

    With fewer than two clusters there is nothing to test: every number but ``n`` and ``k`` is nan, ``pairs`` empty.
    """

    n: int
    """Points in the test: those in a cluster that have a value."""
    k: int
    """Clusters with at least one such point."""
    h: float
    """Kruskal and Wallis's H, corrected for ties."""
    kruskal_p: float
    epsilon2: float
    """H / (n - 1) (Tomczak and Tomczak, 2014): the share of the ranks' variance that lies between clusters."""
    eta2: float
    """(H - k + 1) / (n - k): 0 is what chance gives at any n and k, so it may be negative; nan where n is k."""
    pairs: tuple[PairTest, ...]
    pairs_significant: float
    """The share of pairs whose adjusted p is below the level."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers, and a dict per pair under ``pairs``."""
        return {
            "n": self.n, "k": self.k, "h": self.h, "kruskal_p": self.kruskal_p,
            "epsilon2": self.epsilon2, "eta2": self.eta2, "pairs_significant": self.pairs_significant,
            "pairs": [asdict(pair) for pair in self.pairs],
        }  # fmt: skip


def cluster_test(values: ArrayLike, labels: ArrayLike, alpha: float = ALPHA) -> ClusterTest:
    """Whether clusters differ in a variable: values (n,), labels (n,); noise and values that are nan are left out.

    >>> test = cluster_test([1, 2, 3, 7, 8, 9, 5], [0, 0, 0, 1, 1, 1, -1])
    >>> test.n, test.k, round(test.kruskal_p, 3), round(test.epsilon2, 3), test.pairs[0].rank_biserial
    (6, 2, 0.05, 0.771, -1.0)
    """
    kept = points_tested(values, labels)
    numbers, marks = np.asarray(values, dtype=np.float64)[kept], np.asarray(labels)[kept]
    groups = {int(cluster): numbers[marks == cluster] for cluster in np.unique(marks)}
    n, k = len(numbers), len(groups)
    h, p = _kruskal(list(groups.values()))
    pairs = _pair_tests(groups)
    return ClusterTest(
        n=n, k=k, h=h, kruskal_p=p, epsilon2=h / max(n - 1, 1), eta2=(h - k + 1) / (n - k) if n > k else np.nan,
        pairs=pairs, pairs_significant=float(np.mean([pair.holm < alpha for pair in pairs])) if pairs else np.nan,
    )  # fmt: skip


def holm(p: ArrayLike) -> Array:
    """Holm's adjusted p-values of p (m,): the i-th smallest times m - i + 1, never below a smaller one's, at most 1.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p, dtype=np.float64)
    order = np.argsort(raw)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)), 1.0)
    return adjusted


def points_tested(values: ArrayLike, labels: ArrayLike) -> NDArray[np.bool_]:
    """Which points (n,) are in a test of values (n,) and labels (n,): those in a cluster that have a value.

    >>> points_tested([0.5, np.nan, 2.5], [0, 1, -1]).tolist()
    [True, False, False]
    """
    numbers, marks = np.asarray(values, dtype=np.float64), np.asarray(labels)
    if numbers.ndim != 1 or numbers.shape != marks.shape:
        raise DataError(f"a value and a label for each point are needed, got {numbers.shape} and {marks.shape}")
    kept: NDArray[np.bool_] = (marks != NOISE) & ~np.isnan(numbers)
    return kept


def _kruskal(groups: Sequence[Array]) -> tuple[float, float]:
    """H and its p."""
    from scipy import stats

    if len(groups) < 2:
        return np.nan, np.nan
    # scipy divides by the ranks' variance, and there is none.
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
    # Never the exact distribution: it knows no ties, and one layer's pairs would be tested in two ways.
    found = stats.mannwhitneyu(left, right, use_continuity=True, alternative="two-sided", method="asymptotic")
    return float(found.statistic), float(found.pvalue)


def _constant(groups: Sequence[Array]) -> bool:
    return bool(min(group.min() for group in groups) == max(group.max() for group in groups))
