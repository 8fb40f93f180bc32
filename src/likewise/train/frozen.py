"""Frozen layers: which ones do not learn, and what the lowest of them give, computed once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from itertools import islice
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder, forward
from likewise.encoder.batches import exact_length_batches
from likewise.encoder.forward import Batch
from likewise.errors import UsageError
from likewise.progress import Progress, Ticker
from likewise.train.tokens import TokenTable


def frozen_layers(freeze: str | tuple[int, ...], depth: int) -> frozenset[int]:
    """The layers that do not learn, 0 for the embeddings, of a model of ``depth`` blocks.

    >>> sorted(frozen_layers("lower", 6)), sorted(frozen_layers("last", 6))
    ([0, 1, 2, 3], [6])
    """
    named = {
        "none": range(0),
        "lower": range(depth // 2 + 1),
        "upper": range(depth // 2 + 1, depth + 1),
        "last": range(depth, depth + 1),
        "all": range(depth + 1),
    }
    if isinstance(freeze, str):
        return frozenset(named[freeze])
    if strangers := [layer for layer in freeze if not -depth - 1 <= layer <= depth]:
        raise UsageError(f"no layer {strangers[0]} to freeze; this model has layers 0 to {depth}")
    return frozenset(layer % (depth + 1) for layer in freeze)


def frozen_depth(frozen: frozenset[int], depth: int) -> int | None:
    """The highest layer below which nothing learns; None where the embeddings learn."""
    found = None
    for layer in range(depth + 1):
        if layer not in frozen:
            break
        found = layer
    return found


class FrozenStates:
    """The states of texts at one layer, kept in a file of their own that ends with the process."""

    def __init__(self, width: int, dtype: Any, lengths: Sequence[int]) -> None:
        self._starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = max(1, int(self._starts[-1]))
        # The map keeps the file, which has no name, for as long as it lives.
        with tempfile.TemporaryFile(prefix="likewise-frozen-") as file:
            _reserve(file, rows * width * np.dtype(dtype).itemsize)
            self._states: NDArray[Any] = np.memmap(file, dtype=dtype, mode="w+", shape=(rows, width))

    @classmethod
    def of(cls, encoder: Encoder, tokens: TokenTable, layer: int, progress: Progress | None = None) -> FrozenStates:
        """Run all texts of a table up to a layer, in batches that do not depend on when they are needed."""
        lengths = [len(ids) for ids in tokens.ids]
        dtype = torch.empty(0, dtype=encoder.model_view.dtype).numpy().dtype
        with torch.inference_mode():
            width = _states_at(encoder, tokens.batch([0], encoder.device), layer).shape[-1]
        kept = cls(width, dtype, lengths)
        ticker = Ticker(progress, len(lengths), "texts through the frozen layers")
        for indices in exact_length_batches(lengths):
            with torch.inference_mode():
                kept._keep(indices, _states_at(encoder, tokens.batch(indices, encoder.device), layer))
            ticker.add(len(indices))
        ticker.close()
        return kept

    def _keep(self, indices: Sequence[int], states: Tensor) -> None:
        for index, rows in zip(indices, states.cpu().numpy(), strict=True):
            self._states[self._starts[index] : self._starts[index + 1]] = rows

    def packed(self, indices: Sequence[int], device: torch.device) -> Tensor:
        """States (N, D) of texts, laid end to end."""
        parts = [self._states[self._starts[index] : self._starts[index + 1]] for index in indices]
        return torch.from_numpy(np.concatenate(parts)).to(device)


def _reserve(file: IO[bytes], size: int) -> None:
    """Take the disk space now: a mapped file that cannot grow would kill the process without a word."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise UsageError(
            f"the output of the frozen layers takes {size / 1e9:.1f} GB, which {tempfile.gettempdir()} does not have;"
            " set TMPDIR to a larger place, or train on fewer rows"
        ) from error
    except AttributeError:
        pass  # not every system has the call


def _states_at(encoder: Encoder, batch: Batch, layer: int) -> Tensor:
    """What a reader that starts at this layer starts from; at 0 that is before a projection to the layers' width."""
    embedded = forward.embed(encoder.model_view, batch)
    steps = forward.layers(encoder.model_view, embedded, batch.mask)
    return embedded if layer == 0 else next(islice((step.states for step in steps), layer, None))
