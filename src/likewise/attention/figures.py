"""Figures of an attention study, by name: a panel for each layer, or a line over the layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.attention.clusterings import Clustering, ClusterScores
from likewise.attention.highlights import Highlight
from likewise.attention.study import AttentionStudy, LayerGroups
from likewise.attention.tables import SCORES, p_text
from likewise.attention.training_curve import TrainingCurve
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.boxes import box_plots
from likewise.plotting.curves import Series, curves
from likewise.plotting.heatmap import intensity_map
from likewise.plotting.scatter import group_colour, grouped_scatter, highlighted_scatter
from likewise.plotting.style import strongest

PANEL, COLUMNS = (3.5, 2.8), 3
"""The width and height of a layer's panel in inches, and how many stand beside one another."""
CURVES = (4.6, 3.2)
"""The same of a panel with curves over all layers."""
LEGEND_LINE = 0.13
"""What a line below a panel adds to its height."""


def study_figures(study: AttentionStudy) -> dict[str, Any]:
    """Every figure that the study has the numbers for: by name an Axes whose ``figure`` is the whole drawing."""
    found = {"distributions": _distributions(study)}
    if study.curve is not None:
        found["loss"] = _losses(study, study.curve)
    found["clusters"] = _clusters(study)
    found |= {f"boxes-{variable}": _boxes(study, variable) for variable in study.variables.names}
    found |= {name: _highlight(study, one) for name, one in named_highlights(study).items()}
    found |= {"heads": _heads(study), "effects": effects_figure(study)}
    if study.others:
        found["reducers"] = _reducers(study)
    return found | {"consensus": _consensus(study)}


def named_highlights(study: AttentionStudy) -> dict[str, Highlight]:
    """The highlights of variables that are known by the names of their figures; a variable's second has a number."""
    named, seen = {}, Counter[str]()
    for one in study.settings.highlights:
        if one.variable in study.variables.names:
            seen[one.variable] += 1
            number = f"-{seen[one.variable]}" if seen[one.variable] > 1 else ""
            named[f"highlight-{one.variable}{number}"] = one
    return named


def _distributions(study: AttentionStudy) -> Any:
    names = study.variables.names
    panels = grid_of_axes(len(names), (2.3, 3.0), len(names))
    for ax, name in zip(panels, names, strict=True):
        known = int(np.isfinite(study.variables[name]).sum())
        box_plots([study.variables[name]], [f"n = {known}"], ("", ""), name, ax)
    return panels[0]


def _losses(study: AttentionStudy, curve: TrainingCurve) -> Any:
    runs = {"attention of the model": (curve, study.trivial_loss)}
    if study.random_curve is not None and study.random_losses is not None:
        runs["random attention"] = (study.random_curve, study.random_losses[1])
    panels = grid_of_axes(len(runs), CURVES, 2)
    for ax, (title, (run, trivial)) in zip(panels, runs.items(), strict=True):
        epochs = np.arange(1, len(run.train) + 1)
        lines = {"training": run.train, "held out": run.held_out, "1/n everywhere": [trivial] * len(epochs)}
        ax.set_ylim(0, 1.08 * strongest(*lines.values()))
        curves(epochs, _series(lines), ("epoch", "mean squared error"), title, ax, whole=True)
    return panels[0]


def _clusters(study: AttentionStudy) -> Any:
    panels = grid_of_axes(study.depth, PANEL, COLUMNS)
    for ax, group in zip(panels, study.main.groups, strict=True):
        chosen = group.clusters.chosen
        grouped_scatter(
            study.main.view[:, group.layer - 1], chosen.labels, None, _chosen_title(group.layer, chosen), ax
        )
    return panels[0]


def _boxes(study: AttentionStudy, variable: str) -> Any:
    panels = grid_of_axes(study.depth, PANEL, COLUMNS)
    for ax, group in zip(panels, study.main.groups, strict=True):
        clusters = range(group.clusters.chosen.k)
        values = [study.variables[variable][group.clusters.chosen.labels == cluster] for cluster in clusters]
        colours = [group_colour(cluster) for cluster in clusters]
        box_plots(values, [str(cluster) for cluster in clusters], ("", ""), _test_title(group, variable), ax, colours)
    panels[0].figure.supxlabel("cluster", fontsize=9)
    panels[0].figure.supylabel(variable, fontsize=9)
    return panels[0]


def _highlight(study: AttentionStudy, highlight: Highlight) -> Any:
    layers = highlight.layers_of(study.depth)
    marks = highlight.marks(study.variables[highlight.variable])
    size = (PANEL[0], PANEL[1] + LEGEND_LINE * len(marks))
    panels = grid_of_axes(len(layers), size, 2 if len(layers) == 4 else COLUMNS)
    for ax, layer in zip(panels, layers, strict=True):
        highlighted_scatter(study.main.view[:, layer - 1], marks, highlight.names, f"layer {layer}", ax)
    return panels[0]


def _heads(study: AttentionStudy) -> Any:
    panels = grid_of_axes(len(study.heads.values), (3.6, 3.5), COLUMNS)
    for ax, (measure, values) in zip(panels, study.heads.values.items(), strict=True):
        layers, heads = ([str(index + 1) for index in range(count)] for count in values.shape)
        title = f"{measure} (even attention: {study.heads.even[measure]:.2g})"
        intensity_map(values, layers, heads, title, ax)
        ax.set_ylabel("layer")
        ax.set_xlabel("head")
    return panels[0]


def effects_figure(study: AttentionStudy) -> Any:
    """The effect of each variable over the layers, beside random attention's and what length leaves of it, and what
    the points tell beyond length.
    """
    names = study.variables.names
    panels = grid_of_axes(len(names) + 1, CURVES, 2)
    for ax, name in zip(panels, names, strict=False):
        lines = {"clusters": [group.tests[name].eta2 for group in study.main.groups]}
        random = [control.random for control in study.controls if control.random is not None]
        if random:
            lines["random attention"] = [layer.same_k[name].eta2 for layer in random]
        if all(name in control.given_length for control in study.controls):
            lines["given length"] = [control.given_length[name].eta2 for control in study.controls]
        _over_layers(ax, lines, f"{name}: eta squared")
    beyond = {name: [control.points[name].r2 for control in study.controls] for name in study.controls[0].points}
    _over_layers(panels[-1], beyond, "points beyond length: R squared")
    return panels[0]


def _reducers(study: AttentionStudy) -> Any:
    every = (study.main, *study.others)
    panels = grid_of_axes(2, CURVES, 2)
    silhouettes = {one.reducer: [group.clusters.chosen.scores.silhouette for group in one.groups] for one in every}
    effects = {one.reducer: [group.tests["similarity"].eta2 for group in one.groups] for one in every}
    _over_layers(panels[0], silhouettes, "silhouette of the clusters")
    _over_layers(panels[1], effects, "similarity: eta squared")
    return panels[0]


def _consensus(study: AttentionStudy) -> Any:
    panels = grid_of_axes(study.depth, PANEL, COLUMNS)
    for ax, group in zip(panels, study.main.groups, strict=True):
        chosen = group.clusters.chosen
        by_k = sorted(group.clusters.by_k[chosen.algorithm].items())
        lines = dict(zip(SCORES, _goodness([scores for _, scores in by_k]), strict=True))
        ax.set_ylim(-0.08, 1.08)
        curves([k for k, _ in by_k], _series(lines), ("K", ""), _chosen_title(group.layer, chosen), ax, whole=True)
        ax.axvline(chosen.k, color="#999999", linewidth=1, linestyle="--", zorder=0)
    panels[0].figure.supylabel("from 0 at the worst K to 1 at the best", fontsize=9)
    return panels[0]


def _goodness(found: Sequence[ClusterScores]) -> list[Any]:
    """The three scores (n,), each from 0 at the worst K to 1 at the best."""
    signed = np.array([(one.silhouette, -one.davies_bouldin, one.calinski_harabasz) for one in found]).T
    worst = np.nanmin(signed, axis=1, keepdims=True)
    span = np.nanmax(signed, axis=1, keepdims=True) - worst
    return list(np.where(span > 0, (signed - worst) / np.where(span > 0, span, 1), 1.0))


def _over_layers(ax: Any, lines: Mapping[str, Sequence[float]], title: str) -> None:
    """Lines over the layers, with zero in sight."""
    every = np.array([*lines.values()], dtype=float)
    low, high = float(np.nanmin(every, initial=0.0)), float(np.nanmax(every, initial=0.0))
    ax.set_ylim(low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1))
    curves(np.arange(1, every.shape[1] + 1), _series(lines), ("layer", ""), title, ax, whole=True)
    ax.axhline(0, color="#999999", linewidth=0.8, zorder=0)


def _series(lines: Mapping[str, ArrayLike]) -> dict[str, Series]:
    """Lines without intervals."""
    return {name: (values, None, None) for name, values in lines.items()}


def _chosen_title(layer: int, chosen: Clustering) -> str:
    return f"layer {layer}: {chosen.algorithm}, K = {chosen.k}"


def _test_title(group: LayerGroups, variable: str) -> str:
    test = group.tests[variable]
    p = p_text(test.kruskal_p)
    if not p:
        return f"layer {group.layer}: nothing to test"
    return f"layer {group.layer}: ε² = {test.epsilon2:.2f}, p {p if p.startswith('<') else f'= {p}'}"
