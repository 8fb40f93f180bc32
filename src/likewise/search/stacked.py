"""Stacked vectors: the rows of several arrays, mapped from a disk or in memory, as if they were one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class StackedVectors:
    """Arrays (n_i, d) one below the other: n rows in all, never copied as a whole.

    >>> stack = StackedVectors((np.zeros((2, 3), np.float32), np.ones((1, 3), np.float32)))
    >>> len(stack), stack.take([2]).tolist()
    (3, [[1.0, 1.0, 1.0]])
    """

    parts: Sequence[Vectors]

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.parts) else 0

    @property
    def dimension(self) -> int:
        """The width of a row."""
        return int(self.parts[0].shape[1]) if len(self.parts) else 0

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The first row behind each part."""
        return np.cumsum([len(part) for part in self.parts], dtype=np.int64)

    def part_of(self, row: int) -> tuple[int, int]:
        """Which part holds a row, and where in it."""
        part = int(np.searchsorted(self.ends, row, side="right"))
        return part, row - (int(self.ends[part - 1]) if part else 0)

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Vectors:
        """Some rows (m, d), in the order asked for."""
        wanted = np.asarray(rows, dtype=np.int64)
        result = np.empty((len(wanted), self.dimension), np.float32)
        indices = np.searchsorted(self.ends, wanted, side="right")
        for part in np.unique(indices):
            here = indices == part
            start = int(self.ends[part - 1]) if part else 0
            result[here] = self.parts[part][wanted[here] - start]
        return result

    def blocks(self, size: int, start: int = 0) -> Iterator[Vectors]:
        """All rows from ``start`` on, at most ``size`` at a time."""
        for part, end in zip(self.parts, self.ends, strict=True):
            first = max(0, start - int(end) + len(part))
            for index in range(first, len(part), size):
                yield np.ascontiguousarray(part[index : index + size])

    def sample(self, most: int) -> Vectors:
        """At most so many rows, evenly spread."""
        if len(self) <= most:
            return self.take(np.arange(len(self)))
        return self.take(np.linspace(0, len(self) - 1, most).astype(np.int64))
