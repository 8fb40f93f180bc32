"""Clustering: every algorithm with every setting over the points of a layer, and the best of what they find."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.attention.cluster_choice import Candidate, best_first, cluster_scores, objection, with_noise_given
from likewise.attention.clusterings import NOISE, Clustering, ClusterScores, LayerClusters
from likewise.attention.settings import ALGORITHMS, ClusterSettings
from likewise.errors import DataError
from likewise.progress import Progress, Ticker

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Variant = Mapping[str, Any]
"""Hyper-parameters beside K; every algorithm names its distance, linkage and covariance, None where it has none."""

STARTS = 10
"""Runs of k-means from other seeds, of which the tightest counts."""
MIXTURE_STARTS = 2
"""The same for Gaussian mixtures, which begin at k-means and need fewer."""
NEIGHBOURS = 10
"""Nearest points, itself among them, that the neighbour graph of spectral clustering joins to a point."""
DENSE = 3000
"""Up to so many points all eigenvectors of spectral clustering are found at once."""
AFFINITIES = ("nearest-neighbours", "rbf")
EPS_QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)
"""Where DBSCAN's eps stands among the points' distances to their ``min_samples``-th neighbour."""
MOST_KEPT = 5000
"""With more points than this the silhouette finds its distances anew each time, in blocks."""


class Space:
    """Points (n, d) with the distances that several clusterings need, each matrix made once."""

    def __init__(self, points: Array, seed: int) -> None:
        self.points, self.seed = points, seed
        self._distances: dict[str, Array] = {}

    def distances(self, name: str) -> Array:
        """The (n, n) distances of a kind, exact for close points far from the origin."""
        from scipy.spatial.distance import pdist, squareform
        from sklearn.metrics.pairwise import cosine_distances

        if name not in self._distances:
            metric = {"manhattan": "cityblock"}.get(name, name)
            # SciPy has no cosine for a point at the origin, scikit-learn calls it 1.
            square = cosine_distances(self.points) if name == "cosine" else squareform(pdist(self.points, metric))
            self._distances[name] = np.asarray(square, np.float64)
        return self._distances[name]


def clusterings_of(
    points: ArrayLike, settings: ClusterSettings | None = None, seed: int = 0, progress: Progress | None = None
) -> LayerClusters:
    """Cluster points (n, d) by each algorithm, and choose by ``cluster_choice.RULE``.

    Clusters are numbered from the largest on; what DBSCAN leaves as noise stays noise.

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
    with config_context(assume_finite=True, skip_parameter_validation=True):  # checked here, once, and not by each fit
        ordered = [one.clustering for one in best_first(_candidates(space, tried, ks, progress), tried)]
    names = [name for name in ALGORITHMS if name in tried.algorithms]
    nothing = f"found no {ks[0]} to {ks[-1]} clusters"
    if not ordered:
        raise DataError(f"{' and '.join(names)} {nothing}; add kmeans to the algorithms")
    # Of equal keys a dict keeps the last, here the best.
    best = {one.algorithm: one for one in reversed(ordered)}
    bests = [best[name] for name in names if name in best]
    return LayerClusters(
        chosen=ordered[0],
        alternatives=tuple(one for one in bests if one is not ordered[0]),
        rejected={name: why for name in names if (why := objection(best[name], tried) if name in best else nothing)},
        agreement={(a.algorithm, b.algorithm): agreement(a, b) for a, b in combinations(bests, 2)},
        by_k={name: _scores_by_k(ordered, name) for name in names},
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


def blob_silhouettes(
    points: ArrayLike,
    clustering: Clustering,
    settings: ClusterSettings | None = None,
    draws: int = 20,
    seed: int = 0,
    progress: Progress | None = None,
) -> Array:
    """The silhouettes (draws,) that a clustering's algorithm reaches where there are no clusters.

    Each draw is as many points from one Gaussian with the mean and the covariance of points (n, d). K, and DBSCAN's
    eps, are chosen anew for each: the best of many is held against the best of many. Where nothing may be chosen, nan.

    >>> rng = np.random.default_rng(0)
    >>> points = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 12])
    >>> found = clusterings_of(points, ClusterSettings(algorithms=("kmeans",), most=3)).chosen
    >>> bool(blob_silhouettes(points, found, draws=5).max() < found.scores.silhouette)
    True
    """
    rows = _checked(points)
    rng = np.random.default_rng(seed)
    mean, covariance = rows.mean(0), np.atleast_2d(np.cov(rows, rowvar=False))
    tried = _settings_of(clustering, settings or ClusterSettings())
    silhouettes = np.full(draws, np.nan)
    ticker = Ticker(progress, draws, "single blobs")
    for draw in range(draws):
        gaussian_null = rng.multivariate_normal(mean, covariance, size=len(rows), method="svd")
        with contextlib.suppress(DataError):
            found = clusterings_of(gaussian_null, tried, seed, _heartbeat(ticker))
            if not found.rejected:
                silhouettes[draw] = found.chosen.scores.silhouette
        ticker.add()
    ticker.close()
    return silhouettes


def _settings_of(clustering: Clustering, settings: ClusterSettings) -> ClusterSettings:
    """Settings that try one algorithm, with a clustering's own choices of all but K and what has no list to try."""
    lists = {"distance": "distances", "linkage": "linkages", "covariance": "covariances", "min_samples": "min_samples"}
    chosen: dict[str, Any] = {
        many: (clustering.settings[one],) for one, many in lists.items() if clustering.settings.get(one)
    }
    return replace(settings, algorithms=(clustering.algorithm,), **chosen)


def _heartbeat(ticker: Ticker) -> Progress:
    """Progress of a part that counts for nothing, so that a long part is heard all the same."""

    def progress(done: int, total: int | None, note: str) -> None:  # noqa: ARG001
        ticker.add(0)

    return progress


def _checked(points: ArrayLike) -> Array:
    rows = np.asarray(points, np.float64)
    if rows.ndim != 2 or not rows.size:
        raise DataError(f"points (n, d) are needed, got the shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DataError("some points are not finite; leave out the maps they come from, or train the reducer anew")
    return rows


def _possible_ks(points: Array, settings: ClusterSettings) -> range:
    """The numbers of clusters that there are points for."""
    n, distinct = len(points), len(np.unique(points, axis=0))
    ks = range(settings.least, min(settings.most, distinct, n - 1) + 1)
    if not ks:
        raise DataError(f"{n} points, {distinct} of them distinct, make no {settings.least} clusters; give more texts")
    return ks


def _candidates(space: Space, settings: ClusterSettings, ks: range, progress: Progress | None) -> list[Candidate]:
    """Every clustering of every algorithm, in the order of ``ALGORITHMS``, whose scores are defined."""
    names = [name for name in ALGORITHMS if name in settings.algorithms]
    variants = {name: VARIANTS[name](space, settings) for name in names}
    total = sum(len(variants[name]) * (1 if name == "dbscan" else len(ks)) for name in names)
    ticker = Ticker(progress, total, "clusterings")
    scores = _scorer(space.points)
    found: list[Candidate] = []
    for name in names:
        for variant in variants[name]:
            for labels in PARTITIONS[name](space, variant, ks):
                ordered = _by_size(labels)
                clustering = Clustering(name, ordered, variant, scores(ordered))
                # A mixture may leave a component empty, and DBSCAN has a K of its own.
                if clustering.k in ks and not math.isnan(clustering.scores.silhouette):
                    found.append(Candidate(clustering, scores(with_noise_given(space.points, ordered))))
                ticker.add()
    ticker.close()
    return found


def _scores_by_k(ordered: Sequence[Clustering], algorithm: str) -> dict[int, ClusterScores]:
    """The scores of an algorithm's best hyper-parameters at each K that it found."""
    of_k = {one.k: one.scores for one in reversed(ordered) if one.algorithm == algorithm}
    return dict(sorted(of_k.items()))


def _scorer(points: Array) -> Callable[[Labels], ClusterScores]:
    """The scores of labels; those that several algorithms find are scored once."""
    from sklearn.metrics import pairwise_distances

    distances = pairwise_distances(points) if len(points) <= MOST_KEPT else None
    known: dict[bytes, ClusterScores] = {}

    def scores(labels: Labels) -> ClusterScores:
        key = labels.tobytes()
        if key not in known:
            known[key] = cluster_scores(points, labels, distances)
        return known[key]

    return scores


def _by_size(labels: Labels) -> Labels:
    """Number the clusters from the largest on, equally large ones in the order of their first points."""
    ordered = np.full(len(labels), NOISE, np.int64)
    kept = labels != NOISE
    _, first, inverse, counts = np.unique(labels[kept], return_index=True, return_inverse=True, return_counts=True)
    indices = np.empty(len(counts), np.int64)
    indices[np.lexsort((first, -counts))] = np.arange(len(counts))
    ordered[kept] = indices[inverse]
    return ordered


def _variant(distance: str | None, linkage: str | None = None, covariance: str | None = None, **more: Any) -> Variant:
    return {"distance": distance, "linkage": linkage, "covariance": covariance, **more}


def _dbscan_variants(space: Space, settings: ClusterSettings) -> list[Variant]:
    """The given eps; else one for each quantile of the distances to the ``min_samples``-th point, itself counted."""
    from sklearn.neighbors import NearestNeighbors

    found = []
    for distance, least in product(settings.distances, settings.min_samples):
        if settings.eps:
            found += [_variant(distance, eps=eps, min_samples=least) for eps in settings.eps]
            continue
        neighbours = NearestNeighbors(n_neighbors=min(least, len(space.points)), metric=distance).fit(space.points)
        reach = neighbours.kneighbors(space.points)[0][:, -1]
        # Six digits keep eps readable, and off the very distance of two points.
        sizes = {float(f"{eps:.6g}") for eps in np.quantile(reach, EPS_QUANTILES)}
        found += [_variant(distance, eps=eps, min_samples=least) for eps in sorted(sizes) if eps > 0]
    return found


def _tree_variants(space: Space, settings: ClusterSettings) -> list[Variant]:  # noqa: ARG001
    pairs = product(settings.linkages, settings.distances)
    # Ward's linkage is a sum of squares, so it has the Euclidean distance whatever the others have.
    plain = [_variant(distance, linkage) for linkage, distance in pairs if linkage != "ward"]
    return [_variant("euclidean", "ward")] * ("ward" in settings.linkages) + plain


VARIANTS: dict[str, Callable[[Space, ClusterSettings], list[Variant]]] = {
    "kmeans": lambda space, settings: [_variant("euclidean")],  # noqa: ARG005
    "dbscan": _dbscan_variants,
    "agglomerative": _tree_variants,
    "spectral": lambda space, settings: [_variant("euclidean", affinity=one) for one in AFFINITIES],  # noqa: ARG005
    "gaussian-mixture": lambda space, settings: [_variant(None, None, one) for one in settings.covariances],  # noqa: ARG005
}
"""The hyper-parameters that each algorithm is tried with."""


def _kmeans(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:  # noqa: ARG001
    for k in ks:
        yield _nearest_means(space.points, k, space.seed)


def _dbscan(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:  # noqa: ARG001
    from sklearn.cluster import DBSCAN

    fitted = DBSCAN(eps=variant["eps"], min_samples=variant["min_samples"], metric=variant["distance"])
    yield np.asarray(fitted.fit_predict(space.points), np.int64)


def _agglomerative(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    tree = linkage(squareform(space.distances(variant["distance"]), checks=False), variant["linkage"])
    for k in ks:
        yield _cut(tree, k)


def _cut(tree: Array, k: int) -> Labels:
    """Undo the last merges of a SciPy tree (n - 1, 4): labels (n,) of exactly k clusters, also among equal heights."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(tree) + 1
    parents, children = np.repeat(np.arange(n, 2 * n - k), 2), tree[: n - k, :2].astype(np.int64).ravel()
    merges = coo_array((np.ones(len(parents)), (parents, children)), shape=(2 * n - 1, 2 * n - 1))
    return np.asarray(connected_components(merges, directed=False)[1][:n], np.int64)


def _spectral(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:
    """As scikit-learn's, whose map for K is the first K columns of the map for the largest K."""
    columns = _spectral_map(_affinity(space, variant["affinity"]), max(ks), space.seed)
    for k in ks:
        yield _nearest_means(columns[:, :k], k, space.seed)


def _spectral_map(affinity: Any, count: int, seed: int) -> Array:
    """The first eigenvectors of the normalised Laplacian, by the root of each point's degree: (n, count)."""
    from scipy.linalg import eigh
    from scipy.sparse.csgraph import laplacian
    from sklearn.manifold import spectral_embedding

    if affinity.shape[0] > DENSE:
        with warnings.catch_warnings():
            # A graph in several pieces is no mishap here: its pieces are the clusters.
            warnings.simplefilter("ignore")
            return np.asarray(
                spectral_embedding(
                    affinity, n_components=count, eigen_solver="arpack", random_state=seed, drop_first=False
                )
            )
    dense = affinity.toarray() if hasattr(affinity, "toarray") else affinity
    matrix, roots = laplacian(dense, normed=True, return_diag=True)
    # Whole: points strung along a curve have eigenvalues next to 0, among which an iteration takes minutes.
    vectors = eigh(matrix, subset_by_index=[0, count - 1])[1]
    return np.asarray(vectors / roots[:, None])


def _affinity(space: Space, name: str) -> Any:
    """How near the points are to each other (n, n), dense or sparse."""
    from sklearn.neighbors import kneighbors_graph

    if name == "nearest-neighbours":
        graph = kneighbors_graph(space.points, min(NEIGHBOURS, len(space.points)), include_self=True)
        return 0.5 * (graph + graph.T)
    distances = space.distances("euclidean")
    return np.exp(-np.square(distances / np.median(distances[distances > 0])) / 2)


def _nearest_means(points: Array, k: int, seed: int) -> Labels:
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        # Fewer clusters than asked for are left out later on.
        warnings.simplefilter("ignore")
        return np.asarray(KMeans(k, n_init=STARTS, random_state=seed).fit_predict(points), np.int64)


def _gaussian_mixture(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:
    from sklearn.mixture import GaussianMixture

    # One scale for all columns: it changes no cluster, but scikit-learn adds a fixed 1e-6 to the variances.
    centred = space.points - space.points.mean(0)
    rows = centred / np.sqrt(np.square(centred).mean())
    for k in ks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixture = GaussianMixture(
                k, covariance_type=variant["covariance"], n_init=MIXTURE_STARTS, random_state=space.seed
            )
            labels = np.asarray(mixture.fit_predict(rows), np.int64)
        yield labels


PARTITIONS: dict[str, Callable[[Space, Variant, Sequence[int]], Iterator[Labels]]] = {
    "kmeans": _kmeans,
    "dbscan": _dbscan,
    "agglomerative": _agglomerative,
    "spectral": _spectral,
    "gaussian-mixture": _gaussian_mixture,
}
"""Each algorithm: labels (n,) for each K, or once where it finds K itself."""
