"""Activations: each one's function and its own factor, so that function(h) = h * factor(h) + shift."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Elementwise = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Activation:
    """A function and its factor in closed form: never a division by an h that may be 0."""

    function: Elementwise
    factor: Elementwise
    shift: float = 0.0
    """what the function is at 0, which no factor of h can give"""

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
SIGMOID = Activation(torch.sigmoid, lambda z: _tanh_factor(z / 2) / 4, shift=0.5)
IDENTITY = Activation(lambda h: h, torch.ones_like)

ACTIVATIONS: dict[str, Activation] = {
    "gelu": GELU,
    "gelu_new": TANH_GELU,
    "gelu_pytorch_tanh": TANH_GELU,
    "relu": RELU,
    "silu": SILU,
    "swish": SILU,
}
"""Of feed-forward layers, by the names of Hugging Face's configs."""

HEAD_ACTIVATIONS: dict[str, Activation] = {
    "Identity": IDENTITY,
    "Tanh": TANH,
    "ReLU": RELU,
    "GELU": GELU,
    "SiLU": SILU,
    "Sigmoid": SIGMOID,
}
"""Of dense heads, by the names of torch's modules."""
