"""The geometry of an encoder's layers on a corpus: one value per layer and measure, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.geometry.cluster_isotropy import ClusterIsotropy
from likewise.geometry.confidence import ConfidenceBand
from likewise.geometry.explained_variance import VARIANTS
from likewise.geometry.settings import GeometrySettings
from likewise.plotting.curves import Series, curves
from likewise.plotting.html import table
from likewise.plotting.text import unique_labels

Array = NDArray[np.float64]

MEASURES = {
    "baseline": "baseline: random words",
    "self_similarity": "self-similarity",
    "self_similarity_adjusted": "self-similarity - baseline",
    "intra_similarity": "intra-sentence similarity",
    "intra_similarity_adjusted": "intra-sentence similarity - baseline",
    "isoscore": "IsoScore",
    "effective_rank": "effective rank",
    "intrinsic_dimension": "intrinsic dimension (TwoNN)",
}
"""Measures with one value a layer, and what they are called in figures."""
HEADER = ("layer", *(name.replace("_", " ") for name in MEASURES))
TOP = 3
"""Rogue dimensions that are named."""
LISTED = 10
"""Words of the highest and of the lowest value that are listed."""


def mean_over_layers(values: Array) -> Array:
    """The mean of each column (L, W) over the layers that have a value; nan where none has."""
    there = np.isfinite(values)
    sums, counts = np.where(there, values, 0.0).sum(0), there.sum(0)
    means: Array = np.divide(sums, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return means


@dataclass(frozen=True, eq=False)
class Similarities:
    """The mean cosines of one space."""

    baseline: ConfidenceBand
    """of two random words of different sentences"""
    self_similarity: ConfidenceBand
    """of a word in two of its contexts, averaged over words"""
    self_similarity_adjusted: ConfidenceBand
    """minus the baseline"""
    intra_similarity: ConfidenceBand
    """of a word and the mean of its sentence, averaged over sentences"""
    intra_similarity_adjusted: ConfidenceBand
    """minus the baseline"""


@dataclass(frozen=True, eq=False)
class Variances:
    """Maximum explainable variance in each reading, averaged over the sampled words."""

    own: Mapping[str, ConfidenceBand]
    random: Mapping[str, ConfidenceBand]
    """of as many random occurrences as a word has contexts"""
    adjusted: Mapping[str, ConfidenceBand]
    """the one minus the other"""
    words: int
    """how many words the averages are over: sampled, and in texts enough"""

    @property
    def by_name(self) -> dict[str, Mapping[str, ConfidenceBand]]:
        """The three of them by their names in JSON."""
        return {"mev": self.own, "mev_baseline": self.random, "mev_adjusted": self.adjusted}


@dataclass(frozen=True, eq=False)
class WordMeasures:
    """What is known of single words."""

    words: Sequence[str]
    contexts: NDArray[np.int64]
    """in how many sentences each stands: (W,)"""
    self_similarity: Array
    """(L, W)"""
    averaged: NDArray[np.bool_]
    """whether a word is part of the averages: (W,)"""
    variance: Array
    """explainable variance of the first words, which are the sampled ones: (3, L, S)"""
    variance_adjusted: Array
    """minus that of random occurrences: (3, L, S)"""
    chosen: int
    """how many of the first words were asked for by name"""

    def extremes(self, values: Array) -> dict[str, list[dict[str, Any]]]:
        """The averaged words with the highest and the lowest mean over the layers of values (L, some first words)."""
        means = np.where(self.averaged[: values.shape[1]], mean_over_layers(values), np.nan)
        order = [int(index) for index in np.argsort(means, kind="stable") if np.isfinite(means[index])]
        ends = {"highest": order[::-1][:LISTED], "lowest": order[:LISTED]}
        return {name: [self.one(index, values) for index in indices] for name, indices in ends.items()}

    def one(self, index: int, values: Array) -> dict[str, Any]:
        """A word, its number of contexts and its values in all layers."""
        return {"word": self.words[index], "n": int(self.contexts[index]), "values": values[:, index].tolist()}


@dataclass(frozen=True, eq=False)
class Geometry:
    """How the layers of one encoder see the words of one corpus.

    >>> from likewise import Encoder
    >>> from likewise.geometry import GeometrySettings, geometry_of
    >>> from likewise.sample import sample_sentences
    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = geometry_of(encoder, sample_sentences()[:60], GeometrySettings(min_contexts=3, corrections=False))
    >>> found.raw.self_similarity.values[0] > found.raw.self_similarity.values[6]
    np.True_
    """

    model: str
    data: str
    metadata: Mapping[str, int]
    settings: GeometrySettings
    raw: Similarities
    corrected: Mapping[str, Similarities]
    variances: Variances
    isoscore: ConfidenceBand
    effective_rank: ConfidenceBand
    intrinsic_dimension: ConfidenceBand
    shares: Array
    """each dimension's share of the baseline: (L, D); a layer's shares add up to 1"""
    alignment: Array
    """debiased linear CKA between layers: (L, L)"""
    clusters: tuple[ClusterIsotropy, ...]
    words: WordMeasures

    @property
    def chosen(self) -> Sequence[int]:
        """The numbers of the words that were asked for, which come first."""
        return range(self.words.chosen)

    @property
    def layers(self) -> int:
        """How many layers there are, the embeddings included."""
        return len(self.shares)

    def rogue(self, layer: int) -> list[tuple[int, float]]:
        """The dimensions with the largest shares of a layer's baseline, and these."""
        order = np.argsort(-self.shares[layer], kind="stable")[:TOP]
        return [(int(index), float(self.shares[layer, index])) for index in order]

    @property
    def bands(self) -> dict[str, ConfidenceBand]:
        """Every measure with one value and one interval a layer, by its name in JSON."""
        others = ("isoscore", "effective_rank", "intrinsic_dimension")
        return dict(vars(self.raw)) | {name: getattr(self, name) for name in others}

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """The layer and the value of each of ``MEASURES``, layer by layer."""
        values = [self.bands[name].values for name in MEASURES]
        return [(layer, *(float(each[layer]) for each in values)) for layer in range(self.layers)]

    def _repr_html_(self) -> str:
        return table(HEADER, self.rows)

    def plot(self, ax: Any = None) -> Any:
        """The baseline, and self- and intra-sentence similarity above it, over the layers."""
        shown = ("baseline", "self_similarity_adjusted", "intra_similarity_adjusted")
        bands = {MEASURES[name]: self.bands[name] for name in shown}
        series: dict[str, Series] = {name: (band.values, band.low, band.high) for name, band in bands.items()}
        [name] = unique_labels([self.model])
        return curves(np.arange(self.layers), series, ("layer", "cosine"), f"{name}, {self.data}", ax, whole=True)

    def to_dict(self) -> dict[str, Any]:
        """Each layer's values under ``layers``; their intervals under each layer's ``intervals``."""
        return {
            "data": self.data,
            "model": self.model,
            **self.metadata,
            "averaged_words": int(self.words.averaged.sum()),
            "sampled_words": self.variances.words,
            "settings": {name: value for name, value in vars(self.settings).items() if name != "disk"},
            "layers": [self._layer(layer) for layer in range(self.layers)],
            "cka": self.alignment.tolist(),
            "words": self._words(),
        }

    def _layer(self, layer: int) -> dict[str, Any]:
        rogue, clusters = self.rogue(layer), self.clusters[layer]
        plain = {name: float(band.values[layer]) for name, band in self.bands.items()}
        mev = self.variances.by_name
        top = [share for _, share in rogue]
        named = [{"dimension": index, "share": share} for index, share in rogue]
        return {
            "layer": layer, **plain,
            **{name: {each: float(band.values[layer]) for each, band in bands.items()} for name, bands in mev.items()},
            "rogue": {"top1": top[0], "top3": float(sum(top)), "dimensions": named},
            "clusters": vars(clusters),
            "corrected": {kind: _layer_of(each, layer) for kind, each in self.corrected.items()},
            "intervals": {name: self.bands[name].ends(layer) for name in plain}
            | {name: {each: band.ends(layer) for each, band in bands.items()} for name, bands in mev.items()},
        }  # fmt: skip

    def _words(self) -> dict[str, Any]:
        measures = self.words
        found: dict[str, Any] = {"self_similarity": measures.extremes(measures.self_similarity)}
        found["mev"] = {
            pooling_config: measures.extremes(measures.variance[index]) for index, pooling_config in enumerate(VARIANTS)
        }
        found["chosen"] = [self._chosen_word(index) for index in self.chosen]
        return found

    def _chosen_word(self, index: int) -> dict[str, Any]:
        own = self.words
        tables = {"mev": own.variance, "mev_adjusted": own.variance_adjusted}
        mev = {
            name: {pooling_config: values[row][:, index].tolist() for row, pooling_config in enumerate(VARIANTS)}
            for name, values in tables.items()
        }
        return own.one(index, own.self_similarity) | mev


def _layer_of(space: Similarities, layer: int) -> dict[str, Any]:
    values = {name: float(band.values[layer]) for name, band in vars(space).items()}
    return values | {"intervals": {name: band.ends(layer) for name, band in vars(space).items()}}
