"""What a transformer consists of: views on a Hugging Face model's modules, free of family names.

A view never copies a weight. Weights are read from the module at each call, so that training, a move to
another device and a change of dtype are seen at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Affine:
    """A linear map, or some output rows of one (ModernBERT stores query, key and value in one matrix)."""

    module: nn.Linear
    rows: tuple[int, int] | None = None

    @property
    def weight(self) -> Tensor:
        """The matrix, (out, in)."""
        return self._rows_of(self.module.weight)

    @property
    def bias(self) -> Tensor | None:
        """The shift, (out,), or None."""
        return None if self.module.bias is None else self._rows_of(self.module.bias)

    def _rows_of(self, tensor: Tensor) -> Tensor:
        return tensor if self.rows is None else tensor[self.rows[0] : self.rows[1]]


@dataclass(frozen=True)
class Norm:
    """LayerNorm or RMSNorm over the last dimension."""

    module: nn.Module
    kind: Literal["layer", "rms"]
    eps: float

    @property
    def weight(self) -> Tensor:
        """The gain, (width,)."""
        return self.module.weight  # type: ignore[return-value]

    @property
    def bias(self) -> Tensor | None:
        """The shift, (width,), or None."""
        return getattr(self.module, "bias", None)


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: the angle of pair ``d`` at position ``t`` is ``t * frequencies[d]``."""

    module: nn.Module
    buffer: str
    scaling: float

    @property
    def frequencies(self) -> Tensor:
        """Angle per position step, (head_width / 2,)."""
        return getattr(self.module, self.buffer)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RelativeBias:
    """MPNet's learned bias per head and bucket of distance, added to the attention scores."""

    module: nn.Embedding
    buckets: int
    max_distance: int = 128


@dataclass(frozen=True)
class Attention:
    """Self-attention. ``reach`` is how far a token sees, ``|i - j| <= reach``; None is everywhere."""

    query: Affine
    key: Affine
    value: Affine
    output: Affine
    heads: int
    key_heads: int
    scale: float
    causal: bool = False
    reach: int | None = None
    rotary: Rotary | None = None
    relative: RelativeBias | None = None
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    map_dropout: float | None = None
    """its rate in training; None where the architecture drops nothing here, as with all such rates"""
    output_dropout: float | None = None


@dataclass(frozen=True)
class FeedForward:
    """Two linear maps around an activation. Gated: ``down(activation(up(x)) * gate(x))``."""

    up: Affine
    down: Affine
    activation: str
    gate: Affine | None = None
    inner_dropout: float | None = None
    output_dropout: float | None = None


@dataclass(frozen=True)
class Block:
    """One layer. ``pre_norm``: norms stand before attention and feed-forward, else after each residual sum."""

    attention: Attention
    attention_norm: Norm | None
    feed_forward: FeedForward
    feed_forward_norm: Norm
    pre_norm: bool = False


@dataclass(frozen=True)
class Embeddings:
    """Word, position and type vectors. ``first_position`` is 2 in RoBERTa, which counts from the padding id."""

    word: nn.Embedding
    position: nn.Embedding | None = None
    type: nn.Embedding | None = None
    norm: Norm | None = None
    first_position: int = 0
    dropout: float | None = None


@dataclass(frozen=True)
class Anatomy:
    """A whole encoder as views: embeddings, blocks, and what stands before and after the blocks."""

    family: str
    embeddings: Embeddings
    blocks: tuple[Block, ...]
    hidden_size: int
    max_positions: int
    projection: Affine | None = None
    final_norm: Norm | None = None
    pooler: Affine | None = None

    @property
    def layers(self) -> int:
        """Number of blocks; there is one hidden state more."""
        return len(self.blocks)

    @property
    def heads(self) -> int:
        """Attention heads of a block."""
        return self.blocks[0].attention.heads

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embeddings.word.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """What the weights are stored as."""
        return self.embeddings.word.weight.dtype

    def with_dropout(self, rate: float) -> Anatomy:
        """The same views, in training with this rate wherever the model has dropout."""
        blocks = tuple(
            replace(
                block,
                attention=_dropping(block.attention, rate),
                feed_forward=_dropping(block.feed_forward, rate),
            )
            for block in self.blocks
        )
        return replace(self, embeddings=_dropping(self.embeddings, rate), blocks=blocks)


View = TypeVar("View", Attention, FeedForward, Embeddings)


def _dropping(view: View, rate: float) -> View:
    places = [name for name, value in vars(view).items() if name.endswith("dropout") and value is not None]
    changes: dict[str, Any] = dict.fromkeys(places, rate)
    return replace(view, **changes)
