"""Packing: texts laid end to end, so that nothing but attention works on padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.encoder.dropout import Dropout, no_dropout


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
