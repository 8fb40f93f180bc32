"""How alike two rankings of the same texts are: overlap at every depth, rank-biased overlap, Kendall's tau.

A ranking is the rows of the first texts, best first: (q, depth) for q queries. Nothing here looks at scores, so
rankings by different models can be compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DataError, UsageError
from likewise.search.ranker import TIE, Rows, Scores

Array = NDArray[np.float64]
PERSISTENCE = 0.9  # The first ten texts have 86 % of the weight (Webber et al. 2010)


def first_texts(scores: Scores, depth: int) -> Rows:
    """The rows of the first texts of each query's scores (q, n), best first: (q, depth).

    A text's rank is the number of texts that score more than ``TIE`` above it; among equal ranks the earlier text comes
    first. So texts that differ by rounding alone have the same order in every ranking.

    >>> first_texts(np.array([[0.5, 0.9, 0.5 + 1e-8]], np.float32), 2)
    array([[1, 0]])
    """
    depth = min(depth, scores.shape[1])
    rows = np.empty((len(scores), depth), np.int64)
    for index, single in enumerate(scores):
        row = single.astype(np.float64)  # a row at a time: a block of scores in double precision would be large
        # Only a text that reaches the last place, up to a tie, can have a rank below the depth.
        chosen = np.flatnonzero(row >= np.partition(row, -depth)[-depth] - TIE) if depth else np.empty(0, np.int64)
        ascending = np.sort(row[chosen])
        better = len(chosen) - np.searchsorted(ascending, row[chosen] + TIE, side="right")
        rows[index] = chosen[np.lexsort((chosen, better))][:depth]
    return rows


def overlaps(first: Rows, second: Rows) -> Array:
    """The share of the first d texts that two rankings (q, depth) have in common, for each depth d: (q, depth).

    >>> overlaps(np.array([[1, 2, 3]]), np.array([[2, 1, 4]])).round(2)
    array([[0.  , 1.  , 0.67]])
    """
    if first.shape != second.shape:
        raise DataError(f"rankings of shapes {first.shape} and {second.shape}; compare the same queries to one depth")
    depth = first.shape[1]
    common = np.zeros(first.shape)
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        _, here, there = np.intersect1d(one, other, assume_unique=True, return_indices=True)
        # A shared text counts from the depth on at which both rankings have it.
        common[index] = np.bincount(np.maximum(here, there), minlength=depth).cumsum()
    shares: Array = common / np.arange(1, depth + 1)
    return shares


def rank_biased_overlap(shares: Array, persistence: float = PERSISTENCE) -> Array:
    """Extrapolated rank-biased overlap (Webber et al. 2010) of ``overlaps`` (q, depth): (q,).

    RBO_ext = A_k p^k + (1 - p) / p * sum_d A_d p^d, where A_d is the overlap at depth d: equation 32 for rankings of
    one length k. It assumes that the overlap beyond k is that at k. So equal rankings have 1, disjoint ones 0.

    >>> rank_biased_overlap(np.array([[1.0, 1.0], [0.0, 0.5]])).round(3)
    array([1.  , 0.45])
    """
    if not 0 < persistence < 1:
        raise UsageError(f"the persistence of rank-biased overlap lies between 0 and 1, got {persistence:g}; give 0.9")
    powers = persistence ** np.arange(1, shares.shape[1] + 1)
    found: Array = shares[:, -1] * powers[-1] + (1 - persistence) / persistence * (shares @ powers)
    return found


def shared_kendall(first: Rows, second: Rows) -> Array:
    """Kendall's tau of the texts that two rankings (q, depth) share, by their order in both: (q,).

    nan if there are fewer than two such texts.

    >>> shared_kendall(np.array([[1, 2, 3], [1, 2, 3]]), np.array([[1, 3, 2], [4, 5, 1]])).round(2)
    array([0.33,  nan])
    """
    from scipy.stats import kendalltau

    found = np.full(len(first), np.nan)
    for index, (one, other) in enumerate(zip(first, second, strict=True)):
        _, here, there = np.intersect1d(one, other, assume_unique=True, return_indices=True)
        if len(here) > 1:
            found[index] = kendalltau(here, there).statistic
    return found
