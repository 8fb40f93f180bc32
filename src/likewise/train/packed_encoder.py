"""The packed encoder: texts -> vectors, with gradients in training, from the lowest layer that learns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder, forward
from likewise.encoder.attention import Packing, packing
from likewise.encoder.forward import Batch, TextDropout, exact_length_batches
from likewise.encoder.model_view import Dropout, no_dropout
from likewise.encoder.tokens import TextOrPair
from likewise.errors import UsageError
from likewise.progress import Progress, Ticker
from likewise.train.processes import Processes
from likewise.train.tokens import UNMASKED, MaskedTokens, TokenTable, length_groups, mask_tokens

Key = tuple[int, ...]
"""Whole numbers that seed a text's dropout."""
Keys = tuple[Key, ...] | None
Lengths = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Packed:
    """Texts laid end to end in groups of like length."""

    order: tuple[int, ...]
    """which text of the step is at which position"""
    lengths: Lengths
    """of the texts of each group"""
    keys: Keys
    """of the texts' dropout, in this order; None: no dropout"""
    batch: Batch
    """their tokens"""
    states: Tensor
    """the states they start from, (N, D)"""
    packing: Packing
    dropout: Dropout
    targets: Tensor | None = None
    """the ids of masked tokens, (N,), UNMASKED for others"""

    @classmethod
    def of(cls, order: Sequence[int], lengths: Lengths, keys: Keys, batch: Batch, states: Tensor) -> Packed:
        """Texts at the start of their dropout."""
        dropout, parts = layer_dropout(keys, lengths)
        return cls(tuple(order), lengths, keys, batch, states, packing(lengths, parts, states.device), dropout)

    def moved(self, states: Tensor) -> Packed:
        """The same texts from other states, with their dropout restarted."""
        return replace(Packed.of(self.order, self.lengths, self.keys, self.batch, states), targets=self.targets)

    @property
    def masked_positions(self) -> Tensor:
        """Positions (M,) of the masked tokens."""
        assert self.targets is not None
        return (self.targets != UNMASKED).nonzero()[:, 0]


def layer_dropout(keys: Keys, lengths: Lengths) -> tuple[Dropout, list[Dropout]]:
    """The dropout of texts above the embeddings, which have another key: of all texts, and of each group's maps."""
    if keys is None:
        return no_dropout, [no_dropout] * len(lengths)
    whole = TextDropout([(*key, 1) for key in keys], flat(lengths))
    ends = list(accumulate(len(group) for group in lengths))
    return whole, [whole.of(slice(end - len(group), end)) for group, end in zip(lengths, ends, strict=True)]


def flat(groups: Iterable[Sequence[int]]) -> list[int]:
    """All numbers of all groups.

    >>> flat([[1, 2], [3]])
    [1, 2, 3]
    """
    return [each for group in groups for each in group]


class PackedEncoder:
    """Texts -> vectors of one encoder; with ``frozen`` states, layers up to ``start`` are not run again."""

    def __init__(
        self,
        encoder: Encoder,
        tokens: TokenTable,
        processes: Processes,
        frozen: FrozenStates | None = None,
        start: int = 0,
    ) -> None:
        self.encoder, self.tokens, self.processes = encoder, tokens, processes
        self.frozen, self.start = frozen, start

    def embedded(
        self, texts: Sequence[TextOrPair], keys: Sequence[Key] | None, masked: Sequence[MaskedTokens] | None = None
    ) -> Packed:
        """This process's share of texts at the layer they start from.

        Each text has a key for its dropout (None: no dropout) and its masked tokens (None: no masking).
        """
        numbers = self.tokens.indices(texts)
        # A process without a text reads a spare one: all processes must take the same way back.
        mine = self.processes.share(len(texts))
        spare, mine = not mine, mine or [0]
        sizes = [len(self.tokens.ids[numbers[position]]) for position in mine]
        groups = length_groups(sizes)
        lengths = tuple(tuple(sizes[index] for index in group) for group in groups)
        order = [mine[index] for index in flat(groups)]
        own = None if keys is None else tuple(keys[position] for position in order)
        chosen = [numbers[position] for position in order]
        batch, targets = self.tokens.batch(chosen, self.encoder.device), None
        if masked is not None:
            # A spare text has no masked tokens, so no token counts twice.
            batch, targets = mask_tokens(batch, [{} if spare else masked[position] for position in order])
        packed = Packed.of(order, lengths, own, batch, self._first_states(chosen, batch, own))
        return replace(packed, targets=targets)

    def _first_states(self, chosen: Sequence[int], batch: Batch, keys: Sequence[Key] | None) -> Tensor:
        """The states (N, D) that texts start from, laid end to end."""
        if self.frozen is not None:
            return self.frozen.packed(chosen, self.encoder.device)
        model_view = self.encoder.model_view
        states = forward.embed(model_view, batch)
        states = states.flatten(0, 1) if batch.mask is None else states[batch.mask.bool()]
        if keys is None:
            return states
        lengths = [len(self.tokens.ids[number]) for number in chosen]
        return TextDropout([(*key, 0) for key in keys], lengths)(states, model_view.embeddings.dropout)

    def states(self, embedded: Packed) -> Tensor:
        """Texts at the layer they start from -> the states (N, D) of the layer that is pooled."""
        steps = forward.layers(
            self.encoder.model_view, embedded.states, embedded.packing, dropout=embedded.dropout, start=self.start
        )
        return self.encoder.averaged(steps, self.start)

    def masked_states(self, embedded: Packed) -> Tensor:
        """States (M, D) of the masked tokens of all processes."""
        return self.processes.collected(self.states(embedded).index_select(0, embedded.masked_positions))

    def masked_tokens(self, embedded: Packed) -> tuple[Tensor, Tensor]:
        """The true ids of these tokens, and the number of the text of each: (M,) and (M,)."""
        assert embedded.targets is not None
        positions = embedded.masked_positions
        owners = torch.tensor(embedded.order).repeat_interleave(torch.tensor(flat(embedded.lengths)))
        both = embedded.targets[positions], owners.to(positions.device)[positions]
        return self.processes.collected(both[0]), self.processes.collected(both[1])

    def pooled(self, embedded: Packed, count: int) -> Tensor:
        """Texts at the layer they start from -> the vectors (count, P) of all texts of all processes, in order."""
        states = self.states(embedded)
        rows: list[Tensor] = []
        begin = 0
        for group in embedded.packing.groups:
            count_of_texts, longest = group.indices.shape
            ids = embedded.batch.ids[begin : begin + count_of_texts, :longest]
            rows.append(self._vectors(states[group.indices], ids, group.mask))
            begin += count_of_texts
        back = torch.tensor(sorted(range(len(embedded.order)), key=embedded.order.__getitem__), device=states.device)
        return self.processes.gathered(torch.cat(rows)[back], count)

    def _vectors(self, states: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
        """States (B, T, D) of the pooled layer -> vectors (B, P)."""
        pooling_mask = self.encoder.pooling_mask_of(ids, self.encoder.modules_config.prompt_for(None))
        return self.encoder.finish(self.encoder.pool(states, pooling_mask if mask is None else pooling_mask * mask))

    def vectors(self, texts: Sequence[TextOrPair], progress: Progress | None = None) -> Tensor:
        """Vectors (n, P) of any number of texts, without gradients and dropout."""
        indices = self.tokens.indices(texts)
        mine = [indices[position] for position in self.processes.share(len(texts))]
        rows = torch.zeros(len(mine), self.encoder.dimension, dtype=self.encoder.model_view.dtype)
        rows = rows.to(self.encoder.device)
        ticker = Ticker(progress, len(mine), "texts")
        with torch.no_grad():
            for batch in exact_length_batches([len(self.tokens.ids[number]) for number in mine]):
                rows[batch] = self._of_one_length([mine[position] for position in batch])
                ticker.add(len(batch))
            ticker.close()
            return self.processes.gathered(rows, len(texts))

    def _of_one_length(self, chosen: Sequence[int]) -> Tensor:
        batch = self.tokens.batch(chosen, self.encoder.device)
        states = self._first_states(chosen, batch, None).view(*batch.ids.shape, -1)
        steps = forward.layers(self.encoder.model_view, states, start=self.start)
        return self._vectors(self.encoder.averaged(steps, self.start), batch.ids, None)


# Frozen layers


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
    if unknown := [layer for layer in freeze if not -depth - 1 <= layer <= depth]:
        raise UsageError(f"no layer {unknown[0]} to freeze; this model has layers 0 to {depth}")
    return frozenset(layer % (depth + 1) for layer in freeze)


def frozen_depth(frozen: frozenset[int], depth: int) -> int | None:
    """The highest layer up to which nothing learns; None if the embeddings learn."""
    lowest = next(layer for layer in range(depth + 2) if layer not in frozen)
    return lowest - 1 if lowest else None


class FrozenStates:
    """The states of texts at one layer, in a temporary file that ends with the process."""

    def __init__(self, width: int, dtype: Any, lengths: Sequence[int]) -> None:
        self._starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        rows = max(1, int(self._starts[-1]))
        # The file has no name; the map holds it open.
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
        found = cls(width, dtype, lengths)
        ticker = Ticker(progress, len(lengths), "texts through the frozen layers")
        for indices in exact_length_batches(lengths):
            with torch.inference_mode():
                found._write(indices, _states_at(encoder, tokens.batch(indices, encoder.device), layer))
            ticker.add(len(indices))
        ticker.close()
        return found

    def _write(self, indices: Sequence[int], states: Tensor) -> None:
        for index, rows in zip(indices, states.cpu().numpy(), strict=True):
            self._states[self._starts[index] : self._starts[index + 1]] = rows

    def packed(self, indices: Sequence[int], device: torch.device) -> Tensor:
        """States (N, D) of texts, laid end to end."""
        parts = [self._states[self._starts[index] : self._starts[index + 1]] for index in indices]
        return torch.from_numpy(np.concatenate(parts)).to(device)


def _reserve(file: IO[bytes], size: int) -> None:
    """Reserve the disk space now: a mapped file that cannot grow kills the process without a message."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise UsageError(
            f"the output of the frozen layers takes {size / 1e9:.1f} GB, which {tempfile.gettempdir()} does not have;"
            " set TMPDIR to a larger disk, or train on fewer rows"
        ) from error
    except AttributeError:
        pass  # not every system has the call


def _states_at(encoder: Encoder, batch: Batch, layer: int) -> Tensor:
    """The states that a run from this layer starts from; at 0, those before a projection to the layers' width."""
    embedded = forward.embed(encoder.model_view, batch)
    steps = forward.layers(encoder.model_view, embedded, batch.mask)
    return embedded if layer == 0 else next(islice((step.states for step in steps), layer, None))
