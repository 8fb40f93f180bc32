"""The reader: texts -> vectors, with gradients in training, from the lowest layer that learns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from likewise.encoder import Encoder, forward
from likewise.encoder.batches import Packing, exact_length_batches, packing
from likewise.encoder.dropout import Dropout, TextDropout, no_dropout
from likewise.encoder.forward import Batch
from likewise.encoder.tokens import TextOrPair
from likewise.progress import Progress, Ticker
from likewise.train.chunks import chunks
from likewise.train.frozen import FrozenStates
from likewise.train.masking import NOTHING, Hidden, hide
from likewise.train.processes import Processes
from likewise.train.tokens import TokenTable

Key = tuple[int, ...]
"""Whole numbers from which a text's dropout is drawn."""
Keys = tuple[Key, ...] | None
Lengths = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Packed:
    """Texts on their way, laid end to end in groups of like length."""

    order: tuple[int, ...]
    """which text of the step stands where"""
    lengths: Lengths
    """of the texts of each group"""
    keys: Keys
    """of the texts' dropout, in this order; None: none"""
    batch: Batch
    """their tokens"""
    states: Tensor
    """what they start from, (N, D)"""
    packing: Packing
    dropout: Dropout
    wanted: Tensor | None = None
    """the ids of hidden tokens, (N,), NOTHING for others"""

    @classmethod
    def of(cls, order: Sequence[int], lengths: Lengths, keys: Keys, batch: Batch, states: Tensor) -> Packed:
        """Texts at the beginning of their dropout."""
        dropout, parts = layer_dropout(keys, lengths)
        return cls(tuple(order), lengths, keys, batch, states, packing(lengths, parts, states.device), dropout)

    def moved(self, states: Tensor) -> Packed:
        """The same texts from other states, and their dropout from its beginning."""
        made = Packed.of(self.order, self.lengths, self.keys, self.batch, states)
        return replace(made, wanted=self.wanted)


def layer_dropout(keys: Keys, lengths: Lengths) -> tuple[Dropout, list[Dropout]]:
    """The dropout of texts above the embeddings, whose own has another key; of all, and of the maps of each group."""
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


def _hidden_places(embedded: Packed) -> Tensor:
    assert embedded.wanted is not None
    return (embedded.wanted != NOTHING).nonzero()[:, 0]


class Reader:
    """Texts -> vectors of one encoder; with ``frozen`` states layers up to ``start`` are not run again."""

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
        self, texts: Sequence[TextOrPair], keys: Sequence[Key] | None, hidden: Sequence[Hidden] | None = None
    ) -> Packed:
        """This process's share of texts at the layer they start from.

        Each has a key for its dropout (None: none) and tokens that are hidden (None: none).
        """
        numbers = self.tokens.indices(texts)
        # A process without a text of its own reads one for nothing, since all must go the same way back.
        mine = self.processes.share(len(texts)) or [0]
        sizes = [len(self.tokens.ids[numbers[position]]) for position in mine]
        groups = chunks(sizes)
        lengths = tuple(tuple(sizes[index] for index in group) for group in groups)
        order = [mine[index] for index in flat(groups)]
        own = None if keys is None else tuple(keys[position] for position in order)
        chosen = [numbers[position] for position in order]
        batch = self.tokens.batch(chosen, self.encoder.device)
        if hidden is None:
            return Packed.of(order, lengths, own, batch, self._first_states(chosen, batch, own))
        # What is read for nothing hides nothing, so that no token is asked for twice.
        spare = not self.processes.share(len(texts))
        batch, wanted = hide(batch, [{} if spare else hidden[position] for position in order])
        return replace(Packed.of(order, lengths, own, batch, self._first_states(chosen, batch, own)), wanted=wanted)

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
        """Texts at the layer they start from -> the states (N, D) of the layer that is read."""
        steps = forward.layers(
            self.encoder.model_view, embedded.states, embedded.packing, dropout=embedded.dropout, start=self.start
        )
        return self.encoder.averaged(steps, self.start)

    def hidden_states(self, embedded: Packed) -> Tensor:
        """States (M, D) of the hidden tokens of all processes."""
        return self.processes.collected(self.states(embedded).index_select(0, _hidden_places(embedded)))

    def hidden_tokens(self, embedded: Packed) -> tuple[Tensor, Tensor]:
        """Which tokens these are, and the number of the text of each: (M,) and (M,)."""
        assert embedded.wanted is not None
        indices = _hidden_places(embedded)
        owners = torch.tensor(embedded.order).repeat_interleave(torch.tensor(flat(embedded.lengths)))
        both = embedded.wanted[indices], owners.to(indices.device)[indices]
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
        """States (B, T, D) of the read layers -> vectors (B, P)."""
        pooling_mask = self.encoder.pooling_mask_of(ids, self.encoder.modules_config.prompt_for(None))
        return self.encoder.finish(self.encoder.pool(states, pooling_mask if mask is None else pooling_mask * mask))

    def vectors(self, texts: Sequence[TextOrPair], progress: Progress | None = None) -> Tensor:
        """Vectors (n, P) of any number of texts, without gradients and without dropout."""
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
