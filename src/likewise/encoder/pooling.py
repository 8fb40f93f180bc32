"""Pooling: the states of a text's tokens -> one vector.

Every pooler takes states (B, T, D) and a mask (B, T), 1 for the tokens that count, and gives (B, D). A text
of which no token counts gets the zero vector.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from likewise.encoder.learned_pooling import LEARNED
from likewise.errors import UsageError

Pooler = Callable[[Tensor, Tensor], Tensor]


def cls_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The first token that counts."""
    return _at(states, mask, mask.argmax(1))


def last_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The last token that counts."""
    return _at(states, mask, mask.shape[1] - 1 - mask.flip(1).argmax(1))


def max_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each dimension."""
    lowest = states.masked_fill(mask[..., None] == 0, -torch.inf).amax(1)
    return torch.where(mask.any(1)[:, None], lowest, torch.zeros_like(lowest))


def mean_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The average of the tokens that count."""
    return _weighted_sum(states, mask) / mask.sum(1)[:, None].clip(1)


def mean_sqrt_len_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The sum of the tokens that count over the square root of their number."""
    return _weighted_sum(states, mask) / mask.sum(1)[:, None].clip(1).to(states.dtype).sqrt()


def weighted_pool(states: Tensor, mask: Tensor) -> Tensor:
    """The average weighted by position, 1, 2, 3, ... (as SGPT does: later tokens have seen more)."""
    return mean_pool_by(states, _by_position(mask))


def mean_pool_by(states: Tensor, weights: Tensor) -> Tensor:
    """The average of states (B, T, D) by weights (B, T)."""
    # Shares, and not a sum that is divided: at 500 tokens that would overflow half precision.
    wide = weights.to(torch.promote_types(states.dtype, torch.float32))
    return _weighted_sum(states, wide / wide.sum(1)[:, None].clip(1))


def _weighted_sum(states: Tensor, weights: Tensor) -> Tensor:
    return (states * weights[..., None].to(states.dtype)).sum(1)


def _at(states: Tensor, mask: Tensor, indices: Tensor) -> Tensor:
    chosen = states[torch.arange(len(states), device=states.device), indices]
    return chosen * mask.any(1)[:, None].to(states.dtype)


POOLERS: dict[str, Pooler] = {
    "cls": cls_pool,
    "last": last_pool,
    "max": max_pool,
    "mean": mean_pool,
    "mean-sqrt-len": mean_sqrt_len_pool,
    "weighted": weighted_pool,
}

POOLING_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda mask: _one_hot(mask, mask.argmax(1)),
    "last": lambda mask: _one_hot(mask, mask.shape[1] - 1 - mask.flip(1).argmax(1)),
    "mean": lambda mask: mask / mask.sum(1)[:, None].clip(1),
    "mean-sqrt-len": lambda mask: mask / mask.sum(1)[:, None].clip(1).sqrt(),
    "weighted": lambda mask: _by_position(mask) / _by_position(mask).sum(1)[:, None].clip(1),
}
"""How much each token (B, T) weighs in the poolings that are a sum over tokens, whatever their states."""


def _one_hot(mask: Tensor, positions: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(positions, mask.shape[1]) * mask


def _by_position(mask: Tensor) -> Tensor:
    return mask * torch.arange(1, mask.shape[1] + 1, device=mask.device)


MODEL_POOLER = "pooler"
"""The pooler that the model itself brings (a dense layer and tanh over the first token)."""


def pooling_parts(pooling: str) -> tuple[str, ...]:
    """Check a pooling and split it: several, joined by +, are concatenated.

    >>> pooling_parts("cls+mean")
    ('cls', 'mean')
    """
    parts = tuple(pooling.split("+"))
    known = [*sorted([*POOLERS, MODEL_POOLER]), *LEARNED]
    for part in parts:
        if part not in known:
            raise UsageError(f"unknown pooling {part!r}; choose from {', '.join(known)}, or join several with +")
    return parts
