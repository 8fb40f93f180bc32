"""Transformer components: views of the weights, the function that each computes, and its transpose.

A view refers to a module with weights: one of Hugging Face's, or a plain one of ``Transformer``. It reads the weights
at each call and never copies them, so training and changes of device or dtype take effect at once.

A transpose maps gradients (B, K, T, D) of K directions back through the linearized component, and sums what its bias
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
from likewise.errors import ModelError, UsageError

Dropout = Callable[[Tensor, float | None], Tensor]
"""``dropout(x, rate)``: x with a share of its numbers set to zero and the others scaled up; None is a rate of 0."""

POOLER = "pooler"  # The part that may be missing
Config = dict[str, Any]


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

    def constant(self, name: str, attribute: str, shape: tuple[int, ...]) -> nn.Module:
        """The same for a stored tensor that is not trained."""
        module = self.part(name)
        if attribute not in module._buffers:
            module.register_buffer(attribute, torch.empty(shape, device="meta"))
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
        try:
            return F.embedding(ids, self.weight, self.padding)
        except IndexError as error:
            raise ModelError("the tokenizer does not fit the model (an id without a vector); use its own") from error


@dataclass(frozen=True)
class Norm:
    """LayerNorm or RMSNorm over the last dimension; without a module it has no gain."""

    module: nn.Module | None
    kind: Literal["layer", "rms"]
    eps: float
    offset: float = 0.0  # Gemma stores its gain minus 1

    @property
    def weight(self) -> Tensor | None:
        """The gain, (width,), or None for 1."""
        if self.module is None:
            return None
        stored: Tensor = self.module.weight  # type: ignore[assignment]
        return stored + self.offset if self.offset else stored

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
    """A learned bias per head and bucket of distance (MPNet, T5), added to the attention scores."""

    module: Table
    buckets: int
    max_distance: int = 128


@dataclass(frozen=True)
class Disentangled:
    """DeBERTa's scores of a token's content with a distance: ``query_i . key(i - j) + key_j . query(i - j)``."""

    vectors: Table  # of each bucket of distances, (2 * span, width)
    norm: Norm | None
    key: Affine | None  # distances as keys; None, here and below, if the model leaves out these scores
    query: Affine | None  # distances as queries
    span: int  # the number of buckets of one sign
    max_distance: int | None  # long distances share logarithmic buckets up to this one; None: each has its own


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
    disentangled: Disentangled | None = None
    query_norm: Norm | None = None
    key_norm: Norm | None = None
    value_norm: Norm | None = None
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
class InputGate:
    """EmbeddingGemma 2: a block adds a projection of the embeddings, gated by its states."""

    source: Affine  # the embeddings' projection for this block
    source_scale: float
    source_norm: Norm
    gate: Affine
    activation: str
    output: Affine
    output_norm: Norm


@dataclass(frozen=True)
class Block:
    """One layer. ``pre_norm``: norms stand before attention and feed-forward, else after each residual sum.

    Gemma also has norms of what attention and feed-forward add to the sum.
    """

    attention: Attention
    attention_norm: Norm | None
    feed_forward: FeedForward
    feed_forward_norm: Norm
    pre_norm: bool = False
    attention_output_norm: Norm | None = None
    feed_forward_output_norm: Norm | None = None
    input_gate: InputGate | None = None
    scaled_by: nn.Module | None = None  # holds ``layer_scalar``, (1,), a factor of the block's output


@dataclass(frozen=True)
class Embeddings:
    """Word, position and type vectors. ``first_position`` is 2 in RoBERTa, which counts from the padding id."""

    word: Table
    position: Table | None = None
    type: Table | None = None
    norm: Norm | None = None
    first_position: int = 0
    dropout: float | None = None
    scale: float = 1.0  # of the word vectors


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
    final_dropout: float | None = None
    pooler: Affine | None = None
    output: Affine | None = None  # EmbeddingGemma 2 maps its last states to another width

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
    def output_size(self) -> int:
        """The width of a token's vector that is pooled."""
        return self.hidden_size if self.output is None else len(self.output.weight)

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
        return replace(_dropping(self, rate), embeddings=_dropping(self.embeddings, rate), blocks=blocks)


@dataclass(frozen=True)
class Parts:
    """Finds views by name in a model, with the shapes that its config sets."""

    model: nn.Module
    config: Config

    def __getitem__(self, key: str) -> Any:
        return self.config[key]

    @property
    def empty(self) -> Transformer | None:
        """The model, if its weights are not declared yet."""
        return self.model if isinstance(self.model, Transformer) and not self.model.loaded else None

    def _module(self, name: str, **shapes: tuple[int, ...] | None) -> nn.Module:
        return self.model.get_submodule(name) if self.empty is None else self.empty.part(name, **shapes)

    def linear(self, name: str, width: int, out: int, bias: bool = True) -> Affine:
        """A linear map."""
        return Affine(self._module(name, weight=(out, width), bias=(out,) if bias else None))

    def layer_norm(self, name: str, width: int, eps: float, bias: bool = True) -> Norm:
        """A LayerNorm."""
        return Norm(self._module(name, weight=(width,), bias=(width,) if bias else None), "layer", eps)

    def rms_norm(self, name: str, width: int, eps: float, offset: float = 0.0) -> Norm:
        """An RMSNorm."""
        return Norm(self._module(name, weight=(width,), bias=None), "rms", eps, offset)

    def table(self, name: str, rows: int, width: int, padding: int | None = None) -> Table:
        """A table of vectors."""
        return Table(self._module(name, weight=(rows, width)), padding)

    def constant(self, name: str, attribute: str, shape: tuple[int, ...]) -> nn.Module:
        """The module with a stored tensor that is not trained."""
        return self._module(name) if self.empty is None else self.empty.constant(name, attribute, shape)

    def pooler(self, name: str, width: int) -> Affine | None:
        """The model's pooler, if it has one."""
        lacks = self.empty is None and getattr(self.model, POOLER, None) is None
        return None if lacks else self.linear(name, width, width)

    def head_width(self, width: int, heads: int) -> int:
        """The width of a head, checked."""
        if width % heads:
            raise ModelError(f"{width} dimensions cannot be split into {heads} heads; fix config.json")
        return width // heads


View = TypeVar("View", Attention, FeedForward, Embeddings, ModelView)


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
    return mode.add_bias(mode.scale(centred, scale if view.weight is None else scale * view.weight), view.bias)


def norm_transposed(view: Norm | None, gradient: Tensor, mode: Transposed) -> Tensor:
    """Scale, then subtract the mean: centring is its own transpose."""
    if view is None:
        return gradient
    mode.collect(gradient, view.bias)
    scale = mode.recorded("norm")
    back = gradient * (scale if view.weight is None else scale * view.weight)
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


def input_gate(view: InputGate, h: Tensor, inputs: Tensor, mode: Mode = LIVE) -> Tensor:
    """States (B, T, D) and embeddings (B, T, E) -> what the block adds to its states, (B, T, D)."""
    own = norm(view.source_norm, linear(view.source, inputs, mode) * view.source_scale, mode)
    gate = mode.linearize("activation", lambda within: ACTIVATIONS[view.activation](linear(view.gate, h, within)))
    return norm(view.output_norm, linear(view.output, gate * own, mode), mode)


def input_gate_transposed(view: InputGate, gradient: Tensor, mode: Transposed) -> Tensor:
    """(B, K, T, D) -> of the embeddings, (B, K, T, E)."""
    inner = linear_transposed(view.output, norm_transposed(view.output_norm, gradient, mode), mode)
    own = norm_transposed(view.source_norm, inner.mul_(mode.recorded("activation")), mode)
    return linear_transposed(view.source, own * view.source_scale, mode)
