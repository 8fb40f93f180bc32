"""Figures of the study of attention clusters: what they show, with a verdict on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from likewise.attention.groups import LayerGroups
from likewise.attention.study import AttentionStudy
from likewise.attention.survival import survival
from likewise.metrics import Interval, bootstrap_means, spearman
from likewise.reproduce.attention_clusters_maps import (
    RANDOM,
    SIMILAR,
    about,
    by_length,
    contrast,
    depth_note,
    labels_of,
    listed,
    maps_study,
    over_layers,
    structured,
    thirds,
)
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, Verdict, above, below
from likewise.results import Column, Figure, Table

NEIGHBOURS = 5


def distribution_figure(context: Context) -> Finding:
    """Figure 3: the pairs by similarity, length and structure."""
    study = maps_study(context)
    known = study.variables
    measured: dict[tuple[str, str], object] = {
        ("pairs", "value"): len(study.pairs),
        ("shortest pair, tokens", "value"): known.length.min(),
        ("longest pair, tokens", "value"): known.length.max(),
    }
    if known.structure is not None:
        measured["pairs with the most frequent structure", "value"] = known.structure.shared_by
    for name in known.without_length:
        measured[f"Spearman of {name} and length", "value"] = spearman(known[name], known.length)
    table = side_by_side(context.published.of("figure-3").values(), measured, context.short, "Pairs")
    table = replace(table, columns=tuple(replace(one, format=".3g" if one.format else "") for one in table.columns))
    note = "No verdict: the figure describes the data. What follows length is no separate variable."
    return Finding({"pairs": table}, {"distributions": study.figures()["distributions"]}, (), (note,))


def number_figure(context: Context) -> Finding:
    """Figure 4: the scores by the number of clusters."""
    study = maps_study(context)
    own, random = ([_disagreement(group) for group in groups] for groups in (study.main.groups, study.random_groups))
    control = over_layers(random)
    verdict = below(
        "The three scores agree on the number of clusters.",
        "largest minus smallest K that a score prefers, minus that of three random K, mean over the layers",
        over_layers(own),
        control=Control(RANDOM, control, control.high < 0),
    )
    return Finding({}, {"consensus": study.figures()["consensus"]}, (verdict,), (about(context),))


def _disagreement(group: LayerGroups) -> float:
    """How far apart the best K of the three scores are, less than the expectation of three random K."""
    by_k = group.clusters.by_k[group.clusters.chosen.algorithm]
    ks = list(by_k)
    goodness = [(one.silhouette, -one.davies_bouldin, one.calinski_harabasz) for one in by_k.values()]
    best = [ks[int(index)] for index in np.argmax(goodness, axis=0)]
    chance = np.mean([max(drawn) - min(drawn) for drawn in product(ks, repeat=3)])
    return max(best) - min(best) - float(chance)


def cluster_figure(context: Context) -> Finding:
    """Figure 5: the clusters of all layers."""
    study = maps_study(context)
    own, random = (
        over_layers([float(np.nanmean(list(group.clusters.agreement.values()))) for group in groups])
        for groups in (study.main.groups, study.random_groups)
    )
    verdict = above(
        "The clusters do not depend on the algorithm that finds them.",
        "adjusted Rand index of two algorithms, mean over their pairs and the layers (1 is the same clusters)",
        own,
        0.5,
        control=Control(RANDOM, random, random.low > 0.5),
    )
    return Finding({}, {"clusters": study.figures()["clusters"]}, (verdict,), (about(context),))


def similarity_boxes(context: Context) -> Finding:
    """Figure 6: the similarity of the pairs in each cluster."""
    study = maps_study(context)
    named = SIMILAR.layers_of(study.depth)
    others = [layer for layer in range(1, study.depth + 1) if layer not in named]
    effect = contrast(study, "similarity", labels_of(study, named), labels_of(study, others))
    alone = contrast(study, "similarity", by_length(study, named), by_length(study, others))
    verdict = above(
        "Similarity is concentrated in layers 6, 8, 9 and 10.",
        f"eta² of similarity in layers {listed(named)} minus that in the others{depth_note(study)}",
        effect,
        control=Control("as many groups by length alone", alone, alone.low > 0),
    )
    return _boxes(context, study, "similarity", verdict)


def length_boxes(context: Context) -> Finding:
    """Figure 8: the length of the pairs in each cluster."""
    study = maps_study(context)
    early, late = thirds(study)
    effect = contrast(study, "length", labels_of(study, early), labels_of(study, late))
    alone = contrast(study, "length", by_length(study, early), by_length(study, late))
    verdict = above(
        "Length matters in the early layers and less and less in later ones.",
        f"eta² of length in layers {listed(early)} minus that in layers {listed(late)}",
        effect,
        control=Control("as many groups by length alone", alone, alone.low > 0),
    )
    return _boxes(context, study, "length", verdict)


def structure_boxes(context: Context) -> Finding:
    """Figure 10: the structure of the pairs in each cluster."""
    study = structured(context)
    every = range(1, study.depth + 1)
    random = survival(study, "structure").random or ()
    verdict = above(
        "The clusters differ in structure beyond length.",
        "eta² of structure given length, mean over all layers",
        contrast(study, "structure", labels_of(study, every), given_length=True),
        control=Control(RANDOM, None, bool(random)),
    )
    return _boxes(context, study, "structure", verdict)


def _boxes(context: Context, study: AttentionStudy, variable: str, verdict: Verdict) -> Finding:
    tests = study.tables()["tests"]
    own = replace(tests, rows=[row for row in tests.rows if row[1] == variable])
    name = f"boxes-{variable}"
    return Finding({"tests": own}, {name: study.figures()[name]}, (verdict,), (about(context),))


# Figures 7, 9 and 11: highlighted ranges


def similarity_highlight(context: Context) -> Finding:
    """Figure 7: pairs with a similarity of 0 and of 5."""
    return _highlighted(context, "similarity", "Pairs with a similarity of 0 and of 5 lie apart.")


def length_highlight(context: Context) -> Finding:
    """Figure 9: pairs of 9 to 15, 20 to 22 and 60 to 81 tokens."""
    return _highlighted(context, "length", "Pairs of 9 to 15, of 20 to 22 and of 60 to 81 tokens lie apart.")


def structure_highlight(context: Context) -> Finding:
    """Figure 11: pairs with nearly the most frequent structure."""
    structured(context)
    return _highlighted(context, "structure", "Pairs with nearly the most frequent structure lie together.")


def _highlighted(context: Context, variable: str, claim: str) -> Finding:
    study = maps_study(context)
    highlight = next(one for one in study.settings.highlights if one.variable == variable)
    layers, marks = highlight.layers_of(study.depth), highlight.marks(study.variables[variable])
    figure: dict[str, Figure] = {f"highlight-{variable}": study.figures()[f"highlight-{variable}"]}
    counts = ", ".join(f"{name}: {int(mark.sum())}" for name, mark in zip(highlight.names, marks, strict=True))
    notes = (about(context), f"Pairs in the ranges: {counts}.")
    if min(int(mark.sum()) for mark in marks) < 2:
        return Finding({}, figure, (), (*notes, "No verdict: a range has fewer than two pairs."))
    found = [neighbour_excess(study.main.points[:, layer - 1], marks) for layer in layers]
    [effect], alone = bootstrap_means([np.mean(found, axis=0)]), _alone(study, marks)
    if variable == "length":
        random = set(layers) <= set(survival(study, variable).random or ())
        control = Control(f"{RANDOM}, whose clusters differ in length,", None, random)
    else:
        control = Control("neighbours by length alone", alone, alone.low > 0 and effect.low <= alone.value)
    name = f"share of the nearest pairs that are in the same range, minus chance, layers {listed(layers)}"
    rows = [(layer, float(np.mean(excess))) for layer, excess in zip(layers, found, strict=True)]
    table = Table.of(["layer", Column("excess", "neighbours in the same range minus chance", ".3f")], rows)
    return Finding({"neighbours": table}, figure, (above(claim, name, effect, control=control),), notes)


def _alone(study: AttentionStudy, marks: Sequence[NDArray[np.bool_]]) -> Interval:
    return bootstrap_means([neighbour_excess(study.variables.length[:, None], marks)])[0]


def neighbour_excess(points: NDArray[np.float64], marks: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    """For each marked point, the share of its nearest points with the same mark, minus that of random points.

    Points (n, d) are compared among those with any mark, with one mark among all of them. The number of nearest points
    is below that of the rarest mark, which needs two points.

    >>> points, near = np.array([[0.0], [1.0], [9.0], [10.0]]), np.array([True, True, False, False])
    >>> neighbour_excess(points, [near, ~near]).round(2).tolist()
    [0.67, 0.67, 0.67, 0.67]
    """
    from scipy.spatial.distance import cdist

    group = np.full(len(points), -1)
    for index, mark in enumerate(marks):
        group[mark] = index
    kept = np.ones(len(group), bool) if len(marks) == 1 else group >= 0
    places, own = points[kept], group[kept]
    distances = cdist(places, places)
    np.fill_diagonal(distances, np.inf)
    smallest = min(int(mark.sum()) for mark in marks)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : min(NEIGHBOURS, smallest - 1)]
    same = (own[nearest] == own[:, None]).mean(1)
    chance = np.array([(own == one).sum() - 1 for one in own]) / max(len(own) - 1, 1)
    excess: NDArray[np.float64] = (same - chance)[own >= 0]
    return excess
