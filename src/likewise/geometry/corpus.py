"""The corpus of a geometry run: its settings, which words its texts have, and what is sampled of them.

The sample is drawn by the order of the texts, so that every model is measured on the same occurrences.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from likewise.errors import DataError, UsageError
from likewise.grammar.spans import Span, word_spans
from likewise.progress import Progress, tracked


@dataclass(frozen=True)
class GeometrySettings:
    """What is measured, and on how large a sample.

    >>> GeometrySettings(words=("bank",)).min_contexts
    5
    """

    words: tuple[str, ...] = ()
    """words that are always measured, and drawn in a figure of their own"""
    min_contexts: int = 5
    """averages over words leave out words in fewer different sentences"""
    punctuation: bool = False
    """punctuation marks count as words"""
    prompt: str | None = None
    """put before each text; None is the model's own. Its tokens are no words of the text"""
    max_words: int = 5_000
    """the most words whose self-similarity is measured; a random sample of them where there are more"""
    max_contexts: int = 1_000
    """the most contexts of a word for its explainable variance; a random sample of them where there are more"""
    sample_rows: int = 20_000
    """the most contexts of all words for explainable variance, whose words are drawn at random"""
    sample_points: int = 2_000
    """random occurrences for TwoNN, CKA, clusters and the random baseline of explainable variance"""
    clusters: int = 10
    """clusters within which isotropy is measured"""
    corrections: bool = True
    """also measure the similarities after each correction, in a second pass"""
    draws: int = 300
    """Poisson bootstrap draws"""
    seed: int = 0
    """seed of everything random"""
    disk: float = 4.0
    """gigabytes of word vectors in a temporary file for the second pass; the rest is encoded again"""

    def __post_init__(self) -> None:
        if isinstance(self.words, str):
            raise UsageError("words are given as a sequence, such as ('bank',)")
        if not math.isfinite(self.disk):
            raise UsageError(f"disk takes a number of gigabytes, not {self.disk}")
        if "" in self.words:
            raise UsageError("a word to draw is empty; give words as beverage,go,school")
        least = {"min_contexts": 2, "max_words": 1, "max_contexts": 2, "sample_rows": 2, "sample_points": 2}
        for name, low in (least | {"clusters": 1, "draws": 2, "seed": 0, "disk": 0}).items():
            if getattr(self, name) < low:
                raise UsageError(f"{name.replace('_', '-')} must be at least {low}, got {getattr(self, name)}")


USUAL = GeometrySettings()


def spans_of_words(text: str, punctuation: bool = False) -> list[Span]:
    """Character spans of a text's words, with or without its punctuation marks.

    >>> [text[slice(*span)] for text in ["Rob a bank!"] for span in spans_of_words(text)]
    ['Rob', 'a', 'bank']
    """
    found = word_spans(text)
    return found if punctuation else [span for span in found if any(map(str.isalnum, text[slice(*span)]))]


def distinct(texts: Iterable[str]) -> Iterator[str]:
    """Each text once; only a hash of each is kept in memory.

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
    """A word as it is counted: in lower case for a model that ignores case.

    >>> word_key("Bank", folds_case=True)
    'bank'
    """
    # Composed: an accent may be a character of its own in one text and not in the next.
    return unicodedata.normalize("NFC", word.casefold() if folds_case else word)


@dataclass(frozen=True, eq=False)
class CorpusStats:
    """The distinct texts of a corpus, their words, and the number of texts that each word is in."""

    texts: int
    repeated: int
    occurrences: int
    contexts: Counter[str]
    folds_case: bool


def corpus_stats(
    texts: Iterable[str], folds_case: bool, punctuation: bool = False, progress: Progress | None = None
) -> CorpusStats:
    """Count the texts and words of a corpus.

    >>> corpus_stats(["A bank.", "the bank", "A bank."], folds_case=True).contexts["bank"]
    2
    """
    contexts: Counter[str] = Counter()
    read = found = occurrences = 0

    def read_texts_once() -> Iterator[str]:
        nonlocal read
        for text in tracked(texts, progress, note="texts counted"):
            read += 1
            yield text

    for text in distinct(read_texts_once()):
        found += 1
        spans = spans_of_words(text, punctuation)
        occurrences += len(spans)
        contexts.update({word_key(text[slice(*span)], folds_case) for span in spans})
    return CorpusStats(found, read - found, occurrences, contexts, folds_case)


@dataclass(frozen=True, eq=False)
class SamplingPlan:
    """Which words are measured, and which occurrences go into the samples."""

    words: Sequence[str]
    """the words whose self-similarity is measured"""
    chosen: int
    """how many of the first ones were given by name"""
    number: dict[str, int]
    """the index of each in ``words``"""
    sampled: int
    """how many of the first ones have their explainable variance measured"""
    rows: dict[tuple[int, int], int]
    """(word, number of its context) -> row of the sample"""
    starts: np.ndarray
    """the first row of each sampled word, and the number of rows at the end: (words + 1,)"""
    points: dict[int, int]
    """number of the occurrence -> row of the random points"""


def sampling_plan(found: CorpusStats, settings: GeometrySettings) -> SamplingPlan:
    """Draw the words and the samples of a corpus.

    >>> sampling_plan(corpus_stats(["a b", "a c"], True), GeometrySettings(min_contexts=2)).words
    ['a']
    """
    # Three generators: the drawn points must not depend on how a model counts words.
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
    # The chosen words always come first; the others as far as they fit.
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
    return SamplingPlan(words, len(chosen), number, count, rows, starts, indices)


def _chosen(found: CorpusStats, settings: GeometrySettings) -> list[str]:
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
