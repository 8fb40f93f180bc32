"""Batches of texts of exactly equal length, without padding; and packings of texts of any length, end to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TypeVar

import torch
from torch import Tensor

from likewise.encoder.dropout import Dropout, no_dropout

Item = TypeVar("Item")

TOKEN_BUDGET = 4096
"""Tokens per batch; the best or close to it on one and two threads (bench/encode.py)."""


def exact_length_batches(
    lengths: Sequence[int], budget: int = TOKEN_BUDGET, size: int | None = None
) -> Iterator[list[int]]:
    """Indices of texts of equal length, at most ``budget`` tokens and ``size`` texts a batch, longest first.

    Longest first: a text that is too large for the memory fails at once.

    >>> list(exact_length_batches([3, 5, 3, 3], budget=6))
    [[1], [0, 2], [3]]
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for length, group in groupby(order, key=lambda index: lengths[index]):
        fitting = max(1, budget // max(1, length))
        yield from windows(group, fitting if size is None else min(fitting, size))


def windows(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split a stream into lists of ``size``; the last one may be shorter.

    >>> list(windows("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    stream = iter(items)
    while window := list(islice(stream, size)):
        yield window


@dataclass(frozen=True)
class Group:
    """Texts of similar length, for which attention runs at once."""

    indices: Tensor
    """the indices of their tokens among all tokens, (B, T); beyond a text's end its last token repeats"""
    mask: Tensor | None
    """which of them are real tokens, (B, T); None for all"""
    dropout: Dropout = no_dropout
    """the dropout of their attention maps"""


@dataclass(frozen=True)
class Packing:
    """N tokens of several texts, end to end, in groups: only attention works on padding."""

    groups: tuple[Group, ...]
    back: Tensor
    """the index of each of the N tokens in the groups' rows, end to end"""


def packing(lengths: Sequence[Sequence[int]], dropouts: Sequence[Dropout], device: torch.device) -> Packing:
    """The packing of groups of texts with these lengths, in this order.

    >>> found = packing([[2], [1, 3]], [no_dropout] * 2, torch.device("cpu"))
    >>> found.groups[1].indices.tolist(), found.back.tolist()
    ([[2, 2, 2], [3, 4, 5]], [0, 1, 2, 5, 6, 7])
    """
    groups: list[Group] = []
    back: list[Tensor] = []
    begin, row = 0, 0
    for own, dropout in zip(lengths, dropouts, strict=True):
        sizes = torch.tensor(own)
        ends = begin + sizes.cumsum(0)
        steps = torch.arange(max(own))
        mask = steps < sizes[:, None]
        indices = (ends - sizes)[:, None] + steps.minimum(sizes[:, None] - 1)
        groups.append(Group(indices.to(device), None if mask.all() else mask.to(device), dropout))
        back.append(row + mask.flatten().nonzero()[:, 0])
        begin, row = int(ends[-1]), row + mask.numel()
    return Packing(tuple(groups), torch.cat(back).to(device))
