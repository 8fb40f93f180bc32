"""Tables of an attention study: headers and rows for pages, files and screens, cells empty where nothing is known."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from likewise.attention.clusterings import ClusterScores, LayerClusters
from likewise.attention.study import AttentionStudy, LayerControls

Row = tuple[object, ...]
Table = tuple[tuple[str, ...], list[Row]]
"""A header and rows."""

SCORES = ("silhouette", "Davies-Bouldin", "Calinski-Harabasz")
CHOICES = ("distance", "linkage", "covariance")
"""Hyper-parameters with a column of their own."""
SMALL = 0.001
"""Below it a p-value is told by its power of ten."""


def p_text(p: float) -> str:
    """A p-value as it is read; empty for nan.

    >>> [p_text(p) for p in (1.2e-48, 0.0321, 0.5, 0.0, float("nan"))]
    ['1e-48', '0.032', '0.5', '< 1e-300', '']
    """
    if math.isnan(p):
        return ""
    if p == 0:
        return "< 1e-300"
    return f"{p:.0e}".replace("e-0", "e-") if p < SMALL else f"{p:.2g}"


def algorithm_table(study: AttentionStudy) -> Table:
    """Each algorithm's best clustering of each layer, the chosen one first, and why others could not be chosen."""
    header = ("layer", "algorithm", "chosen", "K", *CHOICES, "other settings", "noise", *SCORES, "why not")
    rows = [(group.layer, *row) for group in study.main.groups for row in _algorithms(group.clusters)]
    return header, rows


def metric_table(study: AttentionStudy) -> Table:
    """The chosen clustering of each layer, beside one Gaussian without clusters and beside random attention."""
    gaussian_null = ("silhouette of one Gaussian, mean", "95 % quantile")
    header = ("layer", "algorithm", "K", "noise", *SCORES, *gaussian_null, "silhouette of random attention")
    rows = []
    for group, control in zip(study.main.groups, study.controls, strict=True):
        chosen = group.clusters.chosen
        own = (chosen.algorithm, chosen.k, chosen.noise, *_scores(chosen.scores))
        random = _known(control.random.groups.clusters.chosen.scores.silhouette) if control.random else ""
        rows.append((group.layer, *own, _known(control.blob_mean), _known(control.blob_high), random))
    return header, rows


def variable_table(study: AttentionStudy, exact: bool = False) -> Table:
    """Each variable in each layer: do clusters differ in it, and do they still beside the controls?

    p-values are texts to be read, or ``exact`` numbers.
    """
    header = (
        "layer", "variable", "Kruskal-Wallis p", "epsilon2", "eta2", "pairs significant", "largest rank-biserial",
        "permutation p", "p within length", "p given length", "eta2 given length",
        "R2 of the points given length", "points' p given length", "random attention: p",
        "random attention: eta2 with as many clusters", "random attention: p within length",
    )  # fmt: skip
    rows: list[Row] = []
    for group, control in zip(study.main.groups, study.controls, strict=True):
        for variable, test in group.tests.items():
            largest = max((abs(pair.rank_biserial) for pair in test.pairs), default=math.nan)
            sizes = (test.epsilon2, test.eta2, test.pairs_significant, largest)
            found = (_p(test.kruskal_p, exact), *map(_known, sizes), *_controls(control, variable, exact))
            rows.append((group.layer, variable, *found))
    return header, rows


def agreement_table(study: AttentionStudy) -> Table:
    """The adjusted Rand index of any two algorithms' best clusterings of a layer."""
    rows: list[Row] = [
        (group.layer, first, second, _known(index))
        for group in study.main.groups
        for (first, second), index in group.clusters.agreement.items()
    ]
    return ("layer", "first", "second", "adjusted Rand index"), rows


def agreement_matrix(study: AttentionStudy) -> Table:
    """The same with a row for each layer and a column for each two algorithms."""
    both = list(dict.fromkeys(two for group in study.main.groups for two in group.clusters.agreement))
    rows = [
        (group.layer, *(_known(group.clusters.agreement.get(two, math.nan)) for two in both))
        for group in study.main.groups
    ]
    return ("layer", *(f"{first}, {second}" for first, second in both)), rows


def pair_table(study: AttentionStudy) -> Table:
    """The Mann-Whitney tests of any two clusters of a layer, for each variable; p-values are numbers."""
    rows: list[Row] = [
        (group.layer, variable, pair.first, pair.second, pair.u, pair.p, pair.holm, pair.rank_biserial)
        for group in study.main.groups
        for variable, test in group.tests.items()
        for pair in test.pairs
    ]
    return ("layer", "variable", "first", "second", "U", "p", "p by Holm", "rank-biserial"), rows


def cluster_table(study: AttentionStudy) -> Table:
    """The chosen clusters of each layer, noise as -1: how many pairs, and where each variable lies."""
    names = study.variables.names
    header = ("layer", "cluster", "n", *(f"{name} {end}" for name in names for end in ("min", "median", "max")))
    rows: list[Row] = []
    for group in study.main.groups:
        labels = group.clusters.chosen.labels
        for cluster in np.unique(labels).tolist():
            own = labels == cluster
            ranges = [end for name in names for end in _range(study.variables[name][own])]
            rows.append((group.layer, cluster, int(own.sum()), *ranges))
    return header, rows


def head_table(study: AttentionStudy) -> Table:
    """Each measure of each head."""
    values = study.heads.values
    layers, heads = next(iter(values.values())).shape
    rows: list[Row] = [
        (layer + 1, head + 1, *(_known(found[layer, head]) for found in values.values()))
        for layer in range(layers)
        for head in range(heads)
    ]
    return ("layer", "head", *values), rows


def _algorithms(clusters: LayerClusters) -> Iterator[Row]:
    for one in clusters.best:
        chosen = "yes" if one is clusters.chosen else ""
        more = [f"{name} = {value}" for name, value in one.settings.items() if name not in CHOICES]
        how = (*(one.settings.get(name) or "" for name in CHOICES), ", ".join(more))
        why = clusters.rejected.get(one.algorithm, "")
        yield (one.algorithm, chosen, one.k, *how, one.noise, *_scores(one.scores), why)
    found = {one.algorithm for one in clusters.best}
    for name, why in clusters.rejected.items():
        if name not in found:
            yield (name, *[""] * (4 + len(CHOICES) + len(SCORES)), why)


def _scores(scores: ClusterScores) -> Row:
    return tuple(map(_known, (scores.silhouette, scores.davies_bouldin, scores.calinski_harabasz)))


def _controls(control: LayerControls, variable: str, exact: bool) -> Row:
    given, within, random = control.given_length.get(variable), control.within_length.get(variable), control.random
    tie, random_within = control.points.get(variable), random.within_length.get(variable) if random else None
    return (
        _p(control.permutation[variable].p, exact),
        _p(within.p, exact) if within else "",
        _p(given.kruskal_p, exact) if given else "",
        _known(given.eta2) if given else "",
        _known(tie.r2) if tie else "",
        _p(tie.p, exact) if tie else "",
        _p(random.groups.tests[variable].kruskal_p, exact) if random else "",
        _known(random.same_k[variable].eta2) if random else "",
        _p(random_within.p, exact) if random_within else "",
    )


def _p(p: float, exact: bool) -> object:
    return _known(p) if exact else p_text(p)


def _known(value: float) -> object:
    """A number, or nothing."""
    return "" if math.isnan(value) else float(value)


def _range(values: NDArray[np.float64]) -> Row:
    known = values[~np.isnan(values)]
    return (float(known.min()), float(np.median(known)), float(known.max())) if len(known) else ("", "", "")
