"""Sampling: which examples of which task make a step, by seed, epoch and step alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


def epoch_order(count: int, wanted: int, key: Sequence[int]) -> list[int]:
    """``wanted`` numbers below ``count`` in random order, none twice before all were there once.

    >>> sorted(epoch_order(3, 3, [1])), len(epoch_order(3, 7, [1]))
    ([0, 1, 2], 7)
    """
    rng = np.random.default_rng(list(key))
    rounds = [rng.permutation(count) for _ in range(-(-wanted // count))]
    return [int(number) for number in np.concatenate(rounds)[:wanted]]


def epoch_size(counts: Sequence[int], samples: int | None) -> int:
    """Examples of each task in an epoch: as many as are asked for, or as the largest task has."""
    return max(counts) if samples is None else samples


def fixed_sample(items: Sequence[Item], wanted: int | None, seed: int) -> list[Item]:
    """The same ``wanted`` items every time, in their order; all where there are no more."""
    if wanted is None or wanted >= len(items):
        return list(items)
    chosen = np.random.default_rng([seed]).choice(len(items), wanted, replace=False)
    return [items[place] for place in sorted(chosen)]
