"""Turns: questions that are answered at once, one after the other; those beyond a limit are sent away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from likewise.server.jobs import QueueFull


class Turns:
    """Lets one question after the other through.

    >>> turns = Turns(1)
    >>> with turns.taken():
    ...     turns.asking
    1
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = threading.Lock()
        self._turn = threading.Lock()
        self.asking = 0

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn; with too many waiting already, none is given."""
        with self._count:
            if self.asking >= self._most:
                raise QueueFull(f"{self._most} questions are waiting already; ask again in a moment")
            self.asking += 1
        try:
            with self._turn:
                yield
        finally:
            with self._count:
                self.asking -= 1
