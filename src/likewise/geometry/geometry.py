"""The result of measuring an encoder's layers on a corpus: one value per layer and measure, with intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.geometry.measures import VARIANTS, ClusterIsotropy, ratios
from likewise.geometry.occurrences import GeometrySettings
from likewise.metrics import Array, Interval
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.curves import Series, curves
from likewise.plotting.heatmap import heatmap
from likewise.plotting.terminal import unique_labels
from likewise.results import Column, Comparable, Figure, Table

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
"""Measures with one value per layer, and their titles in figures."""
MAIN_MEASURES = ("baseline", "self_similarity_adjusted", "intra_similarity_adjusted")
MEV_TITLES = {"formula": "MEV, formula (uncentred)", "pca": "MEV, centred PCA", "svd": "MEV, TruncatedSVD's ratio"}
ROGUE_TITLES = {1: "the largest dimension's share of the baseline", 3: "the three largest dimensions' share"}
CLUSTER_TITLES = {"baseline": "baseline within clusters", "isoscore": "IsoScore within clusters"}
MEASURES_NOTE = (
    "Baseline: the expected cosine of two random words of different texts. Self-similarity: the mean cosine of a word"
    " in two of its contexts. Intra-sentence similarity: the mean cosine of a word with the mean of its text; a word is"
    " part of its own text's mean, so n unrelated words have about 1 / sqrt(n). MEV: the share of the first component"
    " of a word's vectors, in three variants, and of as many random words. Bands are 95 % intervals: bootstrap,"
    " jackknife for IsoScore and effective rank."
)
ALIGNMENT_NOTE = "Debiased linear CKA of the random words between layers: 1 where two layers have the same geometry."
TOP = 3  # The number of rogue dimensions that are named
LISTED = 10  # The number of words with the highest and with the lowest values that are listed
PANEL = (3.8, 2.8)
ENDS = (2.5, 97.5)  # The percentiles at the ends of an interval
LEAST_BLOCKS = 5  # A jackknife over fewer blocks gives no interval


@dataclass(frozen=True, eq=False)
class ConfidenceBand:
    """Values (L,) of the layers and the ends (L,) of their 95 % intervals; nan where there is nothing to measure."""

    values: Array
    low: Array
    high: Array

    @classmethod
    def of_draws(cls, draws: Array) -> ConfidenceBand:
        """From a value and its bootstrap draws in each layer, (L, 1 + B)."""
        with warnings.catch_warnings():
            # A layer without any finite draw has no interval, which needs no warning.
            warnings.simplefilter("ignore", RuntimeWarning)
            return cls(draws[:, 0], *np.nanpercentile(draws[:, 1:], ENDS, axis=1))

    @classmethod
    def of_jackknife(cls, values: Array, without: Array) -> ConfidenceBand:
        """From the values (L,) and those (L, g) with each of g blocks left out; no interval below ``LEAST_BLOCKS``.

        For measures that resampling biases: a resampled corpus repeats its words, which lowers its rank.
        """
        from scipy.stats import t

        blocks = without.shape[1]
        if blocks < LEAST_BLOCKS:
            return cls.without_interval(values)
        spread = np.square(without - without.mean(1, keepdims=True)).sum(1)
        reach = t.ppf(ENDS[1] / 100, blocks - 1) * np.sqrt((blocks - 1) / blocks * spread)
        return cls(values, values - reach, values + reach)

    @classmethod
    def of_intervals(cls, intervals: Sequence[Interval]) -> ConfidenceBand:
        """From an interval in each layer."""
        return cls(*np.array([(one.value, one.low, one.high) for one in intervals]).T)

    @classmethod
    def without_interval(cls, values: ArrayLike) -> ConfidenceBand:
        """Values (L,) without intervals."""
        known = np.asarray(values, np.float64)
        return cls(known, *np.full((2, len(known)), np.nan))

    @property
    def intervals(self) -> list[Interval]:
        """The value of each layer with its interval."""
        return [Interval(*map(float, one)) for one in zip(self.values, self.low, self.high, strict=True)]

    def ends(self, layer: int) -> list[float]:
        """The interval of a layer."""
        return [float(self.low[layer]), float(self.high[layer])]


@dataclass(frozen=True, eq=False)
class Similarities:
    """The mean cosines of one space."""

    baseline: ConfidenceBand  # of two random words of different sentences
    self_similarity: ConfidenceBand  # of a word in two of its contexts, averaged over words
    self_similarity_adjusted: ConfidenceBand  # minus the baseline
    intra_similarity: ConfidenceBand  # of a word and the mean of its sentence, averaged over sentences
    intra_similarity_adjusted: ConfidenceBand  # minus the baseline


@dataclass(frozen=True, eq=False)
class Variances:
    """Maximum explainable variance in each variant, averaged over the sampled words."""

    bands: Mapping[str, Mapping[str, ConfidenceBand]]
    """``mev``; ``mev_baseline``, that of as many random occurrences as a word has contexts; ``mev_adjusted``"""
    words: int  # how many words the averages are over: sampled, and in enough texts


@dataclass(frozen=True, eq=False)
class WordMeasures:
    """The measures of single words."""

    words: Sequence[str]
    contexts: NDArray[np.int64]  # the number of sentences that each is in: (W,)
    self_similarity: Array  # (L, W)
    averaged: NDArray[np.bool_]  # whether a word is part of the averages: (W,)
    variance: Array  # explainable variance of the first words, which are the sampled ones: (3, L, S)
    variance_adjusted: Array  # minus that of random occurrences: (3, L, S)
    chosen: int  # how many of the first words were given by name

    def extremes(self, values: Array) -> dict[str, list[int]]:
        """The averaged words with the highest and the lowest mean over the layers of values (L, some first words)."""
        means = np.where(self.averaged[: values.shape[1]], mean_over_layers(values), np.nan)
        order = [int(index) for index in np.argsort(means, kind="stable") if np.isfinite(means[index])]
        return {"highest": order[::-1][:LISTED], "lowest": order[:LISTED]}

    def listed(self, values: Array) -> dict[str, list[dict[str, Any]]]:
        """The same words with their values."""
        return {end: [self.one(index, values) for index in found] for end, found in self.extremes(values).items()}

    def one(self, index: int, values: Array) -> dict[str, Any]:
        """A word, its number of contexts and its values in all layers."""
        return {"word": self.words[index], "n": int(self.contexts[index]), "values": values[:, index].tolist()}


def mean_over_layers(values: Array) -> Array:
    """The mean of each column (L, W) over the layers that have a value; nan where none has."""
    return ratios(np.nansum(values, 0), np.isfinite(values).sum(0))


@dataclass(frozen=True, eq=False, repr=False)
class Geometry(Comparable):
    """The measures of the words of a corpus in every layer of an encoder.

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
    metadata: Mapping[str, int]  # the numbers of texts, repeated texts, word occurrences and random points
    settings: GeometrySettings
    raw: Similarities
    corrected: Mapping[str, Similarities]
    variances: Variances
    isoscore: ConfidenceBand
    effective_rank: ConfidenceBand
    intrinsic_dimension: ConfidenceBand
    shares: Array  # each dimension's share of the baseline: (L, D); a layer's shares add up to 1
    alignment: Array  # debiased linear CKA between layers: (L, L)
    clusters: tuple[ClusterIsotropy, ...]
    words: WordMeasures
    skipped: int = 0  # bad rows

    @property
    def layers(self) -> int:
        """The number of layers, including the embeddings."""
        return len(self.shares)

    def rogue(self, layer: int) -> list[tuple[int, float]]:
        """The dimensions with the largest shares of a layer's baseline, and the shares."""
        order = np.argsort(-self.shares[layer], kind="stable")[:TOP]
        return [(int(index), float(self.shares[layer, index])) for index in order]

    @property
    def bands(self) -> dict[str, ConfidenceBand]:
        """Every measure with one value and one interval per layer, by its name in JSON."""
        others = ("isoscore", "effective_rank", "intrinsic_dimension")
        return dict(vars(self.raw)) | {name: getattr(self, name) for name in others}

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Geometry: {self.data}"

    @property
    def notes(self) -> list[str]:
        """The texts and words that the numbers are measured on."""
        counts, settings = self.metadata, self.settings
        return [
            f"{self.model} on {self.data}: {counts['texts']} different texts ({counts['repeated']} repeated ones left"
            f" out) with {counts['occurrences']} words. Averages over {int(self.words.averaged.sum())} words in"
            f" {settings.min_contexts} texts or more; MEV over {self.variances.words} of them, at most"
            f" {settings.max_contexts} contexts each; {counts['points']} random words for TwoNN, CKA and clusters."
        ]

    @property
    def cautions(self) -> list[str]:
        """Skipped rows."""
        return [f"{self.data}: bad rows skipped: {self.skipped}"] if self.skipped else []

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
            "skipped": self.skipped,
        }

    def _layer(self, layer: int) -> dict[str, Any]:
        rogue = self.rogue(layer)
        top = [share for _, share in rogue]
        found = {"layer": layer, **_layer_values(self.bands, layer)}
        for name, bands in self.variances.bands.items():
            found[name] = _layer_values(bands, layer)
            found["intervals"][name] = found[name].pop("intervals")
        return found | {
            "rogue": {"top1": top[0], "top3": float(sum(top)),
                      "dimensions": [{"dimension": index, "share": share} for index, share in rogue]},
            "clusters": vars(self.clusters[layer]),
            "corrected": {kind: _layer_values(vars(space), layer) for kind, space in self.corrected.items()},
        }  # fmt: skip

    def _words(self) -> dict[str, Any]:
        own = self.words
        tables = {"mev": own.variance, "mev_adjusted": own.variance_adjusted}
        chosen = [
            own.one(index, own.self_similarity)
            | {name: dict(zip(VARIANTS, each[:, :, index].tolist(), strict=True)) for name, each in tables.items()}
            for index in range(own.chosen)
        ]
        mev = {variant: own.listed(each) for variant, each in zip(VARIANTS, own.variance, strict=True)}
        return {"self_similarity": own.listed(own.self_similarity), "mev": mev, "chosen": chosen}

    def tables(self) -> dict[str, Table]:
        """Tables to read, and long tables of every value for files."""
        return {
            "similarities": self._similarities_table(),
            "explained_variance": self._variance_table(),
            "isotropy": self._isotropy_table(),
            "corrected": self._corrected_table(),
            "word_extremes": self._extremes_table(),
            "chosen_words": self._word_table(self.words.chosen, "Chosen words"),
            "layers": self._tidy_layers(),
            "words": self._word_table(len(self.words.words), detail=True),
            "rogue": self._matrix(("layer", "dimension", "share"), self.shares),
            "cka": self._matrix(("left_layer", "right_layer", "cka"), self.alignment),
        }

    def _by_layer(self, columns: Mapping[Column, Sequence[object]], title: str) -> Table:
        """A row per layer; each column has one cell per layer."""
        rows = [(self.model, layer, *cells) for layer, cells in enumerate(zip(*columns.values(), strict=True))]
        return Table.of(["model", "layer", *columns], rows, title)

    def _similarities_table(self) -> Table:
        headings = ("baseline", "self-similarity", "- baseline", "intra-sentence", "- baseline")
        named = zip(vars(self.raw).items(), headings, strict=True)
        columns = {_number(name, heading): band.intervals for (name, band), heading in named}
        return self._by_layer(columns, "Similarities of words, with 95 % intervals")

    def _variance_table(self) -> Table:
        columns = {
            _number(f"{name}_{variant}", heading): self.variances.bands[name][variant].intervals
            for variant in VARIANTS
            for name, heading in (("mev", f"MEV {variant}"), ("mev_baseline", "random"))
        }
        return self._by_layer(columns, "Maximum explainable variance (MEV), and of random words")

    def _isotropy_table(self) -> Table:
        rogue = [self.rogue(layer) for layer in range(self.layers)]
        columns: dict[Column, Sequence[object]] = {
            _number("isoscore", "IsoScore"): self.isoscore.intervals,
            Column("effective_rank", "eff. rank", ".1f"): self.effective_rank.intervals,
            Column("intrinsic_dimension", "TwoNN", ".1f"): self.intrinsic_dimension.intervals,
            Column("rogue_dimension", "rogue dim."): [top[0][0] for top in rogue],
            _number("rogue_top1", "its share"): [top[0][1] for top in rogue],
            _number("rogue_top3", "top 3"): [sum(share for _, share in top) for top in rogue],
            _number("cluster_baseline", "cluster base"): [one.baseline for one in self.clusters],
            _number("cluster_isoscore", "cluster Iso."): [one.isoscore for one in self.clusters],
        }
        return self._by_layer(columns, "Isotropy, dimension and clusters")

    def _corrected_table(self) -> Table:
        names = {"baseline": "", "self_similarity": "self-similarity", "intra_similarity": "intra-sentence"}
        rows = [
            (self.model, kind, layer, *(float(getattr(space, name).values[layer]) for name in names))
            for kind, space in self.corrected.items()
            for layer in range(self.layers)
        ]
        columns = [_number(*one) for one in names.items()]
        return Table.of(["model", "correction", "layer", *columns], rows, "After corrections")

    def _extremes_table(self) -> Table:
        own = self.words
        named = {"self-similarity": own.self_similarity}
        named |= {f"MEV ({variant})": each for variant, each in zip(VARIANTS, own.variance, strict=True)}
        rows = []
        for name, values in named.items():
            means = mean_over_layers(values)
            for end, found in own.extremes(values).items():
                listed = (f"{own.words[index]} {means[index]:.3f} ({own.contexts[index]})" for index in found)
                rows.append((self.model, name, end, ", ".join(listed)))
        words = Column("words", "words: mean over layers (number of texts)")
        return Table.of(["model", "measure", "end", words], rows, "Words with the highest and the lowest values")

    def _word_table(self, count: int, title: str = "", detail: bool = False) -> Table:
        """The first words in every layer; only sampled words have a MEV."""
        own = self.words
        rows = []
        for index in range(count):
            for layer, value in enumerate(own.self_similarity[:, index].tolist()):
                sampled = index < own.variance.shape[2]
                mev = own.variance[:, layer, index].tolist() if sampled else [None] * len(VARIANTS)
                rows.append((self.model, own.words[index], int(own.contexts[index]), layer, value, *mev))
        columns = [_number("self_similarity", "self-similarity")]
        columns += [_number(f"mev_{variant}", f"MEV {variant}") for variant in VARIANTS]
        return Table.of(["model", "word", "contexts", "layer", *columns], rows, title, detail=detail)

    def _tidy_layers(self) -> Table:
        """One row per space, layer and measure."""
        mev = {f"{name}_{one}": band for name, bands in self.variances.bands.items() for one, band in bands.items()}
        spaces: dict[str, Mapping[str, ConfidenceBand]] = {"raw": self.bands | mev}
        spaces |= {kind: vars(space) for kind, space in self.corrected.items()}
        rows: list[tuple[object, ...]] = [
            (self.model, space, layer, name, float(band.values[layer]), *band.ends(layer))
            for space, bands in spaces.items()
            for name, band in bands.items()
            for layer in range(self.layers)
        ]
        rows += [
            (self.model, "clusters", layer, name, float(value), None, None)
            for layer, cluster in enumerate(self.clusters)
            for name, value in vars(cluster).items()
        ]
        return Table.of(("model", "space", "layer", "measure", "value", "low", "high"), rows, detail=True)

    def _matrix(self, names: Sequence[str], values: Array) -> Table:
        """One row per cell."""
        rows = [(self.model, *map(int, index), float(value)) for index, value in np.ndenumerate(values)]
        return Table.of(("model", *names), rows, detail=True)

    @classmethod
    def figures_of(cls, results: Sequence[Geometry]) -> dict[str, Figure]:
        """Every measure over the layers, corrected similarities, chosen words, and the alignment of layers."""
        named = dict(zip(unique_labels([one.model for one in results]), results, strict=True))
        found = {"measures": Figure(lambda: measures_figure(named), "Measures", MEASURES_NOTE)}
        if results[0].corrected:
            note = "The same after each correction, fitted on all words of a layer."
            found["corrected"] = Figure(lambda: corrected_figure(named), "After corrections", note)
        if results[0].words.chosen:
            note = "Chosen words, with their number of contexts."
            found["words"] = Figure(lambda: words_figure(named), "Chosen words", note)
        found["alignment"] = Figure(lambda: alignment_figure(named), "Alignment of layers", ALIGNMENT_NOTE)
        return found

    def plot(self, ax: Any = None) -> Any:
        """The baseline, and self- and intra-sentence similarity above it, over the layers."""
        series = {MEASURES[name]: _series(self.bands[name], self.layers) for name in MAIN_MEASURES}
        [name] = unique_labels([self.model])
        return curves(np.arange(self.layers), series, ("layer", "cosine"), f"{name}, {self.data}", ax, whole=True)


def _number(name: str, heading: str) -> Column:
    return Column(name, heading, ".3f")


def _layer_values(bands: Mapping[str, ConfidenceBand], layer: int) -> dict[str, Any]:
    """The values of a layer, and their intervals under ``intervals``."""
    values = {name: float(band.values[layer]) for name, band in bands.items()}
    return values | {"intervals": {name: band.ends(layer) for name, band in bands.items()}}


def measures_figure(named: Mapping[str, Geometry]) -> Any:
    """Every measure over the layers, a line for each model; returns the first panel's Axes."""
    panels = {title: {name: one.bands[measure] for name, one in named.items()} for measure, title in MEASURES.items()}
    for variant, title in MEV_TITLES.items():
        panels[title] = {
            f"{model}{random}": one.variances.bands[name][variant]
            for name, random in (("mev", ""), ("mev_baseline", ", random"))
            for model, one in named.items()
        }
    plain = ConfidenceBand.without_interval
    for count, title in ROGUE_TITLES.items():
        panels[title] = {name: plain(np.sort(one.shares)[:, -count:].sum(1)) for name, one in named.items()}
    for measure, title in CLUSTER_TITLES.items():
        panels[title] = {name: plain([vars(each)[measure] for each in one.clusters]) for name, one in named.items()}
    return _grid(panels)


def corrected_figure(named: Mapping[str, Geometry]) -> Any:
    """The similarities after each correction, three panels for each model; returns the first panel's Axes."""
    panels = {}
    for name, one in named.items():
        spaces = {"raw": one.raw, **one.corrected}
        for measure in MAIN_MEASURES:
            title = MEASURES[measure] if len(named) == 1 else f"{name}: {MEASURES[measure]}"
            panels[title] = {kind: getattr(space, measure) for kind, space in spaces.items()}
    return _grid(panels)


def words_figure(named: Mapping[str, Geometry]) -> Any:
    """The chosen words, a line each: self-similarity and each variant of MEV, for each model."""
    panels = {}
    for name, one in named.items():
        own = one.words
        labels = [f"{word} ({n})" for word, n in zip(own.words[: own.chosen], own.contexts, strict=False)]
        tables = {"self-similarity": own.self_similarity, **dict(zip(MEV_TITLES.values(), own.variance, strict=True))}
        for title, values in tables.items():
            bands = map(ConfidenceBand.without_interval, values.T)
            panels[title if len(named) == 1 else f"{name}: {title}"] = dict(zip(labels, bands, strict=False))
    return _grid(panels, columns=2)


def alignment_figure(named: Mapping[str, Geometry]) -> Any:
    """Debiased CKA between the layers of each model; returns the first panel's Axes."""
    panels = grid_of_axes(len(named), (5.2, 4.6))
    for panel, (name, one) in zip(panels, named.items(), strict=True):
        layers = [str(layer) for layer in range(one.layers)]
        heatmap(one.alignment, layers, layers, f"{name}: CKA between layers", panel)
    return panels[0]


def _grid(panels: Mapping[str, Mapping[str, ConfidenceBand]], columns: int = 3) -> Any:
    axes = grid_of_axes(len(panels), PANEL, columns)
    for ax, (title, bands) in zip(axes, panels.items(), strict=True):
        layers = max(len(band.values) for band in bands.values())
        series = {name: _series(band, layers) for name, band in bands.items()}
        curves(np.arange(layers), series, ("layer", ""), title, ax, whole=True)
    return axes[0]


def _series(band: ConfidenceBand, layers: int) -> Series:
    """A band as a curve; the values of a shallower model end with its layers."""
    ends = [np.pad(one, (0, layers - len(one)), constant_values=np.nan) for one in (band.values, band.low, band.high)]
    return (ends[0], None, None) if np.isnan(ends[1]).all() else (ends[0], ends[1], ends[2])
