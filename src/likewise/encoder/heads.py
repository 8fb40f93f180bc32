"""Dense heads: what some sentence-transformers models put between pooling and the final vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

HEAD_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Identity": lambda x: x,
    "Tanh": torch.tanh,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
    "Sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, eq=False)
class Dense:
    """activation(weight x + bias): weight (out, in), bias (out,) or None."""

    weight: Tensor
    bias: Tensor | None
    activation: str

    def __call__(self, x: Tensor) -> Tensor:
        """(B, in) -> (B, out)."""
        return HEAD_ACTIVATIONS[self.activation](F.linear(x, self.weight, self.bias))

    def to(self, device: torch.device, dtype: torch.dtype) -> Dense:
        """The same head elsewhere."""
        bias = None if self.bias is None else self.bias.to(device, dtype)
        return Dense(self.weight.to(device, dtype), bias, self.activation)
