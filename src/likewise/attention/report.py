"""The page and the folder of an attention study."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.attention.cluster_choice import RULE
from likewise.attention.figures import named_highlights, study_figures
from likewise.attention.head_measures import NOTES as MEASURES
from likewise.attention.highlights import VARIABLES
from likewise.attention.study import AttentionStudy
from likewise.attention.tables import (
    agreement_matrix,
    agreement_table,
    algorithm_table,
    cluster_table,
    head_table,
    metric_table,
    pair_table,
    variable_table,
)
from likewise.attention.verdicts import verdicts
from likewise.locks import only_writer
from likewise.plotting.axes import save_figure
from likewise.plotting.html import inline_png, inline_svg, page, paragraph, section, table
from likewise.plotting.text import printable, shortened
from likewise.progress import Progress, tracked
from likewise.results.folder import Results, Table, finite, write_results

HEAVY = 320_000
"""Letters of a figure from which on it is shown as a picture, so that the page of a deep model stays small."""
STRUCTURE_LETTERS = 160
"""How much of the most frequent structure is told."""

TITLES = {
    "distributions": "Variables",
    "loss": "Training of the autoencoder",
    "clusters": "Clusters",
    "heads": "Where heads look",
    "effects": "What survives the controls",
    "reducers": "Other reducers",
    "consensus": "The number of clusters",
}
FIGURES = re.compile(
    rf"({'|'.join(TITLES)}|boxes-({'|'.join(VARIABLES)})|highlight-({'|'.join(VARIABLES)})(-\d+)?)\.(png|svg)"
)
"""The files that figures are written to."""
NOTES = {
    "distributions": "Half of the pairs lie in the box, the line in it is the median; whiskers reach to the last pair"
    " within 1.5 box lengths, dots are pairs beyond.",
    "loss": "The error of the autoencoder, epoch by epoch. Where it does not come well below the line of 1/n"
    " everywhere, points say little more of a map than its size.",
    "clusters": "A point is a pair. Colour and marker tell clusters apart, beside them stand their numbers and sizes;"
    " grey crosses are noise. Only what is near within one layer has a meaning: axes of two layers cannot be compared.",
    "boxes": "A box for each cluster, coloured as above. Boxes at one height: clusters do not differ in this variable."
    " Epsilon squared is the share of the ranks' variance that lies between clusters.",
    "highlight": "All pairs are grey, those in a range have its colour. A colour in one place: points follow this"
    " variable; strewn over all: they do not.",
    "heads": "Each cell is a head, bright where the mean over pairs is high; scales begin at 0. Beside the name stands"
    " what a head would have that looks at all tokens alike.",
    "effects": "Eta squared of the chosen clusters, 0 being what chance gives, beside that of random attention in as"
    " many clusters and that of what is left of the variable once length is known. A finding about the model is not"
    " random attention's, and is left once length is known. The last panel leaves the clusters aside: the share of what"
    " length leaves of a variable that the points tell. Each panel has a scale of its own.",
    "reducers": "The same pipeline on other points: what holds for one reducer only is a finding about that reducer.",
    "consensus": "The three scores of the chosen algorithm at each number of clusters, each from 0 at its worst to 1 at"
    " its best, Davies-Bouldin turned around; the dashed line is the choice.",
}


def write_attention(
    study: AttentionStudy, run: Mapping[str, Any], folder: Path, progress: Progress | None = None
) -> Path:
    """Write all that a study shows: its document, points, clusters, pairs and tables as csv, figures and the page.

    Figures of an earlier run in the same folder that this one does not have are taken away.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder / ".lock", folder):
        # A lone surrogate, as a file of JSON may bring it, cannot be written.
        text = json.dumps(finite(study.to_dict()), indent=2, ensure_ascii=False, default=str)
        (folder / "results.json").write_text(text, encoding="utf-8", errors="replace")
        write_results(Results(run, _tables(study)), folder)
        drawn = _draw(study, folder, progress)
        (folder / "report.html").write_text(_page(study, drawn, run), encoding="utf-8")
    return folder


def _draw(study: AttentionStudy, folder: Path, progress: Progress | None) -> list[str]:
    """Write every figure to the folder; each as a section of the page."""
    for old in folder.iterdir():
        if FIGURES.fullmatch(old.name):
            old.unlink()
    figures, sections = study_figures(study), []
    for name, figure in tracked(figures.items(), progress, len(figures), "figures"):
        for ending in ("png", "svg"):
            save_figure(figure, folder / f"{name}.{ending}")
        sections.append(_drawn(study, name, figure))
    return sections


def _page(study: AttentionStudy, drawn: Sequence[str], run: Mapping[str, Any]) -> str:
    parts = [
        section("What was found", map(paragraph, verdicts(study))),
        section("What was done", map(paragraph, _done(study))),
        paragraph(str(run.get("command", "")), note=True),
        section("How a clustering is chosen", [paragraph(RULE)]),
        *_page_tables(study),
        *drawn,
    ]
    return page(f"Attention of {study.model} on {study.data}", parts)


def _done(study: AttentionStudy) -> list[str]:
    """What was done, in words."""
    n, latent = len(study.pairs), study.main.points.shape[2]
    summary = [
        f"{n} pairs of {study.data} went through {study.model}, each as one sequence. The attention of all heads of a"
        f" layer became a point of {latent} numbers ({study.main.reducer}), for each of {study.depth} layers; the"
        f" points of a layer were clustered, and the clusters compared in {', '.join(study.variables.names)}."
    ]
    if study.loss is not None:
        summary.append(_losses("Writing maps again from their points, the autoencoder", study.loss, study.trivial_loss))
    if study.random_losses is not None:
        summary.append(_losses("On random attention it", *study.random_losses))
    found = study.variables.structure
    if found is None:
        summary.append("Structure is unknown: no grammar was at hand.")
    else:
        labels = shortened(" / ".join(" ".join(side) for side in found.most_frequent), STRUCTURE_LETTERS)
        summary.append(
            f"{found.shared_by} of {n} pairs share the most frequent structure, of {found.distinct} different ones:"
            f" {labels}."
        )
    metadata = [
        f"{name.replace('_', ' ')}: {value}"
        for name, value in study.metadata.items()
        if isinstance(value, (str, int, float))
    ]
    return [*summary, f"Further facts: {'; '.join(metadata)}."] if metadata else summary


def _losses(who: str, loss: float, trivial: float) -> str:
    share = f", {loss / trivial:.0%} of it" if trivial else ""
    return f"{who} has a mean squared error of {loss:.3g}; writing 1/n everywhere has {trivial:.3g}{share}."


def _page_tables(study: AttentionStudy) -> list[str]:
    return [
        section(
            "Layers",
            [
                paragraph("The chosen clustering of each layer. One Gaussian: the silhouette that the same algorithm,"
                " its K chosen anew, reaches on points without any clusters; empty where it finds none there.",
                note=True),
                _small(metric_table(study)),
            ],
        ),
        section(
            "Variables by layer",
            [
                paragraph("Do clusters differ in a variable? Pairs significant: the share of pairs of clusters with a"
                f" Mann-Whitney p below {study.settings.alpha:g} after Holm's correction. Given length: the test of"
                " what is left once length is known. Permutation: the share of"
                f" {study.settings.permutations} shuffles with an effect as large,"
                " over all pairs and among pairs of like length.", note=True),
                _small(variable_table(study)),
            ],
        ),
        section("Algorithms", [_small(algorithm_table(study))]),
        section(
            "Agreement of the algorithms",
            [
                paragraph("The adjusted Rand index of any two algorithms' best clusterings: 1 where they agree, 0 where"
                " they agree as chance would.", note=True),
                _small(agreement_matrix(study)),
            ],
        ),
    ]  # fmt: skip


def _small(found: Table) -> str:
    """A table in small letters: with all columns in sight, or most of them."""
    return f"<div style='font-size: .78rem'>{table(*found)}</div>\n"


def _drawn(study: AttentionStudy, name: str, figure: Any) -> str:
    kind, _, about = name.partition("-")
    if kind == "highlight":
        title = f"Where they lie: {', '.join(named_highlights(study)[name].names)}"
    else:
        title = TITLES.get(name, f"Clusters and {about}")
    note = NOTES[kind]
    if name == "heads":
        note += f" {'; '.join(f'{measure}: {MEASURES[measure]}' for measure in study.heads.values)}."
    # Colours of a heat map are its numbers.
    drawn = inline_svg(figure, title, dots=name != "heads")
    if len(drawn) > HEAVY:
        drawn = inline_png(figure, title)
    return section(title, [paragraph(note, note=True), f"<p>{drawn}</p>\n"])


def _tables(study: AttentionStudy) -> dict[str, Table]:
    """Every table of the folder, by file name."""
    return {
        "points": _points(study),
        "clusters": _clusters(study),
        "pairs": _pairs(study),
        "algorithms": algorithm_table(study),
        "metrics": metric_table(study),
        "tests": variable_table(study, exact=True),
        "agreement": agreement_table(study),
        "pair-tests": pair_table(study),
        "cluster-ranges": cluster_table(study),
        "head-measures": head_table(study),
    }


def _points(study: AttentionStudy) -> Table:
    """One row per pair and layer."""
    _, layers, latent = study.main.points.shape
    columns = [f"z{index + 1}" for index in range(latent)]
    numbers = study.main.points
    if latent > 2:
        columns += ["view1", "view2"]
        numbers = np.concatenate([numbers, study.main.view], axis=2)
    summary = _values(study)
    # Lists of Python's own numbers, which csv writes such that they are read back exactly.
    rows = [
        (pair + 1, layer + 1, *point, *summary[pair])
        for pair, points in enumerate(numbers.tolist())
        for layer, point in zip(range(layers), points, strict=True)
    ]
    return ("pair", "layer", *columns, "similarity", "length", "structure"), rows


def _clusters(study: AttentionStudy) -> Table:
    """One row per pair, layer and algorithm."""
    rows = [
        (pair + 1, group.layer, one.algorithm, label)
        for group in study.main.groups
        for one in group.clusters.by_algorithm
        for pair, label in enumerate(one.labels.tolist())
    ]
    return ("pair", "layer", "algorithm", "cluster"), rows


def _pairs(study: AttentionStudy) -> Table:
    rows = [
        (index + 1, *map(printable, (pair.id, pair.left, pair.right)), *summary)
        for index, (pair, summary) in enumerate(zip(study.pairs, _values(study), strict=True))
    ]
    return ("pair", "id", "left", "right", "similarity", "length", "structure"), rows


def _values(study: AttentionStudy) -> list[list[object]]:
    """Similarity, length and structure of each pair, empty where unknown."""
    known = study.variables
    unknown = np.full(len(study.pairs), np.nan)
    structure = unknown if known.structure is None else known.structure.cosines
    rows = np.column_stack([known.similarity, known.length, structure]).tolist()
    return [["" if value != value else value for value in row] for row in rows]
