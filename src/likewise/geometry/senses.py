"""Measures of word senses: how well the vectors of a word separate by sense, in each layer.

Cosines: the mean cosine of two occurrences of a word with the same sense, and of two with different senses. Accuracy:
how often the nearest other occurrence, or the nearest mean vector of a sense, has the correct sense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.encoder.similarity import similarity_blocks
from likewise.errors import DataError, UsageError
from likewise.geometry.measures import dimension_contributions, pair_sums, unit_rows
from likewise.metrics import Array, Interval, bootstrap_means
from likewise.progress import Progress, Ticker

Rows = NDArray[np.int64]
NONE = -1  # The row of an occurrence that has no other to compare with


@dataclass(frozen=True, eq=False)
class SenseVectors:
    """Words in context: vectors (L, n, D) of n occurrences in L layers, with the word and the sense of each."""

    vectors: NDArray[np.float32]
    words: Sequence[str]
    senses: Sequence[str]  # names need to differ only within a word

    def __post_init__(self) -> None:
        if self.vectors.ndim != 3 or not self.vectors.shape[1] == len(self.words) == len(self.senses):
            raise DataError(
                f"vectors (L, n, D) need n words and n senses, got shape {self.vectors.shape}, {len(self.words)} words"
                f" and {len(self.senses)} senses"
            )

    @cached_property
    def rows_of(self) -> dict[str, Rows]:
        """The rows of each word, words in alphabetical order."""
        words = np.array(self.words, object)
        return {word: np.flatnonzero(words == word) for word in sorted(set(self.words))}

    def senses_of(self, word: str) -> tuple[Rows, list[str]]:
        """The sense of each of a word's occurrences by number, and the senses, the first one seen first."""
        given = [self.senses[row] for row in self.rows_of[word]]
        names = list(dict.fromkeys(given))
        return np.array([names.index(name) for name in given], np.int64), names


def sense_cosines(vectors: SenseVectors) -> tuple[Array, Array]:
    """The mean cosine of two occurrences of one sense, and of two senses, of each word: two arrays (L, W).

    It follows from the sums of unit vectors: the square of a sum has all pairs. nan where a word has no such pair.
    """
    layers = len(vectors.vectors)
    within, between = (np.empty((layers, len(vectors.rows_of))) for _ in range(2))
    for index, (word, rows) in enumerate(vectors.rows_of.items()):
        senses, _ = vectors.senses_of(word)
        for layer in range(layers):
            within[layer, index], between[layer, index] = _cosines(vectors.vectors[layer, rows], senses)
    return within, between


def _cosines(vectors: NDArray[np.float32], senses: Rows) -> tuple[float, float]:
    """One word's vectors (n, D) and sense numbers (n,)."""
    total, together, pairs_between = pair_sums(vectors, senses)
    pairs_within = len(vectors) ** 2 - pairs_between - len(vectors)
    alone = np.square(unit_rows(vectors)).sum()
    within = float((together.sum() - alone) / pairs_within) if pairs_within else np.nan
    return within, float(dimension_contributions(total, together, pairs_between).sum())


def _sense_sums(units: Array, senses: Rows) -> tuple[Array, Rows]:
    """The sum of each sense's unit vectors (S, D), and how many there are (S,)."""
    members = np.eye(senses.max() + 1)[:, senses]
    return members @ units, np.bincount(senses)


def nearest_neighbours(examples: SenseVectors, references: SenseVectors | None, layer: int, word: str) -> Rows:
    """The nearest reference of the same word, by cosine, of each occurrence (m,) of a word: its row.

    Without references each is compared with all other examples.
    """
    others = examples if references is None else references
    mine, theirs = examples.rows_of[word], others.rows_of[word]
    nearest = np.empty(len(mine), np.int64)
    for start, cosines in similarity_blocks(examples.vectors[layer, mine], others.vectors[layer, theirs]):
        if references is None:
            # An occurrence is not its own neighbour.
            cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))] = -np.inf
        nearest[start : start + len(cosines)] = cosines.argmax(1)
    return theirs[nearest]


def nearest_centroids(examples: SenseVectors, references: SenseVectors | None, layer: int, word: str) -> Rows:
    """The same by the mean unit vector of each reference sense: the row of that sense's first occurrence (m,)."""
    others = examples if references is None else references
    theirs = others.rows_of[word]
    numbers, _ = others.senses_of(word)
    units = unit_rows(examples.vectors[layer, examples.rows_of[word]])
    sums, sizes = _sense_sums(unit_rows(others.vectors[layer, theirs]), numbers)
    cosines = units @ unit_rows(sums).T
    if references is None:
        # An occurrence is not part of the mean it is compared with.
        own = sums[numbers] - units
        cosines[np.arange(len(units)), numbers] = np.where(sizes[numbers] > 1, (units * unit_rows(own)).sum(1), -np.inf)
    first = np.unique(numbers, return_index=True)[1]
    return np.asarray(theirs[first[cosines.argmax(1)]])


NEAREST: dict[str, Callable[[SenseVectors, SenseVectors | None, int, str], Rows]] = {
    "centroid": nearest_centroids,
    "neighbour": nearest_neighbours,
}


def check_nearest(nearest: str) -> None:
    """Rejects an unknown way to find the nearest."""
    if nearest not in NEAREST:
        raise UsageError(f"unknown way {nearest!r} to find the nearest; choose from {', '.join(sorted(NEAREST))}")


def nearest_rows(
    examples: SenseVectors,
    references: SenseVectors | None = None,
    nearest: str = "neighbour",
    progress: Progress | None = None,
) -> Rows:
    """The reference that gives each example its sense, in each layer: rows (L, n), NONE where there is none."""
    check_nearest(nearest)
    layers = len(examples.vectors)
    found = np.full((layers, len(examples.words)), NONE, np.int64)
    ticker = Ticker(progress, layers * len(examples.rows_of), "words in layers compared")
    for word, rows in examples.rows_of.items():
        comparable = len(rows) > 1 if references is None else word in references.rows_of
        for layer in range(layers):
            if comparable:
                found[layer, rows] = NEAREST[nearest](examples, references, layer, word)
            ticker.add()
    ticker.close()
    return found


def commonest_senses(references: SenseVectors) -> dict[str, str]:
    """The most frequent sense of each word; of equally frequent ones the first in the alphabet."""
    return {
        word: max(sorted(counts := Counter(references.senses[row] for row in rows)), key=counts.__getitem__)
        for word, rows in references.rows_of.items()
    }


@dataclass(frozen=True)
class SenseLayer:
    """One layer, with 95 % bootstrap intervals: over words, and over occurrences for ``accuracy``."""

    layer: int
    within: Interval  # mean cosine of two occurrences of a word that have the same sense, averaged over words
    between: Interval  # the same of different senses
    difference: Interval
    accuracy: Interval  # the share of occurrences whose nearest has the same sense
    macro_accuracy: Interval  # the same, averaged over words

    @property
    def intervals(self) -> dict[str, Interval]:
        """The measures by name."""
        return {name: value for name, value in vars(self).items() if name != "layer"}

    def to_dict(self) -> dict[str, Any]:
        """Values by name, their 95 % intervals under ``intervals``."""
        values = {name: each.value for name, each in self.intervals.items()}
        ends = {name: [each.low, each.high] for name, each in self.intervals.items()}
        return {"layer": self.layer, **values, "intervals": ends}


@dataclass(frozen=True)
class WordSenses:
    """One word: the number of its occurrences and of their senses, and its values in each layer."""

    word: str
    n: int
    senses: int
    baseline: float  # the share of the most frequent sense
    within: tuple[float, ...] = field(repr=False)
    between: tuple[float, ...] = field(repr=False)
    accuracy: tuple[float, ...] = field(repr=False)


@dataclass(frozen=True)
class SenseGeometry:
    """All layers and all words."""

    layers: tuple[SenseLayer, ...]
    words: tuple[WordSenses, ...]
    baseline: Interval  # the accuracy of always predicting a word's most frequent sense
    macro_baseline: Interval
    unanswered: int  # occurrences left out of the accuracy because their word has no other one

    @property
    def n(self) -> int:
        """The number of evaluated occurrences."""
        return sum(word.n for word in self.words)

    @property
    def best(self) -> SenseLayer:
        """The layer with the highest accuracy averaged over words, the first of equals."""
        return max(self.layers, key=lambda layer: layer.macro_accuracy.value)


def sense_geometry(
    examples: SenseVectors,
    references: SenseVectors | None = None,
    nearest: str = "neighbour",
    progress: Progress | None = None,
) -> SenseGeometry:
    """Measure the senses of examples; the nearest are looked up in references, else among the other examples.

    The most frequent sense is that of the references, else that of the examples.
    """
    others = examples if references is None else references
    rows = nearest_rows(examples, references, nearest, progress)
    answered = (rows != NONE).all(0)
    if not answered.any():
        raise DataError("no word has another occurrence to compare with; give more rows, or another --train")
    senses, given = np.array(examples.senses, object), np.array(others.senses, object)
    right = np.where(answered, given[rows] == senses, False)
    commonest = commonest_senses(others)
    frequent = np.array([commonest.get(word) for word in examples.words], object) == senses
    measures = np.concatenate([right, frequent[None]]).astype(np.float64)
    by_word = _by_word(examples, measures, answered)
    micro = bootstrap_means(measures[:, answered])
    macro = _means_over_words(by_word[:, ~np.isnan(by_word[0])])
    within, between = sense_cosines(examples)
    layers, words = _layers(within, between, micro, macro), _words(examples, answered, within, between, by_word)
    return SenseGeometry(layers, words, micro[-1], macro[-1], int((~answered).sum()))


def _by_word(examples: SenseVectors, measures: Array, answered: NDArray[np.bool_]) -> Array:
    """The mean of each measure (m, n) over each word's answered occurrences (m, W); nan where there is none."""
    chosen = [rows[answered[rows]] for rows in examples.rows_of.values()]
    nothing = np.full(len(measures), np.nan)
    return np.column_stack([measures[:, rows].mean(1) if len(rows) else nothing for rows in chosen])


def _layers(
    within: Array, between: Array, micro: Sequence[Interval], macro: Sequence[Interval]
) -> tuple[SenseLayer, ...]:
    """Cosines (L, W), averaged over the words that have pairs of both kinds, so that the difference is paired."""
    both, count = ~np.isnan(within[0] + between[0]), len(within)
    cosines = _means_over_words(np.concatenate([within, between, within - between])[:, both])
    columns = (cosines[:count], cosines[count : 2 * count], cosines[2 * count :], micro[:count], macro[:count])
    return tuple(SenseLayer(layer, *each) for layer, each in enumerate(zip(*columns, strict=True)))


def _means_over_words(values: Array) -> list[Interval]:
    """The mean of each row (m, W) over words, with its bootstrap; one word has no interval, and none no mean."""
    if values.shape[1] > 1:
        return bootstrap_means(values)
    means = values[:, 0].tolist() if values.shape[1] else [np.nan] * len(values)
    return [Interval(mean, np.nan, np.nan) for mean in means]


def _words(
    examples: SenseVectors, answered: NDArray[np.bool_], within: Array, between: Array, by_word: Array
) -> tuple[WordSenses, ...]:
    found = []
    for index, (word, rows) in enumerate(examples.rows_of.items()):
        counts = int(answered[rows].sum()), len(examples.senses_of(word)[1])
        *values, baseline = (tuple(each[:, index].tolist()) for each in (within, between, by_word[:-1], by_word[-1:]))
        found.append(WordSenses(word, *counts, *baseline, *values))
    return tuple(found)
