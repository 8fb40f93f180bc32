"""The encoder in training: texts packed end to end -> vectors with gradients; frozen lower layers run once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from likewise.encoder import Encoder, forward
from likewise.encoder.attention import Packing, packing
from likewise.encoder.forward import Batch, TextDropout, exact_length_batches
from likewise.encoder.model_view import Dropout, no_dropout
from likewise.encoder.tokens import TextOrPair, Tokenizer
from likewise.errors import UsageError
from likewise.progress import Progress, Ticker
from likewise.train.processes import Processes

WINDOW = 10_000  # Texts tokenized at once: the tokenizer's output besides the ids is large
GROUP_COST = 300  # What a group of texts costs besides its tokens, in tokens (bundled model; from 30 to 1,000)


class TokenTable:
    """Token ids, types and own tokens of texts, and of pairs that are one sequence, by number."""

    def __init__(self, tokenizer: Tokenizer, prompt: str = "") -> None:
        self._tokenizer, self._prompt = tokenizer, prompt
        self._indices: dict[TextOrPair, int] = {}
        self.ids: list[tuple[int, ...]] = []
        self.types: list[tuple[int, ...]] = []
        self.own: list[tuple[int, ...]] = []
        """positions of a text's own tokens: no special ones, none of the prompt"""
        self.truncated = 0

    def add(self, texts: Iterable[TextOrPair]) -> None:
        """Tokenize texts that are new."""
        new = [text for text in dict.fromkeys(texts) if text not in self._indices]
        for start in range(0, len(new), WINDOW):
            for text in self._tokenizer.tokenize(new[start : start + WINDOW], self._prompt):
                self._indices[text.text] = len(self.ids)
                self.ids.append(text.ids)
                self.types.append(text.types)
                marks = enumerate(zip(text.special, text.prompt, strict=True))
                self.own.append(tuple(index for index, (special, prompt) in marks if not special and not prompt))
                self.truncated += text.truncated

    def words(self, index: int) -> frozenset[int]:
        """The set of a text's own tokens."""
        return frozenset(self.ids[index][own] for own in self.own[index])

    def indices(self, texts: Sequence[TextOrPair]) -> list[int]:
        """The numbers of texts; new ones are added."""
        self.add(texts)
        return [self._indices[text] for text in texts]

    def batch(self, indices: Sequence[int], device: torch.device) -> Batch:
        """Texts by number as a padded batch; without a mask if all have one length."""
        lengths = torch.tensor([len(self.ids[index]) for index in indices], device=device)
        # The mask hides padding, so any known id will do.
        ids, types = (
            pad_sequence([torch.tensor(table[index], dtype=torch.long) for index in indices], batch_first=True)
            for table in (self.ids, self.types)
        )
        inside = torch.arange(ids.shape[1], device=device) < lengths[:, None]
        return Batch(ids.to(device), types.to(device), None if bool(inside.all()) else inside.long())


def jaccard(left: frozenset[int], right: frozenset[int]) -> float:
    """The Jaccard similarity of two sets; 0 if both are empty."""
    return len(left & right) / max(1, len(left | right))


def length_groups(lengths: Sequence[int], cost: int = GROUP_COST) -> list[list[int]]:
    """Indices of texts in groups of like length that minimize padded tokens plus the cost of each group."""
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    # Cuts lie only between different lengths: one within a length costs a group and saves nothing.
    sizes = [lengths[index] for index in order]
    cuts = [index for index in range(len(order)) if index == 0 or sizes[index] > sizes[index - 1]] + [len(order)]
    best, begins = [0], [0]  # up to each cut: the least cost, and the cut at which its last group begins
    for number, end in enumerate(cuts[1:], start=1):
        least, begin = min(
            (best[early] + cost + (end - cuts[early]) * sizes[end - 1], early) for early in range(number)
        )
        best.append(least)
        begins.append(begin)
    made: list[list[int]] = []
    number = len(cuts) - 1
    while number:
        made.append(order[cuts[begins[number]] : cuts[number]])
        number = begins[number]
    return made[::-1]


# Masked language modelling

MaskedTokens = Mapping[int, int]  # Positions of a text's masked tokens, and the ids that are shown there
UNMASKED = -100  # Target of tokens that are not masked; losses ignore it
SHOWN_AS_MASK, SHOWN_AS_ANY = 0.8, 0.1
"""Shares of masked tokens shown as the mask or as any token; the rest is shown as it is (Devlin et al. 2019)."""


@dataclass(frozen=True)
class Masking:
    """How tokens are masked."""

    share: float
    mask: int  # the id of the mask
    others: tuple[int, ...]  # the ids that may stand for any token

    @classmethod
    def of(cls, tokenizer: Tokenizer, share: float) -> Masking:
        """Masking with the mask token of a model's own tokenizer."""
        mask = tokenizer.vocabulary.id_of("mask")
        if mask is None:
            raise UsageError("this model's tokenizer has no mask token, which an mlm task needs; use another model")
        special = set(tokenizer.special_ids())
        size = tokenizer.backend.get_vocab_size(with_added_tokens=True)
        return cls(share, mask, tuple(each for each in range(size) if each not in special))

    def masked(self, own: Sequence[int], ids: Sequence[int], key: Sequence[int]) -> MaskedTokens:
        """Which of a text's own tokens are masked, at least one if there is any, and what is shown for them."""
        rng = np.random.default_rng([*key])
        count = min(len(own), max(1, round(self.share * len(own))))
        positions = sorted(rng.choice(np.array(own, dtype=int), count, replace=False).tolist())
        draws = zip(positions, rng.random(count), rng.integers(len(self.others), size=count), strict=True)
        shown: dict[int, int] = {}
        for position, draw, other in draws:
            unmasked = ids[position] if draw >= SHOWN_AS_MASK + SHOWN_AS_ANY else self.others[other]
            shown[position] = self.mask if draw < SHOWN_AS_MASK else unmasked
        return shown


def mask_tokens(batch: Batch, masked: Sequence[MaskedTokens]) -> tuple[Batch, Tensor]:
    """A batch with tokens masked, and the true ids of these, (N,) over all texts laid end to end."""
    ids = batch.ids.clone()
    targets = torch.full_like(ids, UNMASKED)
    for row, own in enumerate(masked):
        for position, shown in own.items():
            targets[row, position], ids[row, position] = ids[row, position].clone(), shown
    return replace(batch, ids=ids), end_to_end(targets, batch)


def end_to_end(rows: Tensor, batch: Batch) -> Tensor:
    """Rows (B, T, ...) of a batch without their padding, (N, ...)."""
    return rows.flatten(0, 1) if batch.mask is None else rows[batch.mask.bool()]


# Packed texts

Key = tuple[int, ...]  # Whole numbers that seed a text's dropout
Keys = tuple[Key, ...] | None
Lengths = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Packed:
    """Texts laid end to end in groups of like length."""

    order: tuple[int, ...]  # which text of the step is at which position
    lengths: Lengths  # of the texts of each group
    keys: Keys  # of the texts' dropout, in this order; None: no dropout
    batch: Batch  # their tokens
    states: Tensor  # the states they start from, (N, D)
    packing: Packing
    dropout: Dropout
    targets: Tensor | None = None  # the ids of masked tokens, (N,), UNMASKED for others

    @classmethod
    def of(cls, order: Sequence[int], lengths: Lengths, keys: Keys, batch: Batch, states: Tensor) -> Packed:
        """Texts at the start of their dropout above the embeddings, which have another key."""
        dropout: Dropout = no_dropout
        parts: list[Dropout] = [no_dropout] * len(lengths)
        if keys is not None:
            dropout = texts = TextDropout([(*key, 1) for key in keys], flat(lengths))
            ends = accumulate(map(len, lengths))
            parts = [texts.of(slice(end - len(group), end)) for group, end in zip(lengths, ends, strict=True)]
        return cls(tuple(order), lengths, keys, batch, states, packing(lengths, parts, states.device), dropout)

    def moved(self, states: Tensor) -> Packed:
        """The same texts from other states, with their dropout restarted."""
        return replace(Packed.of(self.order, self.lengths, self.keys, self.batch, states), targets=self.targets)

    @property
    def masked_positions(self) -> Tensor:
        """Positions (M,) of the masked tokens."""
        assert self.targets is not None
        return (self.targets != UNMASKED).nonzero()[:, 0]


def flat(groups: Iterable[Sequence[int]]) -> list[int]:
    """All numbers of all groups."""
    return [each for group in groups for each in group]


@dataclass(eq=False)
class PackedEncoder:
    """Texts -> vectors of one encoder; with ``frozen`` states, layers up to ``start`` are not run again."""

    encoder: Encoder
    tokens: TokenTable
    processes: Processes
    frozen: FrozenStates | None = None
    start: int = 0

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
        states = end_to_end(forward.embed(model_view, batch), batch)
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
        own = owners.to(positions.device)[positions]
        return self.processes.collected(embedded.targets[positions]), self.processes.collected(own)

    def pooled(self, embedded: Packed, count: int) -> Tensor:
        """Texts at the layer they start from -> the vectors (count, P) of all texts of all processes, in order."""
        states = self.states(embedded)
        groups = embedded.packing.groups
        ids = torch.split(embedded.batch.ids, [len(group.indices) for group in groups])
        rows = [
            self._vectors(states[group.indices], own[:, : group.indices.shape[1]], group.mask)
            for group, own in zip(groups, ids, strict=True)
        ]
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
        model_view, device = self.encoder.model_view, self.encoder.device
        rows = torch.zeros(len(mine), self.encoder.dimension, dtype=model_view.dtype, device=device)
        ticker = Ticker(progress, len(mine), "texts")
        with torch.no_grad():
            for positions in exact_length_batches([len(self.tokens.ids[number]) for number in mine]):
                chosen = [mine[position] for position in positions]
                batch = self.tokens.batch(chosen, device)
                states = self._first_states(chosen, batch, None)
                states = states.reshape(*batch.ids.shape, states.shape[-1])
                steps = forward.layers(model_view, states, start=self.start)
                rows[positions] = self._vectors(self.encoder.averaged(steps, self.start), batch.ids, None)
                ticker.add(len(positions))
            ticker.close()
            return self.processes.gathered(rows, len(texts))


# Frozen layers


def frozen_layers(freeze: str | tuple[int, ...], depth: int) -> frozenset[int]:
    """The layers that do not learn, 0 for the embeddings, of a model of ``depth`` blocks."""
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
                states = _states_at(encoder, tokens.batch(indices, encoder.device), layer).cpu().numpy()
            for index, rows in zip(indices, states, strict=True):
                found._states[found._starts[index] : found._starts[index + 1]] = rows
            ticker.add(len(indices))
        ticker.close()
        return found

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
