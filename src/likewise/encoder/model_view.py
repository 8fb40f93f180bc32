"""The parts of a transformer: views on named weights, and what each computes, with its transpose.

A view holds the module with the weights: one of Hugging Face's, or a bare one of ``Transformer``. It never copies a
weight but reads it at each call, so training, a move to another device and a change of dtype take effect at once.

A transpose takes gradients (B, K, T, D) of K directions back through the linearized part, and collects what its bias
adds: <J x + b, u> = <x, J^T u> + <b, u>. Shapes: see ``forward``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.errors import UsageError

Dropout = Callable[[Tensor, float | None], Tensor]
"""``dropout(x, rate)``: x with a share of its numbers set to zero and the others scaled up; None is a rate of 0."""

POOLER = "pooler"  # The part that may be missing


class Transformer(nn.Module):
    """Named weights and their config."""

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
        return self._rows_of(self.module.weight)  # type: ignore[return-value]

    @property
    def bias(self) -> Tensor | None:
        """The bias, (out,), or None."""
        return self._rows_of(self.module.bias)

    def _rows_of(self, tensor: Any) -> Tensor | None:
        return tensor if self.rows is None or tensor is None else tensor[slice(*self.rows)]  # type: ignore[no-any-return]


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

    steps: Tensor  # angle per position step, (head_width / 2,), always float32 on the CPU
    scaling: float
    word: Table  # the word embeddings, whose device the angles follow

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
    map_dropout: float | None = None  # its rate in training; None, here and below, if the architecture has no dropout
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
        """Attention heads of a block; 0 without blocks."""
        return self.blocks[0].attention.heads if self.blocks else 0

    @property
    def feed_forward_size(self) -> int:
        """The inner width of a block's feed-forward layer; 0 without blocks."""
        return self.blocks[0].feed_forward.down.weight.shape[1] if self.blocks else 0

    def require_attention(self) -> None:
        """Reject a model without blocks, which has no attention to look at."""
        if not self.blocks:
            raise UsageError("this model has no attention layers; choose a transformer, such as minilm")

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


def no_dropout(x: Tensor, _: float | None) -> Tensor:
    """No dropout, as outside training."""
    return x


Elementwise = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Activation:
    """function(h) = h * factor(h) + offset, with the factor in closed form: never a division by h, which may be 0."""

    function: Elementwise
    factor: Elementwise
    offset: float = 0.0  # the function at 0, which no factor of h can give

    def __call__(self, h: Tensor) -> Tensor:
        """(...) -> (...)."""
        return self.function(h)


def _tanh_gelu_factor(h: Tensor) -> Tensor:
    return 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))


def _tanh_factor(z: Tensor) -> Tensor:
    """tanh(z) / z with its limit 1 at 0."""
    safe = torch.where(z == 0, torch.ones_like(z), z)
    return torch.where(z == 0, torch.ones_like(z), torch.tanh(safe) / safe)


GELU = Activation(F.gelu, lambda h: 0.5 * (1 + torch.erf(h / math.sqrt(2))))
TANH_GELU = Activation(lambda h: F.gelu(h, approximate="tanh"), _tanh_gelu_factor)
RELU = Activation(F.relu, lambda h: (h > 0).to(h.dtype))
SILU = Activation(F.silu, torch.sigmoid)
TANH = Activation(torch.tanh, _tanh_factor)
# sigmoid(z) = 1/2 + tanh(z/2) / 2, and the second term has a factor.
SIGMOID = Activation(torch.sigmoid, lambda z: _tanh_factor(z / 2) / 4, offset=0.5)
IDENTITY = Activation(lambda h: h, torch.ones_like)

ACTIVATIONS: dict[str, Activation] = {
    "gelu": GELU, "gelu_new": TANH_GELU, "gelu_pytorch_tanh": TANH_GELU, "relu": RELU, "silu": SILU, "swish": SILU,
}  # fmt: skip
"""Activations of feed-forward layers, by their names in Hugging Face's configs."""

HEAD_ACTIVATIONS: dict[str, Activation] = {
    "Identity": IDENTITY, "Tanh": TANH, "ReLU": RELU, "GELU": GELU, "SiLU": SILU, "Sigmoid": SIGMOID,
}  # fmt: skip
"""Activations of dense heads, by the names of torch's modules."""


def linear(view: Affine, x: Tensor, mode: Mode = LIVE) -> Tensor:
    """(..., in) -> (..., out)."""
    if mode.fused:
        return F.linear(x, view.weight, view.bias)
    return mode.add_bias(F.linear(x, view.weight), view.bias)


def linear_transposed(view: Affine, gradient: Tensor, mode: Transposed) -> Tensor:
    """(..., out) -> (..., in)."""
    mode.collect(gradient, view.bias)
    return gradient @ view.weight


def norm(view: Norm | None, x: Tensor, mode: Mode = LIVE) -> Tensor:
    """LayerNorm or RMSNorm, (..., D) -> (..., D); None is the identity (ModernBERT's first layer)."""
    if view is None:
        return x
    if not mode.fused:
        return scaled(view, x, mode)
    if view.kind == "rms":
        return F.rms_norm(x, x.shape[-1:], view.weight, view.eps)
    return F.layer_norm(x, x.shape[-1:], view.weight, view.bias, view.eps)


def scaled(view: Norm, x: Tensor, mode: Mode) -> Tensor:
    """A norm in two steps, so that a mode can freeze its scale; the mean of a LayerNorm stays live."""
    centred = x.clone() if view.kind == "rms" else x - x.mean(-1, keepdim=True)
    scale = mode.linearize("norm", lambda _: torch.rsqrt(centred.square().mean(-1, keepdim=True) + view.eps))
    return mode.add_bias(mode.scale(centred, scale * view.weight), view.bias)


def norm_transposed(view: Norm | None, gradient: Tensor, mode: Transposed) -> Tensor:
    """Scale, then subtract the mean: centring is its own transpose."""
    if view is None:
        return gradient
    mode.collect(gradient, view.bias)
    back = gradient * (mode.recorded("norm") * view.weight)
    return back if view.kind == "rms" else back.sub_(back.mean(-1, keepdim=True))


def activate(activation: Activation, h: Tensor, mode: Mode = LIVE) -> Tensor:
    """Apply an activation to h (..., F): as h times its frozen factor if the mode freezes it."""
    if not mode.linearizes("activation"):
        return activation(h)
    product = mode.scale(h, mode.linearize("activation", lambda _: activation.factor(h)))
    return mode.add_bias(product, product.new_tensor(activation.offset)) if activation.offset else product


def activate_transposed(activation: Activation, gradient: Tensor, mode: Transposed) -> Tensor:
    """The same frozen factor."""
    if activation.offset:
        mode.collect(gradient, gradient.new_full(gradient.shape[-1:], activation.offset))
    return gradient * mode.recorded("activation")


def feed_forward(view: FeedForward, x: Tensor, dropout: Dropout = no_dropout, mode: Mode = LIVE) -> Tensor:
    """(B, T, D) -> (B, T, D)."""
    activation = ACTIVATIONS[view.activation]
    if view.gate is None:
        inner = activate(activation, linear(view.up, x, mode), mode)
    else:
        # The activated factor is frozen as a whole, the other one stays live.
        activated = mode.linearize("activation", lambda within: activation(linear(view.up, x, within)))
        inner = activated * linear(view.gate, x, mode)
    inner = dropout(inner, view.inner_dropout)
    return dropout(linear(view.down, inner, mode), view.output_dropout)


def feed_forward_transposed(view: FeedForward, gradient: Tensor, mode: Transposed) -> Tensor:
    """(B, K, T, D) -> (B, K, T, D)."""
    inner = linear_transposed(view.down, gradient, mode).mul_(mode.recorded("activation"))
    return linear_transposed(view.up if view.gate is None else view.gate, inner, mode)


def model_pooler(view: Affine, states: Tensor, mode: Mode = LIVE) -> Tensor:
    """A model's own pooler, a linear map and tanh of the first token: (..., T, D) -> (..., D)."""
    return activate(TANH, linear(view, states[..., 0, :], mode), mode)


def model_pooler_transposed(view: Affine, gradient: Tensor, length: int, mode: Transposed) -> Tensor:
    """(B, K, D) -> (B, K, T, D), zero except for the first token."""
    first = linear_transposed(view, activate_transposed(TANH, gradient, mode), mode)
    return F.pad(first[..., None, :], (0, 0, 0, length - 1))


@dataclass(frozen=True, eq=False)
class Dense:
    """activation(weight x + bias): weight (out, in), bias (out,) or None."""

    weight: Tensor
    bias: Tensor | None
    activation: str

    def __call__(self, x: Tensor, mode: Mode = LIVE) -> Tensor:
        """(..., in) -> (..., out)."""
        return activate(HEAD_ACTIVATIONS[self.activation], mode.add_bias(F.linear(x, self.weight), self.bias), mode)

    def transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """(B, K, out) -> (B, K, in)."""
        gradient = activate_transposed(HEAD_ACTIVATIONS[self.activation], gradient, mode)
        mode.collect(gradient, self.bias)
        return gradient @ self.weight

    def to(self, device: torch.device, dtype: torch.dtype) -> Dense:
        """The same head on a device, in a dtype."""
        bias = None if self.bias is None else self.bias.to(device, dtype)
        return Dense(self.weight.to(device, dtype), bias, self.activation)
