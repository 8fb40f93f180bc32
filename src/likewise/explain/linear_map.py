"""The linearized encoder, phi(x) = J x_1 + ... + J x_n + b, and the explanation methods.

One forward pass records the frozen factors. Rows: a part of the input runs through them, which gives J x_i. Columns: a
direction u is mapped back to the input, J^T u, which gives <J x_i, u> for all parts at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.forward import Batch, embed, layers
from likewise.encoder.modes import (
    Detached,
    DetachedAt,
    Recorder,
    Replay,
    ReplayWithBiasRow,
    ReplayWithLocalBias,
    ReplayWithSharedBias,
    ReplayWithTracedBias,
    Transposed,
)
from likewise.encoder.pooling import bias_weights
from likewise.errors import UsageError
from likewise.explain.settings import FILLER, GIGABYTE, Settings

ROW_TOKENS = 2048  # Row tokens of one chunk: rows x tokens. From 1000 to 4000 the time hardly differs.
MOST_MAP_BYTES = 2**28  # Attention maps of one layer that are computed whole
MOST_SHARED = 512  # Tokens among which biases are shared: all their rows run side by side


@dataclass(frozen=True)
class Inputs:
    """B texts of T tokens: embeddings (B, T, E), counting tokens (B, T), and the units as masks (B, R, T).

    ``sources`` (P, B, T, E) are the parts that each unit's embeddings are split into; one part is no split. Where there
    is a ``reference`` (B, T, E), they are the differences to it.
    """

    batch: Batch
    x: Tensor
    pooling_mask: Tensor
    masks: Tensor
    sources: Tensor
    reference: Tensor | None = None

    @property
    def rows(self) -> int:
        """Replayed rows per text, without the bias."""
        return self.masks.shape[1] * self.sources.shape[0]

    def text(self, index: int) -> Inputs:
        """One of the texts, as a batch of its own."""
        own = slice(index, index + 1)
        reference = None if self.reference is None else self.reference[own]
        return Inputs(self.batch, self.x[own], self.pooling_mask[own], self.masks[own], self.sources[:, own], reference)

    def part(self, first: int, last: int) -> Tensor:
        """Rows (B, last - first, T, E): each one unit's embeddings, zeros elsewhere."""
        parts = self.sources.shape[0]
        chosen = torch.arange(first, last, device=self.x.device)
        masks = self.masks[:, chosen // parts, :, None]
        return masks * self.sources.transpose(0, 1)[:, chosen % parts]

    @property
    def base(self) -> Tensor:
        """What is left of x (B, T, E) without the sources: the reference, or nothing."""
        return torch.zeros_like(self.x) if self.reference is None else self.reference


@dataclass(frozen=True)
class Replayed:
    """Vectors (B, d), rows' contributions (B, R, d), and what is left: the biases' and the reference's (B, d)."""

    vectors: Tensor
    values: Tensor
    bias: Tensor


@dataclass(frozen=True, eq=False)
class LinearMap:
    """The linearized encoder of a batch of texts of one length: a record of one forward pass, and vectors (B, d)."""

    encoder: Encoder
    inputs: Inputs
    settings: Settings
    record: Recorder
    vectors: Tensor

    @classmethod
    def of(cls, encoder: Encoder, inputs: Inputs, settings: Settings) -> LinearMap:
        """Record a forward pass; beyond the memory budget layers are recorded again when they are needed."""
        record = new_recorder(encoder, inputs.x, settings)
        return cls(encoder, inputs, settings, record, encoder.vectors_from(inputs.x, inputs.pooling_mask, record))

    def rows(self) -> Replayed:
        """What each row adds to the vector."""
        if self.settings.bias == "shared":
            return Replayed(self.vectors, *self._rows_together())
        # Whichever are fewer: a pass for each row, or for each dimension.
        if self.inputs.rows > self.vectors.shape[-1]:
            every = torch.eye(self.vectors.shape[-1], dtype=self.vectors.dtype, device=self.vectors.device)
            shares, bias = self.columns(every.expand(len(self.vectors), -1, -1))
            return Replayed(self.vectors, shares.transpose(1, 2), bias)
        return Replayed(self.vectors, *self._rows_in_chunks())

    def columns(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        """What each row (B, K, R), and what is left (B, K), adds to the products with directions (B, K, d)."""
        if self.settings.bias == "shared":
            raise UsageError("shared biases take rows; choose bias='local' or 'separate'")
        size = rows_at_once(self.inputs.pooling_mask)
        shares, bias = zip(*(self._pull_back(some) for some in torch.split(directions, size, dim=1)), strict=True)
        return torch.cat(shares, dim=1), torch.cat(bias, dim=1)

    def _pull_back(self, directions: Tensor) -> tuple[Tensor, Tensor]:
        mode, inputs = Transposed(self.record, self._bias_weights), self.inputs
        gradient = self.encoder.directions_from(directions, inputs.pooling_mask, mode)
        # In single precision at least: half of it would not hold the sum over a text's tokens.
        wide = torch.promote_types(gradient.dtype, torch.float32)
        by_token = torch.einsum("bkte,pbte->bkpt", gradient, inputs.sources).to(wide)
        left = torch.zeros_like(by_token[:, :, 0, 0])
        if inputs.reference is not None:
            left = torch.einsum("bkte,bte->bkt", gradient, inputs.reference).to(wide).sum(-1)
        biases = mode.biases + torch.zeros_like(by_token[:, :, 0])
        if self.settings.bias == "separate":
            left = left + biases.sum(-1)
        else:
            # Of split tokens the last part takes the biases: that of the embedding norm's bias, where there is one.
            by_token = torch.cat([by_token[:, :, :-1], by_token[:, :, -1:] + biases[:, :, None]], dim=2)
        shares = torch.einsum("brt,bkpt->bkrp", inputs.masks.to(wide), by_token)
        return shares.flatten(2), left

    @property
    def _bias_weights(self) -> Tensor:
        return bias_weights(self.encoder.pooling_config.pooling, self.inputs.pooling_mask).to(self.inputs.x)

    def _rows_in_chunks(self) -> tuple[Tensor, Tensor]:
        """The rows chunk by chunk, what is left with the last one: (B, R, d) and (B, d)."""
        inputs, size = self.inputs, rows_at_once(self.inputs.pooling_mask)
        # Nothing is left where the tokens take the biases and there is no reference.
        left = self.settings.bias == "separate" or inputs.reference is not None
        end, found = inputs.rows + left, []
        for first in range(0, end, size):
            last = min(first + size, end)
            rows, with_base = inputs.part(first, min(last, inputs.rows)), last > inputs.rows
            if with_base:
                rows = torch.cat([rows, inputs.base[:, None]], dim=1)
            found.append(self._replay(rows, self._owners(first, last), with_base))
        values = torch.cat(found, dim=1)
        return (values[:, :-1], values[:, -1]) if left else (values, torch.zeros_like(values[:, 0]))

    def _owners(self, first: int, last: int) -> Tensor:
        """The tokens of the rows from first to last, (B, last - first, T); of split rows the last part has them, and
        what is left, the row behind all others, has none."""
        parts = self.inputs.sources.shape[0]
        chosen = torch.arange(first, min(last, self.inputs.rows), device=self.inputs.x.device)
        masks = self.inputs.masks[:, chosen // parts] * (chosen % parts == parts - 1)[:, None]
        return torch.nn.functional.pad(masks, (0, 0, 0, last - first - masks.shape[1]))

    def _replay(self, rows: Tensor, owners: Tensor, with_base: bool) -> Tensor:
        """The vectors (B, R, d) of rows (B, R, T, E) that own these tokens; with the base, what is left comes last."""
        bias, pooling_mask = self.settings.bias, self.inputs.pooling_mask
        if bias == "traced":
            rows = torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, 1))
            traced = ReplayWithTracedBias(self.record, owners, self._bias_weights)
            return self.encoder.vectors_from(rows, pooling_mask, traced)[:, :-1]
        if bias == "local":
            local = ReplayWithLocalBias(self.record, owners, self._bias_weights)
            return self.encoder.vectors_from(rows, pooling_mask, local)
        mode = ReplayWithBiasRow(self.record) if with_base else Replay(self.record)
        return self.encoder.vectors_from(rows, pooling_mask, mode)

    def _rows_together(self) -> tuple[Tensor, Tensor]:
        """All token rows side by side, since each bias is dealt out among them: (B, R, d) and (B, d)."""
        inputs, length = self.inputs, self.inputs.pooling_mask.shape[1]
        _check_shared(self.encoder, length, self.settings)
        every = torch.eye(length, dtype=inputs.x.dtype, device=inputs.x.device)[None, :, :, None]
        rows = every * inputs.sources[0][:, None]
        if inputs.reference is not None:
            rows = torch.cat([rows, inputs.reference[:, None]], dim=1)
        values = self.encoder.vectors_from(rows, inputs.pooling_mask, ReplayWithSharedBias(self.record))
        tokens = torch.einsum("brt,btd->brd", inputs.masks.to(values.dtype), values[:, :length])
        return tokens, values[:, length] if inputs.reference is not None else torch.zeros_like(self.vectors)


def _check_shared(encoder: Encoder, length: int, settings: Settings) -> None:
    """Refuse to share biases in a text that is too long for that."""
    if length > MOST_SHARED:
        raise UsageError(
            f"biases cannot be shared: {length} tokens would run side by side, at most {MOST_SHARED} can;"
            " choose --bias local"
        )
    view = encoder.model_view
    needed = 3 * length**2 * max(view.feed_forward_size, view.hidden_size) * view.dtype.itemsize
    if needed > settings.memory_bytes:
        raise UsageError(
            f"biases cannot be shared: {length} tokens side by side take about {needed / GIGABYTE:.1f} GB;"
            " choose --bias local, or allow a larger --memory"
        )


def rows_at_once(pooling_mask: Tensor) -> int:
    """How many rows of texts with such tokens (B, T) run together."""
    return max(1, ROW_TOKENS // pooling_mask.numel())


def new_recorder(encoder: Encoder, x: Tensor, settings: Settings) -> Recorder:
    """A recorder for embeddings x (B, T, E) that stays within the memory budget."""
    (batch, length), view, most = x.shape[:2], encoder.model_view, settings.memory_bytes
    # The bytes of one layer's attention maps and gates.
    maps = batch * view.heads * length**2 * view.dtype.itemsize
    gates = batch * length * view.feed_forward_size * view.dtype.itemsize
    return Recorder(
        keep=view.layers * (maps + gates) <= most,
        lazy_maps=maps > min(most, MOST_MAP_BYTES),
        traced=settings.bias == "traced",
    )


def reference_parts(encoder: Encoder, batch: Batch, reference: str = FILLER) -> tuple[Batch, Tensor | None]:
    """The reference's batch (B, T) and, where the tokenizer has no filler, its word vectors (B, T, E).

    Special tokens stay. A given text takes the other positions from the first one on; fillers take what it leaves: the
    pad token, else the mask, else the mean of all word vectors.
    """
    special = torch.isin(batch.ids, torch.tensor(encoder.tokenizer.special_ids(), device=batch.ids.device))
    filler = encoder.tokenizer.role_id("pad", "mask")
    given = torch.full_like(batch.ids, -1)
    if reference != FILLER:
        (tokens,) = encoder.tokenize([reference], "")
        own = [token for token, is_special in zip(tokens.ids, tokens.special, strict=True) if not is_special]
        # The number of each free position, counted from 0, is its index in the given text.
        index = (~special).long().cumsum(1) - 1
        table = torch.tensor([*own, -1], device=batch.ids.device)
        given = table[index.clip(0, len(own))]
    ids = torch.where(special, batch.ids, torch.where(given >= 0, given, 0 if filler is None else filler))
    changed = replace(batch, ids=ids)
    if filler is not None:
        return changed, None
    table = encoder.model_view.embeddings.word.weight
    mean = ~special & (given < 0)
    return changed, torch.where(mean[..., None], table.mean(0), encoder.model_view.embeddings.word(ids))


def reference_embeddings(encoder: Encoder, batch: Batch, reference: str = FILLER) -> Tensor:
    """The embedding layer's output (B, T, E) for the reference of a batch."""
    changed, words = reference_parts(encoder, batch, reference)
    return embed(encoder.model_view, changed, words=words)


Function = Callable[[Tensor], Tensor]  # Embeddings (B, T, E) -> vectors (B, d), or the way back


@dataclass(frozen=True)
class Method:
    """What computes the contributions of a batch of texts, and what two such texts are then scaled by."""

    values: Callable[[Encoder, Inputs, Settings], Replayed]
    own_length: bool = False  # the cosine divides by the length of the contributions' sum, not of the model's vector
    reference: bool = False  # the bias slots hold a reference text


def bilrp(encoder: Encoder, inputs: Inputs, settings: Settings) -> Replayed:
    """BiLRP (Eberle et al. 2020; Vasileiou & Eberle 2024): all three rules by replay, fewer by forward mode."""
    if settings.holds_all:
        return LinearMap.of(encoder, inputs, settings).rows()
    return _detached(encoder, inputs, settings.rules)


def hessian_product(encoder: Encoder, inputs: Inputs, _settings: Settings) -> Replayed:
    """HxP: the true Jacobian of each text, times its tokens' embeddings."""
    return _detached(encoder, inputs, ())


def _detached(encoder: Encoder, inputs: Inputs, rules: tuple[str, ...]) -> Replayed:
    vectors = encoder.vectors_from(inputs.x, inputs.pooling_mask)

    def vector_of(texts: Inputs) -> Function:
        return lambda x: encoder.vectors_from(x, texts.pooling_mask, Detached(rules))

    values = jacobian_products(vector_of, inputs, inputs.x, vectors.shape[-1])
    return Replayed(vectors, values, torch.zeros_like(vectors))


def integrated_jacobians(encoder: Encoder, inputs: Inputs, settings: Settings) -> Replayed:
    """The Jacobian averaged along the straight path from a reference text (Moeller et al. 2023).

    The path is integrated by Gauss and Legendre; the bias slot holds the reference's own vector.
    """
    start = start_layer(encoder, settings)
    silent = reference_embeddings(encoder, inputs.batch)
    begin, end = (_states_at(encoder, each, start) for each in (silent, inputs.x))
    inputs = replace(inputs, x=end, sources=(end - begin)[None])
    vectors = encoder.vectors_from(end, inputs.pooling_mask, start=start)

    def vector_of(texts: Inputs) -> Function:
        recorder = Recorder()
        encoder.vectors_from(texts.x, texts.pooling_mask, recorder, start)
        return lambda x: encoder.vectors_from(x, texts.pooling_mask, DetachedAt(recorder), start)

    nodes, weights = np.polynomial.legendre.leggauss(settings.steps)
    total = torch.zeros((), dtype=vectors.dtype, device=vectors.device)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        points = begin + float(node) * (end - begin)
        total = total + float(weight) * jacobian_products(vector_of, inputs, points, vectors.shape[-1])
    return Replayed(vectors, total, vector_of(inputs)(begin))


def start_layer(encoder: Encoder, settings: Settings) -> int:
    """The layer at which the path begins, checked."""
    lowest = min(encoder.pooling_config.layers_of(encoder.model_view.layers))
    if not 0 <= settings.start_layer <= lowest:
        raise UsageError(f"integrated Jacobians can start at layers 0 to {lowest} here, not {settings.start_layer}")
    return settings.start_layer


def _states_at(encoder: Encoder, x: Tensor, start: int) -> Tensor:
    steps = layers(encoder.model_view, x)
    return x if start == 0 else next(step.states for index, step in enumerate(steps) if index == start)


def embedding(encoder: Encoder, inputs: Inputs, _settings: Settings) -> Replayed:
    """The baseline without a model: the input embeddings themselves."""
    vectors = encoder.vectors_from(inputs.x, inputs.pooling_mask)
    values = inputs.masks @ inputs.x
    return Replayed(vectors, values, values.new_zeros(len(values), values.shape[-1]))


METHODS: dict[str, Method] = {
    "bilrp": Method(bilrp),
    "hxp": Method(hessian_product),
    "integrated-jacobian": Method(integrated_jacobians, reference=True),
    "embedding": Method(embedding, own_length=True),
    "embedding-squared": Method(embedding, own_length=True),
    "random": Method(embedding, own_length=True),
}


def method_named(name: str) -> Method:
    """A method by its name."""
    if name not in METHODS:
        raise UsageError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    return METHODS[name]


def is_complete(name: str, settings: Settings) -> bool:
    """Whether a method promises that its ledger sums to the similarity."""
    return name == "bilrp" and settings.holds_all


def has_columns(name: str, settings: Settings) -> bool:
    """Whether explanations can be pulled back: the ledger is linear in each token of both texts."""
    return is_complete(name, settings) and settings.bias != "shared"


def jacobian_products(vector_of: Callable[[Inputs], Function], inputs: Inputs, points: Tensor, width: int) -> Tensor:
    """The Jacobian of each text's vector at a point (B, T, E), times each of its rows: (B, R, d).

    Forward mode takes a pass per row, backward a pass per dimension: whichever are fewer.
    """
    if inputs.rows <= width:
        return forward_products(vector_of(inputs), inputs, points)
    texts = [(inputs.text(index), points[index : index + 1]) for index in range(len(points))]
    return torch.cat([backward_products(vector_of(one), one, point) for one, point in texts])


def forward_products(vector: Function, inputs: Inputs, points: Tensor) -> Tensor:
    """By forward mode, all texts at once, since none sees another: (B, R, d)."""
    size = rows_at_once(inputs.pooling_mask)
    along = torch.func.vmap(lambda row: torch.func.jvp(vector, (points,), (row,))[1], in_dims=1, out_dims=1)
    starts = range(0, inputs.rows, size)
    return torch.cat([along(inputs.part(first, min(first + size, inputs.rows))) for first in starts], dim=1)


def backward_products(vector: Function, inputs: Inputs, point: Tensor) -> Tensor:
    """One text by backward passes through one graph of the live model, several dimensions at once: (1, R, d)."""
    value, pull_back = torch.func.vjp(vector, point)[:2]
    # Copies of the point instead of vmap would be a tenth faster, and keep the graph once for each.
    together = torch.func.vmap(lambda one: pull_back(one[None])[0][0])
    width = value.shape[-1]
    # As the value: a pooling head may end in double precision.
    every = torch.eye(width, dtype=value.dtype, device=value.device)
    found = []
    for some in torch.split(every, min(width, rows_at_once(inputs.pooling_mask))):
        per_token = torch.einsum("kte,pte->ptk", together(some), inputs.sources[:, 0])
        found.append((inputs.masks[0] @ per_token).transpose(0, 1).flatten(0, 1))
    return torch.cat(found, dim=1)[None]
