"""Batches: texts of exactly equal length together, so that no text is padded and none sees its neighbours."""

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


@dataclass(frozen=True)
class Group:
    """Texts of like length, which attention takes at once."""

    indices: Tensor
    """where their tokens lie among all, (B, T); beyond a text's end its last token again"""
    mask: Tensor | None
    """which of them are real, (B, T); None for all"""
    dropout: Dropout = no_dropout
    """of their attention maps"""


@dataclass(frozen=True)
class Packing:
    """How N tokens of several texts, one text after the other, fall into groups."""

    groups: tuple[Group, ...]
    back: Tensor
    """where each of the N tokens lies in the groups' rows, laid end to end"""


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
