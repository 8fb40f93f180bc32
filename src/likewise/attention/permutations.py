"""Permutation tests: how large is the effect of clusters on a variable that is shuffled among the points?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.clusterings import NOISE
from likewise.attention.partial import given
from likewise.attention.significance import points_tested
from likewise.errors import DataError, UsageError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

DRAWS = 1000
HELD = 2**20
"""Shuffled values that are held at a time."""
SAME = 1e-12
"""Effects this near are one: the same split of the ranks may be summed in another order."""


@dataclass(frozen=True)
class PermutationTest:
    """What epsilon squared is among shuffled values; nan throughout where fewer than two clusters are left."""

    p: float
    """The share of draws, the observed one among them, whose epsilon squared is at least the observed one."""
    null_mean: float
    """The mean over the draws."""
    null_high: float
    """The 95 % quantile over the draws."""
    draws: int

    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
        return asdict(self)


def permutation_test(
    values: ArrayLike, labels: ArrayLike, strata: ArrayLike | None = None, draws: int = DRAWS, seed: int = 0
) -> PermutationTest:
    """Shuffle values (n,) among the points, or within strata (n,) alone, and compare the effect of labels (n,).

    The points are those of ``cluster_test``, without those whose stratum is -1.

    >>> permutation_test([1, 2, 3, 4, 6, 7, 8, 9], [0, 0, 0, 0, 1, 1, 1, 1]).p < 0.05
    True
    """
    if draws < 1:
        raise UsageError(f"draws must be at least 1, got {draws}; 1000 are usual")
    kept = points_tested(values, labels)
    groups = np.zeros(len(kept), np.int64) if strata is None else np.asarray(strata)
    if groups.shape != kept.shape:
        raise DataError(f"a stratum for each point is needed, got {groups.shape} for {kept.shape}")
    kept = kept & (groups != NOISE)
    ranks, clusters = _centred_ranks(np.asarray(values, dtype=np.float64)[kept]), np.asarray(labels)[kept]
    if len(np.unique(clusters)) < 2:
        return PermutationTest(np.nan, np.nan, np.nan, draws)
    observed = _epsilon2(ranks[None], clusters)[0]
    null = np.concatenate([_epsilon2(rows, clusters) for rows in shuffled(ranks, groups[kept], draws, seed)])
    above = int((null >= observed - SAME).sum())
    return PermutationTest((1 + above) / (1 + draws), float(null.mean()), float(np.quantile(null, 0.95)), draws)


def partial_permutation_test(
    values: ArrayLike, other: ArrayLike, labels: ArrayLike, draws: int = DRAWS, seed: int = 0
) -> PermutationTest:
    """Whether clusters differ in values (n,) given another variable (n,): shuffled among points alike in the other.

    What is left of the values is shuffled, not they themselves: within a stratum they may still follow the other
    variable, and between strata they vary in a way that hides what clusters do.

    >>> length = np.arange(40)
    >>> partial_permutation_test(length**2, length, length >= 20).p
    1.0
    """
    return permutation_test(given(values, other), labels, length_strata(other), draws, seed)


def length_strata(lengths: ArrayLike, most: int = 20, least: int = 10) -> Labels:
    """Strata (n,) of like length, from 0 on: at most ``most``, of about equal size and of ``least`` points or more.

    Equal lengths are never split. All points are one stratum where there are too few; -1 where the length is nan.

    >>> length_strata([5, 5, 6, 9, 9, 9, 9, 12], least=3).tolist()
    [0, 0, 0, 1, 1, 1, 1, 1]
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


def _centred_ranks(values: Array) -> Array:
    from scipy.stats import rankdata

    ranks: Array = rankdata(values) - (len(values) + 1) / 2
    return ranks


def _epsilon2(rows: Array, clusters: Labels) -> Array:
    """Epsilon squared (m,) of centred ranks (m, n): their squares between clusters over all, H / (n - 1) with ties."""
    _, indices, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    # Multiples of one half: the sums are exact in any order.
    sums = rows @ np.eye(len(sizes))[indices]
    total = (rows[0] ** 2).sum()
    between: Array = (sums**2 / sizes).sum(1)
    return between / total if total > 0 else between


def shuffled(ranks: Array, strata: Labels, draws: int, seed: int) -> Iterator[Array]:
    """Rows of ranks (n,), shuffled within strata (n,): ``draws`` in all, some at a time."""
    rng = np.random.default_rng(seed)
    numbers = np.unique(strata, return_inverse=True)[1]
    by_stratum = np.argsort(numbers, kind="stable")
    some = max(1, HELD // len(ranks))
    for start in range(0, draws, some):
        # The whole part keeps a point in its stratum, the random one shuffles it there.
        keys = numbers[by_stratum] + rng.random((min(some, draws - start), len(ranks)))
        rows = np.empty_like(keys)
        rows[:, by_stratum] = ranks[by_stratum][np.argsort(keys, axis=1)]
        yield rows
