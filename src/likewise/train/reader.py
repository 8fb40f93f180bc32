"""The reader: texts -> vectors, with gradients in training, from the lowest layer that learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.encoder import Encoder, forward
from likewise.encoder.batches import exact_length_batches
from likewise.encoder.dropout import Dropout, TextDropout, no_dropout
from likewise.encoder.forward import Batch
from likewise.encoder.tokens import TextOrPair
from likewise.progress import Progress, Ticker
from likewise.train.chunks import chunks
from likewise.train.frozen import FrozenStates
from likewise.train.processes import Processes
from likewise.train.tokens import TokenTable

Key = tuple[int, ...]
"""Whole numbers from which a text's dropout is drawn."""


@dataclass(frozen=True)
class Chunk:
    """Texts of like length on their way: where they stand, their tokens, and the states (B, T, D) they start from."""

    places: tuple[int, ...]
    batch: Batch
    states: Tensor
    dropout: Dropout
    lengths: tuple[int, ...]
    keys: tuple[Key, ...] | None = None

    def again(self) -> Dropout:
        """The dropout of the layers above, from its beginning."""
        return layer_dropout(self.keys, self.lengths)


def layer_dropout(keys: Sequence[Key] | None, lengths: Sequence[int]) -> Dropout:
    """The dropout of texts above the embeddings, whose own has another key."""
    return no_dropout if keys is None else TextDropout([(*key, 1) for key in keys], lengths)


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

    def embedded(self, texts: Sequence[TextOrPair], keys: Sequence[Key] | None) -> list[Chunk]:
        """This process's share of texts, each with a key for its dropout (None: none), at the layer they start from."""
        numbers = self.tokens.places(texts)
        # A process without a text of its own reads one for nothing, since all must go the same way back.
        mine = self.processes.share(len(texts)) or [0]
        lengths = [len(self.tokens.ids[numbers[place]]) for place in mine]
        return [self._embedded([mine[index] for index in chunk], numbers, keys) for chunk in chunks(lengths)]

    def _embedded(self, places: Sequence[int], numbers: Sequence[int], keys: Sequence[Key] | None) -> Chunk:
        chosen = [numbers[place] for place in places]
        lengths = tuple(len(self.tokens.ids[number]) for number in chosen)
        own = None if keys is None else tuple(keys[place] for place in places)
        batch = self.tokens.batch(chosen, self.encoder.device)
        if self.frozen is None:
            first = no_dropout if own is None else TextDropout([(*key, 0) for key in own], lengths)
            states = forward.embed(self.encoder.anatomy, batch, first)
        else:
            states = self.frozen.padded(chosen, max(lengths), self.encoder.device)
        return Chunk(tuple(places), batch, states, layer_dropout(own, lengths), lengths, own)

    def pooled(self, embedded: Sequence[Chunk], count: int) -> Tensor:
        """Chunks at the layer they start from -> the vectors (count, P) of all texts of all processes, in order."""
        rows = [self._vectors(chunk) for chunk in embedded]
        order = [place for chunk in embedded for place in chunk.places]
        back = torch.tensor(sorted(range(len(order)), key=order.__getitem__), device=self.encoder.device)
        return self.processes.gathered(torch.cat(rows)[back], count)

    def _vectors(self, chunk: Chunk) -> Tensor:
        batch, encoder = chunk.batch, self.encoder
        steps = forward.layers(encoder.anatomy, chunk.states, batch.mask, dropout=chunk.dropout, start=self.start)
        states = encoder.averaged(steps, self.start)
        counted = encoder.counted_tokens(batch.ids, encoder.recipe.prompt_for(None))
        return encoder.finish(encoder.pool(states, counted if batch.mask is None else counted * batch.mask))

    def vectors(self, texts: Sequence[TextOrPair], progress: Progress | None = None) -> Tensor:
        """Vectors (n, P) of any number of texts, without gradients and without dropout."""
        places = self.tokens.places(texts)
        mine = [places[place] for place in self.processes.share(len(texts))]
        rows = torch.zeros(len(mine), self.encoder.dimension, dtype=self.encoder.anatomy.dtype)
        rows = rows.to(self.encoder.device)
        ticker = Ticker(progress, len(mine), "texts")
        with torch.no_grad():
            for batch in exact_length_batches([len(self.tokens.ids[number]) for number in mine]):
                rows[batch] = self._vectors(self._embedded(batch, mine, None))
                ticker.add(len(batch))
            ticker.close()
            return self.processes.gathered(rows, len(texts))
