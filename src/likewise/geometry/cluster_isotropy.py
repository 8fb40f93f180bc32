"""Isotropy within clusters (Cai et al. 2021): what is left of the anisotropy when each cluster has its own origin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError
from likewise.geometry.anisotropy import pair_sums
from likewise.geometry.intrinsic_dimension import distinct_rows
from likewise.geometry.spectrum import isoscore

Array = NDArray[np.float64]

STARTS = 2
"""Runs of k-means from other seeds, of which the tightest counts."""


@dataclass(frozen=True)
class ClusterIsotropy:
    """How isotropic points are around the means of their clusters."""

    clusters: int
    """How many clusters there were."""

    baseline: float
    """The expected cosine of two random rows of one cluster from different groups; nan without such rows."""

    isoscore: float
    """The IsoScore of what all clusters leave together; nan where nothing is left."""


def cluster_isotropy(points: ArrayLike, groups: ArrayLike, clusters: int = 10, seed: int = 0) -> ClusterIsotropy:
    """k-means of points (n, D), then the isotropy of what lies around the means; groups (n,) are the sentences.

    There are fewer clusters where there are not two points for each, or fewer distinct ones.

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
    fitted = KMeans(clusters, n_init=STARTS, random_state=seed).fit(points)
    return np.asarray(fitted.labels_, np.int64)
