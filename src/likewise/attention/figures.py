"""Figures of an attention study: one panel per layer, or curves over the layers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.attention.clustering import ClusterScores
from likewise.attention.groups import LayerGroups, StudyData
from likewise.attention.maps import MEASURES
from likewise.attention.reduction import TrainingCurve
from likewise.attention.settings import VARIABLES, Highlight
from likewise.plotting.axes import grid_of_axes, group_colour
from likewise.plotting.curves import Series, curves
from likewise.plotting.heatmap import intensity_map
from likewise.plotting.scatter import box_plots, grouped_scatter, highlighted_scatter
from likewise.plotting.terminal import strongest
from likewise.results import Figure

SCORES = ("silhouette", "Davies-Bouldin", "Calinski-Harabasz")
SMALL_P = 0.001  # smaller p-values are shown as powers of ten
PANEL, COLUMNS = (3.5, 2.8), 3  # a layer's panel in inches, and the panels of a row
CURVES = (4.6, 3.2)  # a panel with curves, in inches
LEGEND_LINE = 0.13  # the height of a line of a legend, in inches
NOTES = {
    "effects": "Eta squared of the chosen clusters (0 is chance), that of random attention with as many clusters, and"
    " that of what remains of the variable once length is known. A finding about the model is larger than random"
    " attention's and remains once length is known. The last panel ignores the clusters: it shows how much of what"
    " length leaves of a variable the points explain. Each panel has its own scale.",
    "distributions": "The box holds half of the pairs, its line is the median; whiskers reach to the last pair within"
    " 1.5 box lengths, dots are pairs beyond.",
    "loss": "The error of the autoencoder by epoch. If it stays near the line of 1/n everywhere, points say little more"
    " about a map than its size.",
    "clusters": "A point is a pair. Colours and markers show clusters; the legend has their numbers and sizes; grey"
    " crosses are noise. Distances have a meaning within one layer only: axes of two layers cannot be compared.",
    "boxes": "A box for each cluster, coloured as above. Boxes at one height: clusters do not differ in this variable."
    " Epsilon squared is the share of the ranks' variance that lies between clusters.",
    "highlight": "All pairs are grey, those in a range are coloured. A colour in one region: points follow this"
    " variable; a colour everywhere: they do not.",
    "heads": "Each cell is a head, bright where the mean over pairs is high; scales begin at 0. The title has the value"
    f" of a head that attends to all tokens equally. {'; '.join(map(': '.join, MEASURES.items()))}.",
    "reducers": "The same pipeline on other points: what holds for one reducer only is a finding about that reducer.",
    "consensus": "The three scores of the chosen algorithm at each number of clusters, scaled from 0 (worst) to 1"
    " (best), Davies-Bouldin inverted; the dashed line is the choice.",
}
_ANY = "|".join(VARIABLES)
NAMES = (*NOTES, f"boxes-({_ANY})", rf"highlight-({_ANY})(-\d+)?")  # patterns of all figure names


def p_text(p: float) -> str:
    """A p-value for people; empty for nan."""
    if math.isnan(p):
        return ""
    if p == 0:
        return "< 1e-300"
    return f"{p:.0e}".replace("e-0", "e-") if p < SMALL_P else f"{p:.2g}"


def study_figures(study: StudyData) -> dict[str, Figure]:
    """Every figure that the study has the numbers for, by name."""
    found: dict[str, Figure] = {}

    def add(name: str, title: str, draw: Any, *about: Any) -> None:
        found[name] = Figure(partial(draw, study, *about), title, NOTES[name.partition("-")[0]])

    add("effects", "What survives the controls", _effects)
    add("distributions", "Variables", _distributions)
    if study.curve is not None:
        add("loss", "Training of the autoencoder", _losses, study.curve)
    add("clusters", "Clusters", _clusters)
    for name in study.variables.names:
        add(f"boxes-{name}", f"Clusters and {name}", _boxes, name)
    seen = Counter[str]()
    for one in study.settings.highlights:
        if one.variable in study.variables.names:
            seen[one.variable] += 1
            number = f"-{seen[one.variable]}" if seen[one.variable] > 1 else ""
            add(f"highlight-{one.variable}{number}", f"Highlighted: {', '.join(one.names)}", _highlight, one)
    add("heads", "Where heads look", _heads)
    if study.others:
        add("reducers", "Other reducers", _reducers)
    add("consensus", "The number of clusters", _consensus)
    return found


def _distributions(study: StudyData) -> Any:
    names = study.variables.names
    panels = grid_of_axes(len(names), (2.3, 3.0), len(names))
    for ax, name in zip(panels, names, strict=True):
        known = int(np.isfinite(study.variables[name]).sum())
        box_plots([study.variables[name]], [f"n = {known}"], ("", ""), name, ax)
    return panels[0]


def _losses(study: StudyData, curve: TrainingCurve) -> Any:
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


def _clusters(study: StudyData) -> Any:
    panels = grid_of_axes(study.depth, PANEL, COLUMNS)
    for ax, group in zip(panels, study.main.groups, strict=True):
        labels = group.clusters.chosen.labels
        grouped_scatter(study.main.view[:, group.layer - 1], labels, None, _chosen_title(group), ax)
    return panels[0]


def _boxes(study: StudyData, variable: str) -> Any:
    panels = grid_of_axes(study.depth, PANEL, COLUMNS)
    for ax, group in zip(panels, study.main.groups, strict=True):
        clusters = range(group.clusters.chosen.k)
        values = [study.variables[variable][group.clusters.chosen.labels == cluster] for cluster in clusters]
        colours = [group_colour(cluster) for cluster in clusters]
        box_plots(values, [str(cluster) for cluster in clusters], ("", ""), _test_title(group, variable), ax, colours)
    panels[0].figure.supxlabel("cluster", fontsize=9)
    panels[0].figure.supylabel(variable, fontsize=9)
    return panels[0]


def _highlight(study: StudyData, highlight: Highlight) -> Any:
    layers = highlight.layers_of(study.depth)
    marks = highlight.marks(study.variables[highlight.variable])
    size = (PANEL[0], PANEL[1] + LEGEND_LINE * len(marks))
    panels = grid_of_axes(len(layers), size, 2 if len(layers) == 4 else COLUMNS)
    for ax, layer in zip(panels, layers, strict=True):
        highlighted_scatter(study.main.view[:, layer - 1], marks, highlight.names, f"layer {layer}", ax)
    return panels[0]


def _heads(study: StudyData) -> Any:
    panels = grid_of_axes(len(study.heads.values), (3.6, 3.5), COLUMNS)
    for ax, (measure, values) in zip(panels, study.heads.values.items(), strict=True):
        layers, heads = ([str(index + 1) for index in range(count)] for count in values.shape)
        title = f"{measure} (even attention: {study.heads.even[measure]:.2g})"
        intensity_map(values, layers, heads, title, ax)
        ax.set_ylabel("layer")
        ax.set_xlabel("head")
    return panels[0]


def _effects(study: StudyData) -> Any:
    """The effect of each variable over the layers, of random attention, given length, and of the points."""
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


def _reducers(study: StudyData) -> Any:
    every = (study.main, *study.others)
    panels = grid_of_axes(2, CURVES, 2)
    silhouettes = {one.reducer: [group.clusters.chosen.scores.silhouette for group in one.groups] for one in every}
    effects = {one.reducer: [group.tests["similarity"].eta2 for group in one.groups] for one in every}
    _over_layers(panels[0], silhouettes, "silhouette of the clusters")
    _over_layers(panels[1], effects, "similarity: eta squared")
    return panels[0]


def _consensus(study: StudyData) -> Any:
    panels = grid_of_axes(study.depth, PANEL, COLUMNS)
    for ax, group in zip(panels, study.main.groups, strict=True):
        chosen = group.clusters.chosen
        by_k = sorted(group.clusters.by_k[chosen.algorithm].items())
        lines = dict(zip(SCORES, _goodness([scores for _, scores in by_k]), strict=True))
        ax.set_ylim(-0.08, 1.08)
        curves([k for k, _ in by_k], _series(lines), ("K", ""), _chosen_title(group), ax, whole=True)
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
    """Lines over the layers; the axis includes zero."""
    every = np.array([*lines.values()], dtype=float)
    low, high = float(np.nanmin(every, initial=0.0)), float(np.nanmax(every, initial=0.0))
    ax.set_ylim(low - 0.05 * (high - low or 1), high + 0.05 * (high - low or 1))
    curves(np.arange(1, every.shape[1] + 1), _series(lines), ("layer", ""), title, ax, whole=True)
    ax.axhline(0, color="#999999", linewidth=0.8, zorder=0)


def _series(lines: Mapping[str, ArrayLike]) -> dict[str, Series]:
    """Lines without intervals."""
    return {name: (values, None, None) for name, values in lines.items()}


def _chosen_title(group: LayerGroups) -> str:
    return f"layer {group.layer}: {group.clusters.chosen.algorithm}, K = {group.clusters.chosen.k}"


def _test_title(group: LayerGroups, variable: str) -> str:
    test = group.tests[variable]
    p = p_text(test.kruskal_p)
    if not p:
        return f"layer {group.layer}: nothing to test"
    return f"layer {group.layer}: ε² = {test.epsilon2:.2f}, p {p if p.startswith('<') else f'= {p}'}"
