"""Word pairs: the strongest ones in each quarter of a corpus, from the most to the least similar pairs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from likewise.explain.explanation import Array, ExplainedText, Explanation
from likewise.grammar.spans import word_spans

QUARTERS = ("top", "second", "third", "bottom")
"""Of the predicted similarities, the highest first."""


@dataclass(frozen=True)
class WordPair:
    """Two words of one pair of texts and what they make of its similarity together."""

    id: str
    left: str
    right: str
    relevance: float
    similarity: float
    """the predicted similarity of the pair they stand in"""

    def to_dict(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def word_relevance(found: Explanation) -> tuple[list[str], list[str], Array]:
    """A ledger by token as one by word, (n, m), with both sides' words; special tokens and the prompt are left out.

    A group's contribution is the sum of its tokens', so nothing is computed anew.
    """
    left, down = _grouping(found.left)
    right, across = _grouping(found.right)
    return left, right, down.T @ found.relevance @ across


def _grouping(side: ExplainedText) -> tuple[list[str], Array]:
    """A side's words and which unit belongs to which, (units, words) of 0 and 1."""
    spans = word_spans(side.text)
    starts = [start for start, _ in spans]
    belongs = np.zeros((len(side.units), len(spans)))
    for row, unit in enumerate(side.units):
        index = bisect_right(starts, max(unit.start, starts[0]) if starts else 0) - 1
        # A token may begin with the blank before its word.
        if spans and index + 1 < len(spans) and unit.start >= spans[index][1]:
            index += 1
        if unit.kind == "text" and spans:
            belongs[row, index] = 1
    return [side.text[start:end] for start, end in spans], belongs


def strongest_words(found: Explanation, name: str, count: int) -> list[WordPair]:
    """The word pairs of largest positive relevance of one explanation by token, strongest first."""
    left, right, cells = word_relevance(found)
    order = np.argsort(-cells, axis=None, kind="stable")[:count]
    indices = zip(*np.unravel_index(order, cells.shape), strict=True)
    return [
        WordPair(name, left[row], right[column], float(cells[row, column]), found.similarity)
        for row, column in indices
        if cells[row, column] > 0
    ]


def strongest_by_quarter(found: Sequence[WordPair], predicted: Array, count: int) -> dict[str, tuple[WordPair, ...]]:
    """The strongest of them in each quarter of the predicted similarities (n,); on an edge the higher one counts."""
    edges = np.quantile(predicted, [0.75, 0.5, 0.25])
    parts: dict[str, list[WordPair]] = {name: [] for name in QUARTERS}
    for one in sorted(found, key=lambda one: -one.relevance):
        parts[QUARTERS[int((one.similarity < edges).sum())]].append(one)
    return {name: tuple(part[:count]) for name, part in parts.items()}
