"""Batches: texts of exactly equal length together, so that no text is padded and none sees its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TypeVar

Item = TypeVar("Item")

TOKEN_BUDGET = 4096
"""Tokens per batch; measured best or close to it on one and two threads (bench/encode.py)."""


def exact_length_batches(
    lengths: Sequence[int], budget: int = TOKEN_BUDGET, size: int | None = None
) -> Iterator[list[int]]:
    """Indices of texts of equal length, at most ``budget`` tokens and ``size`` texts a batch, longest first.

    Longest first, so that a text too large for the memory fails at once and not in the end.

    >>> list(exact_length_batches([3, 5, 3, 3], budget=6))
    [[1], [0, 2], [3]]
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for length, group in groupby(order, key=lambda index: lengths[index]):
        fitting = max(1, budget // max(1, length))
        yield from windows(group, fitting if size is None else min(fitting, size))


def windows(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Cut a stream into lists of ``size``, the last one shorter.

    >>> list(windows("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    stream = iter(items)
    while window := list(islice(stream, size)):
        yield window
