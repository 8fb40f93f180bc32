"""The readout: the states of the read layers -> one vector, in any mode of the forward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from likewise.encoder.activations import TANH
from likewise.encoder.anatomy import Anatomy
from likewise.encoder.forward import activate, linear
from likewise.encoder.learned_pooling import LEARNED
from likewise.encoder.modes import LIVE, Mode
from likewise.encoder.pooling import MODEL_POOLER, POOLERS, pooling_parts
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.reading import Reading
from likewise.encoder.recipe import Recipe
from likewise.errors import UsageError

SMALLEST_LENGTH = 1e-12
"""What a vector is at least divided by when it is made a unit vector, as in torch."""


def pool(
    anatomy: Anatomy, recipe: Recipe, reading: Reading, states: Tensor, counted: Tensor, mode: Mode = LIVE
) -> Tensor:
    """States (B, T, D), or rows (B, R, T, D), and counting tokens (B, T) -> (B, P) or (B, R, P)."""
    parts = [_pooled(anatomy, recipe, part, states, counted, mode) for part in pooling_parts(reading.pooling)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def _pooled(anatomy: Anatomy, recipe: Recipe, part: str, states: Tensor, counted: Tensor, mode: Mode) -> Tensor:
    if part == MODEL_POOLER:
        assert anatomy.pooler is not None
        return activate(TANH, linear(anatomy.pooler, states[..., 0, :], mode), mode)
    if part in LEARNED:
        assert recipe.learned is not None and recipe.learned.kind == part
        pooled: Tensor = recipe.learned(states, counted, mode)
        return pooled
    if part == "max" and not mode.fused:
        return _winners(states, counted, mode)
    if states.ndim == 3:
        return POOLERS[part](states, counted)
    rows = counted[:, None].expand(states.shape[:-1])
    return POOLERS[part](states.flatten(0, 1), rows.flatten(0, 1)).reshape(*states.shape[:2], -1)


def _winners(states: Tensor, counted: Tensor, mode: Mode) -> Tensor:
    """Max pooling by the recorded winning position of each dimension."""

    def places(_: Mode) -> Tensor:
        return states.masked_fill(counted[..., None] == 0, -torch.inf).argmax(-2, keepdim=True)

    winning = mode.hold("pooling", places)  # (B, 1, D), replayed (B, 1, 1, D)
    winners = states.gather(-2, winning.expand(*states.shape[:-2], 1, states.shape[-1])).squeeze(-2)
    any_counts = counted.any(1).to(states.dtype)
    return winners * any_counts.reshape(-1, *(1,) * (winners.ndim - 1))


def finish(recipe: Recipe, reading: Reading, pooled: Tensor, mode: Mode = LIVE) -> Tensor:
    """Dense heads, the model's own Normalize and the dimension cut: (..., P) -> (..., d)."""
    if reading.heads:
        for head in recipe.heads:
            if pooled.shape[-1] != head.weight.shape[1]:
                raise UsageError(
                    f"the model's dense head takes {head.weight.shape[1]} dimensions, pooling"
                    f" {reading.pooling!r} gives {pooled.shape[-1]}; read with heads=False (--no-heads)"
                )
            pooled = head(pooled, mode)
    if recipe.normalizes and reading.normalize is not False:
        pooled = unit(pooled, mode)
    cut = reading.truncate_dim
    if cut is not None and cut > pooled.shape[-1]:
        raise UsageError(f"cannot cut vectors of {pooled.shape[-1]} dimensions to {cut}; lower truncate_dim")
    return pooled[..., :cut]


def unit(vectors: Tensor, mode: Mode = LIVE) -> Tensor:
    """Divide vectors (..., d) by their length, which explanations hold."""
    if mode.fused:
        return torch.nn.functional.normalize(vectors, dim=-1)
    return vectors * mode.hold("unit", lambda _: 1 / vectors.norm(dim=-1, keepdim=True).clip(SMALLEST_LENGTH))


def post_processed(processing: PostProcessing, vectors: Tensor, mode: Mode) -> Tensor:
    """(x - shift) @ matrix in double precision, its shift told to the mode: (..., d) -> (..., k)."""
    matrix = torch.as_tensor(processing.matrix, dtype=torch.float64, device=vectors.device)
    shift = torch.as_tensor(processing.shift, dtype=torch.float64, device=vectors.device)
    return mode.shift(vectors.double() @ matrix, -shift @ matrix)
