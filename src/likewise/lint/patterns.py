"""Patterns: what a model's similarities rest on, over a whole corpus of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.explain.explanation import Array
from likewise.explain.pairs import explain_many
from likewise.lint.level_errors import Disagreement, LevelErrors, disagreements, level_errors
from likewise.lint.parsed_pairs import ParsedSides, scores_of, unit_classes
from likewise.lint.pos_relevance import ClassSums, PosRelevance
from likewise.lint.word_pairs import WordPair, strongest_by_quarter, strongest_words
from likewise.progress import Progress

TOP = 10


@dataclass(frozen=True, eq=False)
class Patterns:
    """One encoder on n pairs: relevance by part of speech, strongest words, errors where there are human scores."""

    data: str
    model: str
    pooling: str
    bias: str
    classes: PosRelevance
    strongest: dict[str, tuple[WordPair, ...]]
    """by quarter of the predicted similarity, from top to bottom"""
    predicted: Array
    truth: Array | None = None
    errors: LevelErrors | None = None
    farthest: tuple[Disagreement, ...] = ()
    """where the human score and the prediction, mapped onto its scale by a least-squares line, differ most"""

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.predicted)

    @property
    def name(self) -> str:
        """Data, model and pooling in one line; of a folder only its own name."""
        return f"{self.data}, {self.short_model}, {self.pooling}"

    @property
    def short_model(self) -> str:
        """The model's name without the folders or the organisation it belongs to."""
        return Path(self.model).name or self.model

    def to_dict(self) -> dict[str, Any]:
        """Everything but the n predictions."""
        metadata = {
            "data": self.data,
            "model": self.model,
            "pooling": self.pooling,
            "bias_mode": self.bias,
            "n": self.n,
        }
        strongest = {name: [one.to_dict() for one in part] for name, part in self.strongest.items()}
        errors = None if self.errors is None else self.errors.to_dict()
        farthest = [one.to_dict() for one in self.farthest]
        numbers = {"strongest": strongest, "errors": errors, "farthest": farthest}
        return metadata | {"relevance": self.classes.to_dict()} | numbers

    def plot(self, ax: Any = None, kind: str = "summed") -> Any:
        """Relevance between the classes as a heat map, scaled."""
        return self.classes.plot(ax, kind, f"{self.name}, n = {self.n}")

    def _repr_html_(self) -> str:
        return self.classes._repr_html_() + ("" if self.errors is None else self.errors._repr_html_())


def patterns(
    encoder: Encoder,
    pairs: Sequence[Pair | ScoredPair],
    parsed: ParsedSides,
    *,
    data: str = "pairs",
    bias: str = "separate",
    top: int = TOP,
    progress: Progress | None = None,
) -> Patterns:
    """Explain every pair by token, one after the other, and add up what the similarities rest on.

    >>> from likewise.data import read_scored_pairs
    >>> from likewise.lint.parsed_pairs import parsed_sides
    >>> from likewise.grammar import Grammar
    >>> pairs = list(read_scored_pairs("sample/pairs"))
    >>> parsed = parsed_sides(pairs, Grammar.load("en_core_web_sm"))  # doctest: +SKIP
    >>> patterns(Encoder.load("minilm"), pairs, parsed).n  # doctest: +SKIP
    60
    """
    if not pairs:
        raise DataError(f"{data}: no pair to explain; give a file with at least one")
    sums, words, predicted = ClassSums(), list[WordPair](), np.zeros(len(pairs))
    stream = explain_many(encoder, pairs, granularity="token", progress=progress, bias=bias, reference="none")
    for row, (pair, found) in enumerate(zip(pairs, stream, strict=True)):
        left, right = parsed.left[pair.left], parsed.right[pair.right]
        sums.add(found, unit_classes(found.left, left), unit_classes(found.right, right))
        words += strongest_words(found, pair.id, top)
        predicted[row] = found.similarity
    truth = scores_of(pairs)
    scored = truth is not None and len(pairs) > 1
    return Patterns(
        data, encoder.name, encoder.pooling_config.pooling, bias, sums.result(),
        strongest_by_quarter(words, predicted, top), predicted, truth,
        level_errors(predicted, truth) if scored and truth is not None else None,
        disagreements(pairs, predicted, truth, top) if scored and truth is not None else (),
    )  # fmt: skip
