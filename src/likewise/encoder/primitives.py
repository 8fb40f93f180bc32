"""The primitives of every layer, each with its transpose: linear maps, norms, activations, feed-forward.

A transpose takes gradients (B, K, T, D) of K directions back through the linearized primitive, and collects what its
bias adds: <J x + b, u> = <x, J^T u> + <b, u>. Shapes: see ``forward``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.encoder.dropout import Dropout, no_dropout
from likewise.encoder.model_view import Affine, FeedForward, Norm
from likewise.encoder.modes import LIVE, Mode, Transposed

Elementwise = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Activation:
    """function(h) = h * factor(h) + offset, with the factor in closed form: never a division by h, which may be 0."""

    function: Elementwise
    factor: Elementwise
    offset: float = 0.0
    """the function at 0, which no factor of h can give"""

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
