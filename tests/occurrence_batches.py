"""The batches of a round over the occurrences of a corpus, as the tasks of geometry see them."""

from __future__ import annotations

from collections.abc import Iterable

from likewise.geometry.occurrences import Occurrences, PlannedWindow
from likewise.geometry.rounds import OccurrenceStream, WindowTask


class Collect(WindowTask[list[Occurrences]]):
    """A task that returns the batches of a window."""

    def summed(self, window: PlannedWindow, batches: Iterable[Occurrences]) -> list[Occurrences]:
        return list(batches)


def windows_of(stream: OccurrenceStream, note: str) -> list[list[Occurrences]]:
    """The batches of each window, in one round."""
    return list(stream.results(Collect(stream.settings.prompt), note))


def batches_of(stream: OccurrenceStream, note: str) -> list[Occurrences]:
    """All batches of one round."""
    return [batch for window in windows_of(stream, note) for batch in window]
