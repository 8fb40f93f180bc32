"""The census: which texts and words a corpus has, counted before any model runs, and what is sampled of them.

The sample is drawn by the order of the texts, so that every model is measured on the same occurrences.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from likewise.errors import DataError
from likewise.geometry.settings import GeometrySettings
from likewise.geometry.words import spans_of_words
from likewise.progress import Progress, tracked


def distinct(texts: Iterable[str]) -> Iterator[str]:
    """Each text once; a number is remembered of each, not the text.

    >>> list(distinct(["a", "b", "a"]))
    ['a', 'b']
    """
    seen: set[int] = set()
    for text in texts:
        key = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        if key not in seen:
            seen.add(key)
            yield text


def word_key(word: str, folds_case: bool) -> str:
    """A word as it is counted: large letters are small ones for a model that cannot tell them apart.

    >>> word_key("Bank", folds_case=True)
    'bank'
    """
    # Composed: an accent may be a letter of its own in one text and not in the next.
    return unicodedata.normalize("NFC", word.casefold() if folds_case else word)


@dataclass(frozen=True, eq=False)
class Census:
    """The distinct texts of a corpus, their words, and in how many texts each word stands."""

    texts: int
    repeated: int
    occurrences: int
    contexts: Counter[str]
    folds_case: bool


def census(
    texts: Iterable[str], folds_case: bool, punctuation: bool = False, progress: Progress | None = None
) -> Census:
    """Count a corpus.

    >>> census(["A bank.", "the bank", "A bank."], folds_case=True).contexts["bank"]
    2
    """
    contexts: Counter[str] = Counter()
    read = found = occurrences = 0

    def pooling_mask() -> Iterator[str]:
        nonlocal read
        for text in tracked(texts, progress, note="texts counted"):
            read += 1
            yield text

    for text in distinct(pooling_mask()):
        found += 1
        spans = spans_of_words(text, punctuation)
        occurrences += len(spans)
        contexts.update({word_key(text[slice(*span)], folds_case) for span in spans})
    return Census(found, read - found, occurrences, contexts, folds_case)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is kept of which occurrence: numbers of words, and the rows of samples."""

    words: Sequence[str]
    """the words whose self-similarity is measured"""
    chosen: int
    """how many of the first ones were asked for by name"""
    number: dict[str, int]
    """the place of each in ``words``"""
    sampled: int
    """how many of the first ones have their explainable variance measured"""
    rows: dict[tuple[int, int], int]
    """(word, which of its contexts) -> row of the sample"""
    starts: np.ndarray
    """the first row of each sampled word, and the number of rows at the end: (words + 1,)"""
    points: dict[int, int]
    """which of all occurrences -> row of the random points"""


def plan(found: Census, settings: GeometrySettings) -> Plan:
    """Draw the words and the samples of a census.

    >>> plan(census(["a b", "a c"], True), GeometrySettings(min_contexts=2)).words
    ['a']
    """
    # A generator each: which points are drawn must not depend on how a model counts words.
    for_words, for_contexts, for_points = np.random.default_rng(settings.seed).spawn(3)
    chosen = _chosen(found, settings)
    often = sorted(word for word, count in found.contexts.items() if count >= settings.min_contexts)
    often = [word for word in often if word not in chosen]
    rest = [often[index] for index in for_words.permutation(len(often))]
    if not chosen and not rest:
        most = max(found.contexts.values(), default=0)
        raise DataError(
            f"no word stands in {settings.min_contexts} different texts; the most frequent stands in {most}:"
            " give more texts or a lower --min-contexts"
        )
    words = [*chosen, *rest[: settings.max_words]]
    sizes = np.minimum([found.contexts[word] for word in words], settings.max_contexts)
    ends = np.cumsum(sizes)
    # The chosen words come first and always; the others as far as they fit.
    count = max(len(chosen), int(np.searchsorted(ends, settings.sample_rows, side="right")), 1)
    starts = np.concatenate([[0], ends[:count]])
    rows = {
        (which, int(context)): int(starts[which]) + row
        for which in range(count)
        for row, context in enumerate(_some(for_contexts, found.contexts[words[which]], settings.max_contexts))
    }
    points = _some(for_points, found.occurrences, settings.sample_points)
    number = {word: which for which, word in enumerate(words)}
    indices = {int(one): row for row, one in enumerate(points)}
    return Plan(words, len(chosen), number, count, rows, starts, indices)


def _chosen(found: Census, settings: GeometrySettings) -> list[str]:
    words = list(dict.fromkeys(word_key(word, found.folds_case) for word in settings.words))
    for word in words:
        if found.contexts[word] < 2:
            raise DataError(
                f"the word {word!r} stands in {found.contexts[word]} of the {found.texts} different texts;"
                " self-similarity needs 2: leave it out of --words"
            )
    return words


def _some(rng: np.random.Generator, count: int, most: int) -> np.ndarray:
    """At most ``most`` of the numbers below ``count``, in order."""
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False, shuffle=False))
