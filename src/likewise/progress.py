"""Progress reports: a long function takes ``progress=None``, a callable, and calls it at least once a second.

A note reads ``[owner: ]work[, details]``, such as ``row 2/5: steps, epoch 1/3, loss 0.41``. The owner and the work name
what is counted and do not change while it runs; the details may change with every call and contain no colon.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Progress = Callable[[int, int | None, str], None]
"""``progress(done, total, note)``; ``total`` is None if it is unknown. May raise ``Cancelled``."""

Item = TypeVar("Item")
SECONDS_BETWEEN_CALLS = 0.1


class Ticker:
    """Counts work and reports it, at most ten times a second."""

    def __init__(self, progress: Progress | None, total: int | None = None, note: str = "") -> None:
        self.progress, self.total, self.note = progress, total, note
        self.done, self._last = 0, float("-inf")

    def add(self, count: int = 1, note: str | None = None) -> None:
        """Count ``count`` more pieces of work as done."""
        self.done += count
        self.note = self.note if note is None else note
        now = time.monotonic()
        if self.progress is not None and now - self._last >= SECONDS_BETWEEN_CALLS:
            self._last = now
            self.progress(self.done, self.total, self.note)

    def part(self) -> Progress:
        """A progress callable for a part of the work; its counts are added to this ticker."""
        before = 0

        def progress(done: int, *_: Any) -> None:
            nonlocal before
            self.add(done - before)
            before = done

        return progress

    def close(self) -> None:
        """Report the final count at once."""
        if self.progress is not None:
            self.progress(self.done, self.total, self.note)


MOST_BARS = 4  # The number of bars that are shown at once: those that moved last


def work_of(note: str) -> str:
    """The owner and the work of a note, without its details."""
    owner, colon, rest = note.rpartition(": ")
    return owner + colon + rest.partition(",")[0]


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A progress callable that draws a bar on stderr for each work, with the time left; silent outside a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def progress(done: int, total: int | None, note: str) -> None:
            work = work_of(note)
            task = tasks.pop(work, None)
            tasks[work] = bars.add_task(note, total=total) if task is None else task
            bars.update(tasks[work], completed=done, total=total, description=note)
            for old in list(tasks)[:-MOST_BARS]:
                bars.remove_task(tasks.pop(old))

        yield progress


def named(progress: Progress | None, owner: str) -> Progress | None:
    """The same progress with an owner before each note."""
    return None if progress is None else lambda done, total, note: progress(done, total, f"{owner}: {note}")


def tracked(
    items: Iterable[Item], progress: Progress | None, total: int | None = None, note: str = ""
) -> Iterator[Item]:
    """Yield ``items`` and count each one after it was processed."""
    ticker = Ticker(progress, total, note)
    for item in items:
        yield item
        ticker.add()
    ticker.close()
