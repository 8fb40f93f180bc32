"""Parallel training: processes share the texts of a step and get the same result as one.

Every process encodes its share of the texts. The vectors are gathered, so heads, batch norm and losses see the whole
batch everywhere, and the encoder's gradients are averaged.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from likewise.errors import MissingExtra


def started_here() -> bool:
    """Whether no launcher has started this process."""
    return "WORLD_SIZE" not in os.environ


def launched(count: int, arguments: Sequence[str]) -> int:
    """Run the command line again in ``count`` processes of this machine; returns their exit code."""
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)]
    return subprocess.call([sys.executable, *run, "-m", "likewise", *arguments])


@dataclass(frozen=True)
class Processes:
    """This process's number and how many there are."""

    rank: int = 0
    count: int = 1

    @classmethod
    def joined(cls, cpu: bool) -> Processes:
        """The processes that a launcher has started, joined by accelerate; this one alone without a launcher."""
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return cls()
        try:
            from accelerate import PartialState
        except ImportError as error:
            raise MissingExtra("accelerate", "train") from error
        state = PartialState(cpu=cpu)
        return cls(state.process_index, state.num_processes)

    @property
    def first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def share(self, count: int) -> list[int]:
        """Which of ``count`` texts belong to this process."""
        return list(range(self.rank, count, self.count))

    def gathered(self, mine: Tensor, count: int) -> Tensor:
        """This process's rows (n, D) -> the rows (count, D) of all, in order; gradients flow back."""
        if self.count == 1:
            return mine
        return self._all_rows(mine, -(-count // self.count)).transpose(0, 1).flatten(0, 1)[:count]

    def collected(self, mine: Tensor) -> Tensor:
        """Any number of rows (n, ...) of each process -> the rows of all; gradients flow back."""
        if self.count == 1:
            return mine
        counts: list[int] = [0] * self.count
        dist.all_gather_object(counts, len(mine))
        rows = self._all_rows(mine, max(counts))
        return torch.cat([part[:count] for part, count in zip(rows, counts, strict=True)])

    def _all_rows(self, mine: Tensor, most: int) -> Tensor:
        """The rows of each process, padded to (count, most, ...)."""
        padded = torch.cat([mine, mine.new_zeros(most - len(mine), *mine.shape[1:])])
        rows: Tensor = _Gather.apply(padded, self.rank, self.count)  # type: ignore[no-untyped-call]
        return rows

    def average(self, gradients: Iterable[Tensor]) -> None:
        """Average gradients over the processes, in place."""
        for gradient in gradients if self.count > 1 else ():
            dist.all_reduce(gradient)
            gradient /= self.count

    def wait(self) -> None:
        """Wait for all processes."""
        if self.count > 1:
            dist.barrier()


class _Gather(torch.autograd.Function):
    """Rows of every process; each gets the sum of all gradients of its own rows."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, rank: int, count: int) -> Tensor:
        ctx.rank = rank
        parts = [torch.empty_like(mine) for _ in range(count)]
        dist.all_gather(parts, mine.contiguous())
        return torch.stack(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        whole = gradients[0].contiguous()
        dist.all_reduce(whole)
        return whole[ctx.rank], None, None
