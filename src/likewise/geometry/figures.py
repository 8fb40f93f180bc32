"""Figures of geometry: a panel per measure, a line per model, correction or word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.geometry.confidence import ConfidenceBand
from likewise.geometry.explained_variance import VARIANTS
from likewise.geometry.geometry import MEASURES, Geometry
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.curves import Series, curves
from likewise.plotting.heatmap import heatmap
from likewise.plotting.text import unique_labels

PANEL = (3.8, 2.8)

READING_NAMES = {"formula": "MEV, formula (uncentred)", "pca": "MEV, centred PCA", "svd": "MEV, TruncatedSVD's ratio"}
ROGUE = {1: "the largest dimension's share of the baseline", 3: "the three largest dimensions' share"}
WITHIN_CLUSTERS = {"baseline": "baseline within clusters", "isoscore": "IsoScore within clusters"}
CORRECTED = ("baseline", "self_similarity_adjusted", "intra_similarity_adjusted")


def measures_figure(results: Sequence[Geometry]) -> Any:
    """Every measure over the layers, a line for each model; returns the first panel's Axes."""
    panels: dict[str, dict[str, ConfidenceBand]] = {
        title: {name: found.bands[measure] for name, found in _named(results).items()}
        for measure, title in MEASURES.items()
    }
    for pooling_config in VARIANTS:
        own = {name: found.variances.own[pooling_config] for name, found in _named(results).items()}
        chance = {f"{name}, random": found.variances.random[pooling_config] for name, found in _named(results).items()}
        panels[READING_NAMES[pooling_config]] = own | chance
    for count, title in ROGUE.items():
        panels[title] = {name: _share_of_top(found, count) for name, found in _named(results).items()}
    for measure, title in WITHIN_CLUSTERS.items():
        panels[title] = {
            name: _plain(np.array([getattr(layer, measure) for layer in found.clusters]))
            for name, found in _named(results).items()
        }
    return _grid(panels)


def corrected_figure(results: Sequence[Geometry]) -> Any:
    """The similarities after each correction, three panels for each model; returns the first panel's Axes."""
    panels = {}
    for name, found in _named(results).items():
        spaces = {"raw": found.raw, **found.corrected}
        for measure in CORRECTED:
            title = MEASURES[measure] if len(results) == 1 else f"{name}: {MEASURES[measure]}"
            panels[title] = {kind: getattr(space, measure) for kind, space in spaces.items()}
    return _grid(panels)


def words_figure(results: Sequence[Geometry]) -> Any:
    """The words that were asked for, a line each: self-similarity and each reading of MEV, for each model."""
    panels = {}
    for name, found in _named(results).items():
        own = found.words
        before = "" if len(results) == 1 else f"{name}: "
        tables = {"self-similarity": own.self_similarity}
        tables |= {READING_NAMES[pooling_config]: own.variance[index] for index, pooling_config in enumerate(VARIANTS)}
        for title, values in tables.items():
            panels[before + title] = {
                f"{own.words[index]} ({own.contexts[index]})": _plain(values[:, index]) for index in found.chosen
            }
    return _grid(panels, columns=2)


def alignment_figure(results: Sequence[Geometry]) -> Any:
    """Debiased CKA between the layers of each model; returns the first panel's Axes."""
    panels = grid_of_axes(len(results), (5.2, 4.6))
    for panel, (name, found) in zip(panels, _named(results).items(), strict=True):
        layers = [str(layer) for layer in range(found.layers)]
        heatmap(found.alignment, layers, layers, f"{name}: CKA between layers", panel)
    return panels[0]


def _named(results: Sequence[Geometry]) -> dict[str, Geometry]:
    """Results by names that tell their models apart."""
    return dict(zip(unique_labels([found.model for found in results]), results, strict=True))


def _share_of_top(found: Geometry, count: int) -> ConfidenceBand:
    return _plain(np.array([sum(share for _, share in found.rogue(layer)[:count]) for layer in range(found.layers)]))


def _plain(values: NDArray[np.float64]) -> ConfidenceBand:
    """Values without intervals."""
    nothing = np.full(len(values), np.nan)
    return ConfidenceBand(values, nothing, nothing)


def _grid(panels: Mapping[str, Mapping[str, ConfidenceBand]], columns: int = 3) -> Any:
    axes = grid_of_axes(len(panels), PANEL, columns)
    for ax, (title, bands) in zip(axes, panels.items(), strict=True):
        layers = max(len(band.values) for band in bands.values())
        series = {name: _padded(band, layers) for name, band in bands.items()}
        curves(np.arange(layers), series, ("layer", ""), title, ax, whole=True)
    return axes[0]


def _padded(band: ConfidenceBand, layers: int) -> Series:
    """A shallower model's values end where its layers do."""
    ends = [
        np.pad(each, (0, layers - len(each)), constant_values=np.nan) for each in (band.values, band.low, band.high)
    ]
    return (ends[0], None, None) if np.isnan(ends[1]).all() else (ends[0], ends[1], ends[2])
