"""Dropout whose zeros belong to a text and not to its row in a batch.

Each text has its own random stream. So a training step is the same however its texts are batched: padded or not, in one
batch or several, on one process or many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Dropout = Callable[[Tensor, float | None], Tensor]
"""``dropout(x, rate)``: x with a share of its numbers set to zero and the others scaled up; None is a rate of 0."""

STEPS = 2**16
"""A rate is a multiple of 1 / STEPS."""
DRAWN = 4
"""Numbers of 16 bits in one draw of 64 bits."""


def no_dropout(x: Tensor, rate: float | None) -> Tensor:
    """No dropout, as outside training.

    >>> no_dropout(torch.ones(2), 0.5)
    tensor([1., 1.])
    """
    del rate
    return x


class TextDropout:
    """Dropout for a batch of texts: a key of whole numbers and a length each.

    >>> one = TextDropout([(7, 0)], [3])(torch.ones(1, 3, 4), 0.5)
    >>> two = TextDropout([(7, 1), (7, 0)], [2, 3])(torch.ones(2, 3, 4), 0.5)
    >>> torch.equal(one[0], two[1])
    True
    """

    def __init__(self, keys: Sequence[Sequence[int]], lengths: Sequence[int]) -> None:
        self._streams = [np.random.SFC64(list(key)) for key in keys]
        self._lengths = list(lengths)

    def of(self, texts: slice) -> TextDropout:
        """The dropout of some of the texts; the streams are shared and continue."""
        part = TextDropout((), ())
        part._streams, part._lengths = self._streams[texts], self._lengths[texts]
        return part

    def __call__(self, x: Tensor, rate: float | None) -> Tensor:
        """Drop from states (B, T, D), or (N, D) of texts end to end, or from maps (B, H, T, T)."""
        if not rate:
            return x
        stays = np.zeros(x.shape, dtype=np.bool_)
        rows = np.split(stays, np.cumsum(self._lengths[:-1])) if x.ndim == 2 else stays
        for row, length, stream in zip(rows, self._lengths, self._streams, strict=True):
            part = row[:length] if row.ndim == 2 else row[:, :length, :length]
            part[...] = _drawn(stream, part.shape) >= round(rate * STEPS)
        return x * torch.from_numpy(stays).to(x.device, x.dtype).mul_(1 / (1 - rate))


def _drawn(stream: np.random.SFC64, shape: tuple[int, ...]) -> NDArray[np.uint16]:
    """Whole numbers from 0 to STEPS - 1."""
    count = int(np.prod(shape))
    raw: NDArray[np.uint64] = stream.random_raw(-(-count // DRAWN))
    return raw.view(np.uint16)[:count].reshape(shape)
