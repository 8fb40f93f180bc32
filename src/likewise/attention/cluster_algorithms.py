"""Clustering algorithms: the hyperparameters that are tried for each, and the cluster labels that it returns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.attention.settings import ClusterSettings

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Variant = Mapping[str, Any]  # Hyper-parameters except K: distance, linkage and covariance, or None
STARTS = 10  # runs of k-means; the tightest counts
MIXTURE_STARTS = 2  # runs of Gaussian mixtures, which start from k-means
NEIGHBOURS = 10  # in the graph of spectral clustering, the point itself included
DENSE = 3000  # up to this many points, spectral clustering uses a dense eigenvalue solver
EPS_QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)
"""DBSCAN's eps are these quantiles of the points' distances to their ``min_samples``-th neighbour."""


class Space:
    """Points (n, d) with cached distance matrices."""

    def __init__(self, points: Array, seed: int) -> None:
        self.points, self.seed = points, seed
        self._distances: dict[str, Array] = {}

    def distances(self, name: str) -> Array:
        """A distance matrix (n, n), exact for close points far from the origin."""
        from scipy.spatial.distance import pdist, squareform
        from sklearn.metrics.pairwise import cosine_distances

        if name not in self._distances:
            metric = {"manhattan": "cityblock"}.get(name, name)
            # SciPy has no cosine for a point at the origin; scikit-learn returns 1.
            square = cosine_distances(self.points) if name == "cosine" else squareform(pdist(self.points, metric))
            self._distances[name] = np.asarray(square, np.float64)
        return self._distances[name]


def _variant(distance: str | None, linkage: str | None = None, covariance: str | None = None, **more: Any) -> Variant:
    return {"distance": distance, "linkage": linkage, "covariance": covariance, **more}


def _dbscan_variants(space: Space, settings: ClusterSettings) -> list[Variant]:
    """The given eps, or one per quantile of the distances to the ``min_samples``-th point, itself included."""
    from sklearn.neighbors import NearestNeighbors

    found = []
    for distance, least in product(settings.distances, settings.min_samples):
        if settings.eps:
            found += [_variant(distance, eps=eps, min_samples=least) for eps in settings.eps]
            continue
        neighbours = NearestNeighbors(n_neighbors=min(least, len(space.points)), metric=distance).fit(space.points)
        reach = neighbours.kneighbors(space.points)[0][:, -1]
        # Six digits are readable, and never the exact distance of two points.
        sizes = {float(f"{eps:.6g}") for eps in np.quantile(reach, EPS_QUANTILES)}
        found += [_variant(distance, eps=eps, min_samples=least) for eps in sorted(sizes) if eps > 0]
    return found


def variants_of(algorithm: str, space: Space, settings: ClusterSettings) -> list[Variant]:
    """The hyper-parameters that an algorithm is tried with."""
    if algorithm == "dbscan":
        return _dbscan_variants(space, settings)
    pairs = product(settings.linkages, settings.distances)
    # Ward's linkage is a sum of squares, so it is always Euclidean.
    ward = [_variant("euclidean", "ward")] if "ward" in settings.linkages else []
    return {
        "kmeans": [_variant("euclidean")],
        "agglomerative": ward + [_variant(distance, linkage) for linkage, distance in pairs if linkage != "ward"],
        "spectral": [_variant("euclidean", affinity=one) for one in ("nearest-neighbours", "rbf")],
        "gaussian-mixture": [_variant(None, None, one) for one in settings.covariances],
    }[algorithm]


def _kmeans(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:  # noqa: ARG001
    for k in ks:
        yield _kmeans_labels(space.points, k, space.seed)


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
    """Undo the last merges of a SciPy tree (n - 1, 4): labels (n,) of exactly k clusters, even with equal heights."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(tree) + 1
    parents, children = np.repeat(np.arange(n, 2 * n - k), 2), tree[: n - k, :2].astype(np.int64).ravel()
    merges = coo_array((np.ones(len(parents)), (parents, children)), shape=(2 * n - 1, 2 * n - 1))
    return np.asarray(connected_components(merges, directed=False)[1][:n], np.int64)


def _spectral(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:
    """As in scikit-learn: the embedding for K is the first K columns of that for the largest K."""
    columns = _spectral_embedding(_affinity(space, variant["affinity"]), max(ks), space.seed)
    for k in ks:
        yield _kmeans_labels(columns[:, :k], k, space.seed)


def _spectral_embedding(affinity: Any, count: int, seed: int) -> Array:
    """The first eigenvectors of the normalised Laplacian, by the root of each point's degree: (n, count)."""
    from scipy.linalg import eigh
    from scipy.sparse.csgraph import laplacian
    from sklearn.manifold import spectral_embedding

    if affinity.shape[0] > DENSE:
        how = {"n_components": count, "eigen_solver": "arpack", "random_state": seed, "drop_first": False}
        with warnings.catch_warnings():
            # A disconnected graph is fine: its components are the clusters.
            warnings.simplefilter("ignore")
            return np.asarray(spectral_embedding(affinity, **how))
    dense = affinity.toarray() if hasattr(affinity, "toarray") else affinity
    matrix, roots = laplacian(dense, normed=True, return_diag=True)
    # Dense: points along a curve have eigenvalues near 0, on which an iterative solver takes minutes.
    vectors = eigh(matrix, subset_by_index=[0, count - 1])[1]
    return np.asarray(vectors / roots[:, None])


def _affinity(space: Space, name: str) -> Any:
    """The affinity matrix (n, n), dense or sparse."""
    from sklearn.neighbors import kneighbors_graph

    if name == "nearest-neighbours":
        graph = kneighbors_graph(space.points, min(NEIGHBOURS, len(space.points)), include_self=True)
        return 0.5 * (graph + graph.T)
    distances = space.distances("euclidean")
    return np.exp(-np.square(distances / np.median(distances[distances > 0])) / 2)


def _kmeans_labels(points: Array, k: int, seed: int) -> Labels:
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        # Results with fewer clusters are dropped later.
        warnings.simplefilter("ignore")
        return np.asarray(KMeans(k, n_init=STARTS, random_state=seed).fit_predict(points), np.int64)


def _gaussian_mixture(space: Space, variant: Variant, ks: Sequence[int]) -> Iterator[Labels]:
    from sklearn.mixture import GaussianMixture

    # One scale for all columns changes no cluster, but scikit-learn adds a fixed 1e-6 to the variances.
    centred, kind = space.points - space.points.mean(0), variant["covariance"]
    rows = centred / np.sqrt(np.square(centred).mean())
    for k in ks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mixture = GaussianMixture(k, covariance_type=kind, n_init=MIXTURE_STARTS, random_state=space.seed)
            labels = np.asarray(mixture.fit_predict(rows), np.int64)
        yield labels


PARTITIONS: dict[str, Callable[[Space, Variant, Sequence[int]], Iterator[Labels]]] = {
    "kmeans": _kmeans,
    "dbscan": _dbscan,
    "agglomerative": _agglomerative,
    "spectral": _spectral,
    "gaussian-mixture": _gaussian_mixture,
}
"""Each algorithm: labels (n,) for each K, or once if it finds K itself."""
