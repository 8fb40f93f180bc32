"""Anisotropy: the expected cosine of two random vectors, and how evenly the variance spreads over the directions.

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


def isoscore(covariance: ArrayLike) -> float:
    """IsoScore (Rudman et al. 2022) of a covariance (D, D): 0 on a line, 1 for the same variance in all directions.

    nan where there is no variance at all.

    >>> isoscore([[2.0, 0.0], [0.0, 2.0]]), isoscore([[1.0, 1.0], [1.0, 1.0]])
    (1.0, 0.0)
    """
    return float(isoscores(_single(covariance)))


def isoscores(covariances: ArrayLike) -> Array:
    """The IsoScore of each covariance (..., D, D) -> (...).

    With t = tr C / |C|_F the paper's steps collapse: the defect fulfils delta^2 (D - sqrt D) = D - t sqrt D, so
    phi = t^2 / D and the score is (t^2 - 1) / (D - 1). No eigenvalue is needed.

    >>> isoscores(np.array([np.diag([1.0, 1.0, 0.0]), np.zeros((3, 3))])).round(6).tolist()
    [0.5, nan]
    """
    matrices = _square(covariances)
    dim = matrices.shape[-1]
    trace = np.trace(matrices, axis1=-2, axis2=-1)[..., None, None]
    shares = np.divide(matrices, trace, out=np.full_like(matrices, np.nan), where=trace > 0)
    directions = 1 / np.square(shares).sum((-2, -1))
    # One direction alone has nothing to be uneven with: 1, and nan where it does not vary.
    return np.clip((directions - 1) / (dim - 1), 0.0, 1.0) if dim > 1 else np.asarray(directions)


def effective_rank(covariance: ArrayLike) -> float:
    """The effective rank (Roy & Vetterli 2007) of the centred points whose covariance (D, D) this is: 1 to D.

    nan where there is no variance at all.

    >>> round(effective_rank([[2.0, 0.0], [0.0, 2.0]]), 6), round(effective_rank([[1.0, 1.0], [1.0, 1.0]]), 6)
    (2.0, 1.0)
    """
    return float(effective_ranks(_single(covariance)))


def effective_ranks(covariances: ArrayLike) -> Array:
    """The effective rank of each covariance (..., D, D) -> (...): exp of the entropy of the normalised singular values.

    >>> effective_ranks(np.array([np.eye(3), np.zeros((3, 3))])).round(6).tolist()
    [3.0, nan]
    """
    matrices = _square(covariances)
    variances = np.linalg.eigvalsh(matrices)
    # What lies below the rounding of the largest is none: its square root would count as a singular value of 1e-8.
    rounding = np.finfo(np.float64).eps * matrices.shape[-1] * variances[..., -1:]
    singular = np.sqrt(np.where(variances > rounding, variances, 0.0))
    total = singular.sum(-1, keepdims=True)
    shares = np.divide(singular, total, out=np.full_like(singular, np.nan), where=total > 0)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(-1)
    return np.asarray(np.exp(entropy), np.float64)


def _square(covariances: ArrayLike) -> Array:
    """Checked: (..., D, D)."""
    matrices = np.asarray(covariances, np.float64)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2] or not matrices.shape[-1]:
        raise DataError(f"covariances (..., D, D) are needed, got shape {matrices.shape}")
    return matrices


def _single(covariance: ArrayLike) -> Array:
    """Checked: (D, D)."""
    matrix = _square(covariance)
    if matrix.ndim != 2:
        raise DataError(f"one covariance (D, D) is needed, got shape {matrix.shape}; there is a plural for stacks")
    return matrix
