"""Occurrences: the words of a corpus with their vectors in all layers, batch by batch, as often as they are asked for.

The first round encodes and keeps the vectors in a temporary file, as far as it may grow; later rounds read them back
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
from likewise.encoder.device import steady_memory
from likewise.encoder.encoder import report_truncation
from likewise.encoder.stream import text_windows
from likewise.encoder.tensors import StateBatch
from likewise.geometry.corpus_stats import Plan, distinct, word_key
from likewise.geometry.settings import GeometrySettings
from likewise.geometry.words import Places, averaged_tokens, spans_of_words, tokens_of_spans
from likewise.grammar.spans import Span
from likewise.progress import Progress, Ticker

GIGABYTE = 1e9


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The N words of some sentences."""

    vectors: Tensor
    """(L + 1, N, D)"""
    sentences: Tensor
    """the sentence of each word, from 0 on in this batch: (N,)"""
    texts: int
    """how many sentences the batch has, with words or without"""
    contexts: Tensor
    """the words that are the first of their kind in their sentence and whose self-similarity is measured: (M,)"""
    words: Tensor
    """the number of each of those words: (M,)"""
    kept: Sequence[tuple[int, int]]
    """(word of this batch, row of the sample)"""
    points: Sequence[tuple[int, int]]
    """(word of this batch, row of the random points)"""


class OccurrenceStream:
    """All occurrences of a corpus, in the same order at each round.

    ``texts`` begins to read the corpus anew, ``total`` is the number of its distinct texts, ``file`` is empty
    and unbuffered.
    """

    def __init__(
        self,
        encoder: Encoder,
        texts: Callable[[], Iterable[str]],
        plan: Plan,
        settings: GeometrySettings,
        total: int,
        file: io.RawIOBase,
    ) -> None:
        self.encoder, self.texts, self.plan, self.settings, self.total = encoder, texts, plan, settings, total
        # Without corrections there is no second round to keep anything for.
        self._kept = _KeptVectors(file, int(settings.disk * GIGABYTE) if settings.corrections else 0)
        self._rounds = self._cut = 0

    def batches(self, note: str, progress: Progress | None = None) -> Iterator[Occurrences]:
        """One round over all occurrences."""
        ticker = Ticker(progress, self.total, note)
        for batch in chain(self._kept.batches(), self._encoded()):
            yield batch
            ticker.add(batch.texts)
        if self._rounds == 0:
            report_truncation(self._cut, self.total, self.encoder.tokenizer.limit)
        self._rounds += 1
        ticker.close()

    def _encoded(self) -> Iterator[Occurrences]:
        """What is not kept, by the model; in the first round that is all, and it is kept as far as it goes."""
        kept, first = self._kept.windows, self._rounds == 0
        if not first and self._kept.complete:
            return
        numbers = _Numbers(self.plan, self.encoder.tokenizer.folds_case, self.settings.punctuation)
        windows = text_windows(("", text) for text in distinct(self.texts()))
        with steady_memory():
            for index, window in enumerate(windows):
                texts = [text for _, text in window]
                words = [numbers.of(text) for text in texts]
                if index >= kept:
                    found = self._encoded_window(texts, words)
                    yield from self._kept.passing(found) if first else found

    def _encoded_window(self, texts: Sequence[str], words: Sequence[Sequence[_Word]]) -> Iterator[Occurrences]:
        for batch in self.encoder.state_batches(texts, prompt=self.settings.prompt, report=False):
            self._cut += sum(tokens.truncated for tokens in batch.tokens)
            yield _occurrences(batch, [words[index] for index in batch.indices])


@dataclass(frozen=True, slots=True)
class _Word:
    """One occurrence and what the plan says of it."""

    span: Span
    number: int | None
    """which of the measured words it is"""
    row: int | None
    """of the sample, for this text as a context of the word"""
    point: int | None
    """row of the random points"""


class _Numbers:
    """Tells each occurrence its place in the plan, by counting in the order of the texts."""

    def __init__(self, plan: Plan, folds_case: bool, punctuation: bool) -> None:
        self.plan, self.folds_case, self.punctuation = plan, folds_case, punctuation
        self._contexts: Counter[int] = Counter()
        self._occurrences = 0

    def of(self, text: str) -> list[_Word]:
        """The words of the next text."""
        found: list[_Word] = []
        rows: dict[int, int | None] = {}
        for span in spans_of_words(text, self.punctuation):
            number = self.plan.number.get(word_key(text[slice(*span)], self.folds_case))
            # A word's contexts are texts: a second occurrence in the same one is no second context.
            if number is not None and number not in rows:
                rows[number] = self.plan.rows.get((number, self._contexts[number]))
                self._contexts[number] += 1
            row = None if number is None else rows[number]
            found.append(_Word(span, number, row, self.plan.points.get(self._occurrences)))
            self._occurrences += 1
        return found


def _occurrences(batch: StateBatch, texts: Sequence[Sequence[_Word]]) -> Occurrences:
    """The words of a batch, without those that were cut off."""
    words: list[_Word] = []
    groups: list[tuple[int, Places]] = []
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
        [(index, kept) for index in contexts if (kept := words[index].row) is not None],
        [(index, word.point) for index, word in enumerate(words) if word.point is not None],
    )


def _contexts(words: Sequence[_Word], sentences: Sequence[int]) -> list[int]:
    """The places of the first measured occurrence of each word in each sentence, of those that were not cut off."""
    first: dict[tuple[int, int], int] = {}
    for index, (word, sentence) in enumerate(zip(words, sentences, strict=True)):
        if word.number is not None:
            first.setdefault((sentence, word.number), index)
    return list(first.values())


class _KeptVectors:
    """Whole windows of occurrences in an unbuffered file, up to a number of bytes.

    A buffer would keep what a full disk refuses, and fail again with it at every later step.
    """

    def __init__(self, file: io.RawIOBase, limit: int) -> None:
        self.limit, self.windows, self.complete = limit, 0, True
        self._file = file
        self._batches: list[Occurrences] = []

    def passing(self, window: Iterable[Occurrences]) -> Iterator[Occurrences]:
        """Hand a window through and keep it, if it fits and all before it did."""
        begun = len(self._batches), self._file.tell()
        for batch in window:
            if self.complete and not self._keeps(batch):
                # Half a window is of no use: windows are encoded whole.
                self.complete = False
                del self._batches[begun[0] :]
                with contextlib.suppress(OSError):
                    self._file.truncate(begun[1])
            yield batch
        self.windows += self.complete

    def _keeps(self, batch: Occurrences) -> bool:
        """Whether one more batch could be kept: it may go beyond the limit, or the disk be full."""
        if self._file.tell() + batch.vectors.nbytes > self.limit:
            return False
        rest = _bytes_of(batch.vectors.contiguous().numpy())
        try:
            # An unbuffered file may take less than it is given.
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            return False
        # On the device "meta" a tensor is its shape and its type, and no memory.
        self._batches.append(replace(batch, vectors=batch.vectors.to("meta")))
        return True

    def batches(self) -> Iterator[Occurrences]:
        """What is kept."""
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
