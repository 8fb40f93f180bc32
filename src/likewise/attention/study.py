"""The result of an attention study: JSON document, tables, HTML page and folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.attention.clustering import RULE, LayerClusters
from likewise.attention.figures import NAMES, SCORES, p_text, study_figures
from likewise.attention.groups import LayerControls, StudyData
from likewise.attention.settings import ALGORITHMS, VARIABLES
from likewise.attention.survival import survival, verdicts
from likewise.plotting.html import paragraph, section
from likewise.plotting.terminal import printable, shortened
from likewise.progress import Progress, tracked
from likewise.results import Column, Figure, Result, Table
from likewise.results.result import figure_section, table_section, write_document
from likewise.storage import only_writer

Row = tuple[object, ...]
Columns = Sequence[str | Column]
FIGURE_FILES = re.compile(rf"(?:{'|'.join(NAMES)})\.(png|svg)")
STRUCTURE_CHARACTERS = 160  # of the most frequent structure that the page shows
CHOICES = ("distance", "linkage", "covariance")  # hyper-parameters with their own column
SCORE_COLUMNS = [Column(name, format=digits) for name, digits in zip(SCORES, (".3f", ".3f", ".0f"), strict=True)]
TESTS = (
    Column("Kruskal-Wallis p", format=p_text), Column("epsilon2", format=".3f"), Column("eta2", format=".3f"),
    Column("pairs significant", format=".0%"), Column("largest rank-biserial", format=".3f"),
)  # fmt: skip
CONTROLS = (
    Column("permutation p", format=p_text), Column("p within length", format=p_text),
    Column("p given length", format=p_text), Column("eta2 given length", format=".3f"),
    Column("R2 of the points given length", "points R2", ".3f"),
    Column("points' p given length", "points p", p_text), Column("random attention: p", "random p", p_text),
    Column("random attention: eta2 with as many clusters", "random eta2", ".3f"),
    Column("random attention: p within length", "random p within", p_text),
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class AttentionStudy(StudyData, Result):
    """The result of an attention study.

    >>> study = attention_study(encoder, pairs, folder)  # doctest: +SKIP
    >>> study.main.groups[0].tests["length"].epsilon2  # doctest: +SKIP
    0.71
    """

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Attention of {self.model} on {self.data}"

    @property
    def notes(self) -> list[str]:
        """The verdicts."""
        return [f"Attention of {self.model} on {len(self.pairs)} pairs of {self.data}.", *verdicts(self)]

    def to_dict(self) -> dict[str, Any]:
        """What ``results.json`` holds: everything but points and labels, which have their own tables."""
        structure, curve = self.variables.structure, self.curve
        return {
            "model": self.model, "data": self.data, "n": len(self.pairs), "reducer": self.main.reducer,
            "loss": self.loss, "trivial_loss": self.trivial_loss, "curve": None if curve is None else curve.to_dict(),
            "verdicts": verdicts(self),
            "survives": {name: list(survival(self, name).survives) for name in self.variables.names},
            "rule": RULE,
            "structure": None if structure is None else structure.to_dict(),
            "layers": [
                group.to_dict() | {"controls": control.to_dict()}
                for group, control in zip(self.main.groups, self.controls, strict=True)
            ],
            "reducers": [each.to_dict() for each in self.others],
            "random_attention": self._random_training() if self.random_groups else None,
            "heads": self.heads.to_dict(),
            **self.metadata,
        }  # fmt: skip

    def _random_training(self) -> dict[str, Any]:
        loss, trivial = self.random_losses or (None, None)
        curve = None if self.random_curve is None else self.random_curve.to_dict()
        return {"loss": loss, "trivial_loss": trivial, "curve": curve}

    def tables(self) -> dict[str, Table]:
        """Metrics, tests and controls by layer; the others are for files."""
        return {
            "metrics": metric_table(self),
            "tests": variable_table(self),
            "controls": control_table(self),
            "algorithms": algorithm_table(self),
            "agreement": agreement_table(self),
            "pair-tests": pair_table(self),
            "cluster-ranges": cluster_table(self),
            "head-measures": head_table(self),
            "points": point_table(self),
            "clusters": label_table(self),
            "pairs": text_table(self),
        }

    def figures(self) -> dict[str, Figure]:
        """Every figure; the effects and their controls come first."""
        return self._figures

    @cached_property
    def _figures(self) -> dict[str, Figure]:
        # A page and its folder show the same drawing, which takes long.
        return {name: replace(figure, draw=cache(figure.draw)) for name, figure in study_figures(self).items()}

    def fragments(self) -> list[str]:
        """What was done, the rule of choice, the tables and all figures."""
        tables = self.tables() | {"agreement": agreement_matrix(self)}
        wide = [table_section(name, tables[name]) for name in ("controls", "algorithms", "agreement")]
        return [
            section("What was done", map(paragraph, self._methods())),
            section("How a clustering is chosen", [paragraph(RULE)]),
            *(table_section(name, tables[name]) for name in ("metrics", "tests")),
            f"<div style='font-size: .78rem'>{''.join(wide)}</div>",
            *(figure_section(name, figure) for name, figure in self.figures().items()),
        ]

    def _methods(self) -> list[str]:
        n, latent = len(self.pairs), self.main.points.shape[2]
        sentences = [
            f"{n} pairs of {self.data} went through {self.model}, each as one sequence. The attention of all heads of"
            f" a layer became a point of {latent} numbers ({self.main.reducer}), for each of {self.depth} layers. The"
            f" points of a layer were clustered, and the clusters compared in {', '.join(self.variables.names)}."
        ]
        if self.loss is not None:
            who = "When it reconstructs maps from points, the autoencoder"
            sentences.append(_losses(who, self.loss, self.trivial_loss))
        if self.random_losses is not None:
            sentences.append(_losses("On random attention it", *self.random_losses))
        if (found := self.variables.structure) is None:
            sentences.append("Structure is unknown, because there was no grammar.")
        else:
            labels = shortened(" / ".join(" ".join(side) for side in found.most_frequent), STRUCTURE_CHARACTERS)
            share = f"{found.shared_by} of {n} pairs share the most frequent structure"
            sentences.append(f"{share}, of {found.distinct} different ones: {labels}.")
        known = {name: value for name, value in self.metadata.items() if isinstance(value, (str, int, float))}
        more = "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in known.items())
        return [*sentences, f"More: {more}."] if more else sentences

    def save(self, folder: Path | str, run: Mapping[str, Any] | None = None, progress: Progress | None = None) -> Path:
        """Write results.json, run.json, all tables and figures, and the page; figures of an earlier run are removed."""
        path, figures = Path(folder), self.figures()
        path.mkdir(parents=True, exist_ok=True)
        with only_writer(path / ".lock", path):
            for old in path.iterdir():
                if FIGURE_FILES.fullmatch(old.name):
                    old.unlink()
            for figure in tracked(figures.values(), progress, len(figures), "figures"):
                figure.draw()
            write_document(self.to_dict(), path / "results.json")
            return super().save(path, run)


def _losses(who: str, loss: float, trivial: float) -> str:
    share = f", {loss / trivial:.0%} of it" if trivial else ""
    return f"{who} has a mean squared error of {loss:.3g}; writing 1/n everywhere has {trivial:.3g}{share}."


def _table(columns: Columns, rows: Iterable[Row], title: str = "", note: str = "", detail: bool = False) -> Table:
    """A table; unknown numbers, which are nan, become empty cells."""
    return Table.of(columns, [[None if cell != cell else cell for cell in row] for row in rows], title, note, detail)


def metric_table(study: StudyData) -> Table:
    """The chosen clustering of each layer, with the silhouettes of one Gaussian and of random attention."""
    columns: Columns = (
        "layer", "algorithm", "K", Column("noise", format=".1%"), *SCORE_COLUMNS,
        Column("silhouette of one Gaussian, mean", "one Gaussian", ".3f"), Column("95 % quantile", format=".3f"),
        Column("silhouette of random attention", "random attention", ".3f"),
    )  # fmt: skip
    rows = []
    for group, control in zip(study.main.groups, study.controls, strict=True):
        chosen, random = group.clusters.chosen, control.random
        silhouette = random and random.groups.clusters.chosen.scores.silhouette
        own = (group.layer, chosen.algorithm, chosen.k, chosen.noise, *astuple(chosen.scores))
        rows.append((*own, control.null_mean, control.null_high, silhouette))
    note = (
        "The chosen clustering of each layer. One Gaussian: the silhouette that the same algorithm, with a newly chosen"
        " K, reaches on points without clusters."
    )
    return _table(columns, rows, "Layers", note)


def variable_table(study: StudyData) -> Table:
    """Whether clusters differ in each variable, in each layer."""
    rows = [
        (group.layer, name, test.kruskal_p, test.epsilon2, test.eta2, test.pairs_significant,
         max((abs(pair.rank_biserial) for pair in test.pairs), default=None))
        for group in study.main.groups
        for name, test in group.tests.items()
    ]  # fmt: skip
    note = (
        "Do clusters differ in a variable? Pairs significant: the share of pairs of clusters with a Mann-Whitney p"
        f" below {study.settings.alpha:g} after Holm's correction."
    )
    return _table(["layer", "variable", *TESTS], rows, "Variables by layer", note)


def control_table(study: StudyData) -> Table:
    """Whether clusters still differ in each variable under the controls."""
    rows = [
        (group.layer, name, *_controls(control, name))
        for group, control in zip(study.main.groups, study.controls, strict=True)
        for name in group.tests
    ]
    note = (
        "Given length: the test of what remains once length is known. Permutation: the share of"
        f" {study.settings.permutations} shuffles with an effect as large, over all pairs and among pairs of similar"
        " length. Points: what the points explain given length. Random: the same on random attention."
    )
    return _table(["layer", "variable", *CONTROLS], rows, "Controls by layer", note)


def _controls(control: LayerControls, variable: str) -> Row:
    given, tie, random = control.given_length.get(variable), control.points.get(variable), control.random
    within, random_within = control.within_length.get(variable), random and random.within_length.get(variable)
    return (
        control.permutation[variable].p, within and within.p, given and given.kruskal_p, given and given.eta2,
        tie and tie.r2, tie and tie.p, random and random.groups.tests[variable].kruskal_p,
        random and random.same_k[variable].eta2, random_within and random_within.p,
    )  # fmt: skip


def algorithm_table(study: StudyData) -> Table:
    """Each algorithm's best clustering of each layer, the chosen one first, and why others could not be chosen."""
    settings = ["layer", "algorithm", "chosen", "K", *CHOICES, "other settings"]
    columns: Columns = [*settings, Column("noise", format=".1%"), *SCORE_COLUMNS, "why not"]
    rows = [(group.layer, *row) for group in study.main.groups for row in _algorithms(group.clusters)]
    return _table(columns, rows, "Algorithms", detail=True)


def _algorithms(clusters: LayerClusters) -> Iterator[Row]:
    for one in clusters.best:
        chosen = "yes" if one is clusters.chosen else ""
        more = [f"{name} = {value}" for name, value in one.settings.items() if name not in CHOICES]
        how = (*(one.settings.get(name) or "" for name in CHOICES), ", ".join(more))
        why = clusters.rejected.get(one.algorithm, "")
        yield (one.algorithm, chosen, one.k, *how, one.noise, *astuple(one.scores), why)
    found = {one.algorithm for one in clusters.best}
    for name, why in clusters.rejected.items():
        if name not in found:
            yield (name, "", None, *[""] * (1 + len(CHOICES)), *[None] * (1 + len(SCORES)), why)


def agreement_table(study: StudyData) -> Table:
    """The adjusted Rand index of any two algorithms' best clusterings of a layer."""
    rows = [(group.layer, *two, ari) for group in study.main.groups for two, ari in group.clusters.agreement.items()]
    return _table(("layer", "first", "second", "adjusted Rand index"), rows, detail=True)


def agreement_matrix(study: StudyData) -> Table:
    """The same with a row per layer and a column per pair of algorithms."""
    found = {group.layer: group.clusters.agreement for group in study.main.groups}
    both = list(dict.fromkeys(two for of_layer in found.values() for two in of_layer))
    rows = [(layer, *map(of_layer.get, both)) for layer, of_layer in found.items()]
    columns = [Column(f"{first}, {second}", format=".3f") for first, second in both]
    note = "The adjusted Rand index of any two algorithms' best clusterings: 1 is full agreement, 0 is chance."
    return _table(["layer", *columns], rows, "Agreement of the algorithms", note)


def pair_table(study: StudyData) -> Table:
    """The Mann-Whitney tests of any two clusters of a layer, for each variable."""
    rows = [
        (group.layer, variable, *astuple(pair))
        for group in study.main.groups
        for variable, test in group.tests.items()
        for pair in test.pairs
    ]
    return _table(("layer", "variable", "first", "second", "U", "p", "p by Holm", "rank-biserial"), rows, detail=True)


def cluster_table(study: StudyData) -> Table:
    """The chosen clusters of each layer, noise as -1: the number of pairs, and the range of each variable."""
    names = study.variables.names
    header = ("layer", "cluster", "n", *(f"{name} {end}" for name in names for end in ("min", "median", "max")))
    rows: list[Row] = []
    for group in study.main.groups:
        labels = group.clusters.chosen.labels
        for cluster in np.unique(labels).tolist():
            own = labels == cluster
            values = [study.variables[name][own] for name in names]
            known = [each[~np.isnan(each)] for each in values]
            ends = [float(end(each)) if len(each) else None for each in known for end in (np.min, np.median, np.max)]
            rows.append((group.layer, cluster, int(own.sum()), *ends))
    return _table(header, rows, detail=True)


def head_table(study: StudyData) -> Table:
    """Each measure of each head."""
    values = study.heads.values
    measured = np.stack(list(values.values()), axis=-1).tolist()
    rows = [(i, j, *head) for i, layer in enumerate(measured, start=1) for j, head in enumerate(layer, start=1)]
    return _table(("layer", "head", *values), rows, detail=True)


def point_table(study: StudyData) -> Table:
    """One row per pair and layer."""
    numbers, latent = study.main.points, study.main.points.shape[2]
    columns = [f"z{index + 1}" for index in range(latent)]
    if latent > 2:
        columns += ["view1", "view2"]
        numbers = np.concatenate([numbers, study.main.view], axis=2)
    # Python's own numbers, which csv writes exactly.
    rows = [
        (pair, layer, *point, *values)
        for pair, (points, values) in enumerate(zip(numbers.tolist(), _values(study), strict=True), start=1)
        for layer, point in enumerate(points, start=1)
    ]
    return _table(("pair", "layer", *columns, *VARIABLES), rows, detail=True)


def label_table(study: StudyData) -> Table:
    """One row per pair, layer and algorithm."""
    rows = [
        (pair, group.layer, one.algorithm, label)
        for group in study.main.groups
        for one in sorted(group.clusters.best, key=lambda one: ALGORITHMS.index(one.algorithm))
        for pair, label in enumerate(one.labels.tolist(), start=1)
    ]
    return _table(("pair", "layer", "algorithm", "cluster"), rows, detail=True)


def text_table(study: StudyData) -> Table:
    """The texts and variables of each pair."""
    rows = [
        (index, *map(printable, (pair.id, pair.left, pair.right)), *values)
        for index, (pair, values) in enumerate(zip(study.pairs, _values(study), strict=True), start=1)
    ]
    return _table(("pair", "id", "left", "right", *VARIABLES), rows, detail=True)


def _values(study: StudyData) -> list[list[object]]:
    """Similarity, length and structure of each pair, nan where unknown."""
    known, unknown = study.variables, np.full(len(study.pairs), np.nan)
    columns = [known[name] if name in known.names else unknown for name in VARIABLES]
    return np.column_stack(columns).tolist()  # type: ignore[no-any-return]
