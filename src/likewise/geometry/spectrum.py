"""The spectrum of a covariance: how evenly the variance spreads over the directions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError

Array = NDArray[np.float64]


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
