"""Occurrences: the words of a corpus with their vectors in all layers, batch by batch, in as many rounds as needed.

The first round encodes the texts and caches the vectors in a temporary file up to a limit; later rounds read them back
and encode only the rest again.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.forward import StateBatch, steady_memory, text_windows
from likewise.encoder.tokens import TokenizedText, report_truncation
from likewise.errors import UsageError
from likewise.geometry.corpus import GeometrySettings, SamplingPlan, distinct, spans_of_words, word_key
from likewise.grammar.spans import Span
from likewise.progress import Progress, Ticker

TokenIndices = tuple[int, ...]
GIGABYTE = 1e9


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
    flat = hidden.reshape(layers, rows * length, width)
    found = flat[:, torch.tensor([row * length + indices[0] for row, indices in groups], dtype=torch.long)]
    if found.dtype not in (torch.float32, torch.float64):
        found = found.float()  # sums of half precision overflow
    # Most words are one token: only the others are summed, one more token at each step.
    longer = [(which, row * length, indices) for which, (row, indices) in enumerate(groups) if len(indices) > 1]
    sizes = torch.tensor([len(indices) for _, _, indices in longer], dtype=found.dtype, device=hidden.device)
    whole = [which for which, _, _ in longer]
    step = 1
    while longer:
        added = torch.tensor([first + indices[step] for _, first, indices in longer])
        found[:, [which for which, _, _ in longer]] += flat[:, added]
        step += 1
        longer = [each for each in longer if len(each[2]) > step]
    if whole:
        found[:, whole] /= sizes[:, None]
    return found


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The N words of some sentences."""

    vectors: Tensor
    """(L + 1, N, D)"""
    sentences: Tensor
    """the sentence of each word, from 0 on in this batch: (N,)"""
    texts: int
    """the number of sentences in the batch, including those without words"""
    contexts: Tensor
    """the first occurrence in its sentence of each word whose self-similarity is measured: (M,)"""
    words: Tensor
    """the number of each of those words: (M,)"""
    sampled: Sequence[tuple[int, int]]
    """(word of this batch, row of the sample)"""
    points: Sequence[tuple[int, int]]
    """(word of this batch, row of the random points)"""


class OccurrenceStream:
    """All occurrences of a corpus, in the same order at each round.

    ``texts`` starts to read the corpus again, ``total`` is the number of its distinct texts, ``file`` is empty and
    unbuffered.
    """

    def __init__(
        self,
        encoder: Encoder,
        texts: Callable[[], Iterable[str]],
        sampling_plan: SamplingPlan,
        settings: GeometrySettings,
        total: int,
        file: io.RawIOBase,
    ) -> None:
        self.encoder, self.texts, self.sampling_plan, self.settings, self.total = (
            encoder,
            texts,
            sampling_plan,
            settings,
            total,
        )
        # Without corrections there is no second round that could use a cache.
        self._cache = _VectorCache(file, int(settings.disk * GIGABYTE) if settings.corrections else 0)
        self._rounds = self._cut = 0

    def batches(self, note: str, progress: Progress | None = None) -> Iterator[Occurrences]:
        """One round over all occurrences."""
        ticker = Ticker(progress, self.total, note)
        for batch in chain(self._cache.batches(), self._encoded()):
            yield batch
            ticker.add(batch.texts)
        if self._rounds == 0:
            report_truncation(self._cut, self.total, self.encoder.tokenizer.limit)
        self._rounds += 1
        ticker.close()

    def _encoded(self) -> Iterator[Occurrences]:
        """The occurrences that are not cached, by the model; the first round encodes all and fills the cache."""
        cached, first = self._cache.windows, self._rounds == 0
        if not first and self._cache.complete:
            return
        numbering = _Numbering(self.sampling_plan, self.encoder.tokenizer.folds_case, self.settings.punctuation)
        windows = text_windows(("", text) for text in distinct(self.texts()))
        with steady_memory():
            for index, window in enumerate(windows):
                texts = [text for _, text in window]
                words = [numbering.of(text) for text in texts]
                if index >= cached:
                    found = self._encoded_window(texts, words)
                    yield from self._cache.passing(found) if first else found

    def _encoded_window(self, texts: Sequence[str], words: Sequence[Sequence[_Word]]) -> Iterator[Occurrences]:
        for batch in self.encoder.state_batches(texts, prompt=self.settings.prompt, report=False):
            self._cut += sum(tokens.truncated for tokens in batch.tokens)
            yield _occurrences(batch, [words[index] for index in batch.indices])


@dataclass(frozen=True, slots=True)
class _Word:
    """One occurrence and its part in the sampling plan."""

    span: Span
    number: int | None
    """its index among the measured words"""
    row: int | None
    """row of the sample, for this text as a context of the word"""
    point: int | None
    """row of the random points"""


class _Numbering:
    """Looks each occurrence up in the sampling plan, by counting in the order of the texts."""

    def __init__(self, sampling_plan: SamplingPlan, folds_case: bool, punctuation: bool) -> None:
        self.sampling_plan, self.folds_case, self.punctuation = sampling_plan, folds_case, punctuation
        self._contexts: Counter[int] = Counter()
        self._occurrences = 0

    def of(self, text: str) -> list[_Word]:
        """The words of the next text."""
        found: list[_Word] = []
        rows: dict[int, int | None] = {}
        for span in spans_of_words(text, self.punctuation):
            number = self.sampling_plan.number.get(word_key(text[slice(*span)], self.folds_case))
            # A context is a text: a second occurrence in the same text is no second context.
            if number is not None and number not in rows:
                rows[number] = self.sampling_plan.rows.get((number, self._contexts[number]))
                self._contexts[number] += 1
            row = None if number is None else rows[number]
            found.append(_Word(span, number, row, self.sampling_plan.points.get(self._occurrences)))
            self._occurrences += 1
        return found


def _occurrences(batch: StateBatch, texts: Sequence[Sequence[_Word]]) -> Occurrences:
    """The words of a batch that were not cut off."""
    words: list[_Word] = []
    groups: list[tuple[int, TokenIndices]] = []
    for row, (tokens, planned) in enumerate(zip(batch.tokens, texts, strict=True)):
        for word, indices in zip(planned, tokens_of_spans(tokens, [word.span for word in planned]), strict=True):
            if indices:
                words.append(word)
                groups.append((row, indices))
    contexts = _contexts(words, [row for row, _ in groups])
    return Occurrences(
        averaged_tokens(batch.hidden, groups).cpu(),
        torch.tensor([row for row, _ in groups], dtype=torch.long),
        len(batch.tokens),
        torch.tensor(contexts, dtype=torch.long),
        torch.tensor([words[index].number for index in contexts], dtype=torch.long),
        [(index, sampled) for index in contexts if (sampled := words[index].row) is not None],
        [(index, word.point) for index, word in enumerate(words) if word.point is not None],
    )


def _contexts(words: Sequence[_Word], sentences: Sequence[int]) -> list[int]:
    """The indices of the first measured occurrence of each word in each sentence, of those that were not cut off."""
    first: dict[tuple[int, int], int] = {}
    for index, (word, sentence) in enumerate(zip(words, sentences, strict=True)):
        if word.number is not None:
            first.setdefault((sentence, word.number), index)
    return list(first.values())


class _VectorCache:
    """Whole windows of occurrences in an unbuffered file, up to a number of bytes.

    A buffer would keep the bytes that a full disk rejects, and fail again at every later step.
    """

    def __init__(self, file: io.RawIOBase, limit: int) -> None:
        self.limit, self.windows, self.complete = limit, 0, True
        self._file = file
        self._batches: list[Occurrences] = []

    def passing(self, window: Iterable[Occurrences]) -> Iterator[Occurrences]:
        """Pass a window on and cache it, if it and all windows before it fit."""
        begun = len(self._batches), self._file.tell()
        for batch in window:
            if self.complete and not self._stores(batch):
                # Half a window is useless: windows are encoded whole.
                self.complete = False
                del self._batches[begun[0] :]
                with contextlib.suppress(OSError):
                    self._file.truncate(begun[1])
            yield batch
        self.windows += self.complete

    def _stores(self, batch: Occurrences) -> bool:
        """Store a batch; False where it exceeds the limit or the disk is full."""
        if self._file.tell() + batch.vectors.nbytes > self.limit:
            return False
        rest = _bytes_of(batch.vectors.contiguous().numpy())
        try:
            # One write to an unbuffered file may be incomplete.
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            return False
        # A tensor on the device "meta" has a shape and a type but no memory.
        self._batches.append(replace(batch, vectors=batch.vectors.to("meta")))
        return True

    def batches(self) -> Iterator[Occurrences]:
        """All cached batches."""
        self._file.seek(0)
        for batch in self._batches:
            shape, kind = batch.vectors.shape, np.float64 if batch.vectors.dtype == torch.float64 else np.float32
            values = np.empty(shape, kind)
            rest = _bytes_of(values)
            while rest:
                if not (count := self._file.readinto(rest)):
                    raise OSError("the temporary file of word vectors was cut short; run it again")
                rest = rest[count:]
            yield replace(batch, vectors=torch.from_numpy(values))


def _bytes_of(values: NDArray[np.floating]) -> memoryview:
    return memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
