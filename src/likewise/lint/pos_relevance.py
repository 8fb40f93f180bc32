"""Sums of the ledgers of many pairs: relevance by part of speech and by word; errors by level of the human score."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.errors import DataError, UsageError
from likewise.explain.explanation import Array, ExplainedText, Explanation
from likewise.grammar.spans import word_spans
from likewise.lint.evidence import NO_WORD, PROMPT
from likewise.metrics import DRAWS, Interval, fitted_line
from likewise.plotting.axes import drawable, literal
from likewise.plotting.curves import curves
from likewise.plotting.heatmap import split_heatmap
from likewise.plotting.terminal import strongest
from likewise.results import Column, Figure, Result, Table

PARTS_OF_SPEECH = (
    "NOUN", "PROPN", "VERB", "ADJ", "ADV", "NUM", "PRON", "DET", "ADP", "AUX", "CCONJ", "SCONJ", "PART", "INTJ",
    "SYM", "PUNCT",
)  # fmt: skip
"""In the order of the tables: what carries content first."""

ClassRow = tuple[str, str, int, float, float, float, float, float, float, float, float]
KINDS = ("summed", "averaged")
SIGNS = ("positive", "negative")
START_SIZE = 32  # Classes that a new accumulator can hold; it grows
STRONGEST = 15  # Class pairs that the terminal and the page show
MOST_CHANGES = 10  # Changed class pairs that are listed
QUARTERS = ("top", "second", "third", "bottom")  # Of the predicted similarities, the highest first
MOST_LEVELS = 10
PARTS_OF_UNIT_SCALE = 5  # Levels of a scale that spans no more than 1, where whole numbers would make one level of all


@dataclass(frozen=True, eq=False, repr=False)
class PosRelevance(Result):
    """What each pair of k classes makes of the similarities of a corpus; positive and negative cells apart.

    A class pair is unordered: (a, b) holds left a with right b and left b with right a, so all tables are
    symmetric. The upper triangles and the bias sum to the sum of the similarities.
    """

    classes: tuple[str, ...]
    positive: Array  # the sum of the positive cells, (k, k)
    negative: Array  # the sum of the negative cells, (k, k)
    counts: Array  # the number of token pairs, (k, k)
    bias_positive: Array  # what each class makes with the other side's bias, positive cells, (k,)
    bias_negative: Array
    bias_both: float = 0.0  # the sum of the products of both biases

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
        # Position -1, of the classes that are not known, is a row and column of zeros at the end.
        target = [self.classes.index(name) if name in self.classes else -1 for name in classes]
        cells = np.pad([self.positive, self.negative, self.counts], ((0, 0), (0, 1), (0, 1)))
        bias = np.pad([self.bias_positive, self.bias_negative], ((0, 0), (0, 1)))
        positive, negative, counts = cells[:, target][:, :, target]
        up, down = bias[:, target]
        return PosRelevance(tuple(classes), positive, negative, counts, up, down, self.bias_both)

    @property
    def rows(self) -> list[ClassRow]:
        """A row per class pair that occurs: the classes, token pairs, then per kind positive, negative, scaled both."""
        tables = [one for kind in KINDS for one in (*self.table(kind), *self.scaled(kind))]
        upper = zip(*np.nonzero(np.triu(self.counts)), strict=True)
        names, counts = self.classes, self.counts
        return [(names[a], names[b], int(counts[a, b]), *(float(one[a, b]) for one in tables)) for a, b in upper]

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

    def tables(self) -> dict[str, Table]:
        """All class pairs, the biases of each class, and the strongest class pairs."""
        bias = [*zip(self.classes, self.bias_positive.tolist(), self.bias_negative.tolist(), strict=True)]
        bias += [("bias", max(self.bias_both, 0.0), min(self.bias_both, 0.0))]
        numbers = [f"{kind}_{sign}{ending}" for kind in KINDS for ending in ("", "_scaled") for sign in SIGNS]
        strongest = sorted(self.rows, key=lambda row: -max(row[5], -row[6]))[:STRONGEST]
        shown = [(*row[:3], *row[5:7], *row[9:]) for row in strongest]
        header = ("class", "class", "token pairs", "positive", "negative", "pos. average", "neg. average")
        note = "relevance between classes, scaled by the largest"
        return {
            "classes": Table.of(["class1", "class2", "token_pairs", *numbers], self.rows, detail=True),
            "bias": Table.of(["class", *SIGNS], bias, detail=True),
            "strongest_classes": Table.of(header, shown, note, summary=True),
        }

    def plot(self, ax: Any = None, kind: str = "summed", title: str = "") -> Any:
        """A heat map: positive relevance above the diagonal, negative below, each scaled by its own largest."""
        return sign_map(self.table(kind), self.classes, kind, title, ax)


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
        self._index_of: dict[str, int] = {}
        self._cells = np.zeros((3, START_SIZE, START_SIZE))  # positive, negative, counts
        self._bias = np.zeros((2, START_SIZE))  # positive, negative
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
        indices = [self._index_of.setdefault(name, len(self._index_of)) for name in classes]
        lacking = len(self._index_of) - self._cells.shape[1]
        if lacking > 0:
            more = max(lacking, self._cells.shape[1])
            self._cells = np.pad(self._cells, ((0, 0), (0, more), (0, more)))
            self._bias = np.pad(self._bias, ((0, 0), (0, more)))
        return indices

    def result(self) -> PosRelevance:
        """The symmetric tables, their classes in reading order."""
        if not self._index_of:
            raise DataError("no pair to add up; give a file with at least one")
        order = sorted(self._index_of, key=class_order)
        indices = [self._index_of[name] for name in order]
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


@dataclass(frozen=True)
class Interaction:
    """One class pair in two settings, each scaled by its own setting's largest absolute value."""

    first: str
    second: str
    before: float
    after: float
    change: float


@dataclass(frozen=True, eq=False, repr=False)
class PosChange(Result):
    """Two settings on the same classes, e.g. two models, two poolings, one language and a mixed pair."""

    names: tuple[str, str]
    before: PosRelevance
    after: PosRelevance

    def changed(self, sign: str = "positive", kind: str = "summed", count: int = MOST_CHANGES) -> list[Interaction]:
        """The class pairs whose scaled relevance of one sign changes most, strongest change first."""
        before, after = (one.scaled(kind)[SIGNS.index(sign)] for one in (self.before, self.after))
        seen = np.triu(self.before.counts + self.after.counts) > 0
        change = np.where(seen, np.abs(after - before), -1.0)
        order = np.argsort(-change, axis=None, kind="stable")[: min(count, int(seen.sum()))]
        classes = self.before.classes
        return [
            Interaction(classes[a], classes[b], *(float(one[a, b]) for one in (before, after, after - before)))
            for a, b in zip(*np.unravel_index(order, change.shape), strict=True)
        ]

    def difference(self, kind: str = "summed") -> tuple[Array, Array]:
        """After minus before, scaled, positive and negative table, (k, k) each."""
        before, after = self.before.scaled(kind), self.after.scaled(kind)
        return after[0] - before[0], after[1] - before[1]

    def to_dict(self) -> dict[str, Any]:
        """The most changed interactions by kind and sign."""
        found = {kind: {sign: [asdict(one) for one in self.changed(sign, kind)] for sign in SIGNS} for kind in KINDS}
        return {"settings": list(self.names)} | found

    def tables(self) -> dict[str, Table]:
        """The most changed interactions, and those of the sums by sign."""
        keys = [(kind, sign) for kind in KINDS for sign in SIGNS]
        found = {(kind, sign): [astuple(one) for one in self.changed(sign, kind)] for kind, sign in keys}
        header = ("class1", "class2", *self.names, "change")
        rows = [(*key, *row) for key, some in found.items() for row in some]
        tables = {"changes": Table.of(("table", "sign", *header), rows, detail=True)}
        for sign in SIGNS:
            title = f"interactions that change most, {sign}, summed"
            tables[f"changed_{sign}"] = Table.of(header, found["summed", sign], title, summary=True)
        return tables

    def figures(self) -> dict[str, Figure]:
        """The change of the sums and of the averages."""
        return {f"change_{kind}": Figure(partial(self.plot, kind=kind), f"What changes, {kind}") for kind in KINDS}

    def plot(self, ax: Any = None, kind: str = "summed") -> Any:
        """The change as a heat map: positive relevance above the diagonal, negative below."""
        title = f"{self.names[1]} minus {self.names[0]}"
        return sign_map(self.difference(kind), self.before.classes, kind, title, ax)


def pos_change(names: tuple[str, str], before: PosRelevance, after: PosRelevance) -> PosChange:
    """Two tables brought onto the classes of both."""
    classes = sorted({*before.classes, *after.classes}, key=class_order)
    return PosChange(names, before.on(classes), after.on(classes))


@dataclass(frozen=True)
class WordPair:
    """Two words of one pair of texts and what they make of its similarity together."""

    id: str
    left: str
    right: str
    relevance: float
    similarity: float  # the predicted similarity of the pair that they are in


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
    ends = [end for _, end in spans]
    belongs = np.zeros((len(side.units), len(spans)))
    for row, unit in enumerate(side.units):
        if unit.kind == "text" and spans:
            # The first word that ends after the token begins: a token may begin with the blank before its word.
            belongs[row, min(bisect_right(ends, unit.start), len(spans) - 1)] = 1
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


def score_line(predicted: Array, truth: Array) -> tuple[float, float]:
    """Slope and intercept of the least-squares line from predictions (n,) to scores (n,); flat if all are equal."""
    return fitted_line(predicted, truth) or (0.0, float(truth.mean()))


@dataclass(frozen=True)
class Level:
    """The pairs whose human score lies in [low, high), the last level closed."""

    low: float
    high: float
    n: int
    error: Interval  # mean squared error on the human scale, with its 95 % bootstrap interval
    human: float  # the mean human score
    predicted: float  # the mean predicted similarity on the human scale
    name: str


@dataclass(frozen=True, repr=False)
class LevelErrors(Result):
    """Squared errors by level of the human score."""

    levels: tuple[Level, ...]
    line: tuple[float, float]  # slope and intercept of the line that maps predictions onto the human scale

    def to_dict(self) -> dict[str, Any]:
        """Every level and the line that mapped the predictions."""
        line = dict(zip(("slope", "shift"), self.line, strict=True))
        return {"line": line, "levels": [asdict(level) for level in self.levels]}

    def tables(self) -> dict[str, Table]:
        """A row for each level."""
        error = Column("squared_error", "squared error, 95 % interval", ".3f")
        header = (Column("level", "human score"), "n", error, "mean_human", "mean_predicted")
        rows = [(one.name, one.n, one.error, one.human, one.predicted) for one in self.levels]
        title = "squared error by level, predictions mapped by a least-squares line"
        return {"errors_by_level": Table.of(header, rows, title)}

    def plot(self, ax: Any = None, title: str = "") -> Any:
        """Error against the human score, with its band."""
        middles = [(level.low + level.high) / 2 for level in self.levels]
        errors = [level.error for level in self.levels]
        series = ([one.value for one in errors], [one.low for one in errors], [one.high for one in errors])
        ax = curves(middles, {"": series}, ("human score", "mean squared error"), title, ax)
        ax.set_xticks(middles, [f"{level.name}\nn = {level.n}" for level in self.levels])
        ax.margins(x=0.08)
        ax.set_ylim(bottom=0)
        return ax


def level_edges(truth: Array) -> list[float]:
    """Where the levels of scores (n,) begin and end: whole numbers, or fifths of a scale of 1 or of more than 10."""
    low, high = float(np.floor(truth.min())), float(np.ceil(truth.max()))
    count = round(high - low)
    if not 1 < count <= MOST_LEVELS:
        span = max(1.0, high - low)
        return [low + span * index / PARTS_OF_UNIT_SCALE for index in range(PARTS_OF_UNIT_SCALE + 1)]
    return [low + index for index in range(count + 1)]


def level_errors(predicted: Array, truth: Array, seed: int = 0) -> LevelErrors:
    """Mean squared errors of predicted similarities (n,), mapped onto the human scores (n,), by level of these."""
    line, edges = score_line(predicted, truth), level_edges(truth)
    mapped = line[0] * predicted + line[1]
    indices = np.clip(np.searchsorted(edges, truth, side="right") - 1, 0, len(edges) - 2)
    rng = np.random.default_rng(seed)
    levels = []
    for index, (low, high) in enumerate(pairwise(edges)):
        inside = indices == index
        if inside.any():
            values = (mapped[inside] - truth[inside]) ** 2
            draws = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(DRAWS)]
            error = Interval(*map(float, (values.mean(), *np.percentile(draws, [2.5, 97.5]))))
            means = float(truth[inside].mean()), float(mapped[inside].mean())
            levels.append(Level(low, high, len(values), error, *means, f"{low:g}-{high:g}"))
    return LevelErrors(tuple(levels), line)


@dataclass(frozen=True)
class Disagreement:
    """A row where the human and the predicted score differ; the prediction is mapped onto the human scale."""

    id: str
    left: str
    right: str
    human: float
    predicted: float
    difference: float  # predicted minus human: above 0 the model finds them too similar
    similarity: float  # as the model gives it


def disagreements(
    pairs: Sequence[Pair | ScoredPair], predicted: Array, truth: Array, count: int
) -> tuple[Disagreement, ...]:
    """The pairs whose predicted (n,) and human (n,) scores differ most, on the human scale, worst first."""
    slope, intercept = score_line(predicted, truth)
    mapped = slope * predicted + intercept
    order = np.argsort(-np.abs(mapped - truth), kind="stable")[:count]
    numbers = np.stack([truth, mapped, mapped - truth, predicted], axis=1)
    worst = [(pairs[row], numbers[row].tolist()) for row in order]
    return tuple(Disagreement(pair.id, pair.left, pair.right, *values) for pair, values in worst)
