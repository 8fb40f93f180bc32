"""Layer alignment: how alike the geometry of the same points is in two layers, by centred kernel alignment (CKA)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError

Array = NDArray[np.float64]

TILE = 256
"""Rows and columns of the Gram matrices that are held at a time, in all layers."""


def debiased_cka(states: ArrayLike) -> Array:
    """Linear CKA of each two layers of states (L, n, D), debiased: (L, L), ones on its diagonal.

    CKA = HSIC(K, K') / sqrt(HSIC(K, K) HSIC(K', K')) with the unbiased HSIC_1 of Song et al. 2012, so that
    layers that have nothing in common are near 0 however few points there are. nan in the row and column of a layer
    whose points are all equal (or all but one), and everywhere for fewer than 4 points.

    >>> points = np.random.default_rng(0).normal(size=(50, 3))
    >>> debiased_cka([points, -2 * points[:, ::-1]]).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    layers = np.asarray(states, np.float64)
    if layers.ndim != 3:
        raise DataError(f"states (L, n, D) are needed, got shape {layers.shape}")
    if layers.shape[1] < 4:
        return np.full((len(layers), len(layers)), np.nan)
    shared = _unbiased_hsic(layers)
    own = np.sqrt(np.where(np.diag(shared) > 0, np.diag(shared), np.nan))
    alignment = shared / np.outer(own, own)
    np.fill_diagonal(alignment, np.where(np.isnan(own), np.nan, 1.0))
    return np.asarray(alignment, np.float64)


def _unbiased_hsic(layers: Array) -> Array:
    """n (n - 3) HSIC_1 of each two layers (L, n, D): (L, L); the factor cancels in CKA."""
    n = layers.shape[1]
    # HSIC_1 does not change with the origin. The first row goes first, which makes equal rows exact zeros.
    centred = layers - layers[:, :1]
    centred -= centred.mean(1, keepdims=True)
    # The rows of a centred Gram matrix sum to 0, those of one without its diagonal to minus that: K 1 = -squares.
    squares = np.square(centred).sum(2)
    sums = squares.sum(1)
    products = _gram_products(centred)
    hsic = products + np.outer(sums, sums) / ((n - 1) * (n - 2)) - 2 / (n - 2) * squares @ squares.T
    # Where the terms cancel, as for points that are equal but for one, their rounding must not pass for a result.
    size = np.sqrt(np.diag(products))
    rounding = n * np.finfo(np.float64).eps * np.outer(size, size)
    return np.where(np.abs(hsic) > rounding, hsic, 0.0)


def _gram_products(centred: Array) -> Array:
    """tr(K K') for the Gram matrices, their diagonals zero, of each two layers (L, n, D): (L, L)."""
    count, n = centred.shape[:2]
    products = np.zeros((count, count))
    for top in range(0, n, TILE):
        rows = centred[:, top : top + TILE]
        for left in range(top, n, TILE):
            tile = rows @ centred[:, left : left + TILE].transpose(0, 2, 1)
            if left == top:
                diagonal = np.arange(tile.shape[1])
                tile[:, diagonal, diagonal] = 0
            flat = tile.reshape(count, -1)
            # Gram matrices are symmetric: a tile above the diagonal stands for the one below it too.
            products += (1 if left == top else 2) * (flat @ flat.T)
    return products
