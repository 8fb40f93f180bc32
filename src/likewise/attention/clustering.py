"""Clusterings of a layer's points: every algorithm with every setting, their scores, and the selection of one."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.cluster_algorithms import PARTITIONS, Array, Labels, Space, variants_of
from likewise.attention.settings import ALGORITHMS, ClusterSettings
from likewise.errors import DataError
from likewise.progress import Progress, Ticker

NOISE = -1  # the label of a point in no cluster
MOST_CACHED = 5000  # with more points, the silhouette computes its distances each time, in blocks
FEWEST = 3  # a clustering with a smaller cluster is never chosen

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
# One ranking for all, not one per step: among few rivals, two scores that barely differ outvote a third that differs
# much, and algorithms that agree share their mean rank, which favours one that does not agree.


@dataclass(frozen=True)
class ClusterScores:
    """How well clusters are separated, without noise: silhouette and Calinski-Harabasz high, Davies-Bouldin low."""

    silhouette: float
    davies_bouldin: float
    calinski_harabasz: float


@dataclass(frozen=True, eq=False)
class Clustering:
    """One way to cluster the points of a layer."""

    algorithm: str
    labels: NDArray[np.int64]  # (n,), from 0; noise is -1
    settings: Mapping[str, Any]  # hyper-parameters except K: distance, linkage, covariance, eps, min_samples, affinity
    scores: ClusterScores

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """Points in each cluster."""
        sizes: list[int] = np.bincount(self.labels[self.labels != NOISE]).tolist()
        return sizes

    @property
    def noise(self) -> float:
        """The share of points in no cluster."""
        return float((self.labels == NOISE).mean())

    def to_dict(self) -> dict[str, Any]:
        """Everything except the labels."""
        settings = {name: self.settings.get(name) for name in ("distance", "linkage", "covariance")}
        about = {"algorithm": self.algorithm, "k": self.k, "noise": self.noise, "sizes": self.sizes}
        return about | vars(self.scores) | settings | dict(self.settings)


@dataclass(frozen=True, eq=False)
class LayerClusters:
    """The clusterings of one layer: each algorithm's best, and the best of these."""

    chosen: Clustering
    alternatives: tuple[Clustering, ...]  # the other algorithms' best, in the order of ``ALGORITHMS``
    rejected: Mapping[str, str]  # algorithms without a clustering that may be chosen, and why
    agreement: Mapping[tuple[str, str], float]  # the adjusted Rand index of any two algorithms' best
    by_k: Mapping[str, Mapping[int, ClusterScores]]  # of each algorithm's best clustering at each K

    @property
    def best(self) -> tuple[Clustering, ...]:
        """Each algorithm's best, the chosen one first."""
        return (self.chosen, *self.alternatives)

    def to_json(self) -> dict[str, Any]:
        """Everything, for a cache."""
        return {
            "best": [[one.algorithm, one.labels.tolist(), dict(one.settings), vars(one.scores)] for one in self.best],
            "rejected": dict(self.rejected),
            "agreement": [[*pair, value] for pair, value in self.agreement.items()],
            "by_k": {name: [[k, vars(scores)] for k, scores in of.items()] for name, of in self.by_k.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LayerClusters:
        """The inverse of ``to_json``."""
        chosen, *others = (
            Clustering(algorithm, np.array(labels, dtype=np.int64), settings, ClusterScores(**scores))
            for algorithm, labels, settings, scores in document["best"]
        )
        agreement = {(first, second): value for first, second, value in document["agreement"]}
        by_k = {name: {k: ClusterScores(**scores) for k, scores in of} for name, of in document["by_k"].items()}
        return cls(chosen, tuple(others), document["rejected"], agreement, by_k)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A clustering, and the scores that it is compared by."""

    clustering: Clustering
    all_scores: ClusterScores  # over all points, as ``with_noise_assigned`` labels them


def cluster_scores(points: ArrayLike, labels: ArrayLike, distances: Array | None = None) -> ClusterScores:
    """Score the clusters of points (n, d) with labels (n,), without noise; nan where undefined.

    Scores are undefined for fewer than two clusters, and if each point is its own cluster. ``distances`` (n, n) are
    scikit-learn's Euclidean ones, for callers that score the same points often.
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


def with_noise_assigned(points: ArrayLike, labels: ArrayLike) -> NDArray[np.int64]:
    """Labels (n,) in which each noise point of points (n, d) joins the cluster of the nearest clustered point.

    For comparing clusterings only. Without any cluster, all points stay noise.
    """
    from scipy.spatial import KDTree

    rows, found = np.asarray(points, np.float64), np.array(labels, np.int64)
    noise = found == NOISE
    if noise.any() and not noise.all():
        found[noise] = found[~noise][KDTree(rows[~noise]).query(rows[noise])[1]]
    return found


def rank_sums(scores: Sequence[ClusterScores]) -> Array:
    """The sum of each clustering's ranks by the three scores (n,); smaller is better."""
    from scipy.stats import rankdata

    if not scores:
        return np.empty(0)
    # scikit-learn returns 1 for clusters without extent; the true ratio is infinite.
    ratios = [math.inf if one.davies_bouldin == 0 else one.calinski_harabasz for one in scores]
    columns = [[-one.silhouette for one in scores], [one.davies_bouldin for one in scores], np.negative(ratios)]
    return np.asarray(rankdata(columns, axis=1).sum(0), np.float64)


def best_first(candidates: Sequence[Candidate], settings: ClusterSettings) -> list[Candidate]:
    """The candidates in the order of ``RULE``."""

    def key(candidate: Candidate, rank_sum: float) -> tuple[float, ...]:
        k, noise = candidate.clustering.k, candidate.clustering.noise
        return max(0.0, noise - settings.most_noise), rank_sum, -candidate.all_scores.silhouette, k, noise

    ordered: list[Candidate] = []
    for allowed in (True, False):
        rivals = [one for one in candidates if (objection(one.clustering, settings) is None) == allowed]
        ranked = zip(rivals, rank_sums([one.all_scores for one in rivals]), strict=True)
        ordered += [one for one, _ in sorted(ranked, key=lambda pair: key(*pair))]
    return ordered


def objection(clustering: Clustering, settings: ClusterSettings) -> str | None:
    """Why a clustering may not be chosen; None if it may."""
    if clustering.noise > settings.most_noise:
        return f"leaves {100 * clustering.noise:.0f} % of the points as noise"
    smallest, needed = min(clustering.sizes), fewest_points(len(clustering.labels), settings)
    return f"its smallest cluster holds {smallest} of {needed} needed points" if smallest < needed else None


def fewest_points(n: int, settings: ClusterSettings) -> int:
    """The smallest allowed cluster of ``n`` points."""
    return max(FEWEST, math.ceil(settings.smallest * n))


def clusterings_of(
    points: ArrayLike, settings: ClusterSettings | None = None, seed: int = 0, progress: Progress | None = None
) -> LayerClusters:
    """Cluster points (n, d) by each algorithm, and choose by ``RULE``.

    Cluster 0 is the largest; DBSCAN's noise stays noise.

    >>> rng = np.random.default_rng(0)
    >>> points = np.concatenate([rng.normal(size=(size, 2)) + index for size, index in [(40, 0), (30, 12), (20, 24)]])
    >>> found = clusterings_of(points, ClusterSettings(algorithms=("kmeans", "agglomerative"), most=5))
    >>> found.chosen.sizes, found.agreement
    ([40, 30, 20], {('kmeans', 'agglomerative'): 1.0})
    """
    from sklearn import config_context

    tried = settings or ClusterSettings()
    space = Space(_checked(points), seed)
    ks = _possible_ks(space.points, tried)
    with config_context(assume_finite=True, skip_parameter_validation=True):  # checked once, here
        ordered = [one.clustering for one in best_first(_candidates(space, tried, ks, progress), tried)]
    names = [name for name in ALGORITHMS if name in tried.algorithms]
    nothing = f"found no {ks[0]} to {ks[-1]} clusters"
    if not ordered:
        raise DataError(f"{' and '.join(names)} {nothing}; add kmeans to the algorithms")
    # A dict keeps the last of equal keys, here the best.
    best = {one.algorithm: one for one in reversed(ordered)}
    best_at = {(one.algorithm, one.k): one.scores for one in reversed(ordered)}
    bests = [best[name] for name in names if name in best]
    return LayerClusters(
        chosen=ordered[0],
        alternatives=tuple(one for one in bests if one is not ordered[0]),
        rejected={name: why for name in names if (why := objection(best[name], tried) if name in best else nothing)},
        agreement={(a.algorithm, b.algorithm): agreement(a, b) for a, b in combinations(bests, 2)},
        by_k={name: {k: best_at[name, k] for k in ks if (name, k) in best_at} for name in names},
    )


def agreement(left: Clustering, right: Clustering) -> float:
    """The adjusted Rand index over the points that are noise to neither; nan for fewer than two of them.

    >>> a, b = (Clustering("dbscan", np.array(labels), {}, None) for labels in ([0, 0, 1, -1], [1, 1, 0, 0]))
    >>> agreement(a, b)
    1.0
    """
    from sklearn.metrics import adjusted_rand_score

    kept = (left.labels != NOISE) & (right.labels != NOISE)
    return float(adjusted_rand_score(left.labels[kept], right.labels[kept])) if kept.sum() > 1 else float("nan")


def gaussian_silhouettes(
    points: ArrayLike,
    clustering: Clustering,
    settings: ClusterSettings | None = None,
    draws: int = 20,
    seed: int = 0,
    progress: Progress | None = None,
) -> Array:
    """The silhouettes (draws,) that a clustering's algorithm reaches on points without clusters.

    Each draw is n points from one Gaussian with the mean and covariance of points (n, d). K and DBSCAN's eps are chosen
    again for each draw, so that best is compared with best. nan where no clustering may be chosen.
    """
    rows = _checked(points)
    rng = np.random.default_rng(seed)
    mean, covariance = rows.mean(0), np.atleast_2d(np.cov(rows, rowvar=False))
    lists = {"distance": "distances", "linkage": "linkages", "covariance": "covariances", "min_samples": "min_samples"}
    own: Any = {many: (clustering.settings[one],) for one, many in lists.items() if clustering.settings.get(one)}
    tried = replace(settings or ClusterSettings(), algorithms=(clustering.algorithm,), **own)
    silhouettes = np.full(draws, np.nan)
    ticker = Ticker(progress, draws, "single Gaussians")
    for draw in range(draws):
        drawn = rng.multivariate_normal(mean, covariance, size=len(rows), method="svd")
        with contextlib.suppress(DataError):
            found = clusterings_of(drawn, tried, seed, lambda *_: ticker.add(0))  # a sign of life
            if not found.rejected:
                silhouettes[draw] = found.chosen.scores.silhouette
        ticker.add()
    ticker.close()
    return silhouettes


def _checked(points: ArrayLike) -> Array:
    rows = np.asarray(points, np.float64)
    if rows.ndim != 2 or not rows.size:
        raise DataError(f"points (n, d) are needed, got the shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DataError("some points are not finite; leave out the maps they come from, or train the reducer again")
    return rows


def _possible_ks(points: Array, settings: ClusterSettings) -> range:
    """The numbers of clusters for which there are enough points."""
    n, distinct = len(points), len(np.unique(points, axis=0))
    ks = range(settings.least, min(settings.most, distinct, n - 1) + 1)
    if not ks:
        raise DataError(f"{n} points, {distinct} of them distinct, make no {settings.least} clusters; give more texts")
    return ks


def _candidates(space: Space, settings: ClusterSettings, ks: range, progress: Progress | None) -> list[Candidate]:
    """Every clustering with defined scores, in the order of ``ALGORITHMS``."""
    from sklearn.metrics import pairwise_distances

    distances = pairwise_distances(space.points) if len(space.points) <= MOST_CACHED else None

    @cache  # several settings find the same clusters
    def scores(labels: bytes) -> ClusterScores:
        return cluster_scores(space.points, np.frombuffer(labels, np.int64), distances)

    names = [name for name in ALGORITHMS if name in settings.algorithms]
    tried = [(name, variant) for name in names for variant in variants_of(name, space, settings)]
    ticker = Ticker(progress, sum(1 if name == "dbscan" else len(ks) for name, _ in tried), "clusterings")
    found: list[Candidate] = []
    for name, variant in tried:
        for labels in map(_by_size, PARTITIONS[name](space, variant, ks)):
            clustering = Clustering(name, labels, variant, scores(labels.tobytes()))
            # A mixture may have an empty component, and DBSCAN finds its own K.
            if clustering.k in ks and not math.isnan(clustering.scores.silhouette):
                assigned = with_noise_assigned(space.points, labels)
                found.append(Candidate(clustering, scores(assigned.tobytes())))
            ticker.add()
    ticker.close()
    return found


def _by_size(labels: Labels) -> Labels:
    """Number the clusters by size, equal ones by their first points."""
    ordered, kept = np.full(len(labels), NOISE, np.int64), labels != NOISE
    _, first, inverse, counts = np.unique(labels[kept], return_index=True, return_inverse=True, return_counts=True)
    ordered[kept] = np.argsort(np.lexsort((first, -counts)))[inverse]
    return ordered
