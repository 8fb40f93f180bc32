"""Relevance between parts of speech: the ledgers of many pairs, added up by the classes of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.errors import DataError, UsageError
from likewise.explain.explanation import Array, Explanation
from likewise.lint.parsed_pairs import NO_WORD, PROMPT
from likewise.plotting.heatmap import split_heatmap
from likewise.plotting.html import table
from likewise.plotting.style import drawable, literal, strongest

PARTS_OF_SPEECH = (
    "NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM", "PRON", "DET", "ADP", "AUX", "CCONJ", "SCONJ", "PART", "INTJ",
    "SYM", "PUNCT",
)  # fmt: skip
"""In the order of the tables: what carries content first."""

ClassRow = tuple[str, str, int, float, float, float, float, float, float, float, float]
KINDS = ("summed", "averaged")
SIGNS = ("positive", "negative")
ROOM = 32
"""Classes that a fresh accumulator has room for; it grows."""


@dataclass(frozen=True, eq=False)
class PosRelevance:
    """What each pair of k classes makes of the similarities of a corpus; positive and negative cells apart.

    A class pair is unordered: (a, b) holds left a with right b and left b with right a, so all tables are
    symmetric. The upper triangles and the bias sum to the sum of the similarities.
    """

    classes: tuple[str, ...]
    positive: Array
    """the sum of the positive cells, (k, k)"""
    negative: Array
    """the sum of the negative cells, (k, k)"""
    counts: Array
    """the number of token pairs, (k, k)"""
    bias_positive: Array
    """what each class makes with the other side's bias, positive cells, (k,)"""
    bias_negative: Array
    bias_both: float = 0.0
    """the sum of the products of both biases"""

    @property
    def total(self) -> float:
        """All that was added up: the sum of the explained similarities."""
        cells = float(np.triu(self.positive + self.negative).sum())
        return cells + float(self.bias_positive.sum() + self.bias_negative.sum()) + self.bias_both

    def table(self, kind: str = "summed") -> tuple[Array, Array]:
        """The positive and the negative table, (k, k) each: summed, or averaged over the class pair's token pairs."""
        if kind not in KINDS:
            raise UsageError(f"unknown table {kind!r}; choose from {', '.join(KINDS)}")
        divisor = np.ones_like(self.counts) if kind == "summed" else np.maximum(self.counts, 1)
        return self.positive / divisor, self.negative / divisor

    def scaled(self, kind: str = "summed") -> tuple[Array, Array]:
        """The same two tables divided by the largest absolute value in either."""
        positive, negative = self.table(kind)
        largest = max(float(positive.max(initial=0.0)), float(-negative.min(initial=0.0))) or 1.0
        return positive / largest, negative / largest

    def on(self, classes: Sequence[str]) -> PosRelevance:
        """The same on other classes, in their order; those that are not known here are 0."""
        known = [position for position, name in enumerate(self.classes) if name in classes]
        target = [list(classes).index(self.classes[position]) for position in known]
        wide, rows = np.zeros((3, len(classes), len(classes))), np.zeros((2, len(classes)))
        stack = np.stack([self.positive, self.negative, self.counts])
        wide[np.ix_(range(3), target, target)] = stack[np.ix_(range(3), known, known)]
        rows[:, target] = np.stack([self.bias_positive, self.bias_negative])[:, known]
        return PosRelevance(tuple(classes), wide[0], wide[1], wide[2], rows[0], rows[1], self.bias_both)

    @property
    def rows(self) -> list[ClassRow]:
        """A row per class pair that occurs: the classes, token pairs, then per kind positive, negative, scaled both."""
        tables = [one for kind in KINDS for one in (*self.table(kind), *self.scaled(kind))]
        upper = zip(*np.nonzero(np.triu(self.counts)), strict=True)
        return [
            (self.classes[a], self.classes[b], int(self.counts[a, b]), *(float(one[a, b]) for one in tables))
            for a, b in upper
        ]

    def to_dict(self) -> dict[str, Any]:
        """The tables as lists of lists, in the order of ``classes``; both is the sum of positive and negative."""
        names = (*SIGNS, "both", *(f"{sign}_scaled" for sign in SIGNS))
        tables = {kind: (*self.table(kind), sum(self.table(kind)), *self.scaled(kind)) for kind in KINDS}
        kinds = {
            kind: {name: np.asarray(one).tolist() for name, one in zip(names, each, strict=True)}
            for kind, each in tables.items()
        }
        bias = {"positive": self.bias_positive.tolist(), "negative": self.bias_negative.tolist()}
        counts = self.counts.astype(int).tolist()
        return {"classes": list(self.classes), "counts": counts} | kinds | {"bias": bias | {"both": self.bias_both}}

    def plot(self, ax: Any = None, kind: str = "summed", title: str = "") -> Any:
        """A heat map: positive relevance above the diagonal, negative below, each scaled by its own largest."""
        return sign_map(self.table(kind), self.classes, kind, title, ax)

    def _repr_html_(self) -> str:
        first = sorted(self.rows, key=lambda row: -max(row[3], -row[4]))[:20]
        return table(("class", "class", "token pairs", *SIGNS), [row[:5] for row in first])


def sign_map(tables: tuple[Array, Array], classes: Sequence[str], kind: str, title: str, ax: Any = None) -> Any:
    """A positive and a negative table (k, k) in one heat map; each side names what its darkest cell stands for.

    Negative relevance is so much smaller that on a common scale its triangle would be white.
    """
    largest = [strongest(one) for one in tables]
    names = [f"{sign}, {kind}; 1 = {size:.3g}" for sign, size in zip(SIGNS, largest, strict=True)]
    ax = split_heatmap(tables[0] / largest[0], tables[1] / largest[1], classes, (names[0], names[1]), ax)
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    return ax


class ClassSums:
    """Adds ledgers up by class, one explanation after the other; holds k x k numbers and no explanation."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._cells = np.zeros((3, ROOM, ROOM))  # positive, negative, counts
        self._bias = np.zeros((2, ROOM))  # positive, negative
        self._both = 0.0

    def add(self, found: Explanation, left: Sequence[str], right: Sequence[str]) -> None:
        """Add one ledger whose left and right units have these classes."""
        down, across = self._indices(left), self._indices(right)
        where = np.ix_(down, across)
        signed = (np.maximum(found.relevance, 0), np.minimum(found.relevance, 0), np.ones_like(found.relevance))
        for sums, values in zip(self._cells, signed, strict=True):
            np.add.at(sums, where, values)
        for indices, values in ((down, found.bias_left), (across, found.bias_right)):
            np.add.at(self._bias[0], indices, np.maximum(values, 0))
            np.add.at(self._bias[1], indices, np.minimum(values, 0))
        self._both += found.bias_both

    def _indices(self, classes: Sequence[str]) -> list[int]:
        indices = [self._places.setdefault(name, len(self._places)) for name in classes]
        lacking = len(self._places) - self._cells.shape[1]
        if lacking > 0:
            more = max(lacking, self._cells.shape[1])
            self._cells = np.pad(self._cells, ((0, 0), (0, more), (0, more)))
            self._bias = np.pad(self._bias, ((0, 0), (0, more)))
        return indices

    def result(self) -> PosRelevance:
        """The symmetric tables, their classes in reading order."""
        if not self._places:
            raise DataError("no pair to add up; give a file with at least one")
        order = sorted(self._places, key=class_order)
        indices = [self._places[name] for name in order]
        cells = self._cells[np.ix_(range(3), indices, indices)]
        both_ways = cells + cells.transpose(0, 2, 1)
        both_ways[:, range(len(order)), range(len(order))] /= 2  # the diagonal was counted twice
        positive, negative, counts = both_ways
        up, down = self._bias[:, indices]
        return PosRelevance(tuple(order), positive, negative, counts, up, down, self._both)


def class_order(name: str) -> tuple[int, str]:
    """Where a class stands in a table: parts of speech, other tags, the tokens of no word, special tokens, prompt.

    >>> sorted(["[CLS]", "X", "VERB", "NOUN"], key=class_order)
    ['NOUN', 'VERB', 'X', '[CLS]']
    """
    if name in PARTS_OF_SPEECH:
        return PARTS_OF_SPEECH.index(name), ""
    groups = {NO_WORD: 101, PROMPT: 103}
    return groups.get(name, 100 if name.isalpha() else 102), name
