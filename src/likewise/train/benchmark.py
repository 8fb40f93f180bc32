"""Benchmarks: the same measurements of several models, to show what training changed in them.

Each part of each model is cached on disk once it is measured. Models that are rows of one table of runs are averaged
over their seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import Dataset, ScoredPair, locate, read_scored_pairs
from likewise.encoder import Encoder
from likewise.encoder.weights import model_key
from likewise.errors import DataError, UsageError
from likewise.evaluation.sts import evaluate_sts
from likewise.explain.pairs import explain_many
from likewise.explain.settings import PLAIN
from likewise.geometry import GeometrySettings, geometry_of
from likewise.geometry.isotropy import IsotropyOptions, isotropy_task, study_isotropy
from likewise.grammar import Grammar
from likewise.lint.evidence import PairEvidence, ParsedSides, evidence, parsed_sides, unit_classes
from likewise.lint.lint import LintRules, report
from likewise.lint.pos_relevance import ClassSums, PosRelevance
from likewise.metrics import spearman
from likewise.plotting.curves import Series, curves
from likewise.plotting.terminal import unique_labels
from likewise.progress import Progress, named
from likewise.results import Column, Figure, Result, Table
from likewise.storage import content_key, file_hash, write_text
from likewise.train.runs_table import RECORD, Spread

THIRDS = ("short", "medium", "long")
LAYER_MEASURES = ("baseline", "self_similarity_adjusted", "intra_similarity_adjusted", "isoscore", "effective_rank")
SHOWN_CLASSES = 12  # Shown pairs of classes, the strongest of the first model
DEFAULT_PARTS = ("sts", "space", "layers")  # Parts that need no grammar and one pass over the texts each
GRAMMATICAL = ("classes", "lint")  # Parts that need a grammar
FIRST_LAYER = {"skipped": 1}  # The number of the first layer of a part's curves, unless that is the embeddings'
NOTES = {
    "sts": "How well cosines follow the scores that people gave: over all pairs, by column, and by thirds of length.",
    "space": "The vectors of the texts: the expected cosine of two different ones (baseline), IsoScore, and the share"
    " of highly scored pairs whose other text is found.",
    "layers": "The words in every layer: cosine of two random words (baseline), of a word with itself and with its"
    " sentence beyond that, IsoScore and effective rank.",
    "skipped": "Spearman without one layer.",
    "classes": "Shares of all absolute relevance by pairs of parts of speech; the largest of the first model.",
    "lint": "The share of pairs that each rule finds suspicious.",
}

Measures = dict[str, float | list[float]]  # A number, or one for each layer, by name


# Parts


@dataclass(frozen=True)
class BenchmarkData:
    """The pairs with scores that all models are measured on."""

    dataset: Dataset
    grammar: str | None = None  # the spaCy pipeline for the parts that need one
    group_by: str | None = None  # a column; each of its values gets its own agreement

    @cached_property
    def pairs(self) -> list[ScoredPair]:
        """The pairs."""
        found = list(self.dataset.stream(read_scored_pairs))
        if len(found) < 2:
            raise DataError(f"{self.dataset.name}: a benchmark needs at least 2 pairs, got {len(found)}")
        if self.group_by is not None and self.group_by not in found[0].meta:
            known = ", ".join(found[0].meta) or "none"
            raise DataError(f"{self.dataset.name} has no other column {self.group_by!r}; there are: {known}")
        return found

    @cached_property
    def language(self) -> Grammar:
        """The grammar of the texts."""
        return Grammar.load(self.grammar)

    @cached_property
    def parsed(self) -> ParsedSides:
        """Both texts of all pairs, parsed."""
        return parsed_sides(self.pairs, self.language)

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that measures depend on besides the model."""
        digest, columns = file_hash(locate(self.dataset.name, self.dataset.data_dir)), repr(self.dataset.columns)
        return {"file": digest, "limit": self.dataset.limit, "by": self.group_by, "columns": columns}


class ModelUnderTest:
    """A model and the pairs that it is measured on; pairs are explained once for all parts."""

    def __init__(self, encoder: Encoder, data: BenchmarkData) -> None:
        self.encoder, self.data = encoder, data
        self.attributions = cache(self._attributions)

    def _attributions(self, progress: Progress | None) -> tuple[PosRelevance, list[PairEvidence]]:
        """Relevance by part of speech, and the evidence of each pair for lint."""
        pairs, parsed = self.data.pairs, self.data.parsed
        sums, found = ClassSums(), []
        for pair, explained in zip(pairs, explain_many(self.encoder, pairs, progress=progress, **PLAIN), strict=True):
            left, right = parsed.left[pair.left], parsed.right[pair.right]
            sums.add(explained, unit_classes(explained.left, left), unit_classes(explained.right, right))
            found.append(evidence(pair, explained, left, right))
        return sums.result(), found


def _sts(model: ModelUnderTest, progress: Progress | None) -> Measures:
    """Agreement of cosines with scores: over all, by the column, and by length."""
    data = model.data
    found = evaluate_sts(model.encoder, data.pairs, data.dataset.name, progress)
    measures: Measures = {name: each.value for name, each in found.agreement.items()}
    groups: dict[str, list[int]] = {}
    if data.group_by is not None:
        for index, pair in enumerate(data.pairs):
            groups.setdefault(f"{data.group_by} {pair.meta.get(data.group_by, '')}", []).append(index)
    words = np.array([len(f"{pair.left} {pair.right}".split()) for pair in data.pairs])
    thirds = np.array_split(np.argsort(words, kind="stable"), len(THIRDS))
    by_length = {name: sorted(map(int, rows)) for name, rows in zip(THIRDS, thirds, strict=True)}
    for name, rows in (dict(sorted(groups.items())) | by_length).items():
        if len(rows) > 1:
            measures[f"spearman, {name}"] = spearman(found.predicted[rows], found.truth[rows])
    return measures


def _space(model: ModelUnderTest, progress: Progress | None) -> Measures:
    """The space of the vectors: expected cosine of two texts, IsoScore, recall."""
    task = isotropy_task(model.data.dataset)
    plain = study_isotropy(model.encoder, task, IsotropyOptions(dims=()), progress).settings[0]
    recall = {f"recall@{k}": each.value for k, each in plain.recall.items()}
    return {"baseline": plain.baseline, "isoscore": plain.isoscore, **recall}


def _layers(model: ModelUnderTest, progress: Progress | None) -> Measures:
    """The geometry of the words in every layer."""
    data = model.data
    texts = list(dict.fromkeys(text for pair in data.pairs for text in (pair.left, pair.right)))
    found = geometry_of(model.encoder, texts, GeometrySettings(corrections=False), data.dataset.name, progress)
    return {name.replace("_", " "): found.bands[name].values.tolist() for name in LAYER_MEASURES}


def _skipped(model: ModelUnderTest, progress: Progress | None) -> Measures:
    """Agreement of cosines with scores without each layer, the first to the last."""
    encoder, data = model.encoder, model.data
    layers = encoder.model_view.layers
    if layers < 2:
        raise UsageError(f"{encoder.name} has {layers} layers; leave out the part skipped")
    without = map(encoder.without_layer, range(1, layers + 1))
    found = [evaluate_sts(each, data.pairs, data.dataset.name, progress).agreement["spearman"] for each in without]
    return {"spearman without a layer": [each.value for each in found]}


def class_shares(found: PosRelevance) -> dict[str, float]:
    """Each pair of classes' share of all absolute relevance, biases included; all sum to 1."""
    sizes = np.triu(found.positive - found.negative)
    biases = float((found.bias_positive - found.bias_negative).sum()) + abs(found.bias_both)
    whole = float(sizes.sum()) + biases or 1.0
    cells = {
        f"{found.classes[a]}-{found.classes[b]}": float(sizes[a, b]) / whole
        for a, b in zip(*np.nonzero(np.triu(found.counts)), strict=True)
    }
    return {**cells, "biases": biases / whole}


def _lint(model: ModelUnderTest, progress: Progress | None) -> Measures:
    """The share of pairs that each rule finds."""
    encoder, evidence_of_pairs = model.encoder, model.attributions(progress)[1]
    names = model.data.dataset.name, encoder.name, encoder.pooling_config.pooling
    return {one.rule: one.share.value for one in report(evidence_of_pairs, LintRules(), names).counts}


PARTS: dict[str, Callable[[ModelUnderTest, Progress | None], Measures]] = {
    "sts": _sts, "space": _space, "layers": _layers, "skipped": _skipped,
    "classes": lambda model, progress: dict(class_shares(model.attributions(progress)[0])), "lint": _lint,
}  # fmt: skip


# The result


@dataclass(frozen=True)
class BenchmarkedModel:
    """A model, which run of which row of a table it is, and its measures by part."""

    model: str
    row: str  # a table's folder and the row's name, or the model itself
    seed: int | None = None
    parts: Mapping[str, Measures] = field(default_factory=dict)

    @classmethod
    def of(cls, model: str) -> BenchmarkedModel:
        """With the row and the seed if the model's folder is one of a table's."""
        folder = Path(model).expanduser()
        try:
            seed = int(json.loads((folder / RECORD).read_text(encoding="utf-8"))["facts"]["config"]["seed"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls(model, str(folder.resolve()) if folder.exists() else model)
        return cls(model, str(folder.resolve()).removesuffix(f"-{seed}"), seed)


Lines = Mapping[str, list[Spread | None]]  # The numbers of each row of models, layer by layer


@dataclass(frozen=True, repr=False)
class Benchmark(Result):
    """Several models, measured in the same ways."""

    data: str
    n: int
    models: tuple[BenchmarkedModel, ...]

    @cached_property
    def rows(self) -> dict[str, list[BenchmarkedModel]]:
        """The runs of each row, by short and different names."""
        found: dict[str, list[BenchmarkedModel]] = {}
        for one in self.models:
            found.setdefault(one.row, []).append(one)
        return dict(zip(unique_labels(list(found)), found.values(), strict=True))

    @property
    def parts(self) -> list[str]:
        """The measured parts."""
        return list(self.models[0].parts)

    def _values(self, part: str, by_layer: bool) -> dict[str, dict[str, list[Any]]]:
        """The values of all seeds, single numbers or lists over layers: by measure, then by row."""
        found: dict[str, dict[str, list[Any]]] = {}
        for row, runs in self.rows.items():
            for name, value in (each for run in runs for each in run.parts[part].items()):
                if isinstance(value, list) == by_layer:
                    found.setdefault(name, {}).setdefault(row, []).append(value)
        return found

    def measures(self, part: str) -> dict[str, dict[str, Spread]]:
        """The single numbers of a part: by measure, then by row."""
        return {
            name: {row: spread for row, values in rows.items() if (spread := Spread.of(values)) is not None}
            for name, rows in self._values(part, by_layer=False).items()
        }

    def curves(self, part: str) -> dict[str, dict[str, list[Spread | None]]]:
        """The numbers of a part for each layer: by measure, then by row."""
        return {
            name: {row: [Spread.of(each) for each in zip(*lines, strict=True)] for row, lines in rows.items()}
            for name, rows in self._values(part, by_layer=True).items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Every model's own numbers, and means over seeds."""
        rows: dict[str, dict[str, Any]] = {name: {"seeds": len(runs)} for name, runs in self.rows.items()}
        for part in self.parts:
            for name in rows:
                measures = self.measures(part).items()
                rows[name][part] = {measure: asdict(found[name]) for measure, found in measures if name in found}
        runs = [
            {"model": one.model, "name": name, "seed": one.seed, "parts": dict(one.parts)}
            for name, several in self.rows.items()
            for one in several
        ]
        return {"data": self.data, "n": self.n, "rows": rows, "runs": runs}

    @property
    def notes(self) -> list[str]:
        """The data, and what the numbers are."""
        over = " Means ± standard deviations (n - 1) over seeds." if len(self.models) > len(self.rows) else ""
        return [f"{self.data}, {self.n} pairs; {len(self.models)} models.{over}"]

    def tables(self) -> dict[str, Table]:
        """For each part a table by model; in files also the exact numbers."""
        found: dict[str, Table] = {}
        for part in self.parts:
            if measures := self.measures(part):
                values = [
                    (measure, name, len(self.rows[name]), value.mean, value.deviation)
                    for measure, each in measures.items()
                    for name, value in each.items()
                ]
                found[part] = Table.of(("measure", "model", "seeds", "mean", "sd"), values, detail=True)
                cells = [[name, *(str(each.get(row, "")) for row in self.rows)] for name, each in measures.items()]
                if part == "classes":  # the largest measures of the first row
                    first_row = next(iter(self.rows))
                    means = {name: each[first_row].mean for name, each in measures.items() if first_row in each}
                    cells = sorted(cells, key=lambda cell: -means.get(cell[0], 0.0))[:SHOWN_CLASSES]
                found[f"{part}-by-model"] = Table.of(["measure", *self.rows], cells, part, NOTES[part])
            if lines := self.curves(part):
                first = FIRST_LAYER.get(part, 0)
                values_by_layer = [
                    (measure, name, layer, value.mean, value.deviation)
                    for measure, each in lines.items()
                    for name, line in each.items()
                    for layer, value in enumerate(line, start=first)
                    if value is not None
                ]
                header = ("measure", "model", "layer", "mean", "sd")
                found[f"{part}-layers"] = Table.of(header, values_by_layer, detail=True)
                for measure, rows in lines.items():
                    found[_layer_name(part, measure)] = _layer_table(first, measure, rows)
        return found

    def figures(self) -> dict[str, Figure]:
        """A figure for each measure that has a number for each layer."""
        return {
            _layer_name(part, measure): Figure(
                partial(_layer_curves, FIRST_LAYER.get(part, 0), measure, lines),
                f"{part}: {measure}",
                "" if index else NOTES[part],
            )
            for part in self.parts
            for index, (measure, lines) in enumerate(self.curves(part).items())
        }


def _layer_name(part: str, measure: str) -> str:
    return f"{part}-{measure.replace(' ', '-')}"


def _layer_table(first: int, measure: str, lines: Lines) -> Table:
    depth = max(map(len, lines.values()))
    header = [Column("model"), *(Column(str(layer), format=".3f") for layer in range(first, first + depth))]
    rows = [
        (name, *(each and each.mean for each in line), *[None] * (depth - len(line))) for name, line in lines.items()
    ]
    return Table.of(header, rows, f"{measure}, by layer")


def _layer_curves(first: int, measure: str, lines: Lines) -> Any:
    """A line for each model over its layers; models of other depths are stretched to the same length."""
    positions = np.arange(max(map(len, lines.values())))
    series: dict[str, Series] = {}
    for name, line in lines.items():
        means = np.array([np.nan if value is None else value.mean for value in line])
        spread = np.array([0.0 if value is None else value.deviation or 0.0 for value in line])
        depths = np.linspace(0, positions[-1], len(line))
        middle, low, high = (np.interp(positions, depths, each) for each in (means, means - spread, means + spread))
        series[name] = (middle, low, high) if spread.any() else (middle, None, None)
    return curves(first + positions, series, ("layer", measure), "", whole=True)


def benchmark(
    data: BenchmarkData,
    models: Sequence[str],
    parts: Sequence[str] = DEFAULT_PARTS,
    folder: Path | None = None,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> Benchmark:
    """Measure models part by part; parts that are in the folder are not measured again.

    >>> found = benchmark(BenchmarkData(Dataset("sample/pairs")), ["minilm"], ["sts"])
    >>> found.measures("sts")["spearman"]["minilm"].mean > 0.5
    True
    """
    if unknown := [part for part in parts if part not in PARTS]:
        raise UsageError(f"unknown part {unknown[0]!r}; choose from {', '.join(PARTS)}")
    if not models or not parts:
        raise UsageError("give at least one model and one part to measure")
    if set(GRAMMATICAL) & set(parts):
        data.language  # noqa: B018 -- a missing grammar is reported before the work
    found = []
    # Two spellings of a folder are one run.
    subjects = {(one.row, one.seed): one for one in map(BenchmarkedModel.of, models)}.values()
    for index, subject in enumerate(subjects, start=1):
        noted = named(progress, f"model {index}/{len(subjects)}, {Path(subject.model).name}")
        model = ModelUnderTest(load(subject.model), data)
        measured = {part: _cached(folder, model, part, noted) for part in dict.fromkeys(parts)}
        found.append(replace(subject, parts=measured))
    return Benchmark(data.dataset.name, len(data.pairs), tuple(found))


def _cached(folder: Path | None, model: ModelUnderTest, part: str, progress: Progress | None) -> Measures:
    """The measures of a part, from the folder if they are there."""
    if folder is None:
        return PARTS[part](model, progress)
    grammar = model.data.language.name if part in GRAMMATICAL else ""
    path = folder / "parts" / f"{content_key(part, model_key(model.encoder), model.data.identity, grammar)}.json"
    try:
        found: Measures = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = PARTS[part](model, progress)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(found))
    return found
