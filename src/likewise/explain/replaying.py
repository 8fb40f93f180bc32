"""Replay: one forward pass records the factors, a second one runs the parts of the input through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.forward import Batch
from likewise.encoder.modes import Recorder, Replay, ReplayWithBiasRow, ReplayWithSharedBias
from likewise.errors import UsageError
from likewise.explain.settings import GIGABYTE, Settings

ROW_TOKENS = 2048
"""Row tokens that run together: rows x tokens of one chunk. From 1000 to 4000 the time hardly differs."""

BACKWARD_COST = 1.2
"""A backward pass through a replay, in rows of it: it cannot work in place. Measured over whole texts of 500 tokens."""

Function = Callable[[Tensor], Tensor]
"""Embeddings (B, T, E) -> vectors (B, d), or the way back."""


@dataclass(frozen=True)
class Inputs:
    """B texts of T tokens: embeddings (B, T, E), counting tokens (B, T), and the units as masks (B, R, T).

    ``sources`` (P, B, T, E) are the parts that each unit's embeddings are split into; one part is no split.
    """

    batch: Batch
    x: Tensor
    counted: Tensor
    masks: Tensor
    sources: Tensor

    @property
    def rows(self) -> int:
        """Replayed rows per text, without the bias."""
        return self.masks.shape[1] * self.sources.shape[0]

    def text(self, place: int) -> Inputs:
        """One of the texts, as a batch of its own."""
        own = slice(place, place + 1)
        return Inputs(self.batch, self.x[own], self.counted[own], self.masks[own], self.sources[:, own])

    def part(self, first: int, last: int) -> Tensor:
        """Rows (B, last - first, T, E): each one unit's embeddings, zeros elsewhere."""
        parts = self.sources.shape[0]
        chosen = torch.arange(first, last, device=self.x.device)
        masks = self.masks[:, chosen // parts, :, None]
        return masks * self.sources.transpose(0, 1)[:, chosen % parts]


@dataclass(frozen=True)
class Replayed:
    """Vectors (B, d), rows' contributions (B, R, d) and the biases' (B, d)."""

    vectors: Tensor
    values: Tensor
    bias: Tensor


def replay(encoder: Encoder, inputs: Inputs, settings: Settings) -> Replayed:
    """Record the texts and replay their parts, with a bias row or with each bias shared out."""
    recorder = Recorder(keep_maps=map_bytes(encoder, *inputs.counted.shape) <= settings.memory_bytes)
    vectors = encoder.vectors_from(inputs.x, inputs.counted, recorder)
    if settings.bias == "shared":
        values = _replay_together(encoder, inputs, recorder, settings)
        return Replayed(vectors, values, torch.zeros_like(vectors))
    width = vectors.shape[-1]
    # A backward pass keeps the maps of all layers, so texts whose maps do not fit go row by row.
    if inputs.rows > BACKWARD_COST * width and len(inputs.x) == 1 and recorder.keep_maps:
        return Replayed(vectors, *_replay_backwards(encoder, inputs, recorder, width))
    return Replayed(vectors, *replay_rows(encoder, inputs, recorder))


def replay_rows(encoder: Encoder, inputs: Inputs, recorder: Recorder) -> tuple[Tensor, Tensor]:
    """The rows chunk by chunk, the bias row with the last one: (B, R, d) and (B, d)."""
    size = rows_at_once(inputs.counted)
    found = []
    for first in range(0, inputs.rows + 1, size):
        last = min(first + size, inputs.rows + 1)
        rows = inputs.part(first, min(last, inputs.rows))
        mode = Replay(recorder)
        if last > inputs.rows:
            rows = torch.cat([rows, torch.zeros_like(inputs.x)[:, None]], dim=1)
            mode = ReplayWithBiasRow(recorder)
        found.append(encoder.vectors_from(rows, inputs.counted, mode))
    rows_and_bias = torch.cat(found, dim=1)
    return rows_and_bias[:, :-1], rows_and_bias[:, -1]


def _replay_together(encoder: Encoder, inputs: Inputs, recorder: Recorder, settings: Settings) -> Tensor:
    """All token rows side by side, since each bias is dealt out among them: (B, R, d)."""
    length = inputs.counted.shape[1]
    cannot = why_not_shared(encoder, length, settings)
    if cannot:
        raise UsageError(f"biases cannot be shared: {cannot}")
    every = torch.eye(length, dtype=inputs.x.dtype, device=inputs.x.device)[None, :, :, None]
    return encoder.vectors_from(every * inputs.x[:, None], inputs.counted, ReplayWithSharedBias(recorder))


def why_not_shared(encoder: Encoder, length: int, settings: Settings) -> str:
    """What stands in the way of sharing biases in a text of so many tokens, with the cure; "" where nothing does."""
    width = encoder.anatomy.hidden_size
    if length > width:
        return f"{length} tokens would run side by side, and the model's width allows {width}; keep them separate"
    inner = encoder.anatomy.blocks[0].feed_forward.up.weight.shape[0]
    needed = 3 * length**2 * inner * torch.finfo(encoder.anatomy.dtype).bits // 8
    if needed > settings.memory_bytes:
        return (
            f"{length} tokens side by side take about {needed / GIGABYTE:.1f} GB; keep them separate,"
            " or allow a larger memory"
        )
    return ""


def _replay_backwards(encoder: Encoder, inputs: Inputs, recorder: Recorder, width: int) -> tuple[Tensor, Tensor]:
    """The same contributions by a backward pass per dimension, cheaper where there are more rows than those."""
    bias_row = torch.zeros_like(inputs.x)[:, None]
    bias = encoder.vectors_from(bias_row, inputs.counted, ReplayWithBiasRow(recorder))[:, 0]
    # No row sees another, so each pulls back a dimension of its own and all share the maps, which vmap would copy.
    rows = bias_row.expand(-1, min(width, rows_at_once(inputs.counted)), -1, -1)
    # Under the caller's no_grad: torch.func differentiates all the same, and no graph of the weights is kept.
    value, pull_back = torch.func.vjp(lambda x: encoder.vectors_from(x, inputs.counted, Replay(recorder)), rows)[:2]
    return backward_products(lambda some: pull_back(some[None])[0][0], inputs, value, rows.shape[1]), bias


def jacobian_products(vector_of: Callable[[Inputs], Function], inputs: Inputs, points: Tensor, width: int) -> Tensor:
    """The Jacobian of each text's vector at a point (B, T, E), times each of its rows: (B, R, d).

    Forward mode takes a pass per row, backward a pass per dimension: whichever are fewer.
    """
    if inputs.rows <= width:
        return forward_products(vector_of(inputs), inputs, points)
    texts = [(inputs.text(place), points[place : place + 1]) for place in range(len(points))]
    return torch.cat([_live_backwards(vector_of(one), one, point) for one, point in texts])


def forward_products(vector: Function, inputs: Inputs, points: Tensor) -> Tensor:
    """By forward mode, all texts at once, since none sees another: (B, R, d)."""
    size = rows_at_once(inputs.counted)
    along = torch.func.vmap(lambda row: torch.func.jvp(vector, (points,), (row,))[1], in_dims=1, out_dims=1)
    starts = range(0, inputs.rows, size)
    return torch.cat([along(inputs.part(first, min(first + size, inputs.rows))) for first in starts], dim=1)


def _live_backwards(vector: Function, inputs: Inputs, point: Tensor) -> Tensor:
    """One text by backward passes through one graph of the live model: (1, R, d)."""
    value, pull_back = torch.func.vjp(vector, point)[:2]
    # Copies of the point instead of vmap would be a tenth faster, and keep the graph once for each.
    together = torch.func.vmap(lambda one: pull_back(one[None])[0][0])
    return backward_products(together, inputs, value, min(value.shape[-1], rows_at_once(inputs.counted)))


def backward_products(pull_back: Function, inputs: Inputs, value: Tensor, size: int) -> Tensor:
    """One text's products from the gradients (k, T, E) of ``size`` dimensions (k, d) of its value each: (1, R, d)."""
    width = value.shape[-1]
    # As the value: the readout may end in double precision. Zeros fill the last chunk up, which a graph of rows needs.
    every = torch.eye(-(-width // size) * size, width, dtype=value.dtype, device=value.device)
    found = []
    for some in torch.split(every, size):
        per_token = torch.einsum("kte,pte->ptk", pull_back(some), inputs.sources[:, 0])
        found.append((inputs.masks[0] @ per_token).transpose(0, 1).flatten(0, 1))
    return torch.cat(found, dim=1)[None, :, :width]


def rows_at_once(counted: Tensor) -> int:
    """How many rows of texts with such tokens (B, T) run together."""
    return max(1, ROW_TOKENS // counted.numel())


def map_bytes(encoder: Encoder, batch: int, length: int) -> int:
    """What all attention maps of a batch take."""
    heads = sum(block.attention.heads for block in encoder.anatomy.blocks)
    return batch * heads * length**2 * torch.finfo(encoder.anatomy.dtype).bits // 8
