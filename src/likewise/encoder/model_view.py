"""The parts of a transformer: views on named weights, independent of model families.

A view holds the module with the weights: one of Hugging Face's, or a bare one of ``Transformer``. It never copies a
weight but reads it at each call, so training, a move to another device and a change of dtype take effect at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

POOLER = "pooler"
"""The part that may be missing."""


class Transformer(nn.Module):
    """Named weights and their config.

    >>> model = Transformer({"model_type": "bert"})
    >>> _ = model.part("pooler.dense", weight=(2, 3), bias=None)
    >>> [(name, tuple(weight.shape)) for name, weight in model.named_parameters()]
    [('pooler.dense.weight', (2, 3))]
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        self.loaded = False

    def part(self, name: str, **shapes: tuple[int, ...] | None) -> nn.Module:
        """The module of a name; its weights have these shapes, and no memory before they are loaded."""
        module: nn.Module = self
        for step in name.split("."):
            if step not in module._modules:
                module.add_module(step, nn.Module())
            module = module._modules[step]  # type: ignore[assignment]
        for weight, shape in shapes.items():
            if weight not in module._parameters:
                empty = None if shape is None else nn.Parameter(torch.empty(shape, device="meta"))
                module.register_parameter(weight, empty)
        return module


@dataclass(frozen=True)
class Affine:
    """A linear map, or some output rows of one (ModernBERT stores query, key and value in one matrix)."""

    module: nn.Module
    rows: tuple[int, int] | None = None

    @property
    def weight(self) -> Tensor:
        """The matrix, (out, in)."""
        return self._rows_of(self.module.weight)

    @property
    def bias(self) -> Tensor | None:
        """The bias, (out,), or None."""
        return None if self.module.bias is None else self._rows_of(self.module.bias)

    def _rows_of(self, tensor: Any) -> Tensor:
        found: Tensor = tensor if self.rows is None else tensor[self.rows[0] : self.rows[1]]
        return found


@dataclass(frozen=True)
class Table:
    """Vectors by id; the one at ``padding`` gets no gradient."""

    module: nn.Module
    padding: int | None = None

    @property
    def weight(self) -> Tensor:
        """All vectors, (ids, width)."""
        return self.module.weight  # type: ignore[return-value]

    def __call__(self, ids: Tensor) -> Tensor:
        """(...) -> (..., width)."""
        return F.embedding(ids, self.weight, self.padding)


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
        """The bias, (width,), or None."""
        return getattr(self.module, "bias", None)


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotary positions: the angle of pair ``d`` at position ``t`` is ``t * frequencies[d]``."""

    steps: Tensor
    """angle per position step, (head_width / 2,), always float32 on the CPU"""
    scaling: float
    word: Table
    """the word embeddings, whose device the angles follow"""

    @property
    def frequencies(self) -> Tensor:
        """Angle per position step, (head_width / 2,), on the device of the weights."""
        return self.steps.to(self.word.weight.device)


@dataclass(frozen=True)
class RelativeBias:
    """MPNet's learned bias per head and bucket of distance, added to the attention scores."""

    module: Table
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
    """its rate in training; None, as for all such rates, if the architecture has no dropout here"""
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

    word: Table
    position: Table | None = None
    type: Table | None = None
    norm: Norm | None = None
    first_position: int = 0
    dropout: float | None = None


@dataclass(frozen=True)
class ModelView:
    """A whole encoder as views: embeddings, blocks, and what comes before and after the blocks."""

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
        """Number of blocks; there is one more hidden state."""
        return len(self.blocks)

    @property
    def heads(self) -> int:
        """Attention heads of a block."""
        return self.blocks[0].attention.heads

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embeddings.word.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return self.embeddings.word.weight.dtype

    def with_dropout(self, rate: float) -> ModelView:
        """The same views with this dropout rate wherever the model has dropout."""
        blocks = tuple(
            replace(block, attention=_dropping(block.attention, rate), feed_forward=_dropping(block.feed_forward, rate))
            for block in self.blocks
        )
        return replace(self, embeddings=_dropping(self.embeddings, rate), blocks=blocks)


View = TypeVar("View", Attention, FeedForward, Embeddings)


def _dropping(view: View, rate: float) -> View:
    indices = [name for name, value in vars(view).items() if name.endswith("dropout") and value is not None]
    changes: dict[str, Any] = dict.fromkeys(indices, rate)
    return replace(view, **changes)
