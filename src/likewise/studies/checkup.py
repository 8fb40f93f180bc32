"""Checkups: several models measured in the same ways, so that what a training changed inside shows.

Each part of each model is kept on disk once it is measured, and models that are rows of one table of runs are
summed up over their seeds.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import GUESSED, Columns, ScoredPair, locate, read_scored_pairs
from likewise.drawing.html import table
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.explain.lint_rules import LintRules
from likewise.explain.parsed_pairs import parsed_sides
from likewise.explain.patterns import patterns
from likewise.explain.pos_relevance import PosRelevance
from likewise.geometry.measuring import geometry_of
from likewise.geometry.settings import GeometrySettings
from likewise.grammar import Grammar
from likewise.metrics import spearman
from likewise.progress import Progress
from likewise.studies.isotropy import IsotropyOptions, IsotropySource, study_isotropy
from likewise.studies.linting import lint_pairs
from likewise.studies.sts import evaluate_sts
from likewise.studies.training import RECORD

THIRDS = ("short", "medium", "long")
SHOWN_CLASSES = 12
"""Pairs of classes whose share is told, the strongest of the first model's."""
CURVES = ("baseline", "self_similarity_adjusted", "intra_similarity_adjusted", "isoscore", "effective_rank")

Measures = dict[str, float | list[float]]
"""A number, or one for each layer, by name."""


@dataclass(frozen=True)
class CheckupSource:
    """The pairs with scores that all models are measured on.

    >>> len(CheckupSource("sample/pairs", limit=5).pairs)
    5
    """

    file: str
    columns: Columns = GUESSED
    data_dir: Path | None = None
    grammar: str | None = None
    """the spaCy pipeline for the parts that need one"""
    by: str | None = None
    """a column by whose values scores are told apart"""
    limit: int | None = None
    """the first pairs only"""

    @cached_property
    def pairs(self) -> list[ScoredPair]:
        """The pairs."""
        found = list(read_scored_pairs(self.file, columns=self.columns, data_dir=self.data_dir))[: self.limit]
        if len(found) < 2:
            raise DataError(f"{self.file}: a checkup needs at least 2 pairs, got {len(found)}")
        if self.by is not None and self.by not in found[0].meta:
            known = ", ".join(found[0].meta) or "none"
            raise DataError(f"{self.file} has no other column {self.by!r}; there are: {known}")
        return found

    @cached_property
    def language(self) -> Grammar:
        """The grammar of the texts."""
        return Grammar.load(self.grammar)

    @property
    def facts(self) -> dict[str, Any]:
        """What measures depend on beside the model."""
        with locate(self.file, self.data_dir).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"file": digest, "limit": self.limit, "by": self.by, "columns": repr(self.columns)}


Part = Callable[[Encoder, CheckupSource, Progress | None], Measures]


def _sts(encoder: Encoder, source: CheckupSource, progress: Progress | None) -> Measures:
    """How cosines follow scores: over all, by the column, and by length."""
    found = evaluate_sts(encoder, source.pairs, source.file, progress)
    measures: Measures = {name: each.value for name, each in found.agreement.items()}
    groups = _lengths(source.pairs)
    if source.by is not None:
        groups = {f"{source.by} {value}": rows for value, rows in _values(source.pairs, source.by).items()} | groups
    for name, rows in groups.items():
        if len(rows) > 1:
            measures[f"spearman, {name}"] = spearman(found.predicted[rows], found.truth[rows])
    return measures


def _values(pairs: Sequence[ScoredPair], column: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        found.setdefault(str(pair.meta.get(column, "")), []).append(place)
    return dict(sorted(found.items()))


def _lengths(pairs: Sequence[ScoredPair]) -> dict[str, list[int]]:
    """Thirds of the pairs by the number of their words."""
    words = np.array([len(f"{pair.left} {pair.right}".split()) for pair in pairs])
    parts = np.array_split(np.argsort(words, kind="stable"), len(THIRDS))
    return {name: sorted(map(int, part)) for name, part in zip(THIRDS, parts, strict=True)}


def _space(encoder: Encoder, source: CheckupSource, progress: Progress | None) -> Measures:
    """The space of the vectors: expected cosine of two texts, IsoScore, recall."""
    task = IsotropySource(source.file, columns=source.columns, data_dir=source.data_dir, limit=source.limit).read()
    plain = study_isotropy(encoder, task, IsotropyOptions(dims=()), progress).settings[0]
    recall = {f"recall@{k}": each.value for k, each in plain.recall.items()}
    return {"baseline": plain.baseline, "isoscore": plain.isoscore, **recall}


def _layers(encoder: Encoder, source: CheckupSource, progress: Progress | None) -> Measures:
    """The geometry of the words in every layer."""
    texts = list(dict.fromkeys(text for pair in source.pairs for text in (pair.left, pair.right)))
    found = geometry_of(encoder, texts, GeometrySettings(corrections=False), source.file, progress)
    return {name.replace("_", " "): found.bands[name].values.tolist() for name in CURVES}


def _skipped(encoder: Encoder, source: CheckupSource, progress: Progress | None) -> Measures:
    """How cosines follow scores with each layer left out, the first to the last."""
    layers = encoder.anatomy.layers
    if layers < 2:
        raise UsageError(f"{encoder.name} has one layer; leave out the part skipped")
    found = [
        evaluate_sts(encoder.without_layer(layer), source.pairs, source.file, progress).agreement["spearman"].value
        for layer in range(1, layers + 1)
    ]
    return {"spearman without a layer": found}


def _classes(encoder: Encoder, source: CheckupSource, progress: Progress | None) -> Measures:
    """Which parts of speech the cosines rest on: shares of all absolute relevance."""
    parsed = parsed_sides(source.pairs, source.language, progress=progress)
    found = patterns(encoder, source.pairs, parsed, data=source.file, progress=progress).classes
    return dict(class_shares(found))


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


def _lint(encoder: Encoder, source: CheckupSource, progress: Progress | None) -> Measures:
    """The share of pairs that each rule finds."""
    report = lint_pairs(encoder, source.pairs, source.language, LintRules(), source.file, progress)
    return {one.rule: one.share.value for one in report.counts}


PARTS: dict[str, Part] = {
    "sts": _sts, "space": _space, "layers": _layers, "skipped": _skipped, "classes": _classes, "lint": _lint,
}  # fmt: skip
ALWAYS = ("sts", "space", "layers")
"""Parts that need no grammar and one pass over the texts each."""


@dataclass(frozen=True)
class Subject:
    """A model, and which run of which row of a table it is."""

    model: str
    name: str
    seed: int | None = None

    @classmethod
    def of(cls, model: str) -> Subject:
        """The row and the seed where the model's folder is one of a table's, else the model's own name."""
        record = Path(model).expanduser() / RECORD
        try:
            seed = int(json.loads(record.read_text(encoding="utf-8"))["facts"]["config"]["seed"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls(model, Path(model).name or model)
        return cls(model, record.parent.resolve().name.removesuffix(f"-{seed}"), seed)


@dataclass(frozen=True)
class Examined:
    """What was found of one model, by part."""

    subject: Subject
    parts: Mapping[str, Measures]


@dataclass(frozen=True)
class Value:
    """A measure over the runs of a row."""

    mean: float
    deviation: float | None
    """over seeds, with n - 1; None of a single one"""

    @classmethod
    def of(cls, values: Sequence[float]) -> Value:
        """Of the runs' own values."""
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation)

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.deviation is None else f" ± {self.deviation:.3f}")


@dataclass(frozen=True)
class Checkup:
    """Several models, measured in the same ways."""

    data: str
    n: int
    examined: tuple[Examined, ...]

    @property
    def names(self) -> list[str]:
        """The rows, in order."""
        return list(dict.fromkeys(one.subject.name for one in self.examined))

    def seeds(self, name: str) -> int:
        """How many runs a row has."""
        return sum(one.subject.name == name for one in self.examined)

    def measures(self, part: str) -> dict[str, dict[str, Value]]:
        """The single numbers of a part: by measure, then by row."""
        names = dict.fromkeys(name for one in self.examined for name in _numbers(one.parts[part]))
        return {
            name: {
                row: Value.of(values)
                for row in self.names
                if (values := [float(numbers[name]) for numbers in self._of(row, part) if name in numbers])
            }
            for name in names
        }

    def curves(self, part: str) -> dict[str, dict[str, list[Value]]]:
        """The numbers of a part that each layer has: by measure, then by row."""
        names = dict.fromkeys(
            name for one in self.examined for name, value in one.parts[part].items() if isinstance(value, list)
        )
        found: dict[str, dict[str, list[Value]]] = {}
        for name in names:
            for row in self.names:
                runs = [one.parts[part].get(name) for one in self.examined if one.subject.name == row]
                lines = [run for run in runs if isinstance(run, list)]
                if lines:
                    found.setdefault(name, {})[row] = [Value.of(values) for values in zip(*lines, strict=True)]
        return found

    def _of(self, row: str, part: str) -> list[dict[str, float]]:
        return [_numbers(one.parts[part]) for one in self.examined if one.subject.name == row]

    @property
    def parts(self) -> list[str]:
        """Which parts were measured."""
        return list(self.examined[0].parts)

    def table(self, part: str) -> tuple[list[str], list[list[object]]]:
        """A part's single numbers, a line for each measure and a column for each row of runs."""
        found = self.measures(part)
        if part == "classes":
            found = _strongest(found, self.names[0])
        return ["measure", *self.names], [
            [name, *(each.get(row, "") for row in self.names)] for name, each in found.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Every model's own numbers, and means over seeds."""
        rows = {
            name: {
                "seeds": self.seeds(name),
                **{
                    part: {
                        measure: vars(values[name]) for measure, values in self.measures(part).items() if name in values
                    }
                    for part in self.parts
                },
            }
            for name in self.names
        }
        runs = [{**vars(one.subject), "parts": dict(one.parts)} for one in self.examined]
        return {"data": self.data, "n": self.n, "rows": rows, "runs": runs}

    def _repr_html_(self) -> str:
        return "".join(table(*self.table(part)) for part in self.parts if self.measures(part))


def _numbers(measures: Measures) -> dict[str, float]:
    return {name: value for name, value in measures.items() if not isinstance(value, list)}


def _strongest(found: dict[str, dict[str, Value]], row: str) -> dict[str, dict[str, Value]]:
    """The measures that are the largest in a row."""
    order = sorted(found, key=lambda name: -found[name][row].mean if row in found[name] else 0.0)
    return {name: found[name] for name in order[:SHOWN_CLASSES]}


def checkup(
    source: CheckupSource,
    models: Sequence[str],
    parts: Sequence[str] = ALWAYS,
    folder: Path | None = None,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> Checkup:
    """Measure models part by part; with a folder, what is there is read and not measured again.

    >>> found = checkup(CheckupSource("sample/pairs"), ["minilm"], ["sts"])
    >>> found.measures("sts")["spearman"]["minilm"].mean > 0.5
    True
    """
    if strangers := [part for part in parts if part not in PARTS]:
        raise UsageError(f"unknown part {strangers[0]!r}; choose from {', '.join(PARTS)}")
    if not models or not parts:
        raise UsageError("give at least one model and one part to measure")
    if {"classes", "lint"} & set(parts):
        source.language  # noqa: B018 -- a missing grammar is told before the work
    examined = []
    for place, model in enumerate(dict.fromkeys(models), start=1):
        told = _told(progress, f"model {place}/{len(models)}, {Path(model).name}")
        kept = _Kept(folder, source, load(model))
        examined.append(Examined(Subject.of(model), {part: kept.part(part, told) for part in dict.fromkeys(parts)}))
    return Checkup(source.file, len(source.pairs), tuple(examined))


@dataclass(frozen=True)
class _Kept:
    """What is known of a model already, in a file for each part."""

    folder: Path | None
    source: CheckupSource
    encoder: Encoder

    def part(self, name: str, progress: Progress | None) -> Measures:
        """The measures of a part, read back or made."""
        if self.folder is None:
            return PARTS[name](self.encoder, self.source, progress)
        path = self.folder / "parts" / f"{self._key(name)}.json"
        try:
            found: Measures = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = PARTS[name](self.encoder, self.source, progress)
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".draft")
            draft.write_text(json.dumps(found), encoding="utf-8")
            draft.replace(path)
        return found

    def _key(self, name: str) -> str:
        own = [self.encoder.hash, self.encoder.config_hash, self.encoder.heads_hash, repr(self.encoder.reading)]
        grammar = self.source.language.name if name in ("classes", "lint") else ""
        return hashlib.sha256(json.dumps([name, own, self.source.facts, grammar], sort_keys=True).encode()).hexdigest()


def _told(progress: Progress | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total, note: progress(done, total, f"{name}: {note}")
