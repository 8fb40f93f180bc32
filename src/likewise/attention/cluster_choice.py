"""The choice among clusterings: three scores of each, and the rule by which they agree on one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.clusterings import NOISE, Clustering, ClusterScores
from likewise.attention.settings import ClusterSettings

Array = NDArray[np.float64]

FEWEST = 3
"""A cluster of fewer points is never chosen, whatever their share."""

RULE = (
    "A clustering may be chosen if it leaves few enough points as noise and each of its clusters is large enough. "
    "Silhouette, Davies-Bouldin and Calinski-Harabasz each rank all clusterings of a layer that may be chosen, those "
    "of all algorithms, hyper-parameters and numbers of clusters together, ties sharing their mean rank. The smallest "
    "sum of the three ranks wins, then the higher silhouette, then fewer clusters, then less noise: it gives an "
    "algorithm's hyper-parameters at each number of clusters, its number of clusters, and the algorithm. For these "
    "ranks alone, noise counts to the cluster of the nearest point that has one, since to leave the fringe out would "
    "better all three scores; the scores that are shown leave noise out. Clusterings that may not be chosen come "
    "behind those that may, and are ranked among themselves, the least noise beyond what is allowed first."
)
# One ranking for all, and not one for each step: among few rivals two scores that barely differ outvote a third that
# differs much, and algorithms that agree share their mean rank, which lets the one that does not agree pass them.


@dataclass(frozen=True, eq=False)
class Candidate:
    """A clustering, and the scores that it is compared by."""

    clustering: Clustering
    judged: ClusterScores
    """Its scores over all points, as ``with_noise_given`` labels them."""


def cluster_scores(points: ArrayLike, labels: ArrayLike, distances: Array | None = None) -> ClusterScores:
    """Score the clusters of points (n, d) with labels (n,), noise left out; nan where they are undefined.

    They are undefined for fewer than two clusters, and where each point is its own. ``distances`` (n, n) are
    scikit-learn's Euclidean ones, for callers that score the same points often.

    >>> scores = cluster_scores([[0.0], [1.0], [10.0], [11.0], [99.0]], [0, 0, 1, 1, -1])
    >>> round(scores.silhouette, 3), scores.davies_bouldin, scores.calinski_harabasz
    (0.9, 0.1, 200.0)
    """
    from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score, silhouette_score

    rows, names = np.asarray(points, np.float64), np.asarray(labels)
    kept = names != NOISE
    if not 2 <= len(np.unique(names[kept])) < kept.sum():
        return ClusterScores(math.nan, math.nan, math.nan)
    if distances is None or not kept.all():
        # A block of the matrix may differ in the last bit from the matrix of a block.
        rows, names = rows[kept], names[kept]
        silhouette = silhouette_score(rows, names)
    else:
        silhouette = silhouette_score(distances, names, metric="precomputed")
    return ClusterScores(
        silhouette=float(silhouette),
        davies_bouldin=float(davies_bouldin_score(rows, names)),
        calinski_harabasz=float(calinski_harabasz_score(rows, names)),
    )


def with_noise_given(points: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Labels (n,) in which each noise point of points (n, d) has the cluster of the nearest point that has one.

    They serve the comparison of clusterings alone. Without any cluster all stays noise.

    >>> with_noise_given([[0.0], [1.0], [7.0], [10.0], [11.0]], [0, 0, -1, 1, 1]).tolist()
    [0, 0, 1, 1, 1]
    """
    from scipy.spatial import KDTree

    rows, given = np.asarray(points, np.float64), np.array(labels, np.int64)
    noise = given == NOISE
    if noise.any() and not noise.all():
        given[noise] = given[~noise][KDTree(rows[~noise]).query(rows[noise])[1]]
    return given


def rank_sums(scores: Sequence[ClusterScores]) -> Array:
    """Add up the ranks that the three scores give to each clustering (n,); the smaller the better.

    >>> rank_sums([ClusterScores(0.9, 0.2, 50.0), ClusterScores(0.5, 0.2, 70.0), ClusterScores(0.4, 0.8, 10.0)])
    array([4.5, 4.5, 9. ])
    """
    from scipy.stats import rankdata

    if not scores:
        return np.empty(0)
    # Scikit-learn says 1 where clusters have no extent at all, and the true ratio is infinite.
    ratios = [math.inf if one.davies_bouldin == 0 else one.calinski_harabasz for one in scores]
    columns = [[-one.silhouette for one in scores], [one.davies_bouldin for one in scores], np.negative(ratios)]
    return np.asarray(rankdata(columns, axis=1).sum(0), np.float64)


def best_first(candidates: Sequence[Candidate], settings: ClusterSettings) -> list[Candidate]:
    """The candidates in the order of ``RULE``.

    >>> scores = [ClusterScores(0.9, 0.2, 80.0), ClusterScores(0.5, 0.1, 90.0), ClusterScores(0.4, 0.9, 70.0)]
    >>> found = [Clustering("kmeans", np.repeat([0, 1], n), {}, one) for n, one in zip((2, 3, 4), scores)]
    >>> [one.clustering.sizes for one in best_first([Candidate(one, one.scores) for one in found], ClusterSettings())]
    [[3, 3], [4, 4], [2, 2]]
    """
    ordered: list[Candidate] = []
    for allowed in (True, False):
        rivals = [one for one in candidates if (objection(one.clustering, settings) is None) == allowed]
        sums = rank_sums([one.judged for one in rivals])
        keys = [_key(one, total, settings) for one, total in zip(rivals, sums, strict=True)]
        ordered += [rivals[index] for index in sorted(range(len(rivals)), key=keys.__getitem__)]
    return ordered


def objection(clustering: Clustering, settings: ClusterSettings) -> str | None:
    """Why a clustering may not be chosen, in a line; None where it may be.

    >>> objection(Clustering("dbscan", np.array([0, 0, 0, -1]), {}, ClusterScores(0.9, 0.1, 80.0)), ClusterSettings())
    'leaves 25 % of the points as noise'
    """
    if clustering.noise > settings.most_noise:
        return f"leaves {100 * clustering.noise:.0f} % of the points as noise"
    smallest, needed = min(clustering.sizes), fewest_points(len(clustering.labels), settings)
    return f"its smallest cluster holds {smallest} of {needed} needed points" if smallest < needed else None


def fewest_points(n: int, settings: ClusterSettings) -> int:
    """The points that each cluster of ``n`` points needs.

    >>> fewest_points(1379, ClusterSettings(smallest=0.01))
    14
    """
    return max(FEWEST, math.ceil(settings.smallest * n))


def _key(candidate: Candidate, rank_sum: float, settings: ClusterSettings) -> tuple[float, ...]:
    """What a candidate is sorted by, beside whether it may be chosen."""
    k, noise = candidate.clustering.k, candidate.clustering.noise
    return max(0.0, noise - settings.most_noise), rank_sum, -candidate.judged.silhouette, k, noise
