"""Rounds over a corpus: a task on each of its windows, by this process or by the encoder's team, in order.

This process caches the vectors of the first round in a temporary file, up to a size limit; later rounds read them back
and encode only the rest again. A team encodes in each round: its workers share no file.
"""

from __future__ import annotations

import contextlib
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.forward import steady_memory, text_windows
from likewise.encoder.workers import ALONE, Team, team_of
from likewise.geometry.occurrences import (
    GeometrySettings,
    Occurrences,
    PlannedWindow,
    SamplingPlan,
    distinct,
    encoded_window,
    planned_windows,
)
from likewise.progress import Progress, Ticker

Done = TypeVar("Done")
GIGABYTE = 1e9


@dataclass(frozen=True, eq=False)
class WindowTask(ABC, Generic[Done]):
    """What is made of a window; it is the same wherever the window is encoded."""

    prompt: str | None

    @abstractmethod
    def summed(self, window: PlannedWindow, batches: Iterable[Occurrences]) -> Done:
        """The result of a window from all of its batches; ``window`` may come without its texts and words."""

    def __call__(self, encoder: Encoder, window: PlannedWindow, progress: Progress | None) -> Done:
        """Encode a window, as a worker does."""
        return self.summed(window, _reported(encoded_window(encoder, window, self.prompt), progress))


def _reported(batches: Iterable[Occurrences], progress: Progress | None) -> Iterator[Occurrences]:
    """Report the texts of each batch after it was processed."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.texts
        if progress is not None:
            progress(done, None, "")


class OccurrenceStream:
    """All occurrences of a corpus, in the same windows at each round.

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
        self.encoder, self.texts, self.sampling_plan = encoder, texts, sampling_plan
        self.settings, self.total = settings, total
        self.team = self._team()
        # Without corrections there is no second round that could use a cache.
        self._cache = _VectorCache(file, int(settings.disk * GIGABYTE) if settings.corrections else 0)
        self._rounds = 0

    def _team(self) -> Team:
        """The encoder's team if there is more than one window for it: to start it takes seconds."""
        team = team_of(self.encoder)
        if team == ALONE:
            return ALONE
        windows = text_windows(("", text) for text in distinct(self.texts()))
        return team if len(list(islice(windows, 2))) > 1 else ALONE

    def results(self, task: WindowTask[Done], note: str, progress: Progress | None = None) -> Iterator[Done]:
        """One round over all occurrences: what the task makes of each window, in order."""
        ticker = Ticker(progress, self.total, note)
        if self.team == ALONE:
            yield from self._alone(task, ticker)
        else:
            with contextlib.closing(self.team.run(self.encoder, task, self._planned(), ticker)) as results:
                for _, result in results:
                    yield result
        self._rounds += 1
        ticker.close()

    def _planned(self) -> Iterator[PlannedWindow]:
        folds_case = self.encoder.tokenizer.folds_case
        return planned_windows(self.texts(), self.sampling_plan, folds_case, self.settings.punctuation)

    def _alone(self, task: WindowTask[Done], ticker: Ticker) -> Iterator[Done]:
        with steady_memory():
            for window, batches in chain(self._cache.windows(), self._encoded()):
                yield task.summed(window, _reported(batches, ticker.part()))

    def _encoded(self) -> Iterator[tuple[PlannedWindow, Iterator[Occurrences]]]:
        """The windows that are not cached, by the model; the first round encodes all and fills the cache."""
        cached, first = len(self._cache), self._rounds == 0
        if not first and self._cache.complete:
            return
        for window in islice(self._planned(), cached, None):
            found = encoded_window(self.encoder, window, self.settings.prompt)
            yield window, self._cache.passing(window, found) if first else found


class _VectorCache:
    """Whole windows of occurrences in an unbuffered file, up to a number of bytes.

    A buffer would keep the bytes that a full disk rejects, and fail again at every later step.
    """

    def __init__(self, file: io.RawIOBase, limit: int) -> None:
        self.limit, self.complete = limit, True
        self._file = file
        self._windows: list[tuple[PlannedWindow, list[Occurrences]]] = []

    def __len__(self) -> int:
        return len(self._windows)

    def passing(self, window: PlannedWindow, batches: Iterable[Occurrences]) -> Iterator[Occurrences]:
        """Pass a window's batches on and cache them, if they and all windows before them fit."""
        begun = self._file.tell()
        stored: list[Occurrences] = []
        for batch in batches:
            if self.complete and not self._stores(batch):
                # Half a window is useless: windows are encoded whole.
                self.complete = False
                with contextlib.suppress(OSError):
                    self._file.truncate(begun)
            # A tensor on the device "meta" has a shape and a type but no memory.
            stored += [replace(batch, vectors=batch.vectors.to("meta"))] if self.complete else []
            yield batch
        if self.complete:
            self._windows.append((replace(window, texts=(), words=()), stored))

    def _stores(self, batch: Occurrences) -> bool:
        """Write a batch; False where it exceeds the limit or the disk is full."""
        if self._file.tell() + batch.vectors.nbytes > self.limit:
            return False
        rest = _bytes_of(batch.vectors.contiguous().numpy())
        try:
            # One write to an unbuffered file may be incomplete.
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            return False
        return True

    def windows(self) -> Iterator[tuple[PlannedWindow, Iterator[Occurrences]]]:
        """All cached windows, each to be read to its end before the next one."""
        self._file.seek(0)
        for window, batches in self._windows:
            yield window, map(self._read, batches)

    def _read(self, batch: Occurrences) -> Occurrences:
        shape, kind = batch.vectors.shape, np.float64 if batch.vectors.dtype == torch.float64 else np.float32
        values = np.empty(shape, kind)
        rest = _bytes_of(values)
        while rest:
            if not (count := self._file.readinto(rest)):
                raise OSError("the temporary file of word vectors was cut short; run it again")
            rest = rest[count:]
        return replace(batch, vectors=torch.from_numpy(values))


def _bytes_of(values: NDArray[Any]) -> memoryview:
    return memoryview(values.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
