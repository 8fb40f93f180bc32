"""Occurrences of the words of a corpus: settings, counts, samples, and vectors in all layers, batch by batch.

The sample is drawn by position in the corpus, so every model is measured on the same occurrences. The texts are cut
into windows by position too, and each window carries its words' parts in the sample: whoever encodes it needs no other.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from likewise.encoder import Encoder
from likewise.encoder.forward import StateBatch, text_windows
from likewise.encoder.tokens import TokenizedText
from likewise.errors import DataError, UsageError
from likewise.grammar.spans import Span, word_spans
from likewise.progress import Progress, tracked

TokenIndices = tuple[int, ...]


@dataclass(frozen=True)
class GeometrySettings:
    """What is measured, and on how large a sample.

    >>> GeometrySettings(words=("bank",)).min_contexts
    5
    """

    words: tuple[str, ...] = ()  # words that are always measured, and drawn in a figure of their own
    min_contexts: int = 5  # averages over words leave out words in fewer different sentences
    punctuation: bool = False  # punctuation marks count as words
    prompt: str | None = None  # put before each text; None is the model's own. Its tokens are no words of the text
    max_words: int = 5_000  # the most words whose self-similarity is measured; a random sample if there are more
    max_contexts: int = 1_000  # the most contexts of a word for its explainable variance; a random sample if more
    sample_rows: int = 20_000  # the most contexts of all words for explainable variance; words are drawn at random
    sample_points: int = 2_000  # random occurrences for TwoNN, CKA, clusters and the baseline of explainable variance
    clusters: int = 10  # clusters within which isotropy is measured
    corrections: bool = True  # also measure the similarities after each correction, in a second pass
    draws: int = 300  # Poisson bootstrap draws
    seed: int = 0  # seed of everything random
    disk: float = 4.0  # gigabytes of word vectors in a temporary file for the second pass; the rest is encoded again

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
    """Each text once; only a hash of each is kept in memory."""
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
    """Count the texts and words of a corpus."""
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

    words: Sequence[str]  # the words whose self-similarity is measured
    chosen: int  # how many of the first ones were given by name
    number: dict[str, int]  # the index of each in `words`
    sampled: int  # how many of the first ones have their explainable variance measured
    rows: dict[tuple[int, int], int]  # (word, number of its context) -> row of the sample
    starts: np.ndarray  # the first row of each sampled word, and the number of rows at the end: (words + 1,)
    points: dict[int, int]  # number of the occurrence -> row of the random points


def sampling_plan(found: CorpusStats, settings: GeometrySettings) -> SamplingPlan:
    """Draw the words and the samples of a corpus."""
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


def require_layers(encoder: Encoder) -> None:
    """Rejects an encoder whose layers are not accessible."""
    if encoder.backend is not None:
        raise UsageError("only the backend torch shows what the layers hold; load the model with --backend torch")


def tokens_of_spans(tokens: TokenizedText, spans: Sequence[Span]) -> list[TokenIndices]:
    """The token indices of each sorted span; none for a span that was cut off or has no token of its own."""
    found: list[list[int]] = [[] for _ in spans]
    for index, inside in enumerate(tokens.spans_of(spans)):
        if inside is not None:
            found[inside].append(index)
    return [tuple(indices) for indices in found]


def averaged_tokens(hidden: Tensor, groups: Sequence[tuple[int, TokenIndices]]) -> Tensor:
    """The mean states of groups of tokens, each (row, indices): hidden (L, B, T, D) -> (L, N, D), float32 or wider."""
    layers, rows, length, width = hidden.shape
    tokens = [row * length + index for row, indices in groups for index in indices]
    sizes = [len(indices) for _, indices in groups]
    starts = [0, *accumulate(sizes)][:-1]
    chosen, offsets = (torch.tensor(each, dtype=torch.long, device=hidden.device) for each in (tokens, starts))
    # Sums of half precision overflow.
    states = hidden if hidden.dtype in (torch.float32, torch.float64) else hidden.float()
    sums = [embedding_bag(chosen, flat, offsets, mode="sum") for flat in states.reshape(layers, rows * length, width)]
    return torch.stack(sums) / torch.tensor(sizes, dtype=states.dtype, device=hidden.device)[:, None]


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The N words of some sentences."""

    vectors: Tensor  # (L + 1, N, D)
    sentences: Tensor  # the sentence of each word, from 0 on in this batch: (N,)
    texts: int  # the number of sentences in the batch, including those without words
    contexts: Tensor  # the first occurrence in its sentence of each word whose self-similarity is measured: (M,)
    words: Tensor  # the number of each of those words: (M,)
    sampled: Sequence[tuple[int, int]]  # (word of this batch, row of the sample)
    points: Sequence[tuple[int, int]]  # (word of this batch, row of the random points)
    truncated: int = 0  # the number of sentences that were cut at the model's limit


class PlannedWord(NamedTuple):
    """One occurrence and its part in the sampling plan."""

    span: Span
    number: int | None  # its index among the measured words
    row: int | None  # row of the sample, for this text as a context of the word
    point: int | None  # row of the random points


@dataclass(frozen=True, eq=False)
class PlannedWindow:
    """A window of texts with their words, as they travel to whoever encodes them."""

    number: int
    measured: NDArray[np.int64]  # the measured words that are in it, ascending: (M,)
    texts: Sequence[str]
    words: Sequence[Sequence[PlannedWord]]  # of each text

    def __len__(self) -> int:
        return len(self.texts)


def planned_windows(
    texts: Iterable[str], sampling_plan: SamplingPlan, folds_case: bool, punctuation: bool
) -> Iterator[PlannedWindow]:
    """Cut the distinct texts of a corpus into windows by position alone, and look up their words."""
    numbering = _Numbering(sampling_plan, folds_case, punctuation)
    for index, window in enumerate(text_windows(("", text) for text in distinct(texts))):
        words = [numbering.of(text) for _, text in window]
        measured = {word.number for one in words for word in one if word.number is not None}
        yield PlannedWindow(index, np.array(sorted(measured), np.int64), [text for _, text in window], words)


class _Numbering:
    """Looks each occurrence up in the sampling plan, by counting in the order of the texts."""

    def __init__(self, sampling_plan: SamplingPlan, folds_case: bool, punctuation: bool) -> None:
        self.sampling_plan, self.folds_case, self.punctuation = sampling_plan, folds_case, punctuation
        self._contexts: Counter[int] = Counter()
        self._occurrences = 0

    def of(self, text: str) -> list[PlannedWord]:
        """The words of the next text."""
        found: list[PlannedWord] = []
        rows: dict[int, int | None] = {}
        for span in spans_of_words(text, self.punctuation):
            number = self.sampling_plan.number.get(word_key(text[slice(*span)], self.folds_case))
            # A context is a text: a second occurrence in the same text is no second context.
            if number is not None and number not in rows:
                rows[number] = self.sampling_plan.rows.get((number, self._contexts[number]))
                self._contexts[number] += 1
            row = None if number is None else rows[number]
            found.append(PlannedWord(span, number, row, self.sampling_plan.points.get(self._occurrences)))
            self._occurrences += 1
        return found


def encoded_window(encoder: Encoder, window: PlannedWindow, prompt: str | None) -> Iterator[Occurrences]:
    """The occurrences of a window, batch by batch, by the model."""
    for batch in encoder.state_batches(window.texts, prompt=prompt, report=False):
        yield _occurrences(batch, [window.words[index] for index in batch.indices])


def _occurrences(batch: StateBatch, texts: Sequence[Sequence[PlannedWord]]) -> Occurrences:
    """The words of a batch that were not cut off."""
    words: list[PlannedWord] = []
    groups: list[tuple[int, TokenIndices]] = []
    for row, (tokens, planned) in enumerate(zip(batch.tokens, texts, strict=True)):
        for word, indices in zip(planned, tokens_of_spans(tokens, [word.span for word in planned]), strict=True):
            if indices:
                words.append(word)
                groups.append((row, indices))
    # The first occurrence of each measured word in each text, of those that were not cut off.
    first: dict[tuple[int, int], int] = {}
    for index, (word, (row, _)) in enumerate(zip(words, groups, strict=True)):
        if word.number is not None:
            first.setdefault((row, word.number), index)
    contexts = list(first.values())
    return Occurrences(
        averaged_tokens(batch.hidden, groups).cpu(),
        torch.tensor([row for row, _ in groups], dtype=torch.long),
        len(batch.tokens),
        torch.tensor(contexts, dtype=torch.long),
        torch.tensor([words[index].number for index in contexts], dtype=torch.long),
        [(index, sampled) for index in contexts if (sampled := words[index].row) is not None],
        [(index, word.point) for index, word in enumerate(words) if word.point is not None],
        sum(tokens.truncated for tokens in batch.tokens),
    )
