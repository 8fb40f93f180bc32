"""The progress contract: a long function takes ``progress=None`` and calls it at least once a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Progress = Callable[[int, int | None, str], None]
"""``progress(done, total, note)``; ``total`` is None where it is not known. May raise ``Cancelled``."""

Item = TypeVar("Item")

SECONDS_BETWEEN_CALLS = 0.1


class Ticker:
    """Counts work and reports it, at most ten times a second.

    >>> seen = []
    >>> ticker = Ticker(lambda done, total, note: seen.append((done, total, note)), 2, "texts")
    >>> ticker.add(2)
    >>> ticker.close()
    >>> seen[-1]
    (2, 2, 'texts')
    """

    def __init__(self, progress: Progress | None, total: int | None = None, note: str = "") -> None:
        self.progress, self.total, self.note = progress, total, note
        self.done = 0
        self._last = float("-inf")

    def add(self, count: int = 1, note: str | None = None) -> None:
        """Count ``count`` more pieces of work as done."""
        self.done += count
        self.note = self.note if note is None else note
        now = time.monotonic()
        if self.progress is not None and now - self._last >= SECONDS_BETWEEN_CALLS:
            self._last = now
            self.progress(self.done, self.total, self.note)

    def part(self) -> Progress:
        """A progress callable for a part of the work: what it counts is added here."""
        before = 0

        def progress(done: int, total: int | None, note: str) -> None:  # noqa: ARG001
            nonlocal before
            self.add(done - before)
            before = done

        return progress

    def close(self) -> None:
        """Report the final count, whatever the time."""
        if self.progress is not None:
            self.progress(self.done, self.total, self.note)


def named(progress: Progress | None, name: str) -> Progress | None:
    """The same progress with a name before each note.

    >>> seen = []
    >>> named(lambda done, total, note: seen.append(note), "row 1")(1, 2, "steps")
    >>> seen
    ['row 1: steps']
    """
    if progress is None:
        return None
    return lambda done, total, note: progress(done, total, f"{name}: {note}")


def tracked(
    items: Iterable[Item], progress: Progress | None, total: int | None = None, note: str = ""
) -> Iterator[Item]:
    """Yield ``items`` and count each one when it has been dealt with.

    >>> list(tracked("ab", None))
    ['a', 'b']
    """
    ticker = Ticker(progress, total, note)
    for item in items:
        yield item
        ticker.add()
    ticker.close()
