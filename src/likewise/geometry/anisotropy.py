"""Anisotropy: the cosine that two random vectors are expected to have, and each dimension's part in it.

Ethayarajh 2019 takes the mean cosine of random pairs as the baseline of all similarities. The mean over all pairs needs
no pairs: it follows from the sum of the unit vectors and from the sums within each group (sentence).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError

Array = NDArray[np.float64]


def expected_cosine(vectors: ArrayLike, groups: ArrayLike | None = None) -> float:
    """The expected cosine of two random rows (n, D) of different groups (n,); without groups each row is its own.

    A zero row has cosine 0 with every other; nan where there are not two groups.

    >>> expected_cosine([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], groups=[0, 0, 1])
    0.0
    >>> round(expected_cosine([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), 6)
    0.333333
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2:
        raise DataError(f"vectors (n, D) are needed, got shape {rows.shape}")
    return float(dimension_contributions(*pair_sums(rows, groups)).sum())


def dimension_contributions(total: ArrayLike, within: ArrayLike, pairs: float) -> Array:
    """What each dimension adds to the expected cosine (Timkey & van Schijndel 2021): (..., D) -> (..., D).

    ``total`` (..., D) is the sum of all unit vectors, ``within`` (..., D) the sum over groups of that group's squared
    sum, ``pairs`` the number of ordered pairs of different groups. The sum over D is the expected cosine.

    >>> dimension_contributions([2.0, 1.0], [4.0, 1.0], pairs=4).tolist()
    [0.0, 0.0]
    >>> dimension_contributions([2.0, 1.0], [2.0, 1.0], pairs=6).round(6).tolist()
    [0.333333, 0.0]
    """
    crossing = np.square(np.asarray(total, np.float64)) - np.asarray(within, np.float64)
    return crossing / pairs if pairs > 0 else np.full_like(crossing, np.nan)


def pair_sums(vectors: ArrayLike, groups: ArrayLike | None = None) -> tuple[Array, Array, float]:
    """Rows (..., n, D) of groups (n,) -> what ``dimension_contributions`` takes: total and within (..., D), pairs.

    >>> total, within, pairs = pair_sums([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]], groups=[0, 0, 1])
    >>> total.tolist(), within.tolist(), pairs
    ([2.0, 1.0], [4.0, 1.0], 4.0)
    """
    unit = unit_rows(vectors)
    n = unit.shape[-2]
    of_row = np.arange(n) if groups is None else np.asarray(groups)
    if of_row.shape != (n,):
        raise DataError(f"{n} rows need one group each, got groups of shape {of_row.shape}")
    order = np.argsort(of_row, kind="stable")
    _, starts, sizes = np.unique(of_row[order], return_index=True, return_counts=True)
    sums = np.add.reduceat(unit[..., order, :], starts, axis=-2)
    return sums.sum(-2), np.square(sums).sum(-2), float(n**2 - np.square(sizes).sum())


def unit_rows(vectors: ArrayLike) -> Array:
    """Rows (..., D) divided by their length; a zero row stays zero.

    >>> unit_rows([[3.0, 4.0], [0.0, 0.0]]).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    rows = np.asarray(vectors, np.float64)
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0), np.float64)
