"""Products of a live model's Jacobian with the parts of a text, by forward or backward derivatives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from likewise.explain.linear_map import Inputs, rows_at_once

Function = Callable[[Tensor], Tensor]
"""Embeddings (B, T, E) -> vectors (B, d), or the way back."""


def jacobian_products(vector_of: Callable[[Inputs], Function], inputs: Inputs, points: Tensor, width: int) -> Tensor:
    """The Jacobian of each text's vector at a point (B, T, E), times each of its rows: (B, R, d).

    Forward mode takes a pass per row, backward a pass per dimension: whichever are fewer.
    """
    if inputs.rows <= width:
        return forward_products(vector_of(inputs), inputs, points)
    texts = [(inputs.text(index), points[index : index + 1]) for index in range(len(points))]
    return torch.cat([_live_backwards(vector_of(one), one, point) for one, point in texts])


def forward_products(vector: Function, inputs: Inputs, points: Tensor) -> Tensor:
    """By forward mode, all texts at once, since none sees another: (B, R, d)."""
    size = rows_at_once(inputs.pooling_mask)
    along = torch.func.vmap(lambda row: torch.func.jvp(vector, (points,), (row,))[1], in_dims=1, out_dims=1)
    starts = range(0, inputs.rows, size)
    return torch.cat([along(inputs.part(first, min(first + size, inputs.rows))) for first in starts], dim=1)


def _live_backwards(vector: Function, inputs: Inputs, point: Tensor) -> Tensor:
    """One text by backward passes through one graph of the live model: (1, R, d)."""
    value, pull_back = torch.func.vjp(vector, point)[:2]
    # Copies of the point instead of vmap would be a tenth faster, and keep the graph once for each.
    together = torch.func.vmap(lambda one: pull_back(one[None])[0][0])
    return backward_products(together, inputs, value, min(value.shape[-1], rows_at_once(inputs.pooling_mask)))


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
