"""Kept: what takes long to make, in memory for the next question; what was used longest ago goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Kept(Generic[Thing]):
    """Things by what they are made from, so many at most.

    >>> words: Kept[str] = Kept(most=2)
    >>> [words.get(word, lambda word=word: word.upper()) for word in ("a", "b", "a", "c")]
    ['A', 'B', 'A', 'C']
    >>> words.get("b", lambda: "made again")
    'made again'
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._things: OrderedDict[Hashable, Thing] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], Thing]) -> Thing:
        """The thing of a key, made where it is not there; who asks meanwhile waits, and it is made once."""
        with self._lock:
            if key not in self._things:
                self._things[key] = make()
                while len(self._things) > self._most:
                    self._things.popitem(last=False)
            self._things.move_to_end(key)
            return self._things[key]
