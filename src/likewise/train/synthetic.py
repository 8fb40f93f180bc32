"""Nouns: a model that counts the nouns two texts share, whose true interactions are known, and how methods find them.

The true interaction of two tokens is 1 where both belong to the same noun, else 0 (Vasileiou & Eberle 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.explain.explanation import Array, Explanation
from likewise.explain.pairs import explain_many
from likewise.explain.settings import PLAIN
from likewise.grammar import Grammar, ParsedText, align
from likewise.grammar.words import noun_matches, shared_nouns
from likewise.lint.parsed_pairs import ParsedSides, parsed_sides
from likewise.metrics import Interval, bootstrap_means, mean_squared_error, pearson, spearman
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.heatmap import heatmap
from likewise.plotting.html import table
from likewise.progress import Progress

METHODS = ("bilrp", "hxp", "embedding", "embedding-squared", "random")
SHOWN_COUNTS = (1, 2, 5)
"""Shared nouns of the pairs that are drawn."""
SHOWN_METHODS = ("embedding", "hxp", "bilrp")
LONGEST = 18
"""Tokens of a text that is drawn, where there is such a pair."""

Pairs = Sequence[Pair | ScoredPair]


@dataclass(frozen=True)
class Counting:
    """How well dot products count shared nouns."""

    n: int
    mse: float
    pearson: float
    spearman: float


@dataclass(frozen=True, eq=False)
class NounExample:
    """One pair: its number of shared nouns, the truth, and what each method says."""

    shared: int
    truth: Array
    explanations: Mapping[str, Explanation]


@dataclass(frozen=True, eq=False)
class NounStudy:
    """How close each method's matrices come to the true ones, and how well the model counts."""

    data: str
    model: str
    counting: Mapping[str, Counting]
    """by the name of the data"""
    agreement: Mapping[str, Interval]
    """ACS: each method's mean cosine with the truth over pairs, with its 95 % interval"""
    compared: int
    """pairs that share a noun; the others have no true interaction to be compared with"""
    examples: tuple[NounExample, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All numbers, without the examples' matrices."""
        return {
            "data": self.data, "model": self.model, "compared": self.compared,
            "counting": {name: vars(one) for name, one in self.counting.items()},
            "acs": {name: vars(one) for name, one in self.agreement.items()},
        }  # fmt: skip

    def plot(self) -> Any:
        """A line for each example: the truth, then each method; returns the first Axes."""
        methods = [name for name in SHOWN_METHODS if name in self.agreement]
        panels = iter(grid_of_axes(len(self.examples) * (1 + len(methods)), (4.6, 4.6), 1 + len(methods)))
        first = None
        for example in self.examples:
            one = example.explanations[methods[0]]
            labels = one.left.labels, one.right.labels
            drawn = {f"truth: {example.shared} shared": example.truth}
            drawn |= {f"{name}, cosine {matrix_cosine(found.relevance, example.truth):.2f}": found.relevance
                      for name in methods if (found := example.explanations[name])}  # fmt: skip
            for title, cells in drawn.items():
                ax = heatmap(cells, *labels, title, next(panels))
                first = first or ax
        return first

    def _repr_html_(self) -> str:
        rows = [(name, one.value, one.low, one.high) for name, one in self.agreement.items()]
        pooling_mask = [(name, *vars(one).values()) for name, one in self.counting.items()]
        return table(("method", "ACS", "low", "high"), rows) + table(
            ("data", "n", "mean squared error", "Pearson", "Spearman"), pooling_mask
        )


def matrix_cosine(one: Array, other: Array) -> float:
    """The cosine of two matrices as vectors; 0 where one of them is empty.

    >>> matrix_cosine(np.ones((1, 1)), np.ones((1, 1)))
    1.0
    """
    sizes = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float((one * other).sum()) / sizes if sizes else 0.0


def true_interactions(found: Explanation, left: ParsedText, right: ParsedText) -> Array:
    """1 where two tokens belong to the same noun, else 0: (n, m) as the explanation's."""
    truth = np.zeros_like(found.relevance)
    down, across = (
        align([(unit.start, unit.end) if unit.kind == "text" else (0, 0) for unit in side.units], text.words)
        for side, text in ((found.left, left), (found.right, right))
    )
    for row, column in noun_matches(left, right):
        here, there = (
            [index for index, word in enumerate(words) if word == wanted]
            for words, wanted in ((down, row), (across, column))
        )
        truth[np.ix_(here, there)] = 1.0
    return truth


def noun_study(
    encoder: Encoder,
    data: Mapping[str, Pairs],
    grammar: Grammar,
    methods: Sequence[str] = METHODS,
    progress: Progress | None = None,
) -> NounStudy:
    """Explain the first data set's pairs by each method and compare with the truth; count nouns on all of them.

    The encoder is read without normalising: the plain dot product is the prediction.
    """
    encoder = encoder.with_pooling(normalize=False)
    name, pairs = next(iter(data.items()))
    parsed = {each: parsed_sides(rows, grammar, progress=progress) for each, rows in data.items()}
    counting = {each: _counting(encoder, rows, parsed[each], progress) for each, rows in data.items()}
    own = parsed[name]
    shared = [shared_nouns(own.left[pair.left], own.right[pair.right]) for pair in pairs]
    compared = [pair for pair, count in zip(pairs, shared, strict=True) if count]
    if not compared:
        raise DataError(f"{name}: no two texts share a noun; give pairs that do")
    agreement = {}
    for method in methods:
        cosines = [
            matrix_cosine(found.relevance, true_interactions(found, own.left[pair.left], own.right[pair.right]))
            for pair, found in zip(compared, _explained(encoder, compared, method, progress), strict=True)
        ]
        [agreement[method]] = bootstrap_means([cosines])
    examples = _examples(encoder, compared, own, methods)
    return NounStudy(name, encoder.name, counting, agreement, len(compared), examples)


def _explained(encoder: Encoder, pairs: Pairs, method: str, progress: Progress | None) -> Any:
    return explain_many(
        encoder, pairs, method=method, granularity="token", similarity="dot", progress=progress, **PLAIN
    )


def _counting(encoder: Encoder, pairs: Pairs, parsed: ParsedSides, progress: Progress | None) -> Counting:
    left, right = (encoder.encode([getattr(pair, side) for pair in pairs], progress=progress) for side in SIDES)
    said = (left.astype(np.float64) * right).sum(1)
    truth = [shared_nouns(parsed.left[pair.left], parsed.right[pair.right]) for pair in pairs]
    return Counting(len(pairs), mean_squared_error(said, truth), pearson(said, truth), spearman(said, truth))


SIDES = ("left", "right")


def _examples(encoder: Encoder, pairs: Pairs, parsed: ParsedSides, methods: Sequence[str]) -> tuple[NounExample, ...]:
    """For each wanted number of shared nouns the first pair that is short, else the shortest."""
    made = []
    for count in SHOWN_COUNTS:
        having = [pair for pair in pairs if shared_nouns(parsed.left[pair.left], parsed.right[pair.right]) == count]
        if not having:
            continue
        sizes = [max(len(pair.left.split()), len(pair.right.split())) for pair in having]
        short = [index for index, size in enumerate(sizes) if size <= LONGEST // 2 + count]
        pair = having[short[0] if short else int(np.argmin(sizes))]
        found = {method: next(iter(_explained(encoder, [pair], method, None))) for method in methods}
        truth = true_interactions(found[methods[0]], parsed.left[pair.left], parsed.right[pair.right])
        made.append(NounExample(count, truth, found))
    return tuple(made)
