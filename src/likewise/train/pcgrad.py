"""PCGrad: of gradients that pull against each other, the conflicting part is taken out (Yu et al. 2020)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor


def surgery(gradients: Sequence[Tensor], rng: random.Random) -> Tensor:
    """Gradients (n,) of several tasks -> their sum (n,), each first projected off those it conflicts with.

    >>> surgery([torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0])], random.Random(0))
    tensor([0.5000, 1.5000])
    """
    total = torch.zeros_like(gradients[0])
    for position, gradient in enumerate(gradients):
        projected = gradient.clone()
        others = [other for index, other in enumerate(gradients) if index != position]
        rng.shuffle(others)
        for other in others:
            along = torch.dot(projected, other)
            if along < 0:
                projected -= along / torch.dot(other, other) * other
        total += projected
    return total
