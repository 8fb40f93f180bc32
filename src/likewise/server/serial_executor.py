"""Turns: questions that are answered at once, one after the other; those beyond a limit are sent away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from likewise.errors import Cancelled
from likewise.server.disconnect import has_left
from likewise.server.jobs import QueueFull

Found = TypeVar("Found")

LOOK = 0.2
"""Seconds between two looks at whether who asked is still there."""


class Turns:
    """One thread that answers all questions, in their order.

    Of its own: what torch keeps for each thread that it runs in would else be kept for every one of the server's.

    >>> Turns(1).answer(lambda: 6 * 7)
    42
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = threading.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="likewise-turns")
        self.asking = 0

    def answer(self, work: Callable[[], Found]) -> Found:
        """What comes of some work once it is its turn; with too many waiting already, it gets none.

        A question whose asker leaves before its turn is dropped.
        """
        with self._count:
            if self.asking >= self._most:
                raise QueueFull(f"{self._most} questions are waiting already; ask again in a moment")
            self.asking += 1
        try:
            asked, left = self._worker.submit(work), has_left.get()
            while not wait([asked], LOOK).done:
                if left is not None and left.is_set() and asked.cancel():
                    raise Cancelled("who asked has left")
            return asked.result()
        finally:
            with self._count:
                self.asking -= 1

    def close(self) -> None:
        """Take no more questions."""
        self._worker.shutdown(wait=False, cancel_futures=True)
