"""Sampling: which examples of which task make a step, by seed, epoch and step alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
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


@dataclass(frozen=True)
class Schedule:
    """Which examples of each of several tasks make each step of each epoch.

    >>> schedule = Schedule((4, 2), (2, 1), batch=2, accumulate=1, samples=None, seed=1)
    >>> schedule.steps, len(schedule.batch_of(0, 1, 0, 0))
    (2, 2)
    """

    counts: tuple[int, ...]
    """examples of each task"""
    batches: tuple[int, ...]
    """examples of each task in a part of a step"""
    batch: int
    """the run's own, which ``samples`` is counted by"""
    accumulate: int
    samples: int | None
    seed: int

    @property
    def size(self) -> int:
        """Examples of a task with the run's own batch in an epoch: as many as are asked for, all at the most."""
        whole = max(-(-count * self.batch // own) for count, own in zip(self.counts, self.batches, strict=True))
        return whole if self.samples is None else min(self.samples, whole)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.size // (self.batch * self.accumulate))

    def wanted(self, task: int) -> int:
        """Examples of a task in an epoch."""
        return -(-self.size * self.batches[task] // self.batch)

    def order(self, task: int, epoch: int) -> list[int]:
        """The examples of a task in an epoch, in order."""
        return _order(self.counts[task], self.wanted(task), (self.seed, epoch, task))

    def batch_of(self, task: int, epoch: int, step: int, part: int) -> list[int]:
        """The examples of one part of a step."""
        order, batch = self.order(task, epoch), self.batches[task]
        start = (step * self.accumulate + part) * batch
        chosen = order[start : start + batch]
        # The last batches of an epoch may be short. One example is too few for batch norm, and a step has as many
        # batches as any other: what is missing comes from the epoch's beginning, other examples for each batch.
        wrapped = max(0, start - len(order))
        return chosen if len(chosen) > 1 else (chosen + order[wrapped:] + order)[:batch]

    def drawn(self, task: int, epochs: int) -> list[int]:
        """All examples of a task that so many epochs will see."""
        if self.wanted(task) >= self.counts[task]:
            return list(range(self.counts[task]))
        return sorted({index for epoch in range(epochs) for index in self.order(task, epoch)})


@lru_cache(maxsize=8)
def _order(count: int, wanted: int, key: tuple[int, ...]) -> list[int]:
    return epoch_order(count, wanted, key)


def fixed_sample(items: Sequence[Item], wanted: int | None, seed: int) -> list[Item]:
    """The same ``wanted`` items every time, in their order; all where there are no more."""
    if wanted is None or wanted >= len(items):
        return list(items)
    chosen = np.random.default_rng([seed]).choice(len(items), wanted, replace=False)
    return [items[index] for index in sorted(chosen)]
