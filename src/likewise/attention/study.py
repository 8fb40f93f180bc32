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
from likewise.attention.point_ties import PointTie
from likewise.attention.settings import AttentionSettings
from likewise.attention.significance import ClusterTest
from likewise.attention.training_curve import TrainingCurve
from likewise.attention.variables import Variables
from likewise.data import ScoredPair
from likewise.plotting.html import paragraph, table


@dataclass(frozen=True, eq=False)
class LayerGroups:
    """The clusters of one layer's points and what they have to do with each variable."""

    layer: int
    """From 1 on."""
    clusters: LayerClusters
    tests: Mapping[str, ClusterTest]
    """By variable, of the chosen clustering, noise left out."""


@dataclass(frozen=True, eq=False)
class RandomLayer:
    """What the same pipeline finds in random attention."""

    groups: LayerGroups
    same_k: Mapping[str, ClusterTest]
    """By variable: cut by k-means into as many clusters as the model's layer has. With a tie eta^2 grows with K."""
    within_length: Mapping[str, PermutationTest]
    """By variable but length: the values permuted among pairs of like length."""
    points: Mapping[str, PointTie]
    """By variable but length: what its points tell of it given length."""


@dataclass(frozen=True, eq=False)
class LayerControls:
    """What one layer's result is held against."""

    given_length: Mapping[str, ClusterTest]
    """By variable but length: the test with length partialled out."""
    within_length: Mapping[str, PermutationTest]
    """By variable but length: the values permuted among pairs of like length."""
    permutation: Mapping[str, PermutationTest]
    """By variable: the values permuted among all pairs."""
    points: Mapping[str, PointTie]
    """By variable but length: what the points tell of it given length, whatever the clusters."""
    gaussian_null: NDArray[np.float64]
    """Silhouettes of the same algorithm on draws from one Gaussian; nan where it finds nothing to choose."""
    random: RandomLayer | None
    """None where random attention was left out."""

    @property
    def blob_mean(self) -> float:
        """The mean of the silhouettes that were found."""
        return float(np.nanmean(self.gaussian_null)) if np.isfinite(self.gaussian_null).any() else float("nan")

    @property
    def blob_high(self) -> float:
        """The silhouette that 95 % of the draws stay below; nan where so many find nothing."""
        high = (
            float(np.quantile(np.nan_to_num(self.gaussian_null, nan=-1.0), 0.95)) if len(self.gaussian_null) else -1.0
        )
        return high if high > -1 else float("nan")


@dataclass(frozen=True, eq=False)
class ReducedMaps:
    """The points that one reducer makes of all maps, and what became of them."""

    reducer: str
    points: NDArray[np.float64]
    """(n, L, d), as written to points.csv."""
    view: NDArray[np.float64]
    """(n, L, 2): the points themselves, or the first two principal components of each layer's."""
    groups: tuple[LayerGroups, ...]
    loss: float | None = None
    """An autoencoder's mean squared error over all sequences."""


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
    trivial_loss: float
    """The mean squared error of a decoder that answers 1 / n everywhere."""
    curve: TrainingCurve | None
    random_curve: TrainingCurve | None
    """Of the autoencoder of the random attention."""
    random_losses: tuple[float, float] | None
    """Loss and trivial loss on the random attention."""
    settings: AttentionSettings
    metadata: Mapping[str, Any]
    """What else is told: pairs left out, pairs cut at the model's limit, the grammar's name."""

    @property
    def loss(self) -> float | None:
        """The autoencoder's mean squared error over all sequences; None for other reducers."""
        return self.main.loss

    @property
    def random_groups(self) -> tuple[LayerGroups, ...]:
        """The clusters of the random attention, layer by layer; none where it was left out."""
        return tuple(control.random.groups for control in self.controls if control.random is not None)

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.main.groups)

    def to_dict(self) -> dict[str, Any]:
        """What ``results.json`` holds: everything but points and labels, which have tables of their own."""
        from likewise.attention.document import study_document

        return study_document(self)

    def plot(self) -> Any:
        """The effect of each variable over the layers, beside its controls; returns the first panel's Axes."""
        from likewise.attention.figures import effects_figure

        return effects_figure(self)

    def _repr_html_(self) -> str:
        from likewise.attention.tables import metric_table, variable_table
        from likewise.attention.verdicts import verdicts

        summary = [f"Attention of {self.model} on {len(self.pairs)} pairs of {self.data}.", *verdicts(self)]
        return "".join(map(paragraph, summary)) + table(*metric_table(self)) + table(*variable_table(self))
