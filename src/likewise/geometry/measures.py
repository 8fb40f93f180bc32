"""Measures of geometry, as functions of arrays: anisotropy, spectra, MEV, intrinsic dimension, CKA, clusters.

The baseline of similarities is the mean cosine of random pairs (Ethayarajh 2019). Its exact mean over all pairs follows
from the sum of the unit vectors and from the sums within each group (sentence), without forming pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError
from likewise.metrics import Array, Interval

VARIANTS = ("formula", "pca", "svd")
"""Maximum explainable variance is computed in more than one way; all are shares of n vectors X (n, D).

- ``formula``: sigma_1^2 / sum_i sigma_i^2 with the singular values of X as it is;
- ``pca``: the same after centring, as in scikit-learn's ``PCA``;
- ``svd``: the variance along the first right singular vector of X as it is, over the variance of all dimensions, as in
  scikit-learn's ``TruncatedSVD``.
"""
DIRECT = 128  # Up to this size LAPACK finds one eigenpair faster than Lanczos iterations
DRAWS = 200
LEAST_POINTS = 20  # TwoNN needs this many distinct points: a line through fewer ratios means nothing
SAME_POINT = 100  # Points closer than this many roundings of their mean length are one: batch shapes move states too
HELD = 2**20  # Distances in memory at a time
TILE = 256  # Rows and columns of the Gram matrices in memory at a time, in all layers
KMEANS_STARTS = 2  # Runs of k-means from different seeds; the tightest one counts


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
    """
    crossing = np.square(np.asarray(total, np.float64)) - np.asarray(within, np.float64)
    return crossing / pairs if pairs > 0 else np.full_like(crossing, np.nan)


def pair_sums(vectors: ArrayLike, groups: ArrayLike | None = None) -> tuple[Array, Array, float]:
    """Rows (..., n, D) of groups (n,) -> what ``dimension_contributions`` takes: total and within (..., D), pairs."""
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
    """Rows (..., D) divided by their length; a zero row stays zero."""
    rows = np.asarray(vectors, np.float64)
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0), np.float64)


def ratios(parts: Array, whole: NDArray[Any]) -> Array:
    """parts / whole, nan where the whole is not above 0.

    >>> ratios(np.array([1.0, 0.0]), np.array([2.0, 0.0])).tolist()
    [0.5, nan]
    """
    empty = np.full(np.broadcast_shapes(parts.shape, whole.shape), np.nan)
    return np.asarray(np.divide(parts, whole, out=empty, where=whole > 0), np.float64)


def isoscore(covariances: ArrayLike) -> Array:
    """IsoScore (Rudman et al. 2022) of each covariance (..., D, D): 0 on a line, 1 for the same variance everywhere.

    nan where there is no variance at all. With t = tr C / |C|_F the paper's steps collapse: the defect fulfils
    delta^2 (D - sqrt D) = D - t sqrt D, so phi = t^2 / D and the score is (t^2 - 1) / (D - 1). No eigenvalue is needed.

    >>> isoscore([np.diag([1.0, 1.0, 0.0]), np.eye(3), np.zeros((3, 3))]).round(6).tolist()
    [0.5, 1.0, nan]
    """
    matrices = _square(covariances)
    dim = matrices.shape[-1]
    trace = np.trace(matrices, axis1=-2, axis2=-1)[..., None, None]
    directions = 1 / np.square(ratios(matrices, trace)).sum((-2, -1))
    # One direction alone has nothing to be uneven with: 1, and nan where it does not vary.
    return np.asarray(np.clip((directions - 1) / (dim - 1), 0.0, 1.0) if dim > 1 else directions)


def effective_rank(covariances: ArrayLike) -> Array:
    """The effective rank (Roy & Vetterli 2007) of centred points by their covariances (..., D, D): 1 to D.

    It is exp of the entropy of the normalised singular values; nan where there is no variance at all.

    >>> effective_rank([np.eye(3), np.ones((3, 3)), np.zeros((3, 3))]).round(6).tolist()
    [3.0, 1.0, nan]
    """
    matrices = _square(covariances)
    variances = np.linalg.eigvalsh(matrices)
    # What lies below the rounding of the largest is none: its square root would count as a singular value of 1e-8.
    rounding = np.finfo(np.float64).eps * matrices.shape[-1] * variances[..., -1:]
    singular = np.sqrt(np.where(variances > rounding, variances, 0.0))
    parts = ratios(singular, singular.sum(-1, keepdims=True))
    return np.asarray(np.exp(-(parts * np.log(np.where(parts > 0, parts, 1.0))).sum(-1)))


def _square(covariances: ArrayLike) -> Array:
    """Checked: (..., D, D)."""
    matrices = np.asarray(covariances, np.float64)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2] or not matrices.shape[-1]:
        raise DataError(f"covariances (..., D, D) are needed, got shape {matrices.shape}")
    return matrices


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
    n, flipped = layers.shape[1], centred.transpose(0, 2, 1)
    # Adding the mean to centred rows loses no precision; subtracting it from others would.
    if n <= layers.shape[2]:
        around, across = centred @ flipped, centred @ mean.transpose(0, 2, 1)
        plain = around + across + across.transpose(0, 2, 1) + np.square(mean).sum(2, keepdims=True)
        first, direction = _leading(plain)
        # The rows along v_1 are X v_1 = sigma_1 u_1, and u_1 is the eigenvector of the Gram matrix.
        along = first * np.square(direction - direction.mean(1, keepdims=True)).sum(1)
    else:
        around = flipped @ centred
        first, direction = _leading(around + n * mean.transpose(0, 2, 1) * mean)
        along = np.einsum("ld,lde,le->l", direction, around, direction, optimize=True)
    spread = np.square(centred).sum((1, 2))
    whole = spread + n * np.square(mean).sum((1, 2))
    return np.stack([ratios(first, whole), ratios(_leading(around)[0], spread), ratios(along, spread)])


def random_explained_variances(pool: ArrayLike, n: int, seed: int | tuple[int, ...]) -> Array:
    """``explained_variances`` of n distinct random rows of a pool (L, R, D), the same rows in all layers: (3, L)."""
    rows = np.asarray(pool)
    if rows.ndim != 3 or not 1 <= n <= rows.shape[1]:
        raise DataError(f"{n} distinct rows cannot be drawn from a pool (L, R, D) of shape {rows.shape}")
    drawn = np.random.default_rng(seed).choice(rows.shape[1], n, replace=False)
    return explained_variances(rows[:, drawn])


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
    """The first of each set of equal rows (n, D), in their order: (m, D)."""
    # Adding 0 turns -0.0 into 0.0, so that equal rows have equal bytes.
    rows = np.ascontiguousarray(points) + 0
    first: dict[bytes, int] = {}
    for index, row in enumerate(rows):
        first.setdefault(row.tobytes(), index)
    return np.asarray(rows[list(first.values())])


def _two_nearest(points: Array) -> tuple[Array, NDArray[np.int64]]:
    """The distances of each point (n, D) to its two nearest others, ascending: (n, 2); and its nearest: (n,)."""
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
    return float(x @ y / square) if square > 0 else np.nan


def debiased_cka(states: ArrayLike) -> Array:
    """Linear CKA of each two layers of states (L, n, D), debiased: (L, L), ones on its diagonal.

    CKA = HSIC(K, K') / sqrt(HSIC(K, K) HSIC(K', K')) with the unbiased HSIC_1 of Song et al. 2012, so that unrelated
    layers are near 0 even for few points. nan in the row and column of a layer with equal points (all, or all but one),
    and everywhere for fewer than 4 points.

    >>> points = np.random.default_rng(0).normal(size=(50, 3))
    >>> debiased_cka([points, -2 * points[:, ::-1]]).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    layers = np.asarray(states, np.float64)
    if layers.ndim != 3:
        raise DataError(f"states (L, n, D) are needed, got shape {layers.shape}")
    if layers.shape[1] < 4:
        return np.full((len(layers),) * 2, np.nan)
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

    clusters: int  # the number of clusters
    baseline: float  # expected cosine of two rows of one cluster from different groups; nan without such rows
    isoscore: float  # the IsoScore of the residuals of all clusters together; nan where they are all zero


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
    residuals, used = np.empty_like(rows), np.unique(labels)
    crossing = pairs = 0.0
    for label in used:
        members = np.flatnonzero(labels == label)
        # The first row goes first, which makes equal rows exact zeros.
        block = rows[members] - rows[members[0]]
        residuals[members] = block - block.mean(0)
        total, within, across = pair_sums(residuals[members], of_row[members])
        crossing += (np.square(total) - within).sum()
        pairs += across
    baseline = float(crossing / pairs) if pairs > 0 else np.nan
    return ClusterIsotropy(len(used), baseline, float(isoscore(residuals.T @ residuals / len(rows))))


def _labels(points: Array, clusters: int, seed: int) -> NDArray[np.int64]:
    """The cluster of each point (n, D): (n,)."""
    from sklearn.cluster import KMeans

    clusters = min(clusters, len(distinct_rows(points)))
    if clusters <= 1:
        return np.zeros(len(points), np.int64)
    return np.asarray(KMeans(clusters, n_init=KMEANS_STARTS, random_state=seed).fit_predict(points), np.int64)
