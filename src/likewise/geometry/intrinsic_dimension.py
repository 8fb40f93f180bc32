"""Intrinsic dimension: of how many dimensions a cloud of points is, seen from each point's two nearest neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError
from likewise.metrics import Interval

Array = NDArray[np.float64]

DRAWS = 200
LEAST_POINTS = 20
"""With fewer distinct points the line through their ratios means nothing."""

SAME = 100
"""Points that so many roundings of their mean length could make of one are one: a batch's shape moves states too."""
HELD = 2**20
"""Distances that are held at a time."""


def two_nn(points: ArrayLike, seed: int = 0, draws: int = DRAWS) -> Interval:
    """The TwoNN dimension (Facco et al. 2017) of points (n, D), with a percentile bootstrap over the ratios.

    Of points that are equal, but for rounding, one is kept. nan where fewer than ``LEAST_POINTS`` distinct points are
    left, or where each point's two nearest neighbours are equally far (a lattice).

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
    same = SAME * rounding * np.sqrt(np.square(rows).sum(1).mean()) if len(rows) else 0.0
    while True:
        if len(rows) < LEAST_POINTS:
            return Interval(np.nan, np.nan, np.nan)
        nearest, first = _two_nearest(rows)
        # Of two such points the later one goes; of a whole heap of them some more at each turn.
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
        # Products only find the neighbours; how far they are is measured on the difference, which does not cancel.
        distances[rows], nearest[rows] = np.linalg.norm(points[rows, None] - neighbours, axis=2), first
    return np.sort(distances, axis=1), nearest


def _slope(logs: Array) -> float:
    """The line through the origin of -log(1 - F) against log mu (n,), the largest tenth of the ratios left out."""
    n = len(logs)
    kept = n * 9 // 10
    x, y = np.sort(logs)[:kept], -np.log1p(-np.arange(1, kept + 1) / n)
    square = x @ x
    return float(x @ y / square) if square > 0 else float("nan")
