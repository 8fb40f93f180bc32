"""Exact differences: why one text ranks above another, and how two models differ on the same pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.text import Text

from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.cross_encoder import CrossEncoder, Scoring
from likewise.encoder.encoder import Source
from likewise.explain.cross_encoder import CrossExplanation, explain_cross_encoder
from likewise.explain.explanation import STRONGEST_PAIRS, Array, Contrast, Explanation
from likewise.explain.pairs import explain, explain_many
from likewise.explain.texts import Unit
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.heatmap import heatmap
from likewise.plotting.html import section
from likewise.plotting.terminal import matrix_lines
from likewise.results import Column, Figure, Result, Table

CELL, EDGE, SMALLEST, LARGEST, TITLE = 0.42, 2.3, 3.6, 9.0, 0.6
"""Inches: a cell's side, the space for labels, the bounds of a panel, and the space for its title."""
KIND_NAMES = {"special": "(special tokens)", "prompt": "(prompt)", "rest": "(rest)"}


@takes_encoder
def contrast(
    encoder: Encoder,
    query: str,
    better: str,
    worse: str,
    granularity: str = "word",
    similarity: str = "cosine",
    *,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    **settings: Any,
) -> Contrast:
    """Explain why a query is more similar to one text than to another, by its words.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = contrast(encoder, "volcano erupted", "The volcano spat ash.", "The bank cut rates.")
    >>> max(found.query, key=lambda item: item[1])[0].text
    'volcano'
    """
    prompts: dict[str, Any] = {"left_prompt": query_prompt, "right_prompt": document_prompt}
    pairs = [(query, better), (query, worse)]
    return Contrast(*explain_many(encoder, pairs, "bilrp", granularity, similarity, **prompts, **settings))


def aligned_contrasts(first: Contrast, second: Contrast) -> list[tuple[str, float, float]]:
    """What each unit of a query adds to two contrasts of the same query and texts, by two models.

    Words are aligned by their characters, and special tokens, prompts and biases by their kind; what one model lacks is
    0. Each column sums to the difference of its contrast, less the gap.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> texts = "warm soup", "The soup is hot.", "The car is red."
    >>> rows = aligned_contrasts(contrast(encoder, *texts), contrast(encoder.with_pooling(layer=3), *texts))
    >>> [label for label, _, _ in rows]
    ['warm', 'soup', '(special tokens)', '(reference)']
    """
    sums: dict[tuple[object, ...], list[float]] = {}
    labels: dict[tuple[object, ...], str] = {}
    for column, one in enumerate((first, second)):
        for unit, share in one.query:
            key = (False, unit.start, unit.end) if unit.kind == "text" else (True, unit.kind)
            labels.setdefault(key, unit.text if unit.kind == "text" else KIND_NAMES[unit.kind])
            sums.setdefault(key, [0.0, 0.0])[column] += share
    rows = [(labels[key], sums[key][0], sums[key][1]) for key in sorted(sums)]
    return [*rows, (f"({first.better.metadata.rest})", first.query_bias, second.query_bias)]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """One pair through two models or poolings, aligned by character spans; differences are second minus first.

    >>> from likewise.explain import compare
    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = compare(encoder, encoder.with_pooling(layer=3), "A cat sat.", "A dog ran.")
    >>> found.difference.shape
    (6, 6)
    """

    first: Explanation
    second: Explanation
    left: tuple[Unit, ...]
    right: tuple[Unit, ...]
    before: Array  # the first ledger on the common units and, last, the bias: (n + 1, m + 1)
    after: Array

    @property
    def difference(self) -> Array:
        """What changed, cell by cell: (n + 1, m + 1); with the gaps it sums to the change of the similarity."""
        return self.after - self.before

    @property
    def change(self) -> float:
        """How the similarity changed."""
        return self.second.similarity - self.first.similarity

    @property
    def gap(self) -> float:
        """What is left unexplained of the change."""
        return self.change - float(self.difference.sum())

    @property
    def labels(self) -> tuple[list[str], list[str]]:
        """Names of the rows and of the columns."""
        rest = f"({self.first.metadata.rest})"
        left, right = ([unit.text for unit in units] + [rest] for units in (self.left, self.right))
        return left, right

    def to_dict(self) -> dict[str, Any]:
        """Both explanations, the common units and the difference."""
        names = dict(zip(("left", "right"), self.labels, strict=True))
        numbers = {"difference": self.difference.tolist(), "change": self.change, "gap": self.gap}
        return {"units": names} | numbers | {"first": self.first.to_dict(), "second": self.second.to_dict()}

    def plot(self, ax: Any = None) -> Any:
        """The difference as a heat map."""
        title = f"{self.second.metadata.model} minus {self.first.metadata.model}: {self.change:+.3f}"
        return heatmap(self.difference, *self.labels, title, ax)

    title = "What another model makes of the same two texts"

    @property
    def notes(self) -> list[str]:
        """Both scores and their difference."""
        scores = [one.metadata.headline(one.similarity) for one in (self.first, self.second)]
        return [*scores, f"second minus first: {self.change:+.4f}, of which unexplained {self.gap:.1e}"]

    def tables(self) -> dict[str, Table]:
        """Every cell of the difference, and the strongest."""
        rows, columns = self.labels
        order = np.argsort(-np.abs(self.difference), axis=None, kind="stable")
        indices = zip(*np.unravel_index(order, self.difference.shape), strict=True)
        cells = [(rows[row], columns[column], float(self.difference[row, column])) for row, column in indices]
        header = ("left", "right", "difference")
        return {
            "difference": Table.of(header, cells, detail=True),
            "strongest": Table.of(header, cells[:STRONGEST_PAIRS], "strongest differences", summary=True),
        }

    def figures(self) -> dict[str, Figure]:
        """The difference."""
        return {"difference": Figure(self.plot, "Difference of the two ledgers")}

    def lines(self, width: int) -> list[Text]:
        """The difference as a matrix."""
        return matrix_lines(self.difference, *self.labels, width)


def compare(
    encoder_a: Encoder | Source,
    encoder_b: Encoder | Source,
    left: str,
    right: str,
    granularity: str = "word",
    similarity: str = "cosine",
    *,
    left_prompt: str | None = None,
    right_prompt: str | None = None,
    **settings: Any,
) -> Comparison:
    """Compare the explanations of a pair by two models or poolings, or before and after fine-tuning.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = compare(encoder, encoder.with_pooling(pooling="cls"), "A cat sat.", "A dog ran.")
    >>> abs(found.gap) < 1e-5
    True
    """
    options: dict[str, Any] = {"fold_special": True, "left_prompt": left_prompt, "right_prompt": right_prompt}
    options |= settings
    first, second = (
        explain(encoder, left, right, "bilrp", granularity, similarity, **options) for encoder in (encoder_a, encoder_b)
    )
    rows = _common(first.left.units, second.left.units)
    columns = _common(first.right.units, second.right.units)
    before, after = (_on_common(one, rows, columns) for one in (first, second))
    return Comparison(first, second, rows, columns, before, after)


@dataclass(frozen=True, eq=False, repr=False)
class ScorerComparison(Result):
    """One pair through a cross-encoder and another model: what each word adds to the score of either.

    A logit and a cosine have no common scale. So each share also stands as a part of all words' absolute shares.

    >>> found = compare_scorers(cross_encoder, encoder, "A cat sat.", "A cat slept.")  # doctest: +SKIP
    >>> found.tables()["words"].headings  # doctest: +SKIP
    ['side', 'word', 'first', 'second', 'first part', 'second part']
    """

    first: Explanation | CrossExplanation
    second: Explanation | CrossExplanation

    @property
    def rows(self) -> list[tuple[str, str, float, float]]:
        """Each word with its side and its shares in both scores; 0 for a word that one model does not have."""
        return [row for side in ("left", "right") for row in self._rows_of(side)]

    def _rows_of(self, side: str) -> list[tuple[str, str, float, float]]:
        both = [_text_shares(one, side) for one in (self.first, self.second)]
        units = {key: unit for found in both for key, (unit, _) in found.items()}
        shares = [[found[key][1] if key in found else 0.0 for key in units] for found in both]
        rows = zip(units.values(), *shares, strict=True)
        return [(side, unit.text, one, other) for unit, one, other in sorted(rows, key=lambda row: row[0].start)]

    def to_dict(self) -> dict[str, Any]:
        """Both explanations and the words with both shares."""
        words = [dict(zip(("side", "word", "first", "second"), row, strict=True)) for row in self.rows]
        return {"words": words, "first": self.first.to_dict(), "second": self.second.to_dict()}

    title = "What two models make of the same two texts"

    @property
    def notes(self) -> list[str]:
        """Both scores."""
        return [_headline(one) for one in (self.first, self.second)]

    def tables(self) -> dict[str, Table]:
        """The words of both texts with their shares."""
        first, second = sum(abs(row[2]) for row in self.rows) or 1.0, sum(abs(row[3]) for row in self.rows) or 1.0
        rows = [(*row, row[2] / first, row[3] / second) for row in self.rows]
        parts = [Column(f"{name}_part", format="+.1%") for name in ("first", "second")]
        return {"words": Table.of(["side", "word", "first", "second", *parts], rows, "shares of words")}

    def fragments(self) -> list[str]:
        """Both explanations, then the words."""
        drawn = [section(_headline(one), one.fragments()) for one in (self.first, self.second)]
        return [*self._table_fragments(), *drawn]


def _text_shares(found: Explanation | CrossExplanation, side: str) -> dict[tuple[int, int], tuple[Unit, float]]:
    """The units of one of the texts with their shares, by their characters."""
    units, shares = getattr(found, side).units, getattr(found, f"{side}_shares").tolist()
    totals: dict[tuple[int, int], tuple[Unit, float]] = {}
    for unit, share in zip(units, shares, strict=True):
        if unit.kind == "text":
            # Added: a tokenizer may make several units of one span (the bytes of an emoji).
            totals[unit.start, unit.end] = unit, totals.get((unit.start, unit.end), (unit, 0.0))[1] + share
    return totals


def _headline(found: Explanation | CrossExplanation) -> str:
    return found.headline if isinstance(found, CrossExplanation) else found.metadata.headline(found.similarity)


def compare_scorers(first: Scoring, second: Scoring, left: str, right: str, **options: Any) -> ScorerComparison:
    """The same pair through two models, of which at least one is a cross-encoder; ``options`` are those of both."""
    how = {"granularity": "word", **options}
    found = [
        explain_cross_encoder(one, left, right, **how)
        if isinstance(one, CrossEncoder)
        else explain(one, left, right, **how)
        for one in (first, second)
    ]
    return ScorerComparison(*found)


def _key(unit: Unit) -> tuple[object, ...]:
    return unit.kind, unit.start, unit.end, unit.text if unit.kind != "text" else ""


def _common(first: tuple[Unit, ...], second: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """All units of both, each once, in the order of the text."""
    every = {_key(unit): unit for unit in (*first, *second)}
    return tuple(sorted(every.values(), key=lambda unit: (unit.kind == "special", unit.start, unit.end)))


def _on_common(explanation: Explanation, rows: tuple[Unit, ...], columns: tuple[Unit, ...]) -> Array:
    """A ledger spread on common units; what one side does not know is 0."""
    down = {_key(unit): index for index, unit in enumerate(rows)}
    across = {_key(unit): index for index, unit in enumerate(columns)}
    left = [down[_key(unit)] for unit in explanation.left.units]
    right = [across[_key(unit)] for unit in explanation.right.units]
    cells = np.zeros((len(rows) + 1, len(columns) + 1))
    # Added, not set: a tokenizer may make several units of one span (the bytes of an emoji).
    np.add.at(cells, np.ix_(left, right), explanation.relevance)
    np.add.at(cells[:, -1], left, explanation.bias_left)
    np.add.at(cells[-1], right, explanation.bias_right)
    cells[-1, -1] += explanation.bias_both
    return cells


@dataclass(frozen=True, eq=False, repr=False)
class SideBySide(Result):
    """Explanations of one row by their names, e.g. en-en, de-de and en-de."""

    row: int
    explanations: Mapping[str, Explanation]

    def to_dict(self) -> dict[str, Any]:
        """The row's number and every ledger under its name."""
        return {"row": self.row} | {"maps": {name: one.to_dict() for name, one in self.explanations.items()}}

    def tables(self) -> dict[str, Table]:
        """The similarity of each pair."""
        rows = [(name, one.similarity) for name, one in self.explanations.items()]
        return {f"row_{self.row}": Table.of(("pair", "similarity"), rows, f"row {self.row}", summary=True)}

    def figures(self) -> dict[str, Figure]:
        """The heat maps."""
        return {f"row_{self.row}": Figure(self.plot, f"Row {self.row}, word by word")}

    def fragments(self) -> list[str]:
        """Every explanation as HTML."""
        return [section(f"row {self.row}, {name}", one.fragments()) for name, one in self.explanations.items()]

    def _repr_html_(self) -> str:
        return "".join(self.fragments())

    def plot(self) -> Any:
        """A heat map each, in one row; returns the first Axes."""
        count = len(self.explanations)
        longest = max(max(one.relevance.shape) for one in self.explanations.values())
        side = min(LARGEST, max(SMALLEST, CELL * longest + EDGE))
        panels = grid_of_axes(count, (side, side + TITLE), count)
        for ax, (name, one) in zip(panels, self.explanations.items(), strict=True):
            title = f"{name}: {one.similarity:.3f}"
            heatmap(one.relevance, one.left.labels, one.right.labels, title, ax)
        return panels[0]


def side_by_side(
    encoder: Encoder, texts: Mapping[str, tuple[str, str]], row: int, granularity: str = "word", bias: str = "separate"
) -> SideBySide:
    """Explain one row's named pairs of texts."""
    found = explain_many(encoder, list(texts.values()), granularity=granularity, bias=bias, reference="none")
    return SideBySide(row, dict(zip(texts, found, strict=True)))
