"""Clusterings: which points of a layer belong together, and how well they are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.attention.settings import ALGORITHMS

NOISE = -1
"""The label of a point in no cluster."""


@dataclass(frozen=True)
class ClusterScores:
    """How well clusters are told apart, noise left out: silhouette and Calinski-Harabasz high, Davies-Bouldin low."""

    silhouette: float
    davies_bouldin: float
    calinski_harabasz: float


@dataclass(frozen=True, eq=False)
class Clustering:
    """One way to cluster the points of a layer.

    >>> clustering = Clustering("dbscan", np.array([0, 0, 1, -1]), {"eps": 0.5}, ClusterScores(0.9, 0.1, 80.0))
    >>> clustering.k, clustering.noise, clustering.sizes
    (2, 0.25, [2, 1])
    """

    algorithm: str
    labels: NDArray[np.int64]
    """(n,), from 0 on; noise is -1."""
    settings: Mapping[str, Any]
    """Its hyper-parameters beside K: distance, linkage, covariance, eps, min_samples, affinity."""
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
        """What it is and how good, without the labels."""
        settings = {name: self.settings.get(name) for name in ("distance", "linkage", "covariance")}
        metadata = {"algorithm": self.algorithm, "k": self.k, "noise": self.noise, "sizes": self.sizes}
        return metadata | vars(self.scores) | settings | dict(self.settings)


@dataclass(frozen=True, eq=False)
class LayerClusters:
    """The clusterings of one layer: each algorithm's best, and the best of these."""

    chosen: Clustering
    alternatives: tuple[Clustering, ...]
    """The other algorithms' best, in the order of ``ALGORITHMS``."""
    rejected: Mapping[str, str]
    """Algorithms without a clustering that may be chosen, and why; their best one may stand in ``alternatives``."""
    agreement: Mapping[tuple[str, str], float]
    """The adjusted Rand index of any two algorithms' best, over points that are noise to neither."""
    by_k: Mapping[str, Mapping[int, ClusterScores]]
    """For each algorithm the scores of its best clustering at each K."""

    @property
    def best(self) -> tuple[Clustering, ...]:
        """Each algorithm's best, the chosen one first."""
        return (self.chosen, *self.alternatives)

    @property
    def by_algorithm(self) -> list[Clustering]:
        """The same, in the order of ``ALGORITHMS``."""
        return sorted(self.best, key=lambda one: ALGORITHMS.index(one.algorithm))

    def kept(self) -> dict[str, Any]:
        """Everything, as JSON has it."""
        return {
            "best": [[one.algorithm, one.labels.tolist(), dict(one.settings), vars(one.scores)] for one in self.best],
            "rejected": dict(self.rejected),
            "agreement": [[*pair, value] for pair, value in self.agreement.items()],
            "by_k": {name: [[k, vars(scores)] for k, scores in of.items()] for name, of in self.by_k.items()},
        }

    @classmethod
    def from_kept(cls, kept: Mapping[str, Any]) -> LayerClusters:
        """What ``kept`` gave."""
        chosen, *others = (
            Clustering(algorithm, np.array(labels, dtype=np.int64), settings, ClusterScores(**scores))
            for algorithm, labels, settings, scores in kept["best"]
        )
        agreement = {(first, second): value for first, second, value in kept["agreement"]}
        by_k = {name: {k: ClusterScores(**scores) for k, scores in of} for name, of in kept["by_k"].items()}
        return cls(chosen, tuple(others), kept["rejected"], agreement, by_k)
