"""The synthetic benchmark: how well methods explain a model that counts the nouns that two texts share.

The true interaction of two tokens is 1 if both belong to the same noun, else 0 (Vasileiou & Eberle 2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from likewise.lint.evidence import ParsedSides, parsed_sides
from likewise.metrics import Interval, bootstrap_means, mean_squared_error, pearson, spearman
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.heatmap import heatmap
from likewise.progress import Progress
from likewise.results import Column, Figure, Result, Table

METHODS = ("bilrp", "hxp", "embedding", "embedding-squared", "random")
SHOWN_COUNTS = (1, 2, 5)  # Shared nouns of the pairs that are drawn
SHOWN_METHODS = ("embedding", "hxp", "bilrp")
LONGEST = 18  # Tokens of a text that is drawn, if there is such a pair
COUNTING = {"mse": "mean squared error", "pearson": "Pearson", "spearman": "Spearman"}
Pairs = Sequence[Pair | ScoredPair]


@dataclass(frozen=True)
class Counting:
    """How well dot products count shared nouns."""

    n: int
    mse: float
    pearson: float
    spearman: float


@dataclass(frozen=True, eq=False)
class SyntheticExample:
    """One pair: its number of shared nouns, the truth, and the explanation of each method."""

    shared: int
    truth: Array
    explanations: Mapping[str, Explanation]


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticBenchmark(Result):
    """How close each method's matrices come to the true ones, and how well the model counts."""

    data: str
    model: str
    counting: Mapping[str, Counting]  # by the name of the data
    agreement: Mapping[str, Interval]  # ACS: each method's mean cosine with the truth, with its 95 % interval
    compared: int  # pairs that share a noun; the others have no true interaction
    examples: tuple[SyntheticExample, ...] = ()
    cosines: Mapping[str, Array] = field(default_factory=dict)  # of each compared pair with the truth, by method

    title = "Synthetic benchmark: counting nouns"

    def to_dict(self) -> dict[str, Any]:
        """All numbers, without the examples' matrices."""
        return {
            "data": self.data, "model": self.model, "compared": self.compared,
            "counting": {name: vars(one) for name, one in self.counting.items()},
            "acs": {name: vars(one) for name, one in self.agreement.items()},
        }  # fmt: skip

    @property
    def notes(self) -> list[str]:
        """The model, the data, and what ACS is."""
        return [
            f"{self.model} on {self.data}: ACS is the mean cosine of explanation and truth over the {self.compared}"
            " pairs that share a noun, with 95 % intervals."
        ]

    def tables(self) -> dict[str, Table]:
        """The agreement of each method, and how well the model counts."""
        measures = [Column(name, title, ".3f") for name, title in COUNTING.items()]
        counting = [(name, *vars(one).values()) for name, one in self.counting.items()]
        return {
            "acs": Table.of(["method", Column("acs", "ACS", ".3f")], self.agreement.items(), "Cosine with the truth"),
            "counting": Table.of(["data", "n", *measures], counting, "Counting shared nouns"),
        }

    def figures(self) -> dict[str, Figure]:
        """Pairs with few and with many shared nouns."""
        title = f"Pairs that share {', '.join(str(one.shared) for one in self.examples)} nouns"
        return {"examples": Figure(self.plot, title)} if self.examples else {}

    def plot(self) -> Any:
        """A row for each example: the truth, then each method; returns the first Axes."""
        methods = [name for name in SHOWN_METHODS if name in self.agreement]
        panels = grid_of_axes(len(self.examples) * (1 + len(methods)), (4.6, 4.6), 1 + len(methods))
        drawn = []
        for example in self.examples:
            found = [example.explanations[name] for name in methods]
            drawn.append((f"truth: {example.shared} shared", example.truth, found[0]))
            cosines = [matrix_cosine(one.relevance, example.truth) for one in found]
            drawn += [
                (f"{name}, cosine {cosine:.2f}", one.relevance, one)
                for name, cosine, one in zip(methods, cosines, found, strict=True)
            ]
        for ax, (title, cells, one) in zip(panels, drawn, strict=True):
            heatmap(cells, one.left.labels, one.right.labels, title, ax)
        return panels[0]


def matrix_cosine(one: Array, other: Array) -> float:
    """The cosine of two matrices as vectors; 0 if one of them is empty."""
    sizes = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float((one * other).sum()) / sizes if sizes else 0.0


def true_interactions(found: Explanation, left: ParsedText, right: ParsedText) -> Array:
    """1 if two tokens belong to the same noun, else 0: (n, m) as the explanation's."""
    truth = np.zeros_like(found.relevance)
    left_words, right_words = (
        align([(unit.start, unit.end) if unit.kind == "text" else (0, 0) for unit in side.units], text.words)
        for side, text in ((found.left, left), (found.right, right))
    )
    for left_noun, right_noun in noun_matches(left, right):
        rows, columns = (
            [index for index, word in enumerate(words) if word == noun]
            for words, noun in ((left_words, left_noun), (right_words, right_noun))
        )
        truth[np.ix_(rows, columns)] = 1.0
    return truth


def synthetic_benchmark(
    encoder: Encoder,
    data: Mapping[str, Pairs],
    grammar: Grammar,
    methods: Sequence[str] = METHODS,
    progress: Progress | None = None,
) -> SyntheticBenchmark:
    """Explain the first data set's pairs by each method and compare with the truth; count nouns on all data sets.

    Vectors are not normalized: the plain dot product is the prediction.
    """
    encoder = encoder.with_pooling(normalize=False)
    name, pairs = next(iter(data.items()))
    parsed = {each: parsed_sides(rows, grammar, progress=progress) for each, rows in data.items()}
    counting = {each: _counting(encoder, rows, parsed[each], progress) for each, rows in data.items()}
    own = parsed[name]
    compared = [pair for pair in pairs if _shared(pair, own)]
    if not compared:
        raise DataError(f"{name}: no two texts share a noun; give pairs that do")
    cosines = {}
    for method in methods:
        found = zip(compared, _explained(encoder, compared, method, progress), strict=True)
        cosines[method] = np.array(
            [
                matrix_cosine(one.relevance, true_interactions(one, own.left[pair.left], own.right[pair.right]))
                for pair, one in found
            ]
        )
    agreement = dict(zip(methods, bootstrap_means(list(cosines.values())), strict=True))
    examples = _examples(encoder, compared, own, methods)
    return SyntheticBenchmark(name, encoder.name, counting, agreement, len(compared), examples, cosines)


def _shared(pair: Pair | ScoredPair, parsed: ParsedSides) -> int:
    return shared_nouns(parsed.left[pair.left], parsed.right[pair.right])


def _explained(encoder: Encoder, pairs: Pairs, method: str, progress: Progress | None = None) -> Any:
    options: dict[str, Any] = {"granularity": "token", "similarity": "dot", **PLAIN}
    return explain_many(encoder, pairs, method=method, progress=progress, **options)


def _counting(encoder: Encoder, pairs: Pairs, parsed: ParsedSides, progress: Progress | None) -> Counting:
    left = encoder.encode([pair.left for pair in pairs], progress=progress)
    right = encoder.encode([pair.right for pair in pairs], progress=progress)
    predicted, truth = (left.astype(np.float64) * right).sum(1), [_shared(pair, parsed) for pair in pairs]
    return Counting(len(pairs), *(measure(predicted, truth) for measure in (mean_squared_error, pearson, spearman)))


def _examples(
    encoder: Encoder, pairs: Pairs, parsed: ParsedSides, methods: Sequence[str]
) -> tuple[SyntheticExample, ...]:
    """For each number of shared nouns the first pair that is short, or else the shortest."""
    made = []
    for count in SHOWN_COUNTS:
        having = [pair for pair in pairs if _shared(pair, parsed) == count]
        if not having:
            continue
        sizes = [max(len(pair.left.split()), len(pair.right.split())) for pair in having]
        short = [index for index, size in enumerate(sizes) if size <= LONGEST // 2 + count]
        pair = having[short[0] if short else int(np.argmin(sizes))]
        found = {method: next(iter(_explained(encoder, [pair], method))) for method in methods}
        truth = true_interactions(found[methods[0]], parsed.left[pair.left], parsed.right[pair.right])
        made.append(SyntheticExample(count, truth, found))
    return tuple(made)
