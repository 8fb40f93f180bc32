"""The parts of a checkup: what is measured of one model on pairs with scores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import GUESSED, Columns, ScoredPair, locate, read_scored_pairs
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.evaluation.sts import evaluate_sts
from likewise.explain.pairs import explain_many
from likewise.explain.settings import PLAIN
from likewise.geometry.isotropy import IsotropyOptions, IsotropySource, study_isotropy
from likewise.geometry.measuring import geometry_of
from likewise.geometry.settings import GeometrySettings
from likewise.grammar import Grammar
from likewise.lint.evidence import PairEvidence, evidence
from likewise.lint.lint import LintRules, report
from likewise.lint.parsed_pairs import ParsedSides, parsed_sides, unit_classes
from likewise.lint.pos_relevance import ClassSums, PosRelevance
from likewise.metrics import spearman
from likewise.progress import Progress

THIRDS = ("short", "medium", "long")
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
    group_by: str | None = None
    """a column by whose values scores are told apart"""
    limit: int | None = None
    """the first pairs only"""

    @cached_property
    def pairs(self) -> list[ScoredPair]:
        """The pairs."""
        found = list(read_scored_pairs(self.file, columns=self.columns, data_dir=self.data_dir))[: self.limit]
        if len(found) < 2:
            raise DataError(f"{self.file}: a checkup needs at least 2 pairs, got {len(found)}")
        if self.group_by is not None and self.group_by not in found[0].meta:
            known = ", ".join(found[0].meta) or "none"
            raise DataError(f"{self.file} has no other column {self.group_by!r}; there are: {known}")
        return found

    @cached_property
    def language(self) -> Grammar:
        """The grammar of the texts."""
        return Grammar.load(self.grammar)

    @cached_property
    def parsed(self) -> ParsedSides:
        """The grammar of both texts of all pairs."""
        return parsed_sides(self.pairs, self.language)

    @property
    def metadata(self) -> dict[str, Any]:
        """What measures depend on beside the model."""
        with locate(self.file, self.data_dir).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"file": digest, "limit": self.limit, "by": self.group_by, "columns": repr(self.columns)}


class ModelUnderTest:
    """A model and the pairs that it is measured on; pairs are explained once for all parts that ask for it."""

    def __init__(self, encoder: Encoder, source: CheckupSource) -> None:
        self.encoder, self.source = encoder, source
        self._rests: tuple[PosRelevance, list[PairEvidence]] | None = None

    def attributions(self, progress: Progress | None) -> tuple[PosRelevance, list[PairEvidence]]:
        """What the cosines rest on: relevance by part of speech, and the evidence of each pair for lint."""
        if self._rests is None:
            pairs, parsed = self.source.pairs, self.source.parsed
            sums, metadata = ClassSums(), []
            for pair, found in zip(pairs, explain_many(self.encoder, pairs, progress=progress, **PLAIN), strict=True):
                left, right = parsed.left[pair.left], parsed.right[pair.right]
                sums.add(found, unit_classes(found.left, left), unit_classes(found.right, right))
                metadata.append(evidence(pair, found, left, right))
            self._rests = sums.result(), metadata
        return self._rests


Part = Callable[[ModelUnderTest, Progress | None], Measures]


def _sts(examinee: ModelUnderTest, progress: Progress | None) -> Measures:
    """How cosines follow scores: over all, by the column, and by length."""
    source = examinee.source
    found = evaluate_sts(examinee.encoder, source.pairs, source.file, progress)
    measures: Measures = {name: each.value for name, each in found.agreement.items()}
    groups = _lengths(source.pairs)
    if source.group_by is not None:
        groups = {
            f"{source.group_by} {value}": rows for value, rows in _values(source.pairs, source.group_by).items()
        } | groups
    for name, rows in groups.items():
        if len(rows) > 1:
            measures[f"spearman, {name}"] = spearman(found.predicted[rows], found.truth[rows])
    return measures


def _values(pairs: Sequence[ScoredPair], column: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        found.setdefault(str(pair.meta.get(column, "")), []).append(index)
    return dict(sorted(found.items()))


def _lengths(pairs: Sequence[ScoredPair]) -> dict[str, list[int]]:
    """Thirds of the pairs by the number of their words."""
    words = np.array([len(f"{pair.left} {pair.right}".split()) for pair in pairs])
    parts = np.array_split(np.argsort(words, kind="stable"), len(THIRDS))
    return {name: sorted(map(int, part)) for name, part in zip(THIRDS, parts, strict=True)}


def _space(examinee: ModelUnderTest, progress: Progress | None) -> Measures:
    """The space of the vectors: expected cosine of two texts, IsoScore, recall."""
    source = examinee.source
    task = IsotropySource(source.file, columns=source.columns, data_dir=source.data_dir, limit=source.limit).read()
    plain = study_isotropy(examinee.encoder, task, IsotropyOptions(dims=()), progress).settings[0]
    recall = {f"recall@{k}": each.value for k, each in plain.recall.items()}
    return {"baseline": plain.baseline, "isoscore": plain.isoscore, **recall}


def _layers(examinee: ModelUnderTest, progress: Progress | None) -> Measures:
    """The geometry of the words in every layer."""
    source = examinee.source
    texts = list(dict.fromkeys(text for pair in source.pairs for text in (pair.left, pair.right)))
    found = geometry_of(examinee.encoder, texts, GeometrySettings(corrections=False), source.file, progress)
    return {name.replace("_", " "): found.bands[name].values.tolist() for name in CURVES}


def _skipped(examinee: ModelUnderTest, progress: Progress | None) -> Measures:
    """How cosines follow scores with each layer left out, the first to the last."""
    encoder, source = examinee.encoder, examinee.source
    layers = encoder.model_view.layers
    if layers < 2:
        raise UsageError(f"{encoder.name} has one layer; leave out the part skipped")
    found = [
        evaluate_sts(encoder.without_layer(layer), source.pairs, source.file, progress).agreement["spearman"].value
        for layer in range(1, layers + 1)
    ]
    return {"spearman without a layer": found}


def _classes(examinee: ModelUnderTest, progress: Progress | None) -> Measures:
    """Which parts of speech the cosines rest on: shares of all absolute relevance."""
    return dict(class_shares(examinee.attributions(progress)[0]))


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


def _lint(examinee: ModelUnderTest, progress: Progress | None) -> Measures:
    """The share of pairs that each rule finds."""
    encoder = examinee.encoder
    _, metadata = examinee.attributions(progress)
    found = report(metadata, LintRules(), (examinee.source.file, encoder.name, encoder.pooling_config.pooling))
    return {one.rule: one.share.value for one in found.counts}


PARTS: dict[str, Part] = {
    "sts": _sts, "space": _space, "layers": _layers, "skipped": _skipped, "classes": _classes, "lint": _lint,
}  # fmt: skip
GRAMMATICAL = ("classes", "lint")
"""Parts that need a grammar."""
FIRST_LAYER = {"skipped": 1}
"""The number of the first layer of a part's curves, where that is not the embeddings'."""
