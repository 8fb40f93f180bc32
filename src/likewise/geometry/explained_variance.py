"""Maximum explainable variance (Ethayarajh 2019): how much of a word's vectors one static vector explains.

The literature computes it in more than one way, so there are three variants, all of n vectors X (n, D):

- ``formula``: sigma_1^2 / sum_i sigma_i^2 with the singular values of X as it is;
- ``pca``: the same after centring, as scikit-learn's ``PCA`` has it;
- ``svd``: the variance along the first right singular vector of X as it is, over the variance of all dimensions, as
  scikit-learn's ``TruncatedSVD`` has it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError

Array = NDArray[np.float64]

VARIANTS = ("formula", "pca", "svd")

DIRECT = 128
"""Up to this size LAPACK finds one eigenpair faster than Lanczos iterations."""


def explained_variances(vectors: ArrayLike) -> Array:
    """The share of the first component of vectors (L, n, D) in each variant and layer: (3, L), as in ``VARIANTS``.

    ``pca`` and ``svd`` are nan where the vectors are all equal, ``formula`` where they are all zero.

    >>> explained_variances([[[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]]).round(6).tolist()
    [[0.9], [0.9], [0.9]]
    >>> explained_variances([[[1.0, 2.0], [1.0, 2.0]]]).round(6).tolist()
    [[1.0], [nan], [nan]]
    """
    layers = np.asarray(vectors, np.float64)
    if layers.ndim != 3 or 0 in layers.shape[1:]:
        raise DataError(f"vectors (L, n, D) with at least one row are needed, got shape {layers.shape}")
    # The first row goes first, which makes equal rows exact zeros.
    centred = layers - layers[:, :1]
    shift = centred.mean(1, keepdims=True)
    centred -= shift
    mean = layers[:, :1] + shift
    n = layers.shape[1]
    narrow = n <= layers.shape[2]
    around, plain = _gram_matrices(mean, centred) if narrow else _scatter_matrices(mean, centred)
    first, direction = _leading(plain)
    spread = np.square(centred).sum((1, 2))
    along = _spread_along_gram(first, direction) if narrow else _spread_along_scatter(around, direction)
    shares = [
        _share(first, spread + n * np.square(mean).sum((1, 2))),
        _share(_leading(around)[0], spread),
        _share(along, spread),
    ]
    return np.stack(shares)


def random_explained_variances(pool: ArrayLike, n: int, seed: int | tuple[int, ...]) -> Array:
    """``explained_variances`` of n distinct random rows of a pool (L, R, D), the same rows in all layers: (3, L).

    >>> random_explained_variances(np.random.default_rng(0).normal(size=(2, 100, 5)), n=10, seed=0).shape
    (3, 2)
    """
    rows = np.asarray(pool)
    if rows.ndim != 3 or not 1 <= n <= rows.shape[1]:
        raise DataError(f"{n} distinct rows cannot be drawn from a pool (L, R, D) of shape {rows.shape}")
    drawn = np.random.default_rng(seed).choice(rows.shape[1], n, replace=False)
    return explained_variances(rows[:, drawn])


def _share(part: Array, whole: Array) -> Array:
    """part / whole (L,), nan where there is nothing."""
    return np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)


def _gram_matrices(mean: Array, centred: Array) -> tuple[Array, Array]:
    """The Gram matrices of mean (L, 1, D) and centred rows (L, n, D), without and with the mean: (L, n, n) each."""
    around = centred @ centred.transpose(0, 2, 1)
    # Adding the mean to centred rows loses no precision; subtracting it from others would.
    across = centred @ mean.transpose(0, 2, 1)
    return around, around + across + across.transpose(0, 2, 1) + np.square(mean).sum(2, keepdims=True)


def _scatter_matrices(mean: Array, centred: Array) -> tuple[Array, Array]:
    """The scatter matrices of mean (L, 1, D) and centred rows (L, n, D), without and with the mean: (L, D, D) each."""
    around = centred.transpose(0, 2, 1) @ centred
    return around, around + centred.shape[1] * mean.transpose(0, 2, 1) * mean


def _spread_along_gram(first: Array, direction: Array) -> Array:
    """The centred squares along v_1, from sigma_1^2 (L,) and u_1 (L, n), since X v_1 = sigma_1 u_1: (L,)."""
    return np.asarray(first * np.square(direction - direction.mean(1, keepdims=True)).sum(1), np.float64)


def _spread_along_scatter(around: Array, direction: Array) -> Array:
    """The centred squares along v_1 (L, D), from the centred scatter (L, D, D): (L,)."""
    return np.asarray(np.einsum("ld,lde,le->l", direction, around, direction, optimize=True), np.float64)


def _leading(matrices: Array) -> tuple[Array, Array]:
    """The largest eigenvalue (L,) and its eigenvector (L, k) of symmetric matrices (L, k, k)."""
    values, directions = np.empty(len(matrices)), np.empty(matrices.shape[:2])
    for layer, matrix in enumerate(matrices):
        values[layer], directions[layer] = _leading_pair(matrix)
    return values, directions


def _leading_pair(matrix: Array) -> tuple[float, Array]:
    """The largest eigenvalue and its eigenvector (k,) of one symmetric matrix (k, k)."""
    from scipy.linalg import eigh
    from scipy.sparse.linalg import ArpackError, eigsh

    size = len(matrix)
    # A zero matrix leaves Lanczos without a direction.
    if size > DIRECT and matrix.any():
        # A fixed start for equal results; a random one, as the even vector is orthogonal to every centred solution.
        start = np.random.default_rng(0).normal(size=size)
        try:
            values, vectors = eigsh(matrix, k=1, which="LA", v0=start)
            return float(values[0]), vectors[:, 0]
        except ArpackError:
            pass  # It gave up on a spectrum without gaps; LAPACK never does.
    values, vectors = eigh(matrix, subset_by_index=[size - 1, size - 1], check_finite=False)
    return float(values[0]), vectors[:, 0]
