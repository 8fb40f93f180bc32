"""The attention study: what a model's maps group together, layer by layer, beside its controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clusterings import LayerClusters
from likewise.attention.head_measures import HeadMeasures
from likewise.attention.permutations import PermutationTest
from likewise.attention.settings import AttentionSettings
from likewise.attention.significance import ClusterTest
from likewise.attention.training_curve import TrainingCurve
from likewise.attention.variables import Variables
from likewise.data import ScoredPair


@dataclass(frozen=True, eq=False)
class LayerGroups:
    """The clusters of one layer's points and what they have to do with each variable."""

    layer: int
    """From 1 on."""
    clusters: LayerClusters
    tests: Mapping[str, ClusterTest]
    """By variable, of the chosen clustering, noise left out."""


@dataclass(frozen=True, eq=False)
class LayerControls:
    """What one layer's result is held against."""

    given_length: Mapping[str, ClusterTest]
    """By variable but length: the test with length partialled out."""
    within_length: Mapping[str, PermutationTest]
    """By variable but length: the values permuted among pairs of like length."""
    permutation: Mapping[str, PermutationTest]
    """By variable: the values permuted among all pairs."""
    blob: NDArray[np.float64]
    """Silhouettes of the same clustering on draws from one Gaussian."""
    random: LayerGroups | None
    """The same pipeline on random attention; None where it was left out."""
    random_within_length: Mapping[str, PermutationTest]
    """``within_length`` of the random attention; empty where it was left out."""


@dataclass(frozen=True, eq=False)
class ReducedMaps:
    """The points that one reducer makes of all maps, and what became of them."""

    reducer: str
    points: NDArray[np.float64]
    """(n, L, d), as written to points.csv."""
    view: NDArray[np.float64]
    """(n, L, 2): the points themselves, or the first two principal components of each layer's."""
    groups: tuple[LayerGroups, ...]


@dataclass(frozen=True, eq=False)
class AttentionStudy:
    """A whole study: maps of n pairs as points, their clusters in each of L layers, tests and controls.

    >>> study = attention_study(encoder, pairs, folder)  # doctest: +SKIP
    >>> study.main.groups[0].tests["length"].epsilon2  # doctest: +SKIP
    0.71
    """

    model: str
    data: str
    pairs: tuple[ScoredPair, ...]
    variables: Variables
    main: ReducedMaps
    others: tuple[ReducedMaps, ...]
    """Other reducers, through the same clusters and tests."""
    controls: tuple[LayerControls, ...]
    """One for each layer."""
    heads: HeadMeasures
    loss: float | None
    """The autoencoder's mean squared error over all sequences; None for other reducers."""
    trivial_loss: float
    """That of a decoder which answers 1 / n everywhere."""
    curve: TrainingCurve | None
    random_curve: TrainingCurve | None
    """Of the autoencoder of the random attention."""
    random_losses: tuple[float, float] | None
    """Loss and trivial loss on the random attention."""
    settings: AttentionSettings
    facts: Mapping[str, Any]
    """What else is told: pairs left out, truncated, the grammar's name, numbers of the random attention."""

    @property
    def random_groups(self) -> tuple[LayerGroups, ...]:
        """The clusters of the random attention, layer by layer; none where it was left out."""
        return tuple(control.random for control in self.controls if control.random is not None)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.main.groups)
