"""Dense heads: what some sentence-transformers models put between pooling and the final vector."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.encoder.activations import HEAD_ACTIVATIONS
from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.primitives import activate, activate_transposed


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
        """The same head elsewhere."""
        bias = None if self.bias is None else self.bias.to(device, dtype)
        return Dense(self.weight.to(device, dtype), bias, self.activation)
