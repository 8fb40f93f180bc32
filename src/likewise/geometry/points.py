"""Measures of a sample of points: intrinsic dimension, alignment of layers, isotropy within clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError
from likewise.geometry.anisotropy import isoscore, pair_sums
from likewise.metrics import Interval

Array = NDArray[np.float64]

DRAWS = 200
LEAST_POINTS = 20
"""TwoNN needs this many distinct points: a line through fewer ratios means nothing."""
SAME_POINT = 100
"""Points closer than this many roundings of their mean length are one: the batch's shape moves states too."""
HELD = 2**20
"""Distances in memory at a time."""
TILE = 256
"""Rows and columns of the Gram matrices in memory at a time, in all layers."""
KMEANS_STARTS = 2
"""Runs of k-means from different seeds; the tightest one counts."""


def two_nn(points: ArrayLike, seed: int = 0, draws: int = DRAWS) -> Interval:
    """The TwoNN dimension (Facco et al. 2017) of points (n, D), with a percentile bootstrap over the ratios.

    One of several points that are equal up to rounding counts. nan for fewer than ``LEAST_POINTS`` distinct points, and
    where each point's two nearest neighbours are equally far (a lattice).

    >>> plane = np.random.default_rng(0).random((500, 2)) @ np.eye(2, 10)
    >>> found = two_nn(plane)
    >>> 1.7 < found.low < found.value < found.high < 2.3
    True
    """
    rows = np.asarray(points)
    if rows.ndim != 2:
        raise DataError(f"points (n, D) are needed, got shape {rows.shape}")
    rounding = np.finfo(rows.dtype).eps if rows.dtype.kind == "f" else 0.0
    rows = distinct_rows(rows).astype(np.float64)
    same = SAME_POINT * rounding * np.sqrt(np.square(rows).sum(1).mean()) if len(rows) else 0.0
    while True:
        if len(rows) < LEAST_POINTS:
            return Interval(np.nan, np.nan, np.nan)
        nearest, first = _two_nearest(rows)
        # The later one of two such points goes; a larger heap shrinks at each turn.
        doubled = (nearest[:, 0] < same) & (first < np.arange(len(rows)))
        if not doubled.any():
            break
        rows = rows[~doubled]
    logs = np.log(nearest[:, 1] / nearest[:, 0])
    rng = np.random.default_rng(seed)
    drawn = [_slope(logs[rng.integers(0, len(logs), len(logs))]) for _ in range(draws)]
    low, high = np.nanpercentile(drawn, [2.5, 97.5]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return Interval(_slope(logs), float(low), float(high))


def distinct_rows(points: ArrayLike) -> NDArray[np.generic]:
    """The first of each set of equal rows (n, D), in their order: (m, D).

    >>> distinct_rows([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]]).tolist()
    [[1.0, 0.0], [2.0, 0.0]]
    """
    # Adding 0 turns -0.0 into 0.0, so that equal rows have equal bytes.
    rows = np.ascontiguousarray(points) + 0
    first: dict[bytes, int] = {}
    for index, row in enumerate(rows):
        first.setdefault(row.tobytes(), index)
    return np.asarray(rows[list(first.values())])


def _two_nearest(points: Array) -> tuple[Array, NDArray[np.int64]]:
    """The distances from each of the distinct points (n, D) to its two nearest others, ascending, and the nearest:
    (n, 2) and (n,).
    """
    n = len(points)
    # Small numbers lose the least when squared distances are taken from products.
    centred = points - points.mean(0)
    squares = np.square(centred).sum(1)
    distances, nearest = np.empty((n, 2)), np.empty(n, np.int64)
    step = max(1, HELD // n)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        # A row's own square shifts the whole row, so it does not matter to the order.
        apart = squares - 2 * (centred[rows] @ centred.T)
        apart[rows - start, rows] = np.inf
        first = apart.argmin(1)
        apart[rows - start, first] = np.inf
        neighbours = points[np.stack([first, apart.argmin(1)], axis=1)]
        # Products only find the neighbours; the distances come from differences, which do not cancel.
        distances[rows], nearest[rows] = np.linalg.norm(points[rows, None] - neighbours, axis=2), first
    return np.sort(distances, axis=1), nearest


def _slope(logs: Array) -> float:
    """The line through the origin of -log(1 - F) against log mu (n,), the largest tenth of the ratios left out."""
    n = len(logs)
    kept = n * 9 // 10
    x, y = np.sort(logs)[:kept], -np.log1p(-np.arange(1, kept + 1) / n)
    square = x @ x
    return float(x @ y / square) if square > 0 else float("nan")


def debiased_cka(states: ArrayLike) -> Array:
    """Linear CKA of each two layers of states (L, n, D), debiased: (L, L), ones on its diagonal.

    CKA = HSIC(K, K') / sqrt(HSIC(K, K) HSIC(K', K')) with the unbiased HSIC_1 of Song et al. 2012, so that
    unrelated layers are near 0 even for few points. nan in the row and column of a layer
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


@dataclass(frozen=True)
class ClusterIsotropy:
    """How isotropic points are around the means of their clusters (Cai et al. 2021)."""

    clusters: int
    """the number of clusters"""
    baseline: float
    """the expected cosine of two random rows of one cluster from different groups; nan without such rows"""
    isoscore: float
    """the IsoScore of the residuals of all clusters together; nan where they are all zero"""


def cluster_isotropy(points: ArrayLike, groups: ArrayLike, clusters: int = 10, seed: int = 0) -> ClusterIsotropy:
    """k-means of points (n, D), then the isotropy of the residuals; groups (n,) are the sentences.

    The number of clusters is at most half the number of points, and at most the number of distinct points.

    >>> rng = np.random.default_rng(0)
    >>> points = np.concatenate([rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 50])
    >>> found = cluster_isotropy(points, groups=range(400), clusters=2)
    >>> found.clusters, abs(found.baseline) < 0.02, found.isoscore > 0.9
    (2, True, True)
    """
    rows, of_row = np.asarray(points, np.float64), np.asarray(groups)
    if rows.ndim != 2 or not rows.size or of_row.shape != rows.shape[:1]:
        raise DataError(f"points (n, D) and groups (n,) are needed, got shapes {rows.shape} and {of_row.shape}")
    labels = _labels(rows, min(clusters, len(rows) // 2), seed)
    residuals = np.empty_like(rows)
    crossing, pairs = 0.0, 0.0
    used = np.unique(labels)
    for label in used:
        members = np.flatnonzero(labels == label)
        # The first row goes first, which makes equal rows exact zeros.
        block = rows[members] - rows[members[0]]
        residuals[members] = block - block.mean(0)
        total, within, across = pair_sums(residuals[members], of_row[members])
        crossing += (np.square(total) - within).sum()
        pairs += across
    return ClusterIsotropy(
        clusters=len(used),
        baseline=float(crossing / pairs) if pairs > 0 else float("nan"),
        isoscore=isoscore(residuals.T @ residuals / len(rows)),
    )


def _labels(points: Array, clusters: int, seed: int) -> NDArray[np.int64]:
    """The cluster of each point (n, D): (n,)."""
    from sklearn.cluster import KMeans

    clusters = min(clusters, len(distinct_rows(points)))
    if clusters <= 1:
        return np.zeros(len(points), np.int64)
    fitted = KMeans(clusters, n_init=KMEANS_STARTS, random_state=seed).fit(points)
    return np.asarray(fitted.labels_, np.int64)
