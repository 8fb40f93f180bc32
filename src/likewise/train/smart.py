"""SMART: the output should not change when the embeddings are moved a little in the worst direction (Jiang 2020)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from likewise.train.losses import divergence
from likewise.train.reader import Chunk, Key

FIRST_NOISE = 1e-5
"""The spread of the first, random move."""
STEP = 1e-3
"""How far the move then goes up the divergence, in the largest number of each token."""

Output = Callable[[Sequence[Chunk]], Tensor]


def smoothness(kind: str, output: Output, embedded: Sequence[Chunk], plain: Tensor, key: Key) -> Tensor:
    """The divergence between the plain output and that of the worst small move of the embeddings."""
    moves = [_noise(chunk, key).requires_grad_() for chunk in embedded]
    still = [replace(chunk, states=chunk.states.detach()) for chunk in embedded]
    risen = divergence(kind, output(_moved(still, moves)), plain.detach())
    slopes = torch.autograd.grad(risen, moves, allow_unused=True)
    worst = [_uphill(move, slope) for move, slope in zip(moves, slopes, strict=True)]
    return divergence(kind, output(_moved(embedded, worst)), plain)


def _moved(embedded: Sequence[Chunk], moves: Sequence[Tensor]) -> list[Chunk]:
    # Dropout begins anew with each pass, so that the passes differ by the move alone.
    return [
        replace(chunk, states=chunk.states + move, dropout=chunk.again())
        for chunk, move in zip(embedded, moves, strict=True)
    ]


def _noise(chunk: Chunk, key: Key) -> Tensor:
    """Noise (B, T, D) that is a text's own, wherever it stands."""
    noise = np.zeros(chunk.states.shape)
    for row, place, length in zip(noise, chunk.places, chunk.lengths, strict=True):
        row[:length] = np.random.default_rng([*key, place]).standard_normal((length, row.shape[1]))
    return torch.from_numpy(noise * FIRST_NOISE).to(chunk.states.device, chunk.states.dtype)


def _uphill(move: Tensor, slope: Tensor | None) -> Tensor:
    if slope is None:
        return move.detach()
    largest = slope.abs().amax(-1, keepdim=True)
    return (move + STEP * slope / largest.clamp_min(torch.finfo(slope.dtype).tiny)).detach()
