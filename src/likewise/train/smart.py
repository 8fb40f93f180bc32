"""SMART: the output should not change when the embeddings are moved a little in the worst direction (Jiang 2020)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from likewise.train.losses import divergence
from likewise.train.packed_encoder import Key, Packed, flat

FIRST_NOISE = 1e-5
"""The spread of the first, random move."""
STEP = 1e-3
"""How far the move then goes up the divergence, in the largest number of each token."""

Output = Callable[[Packed], Tensor]


def smoothness(kind: str, output: Output, embedded: Packed, plain: Tensor, key: Key) -> Tensor:
    """The divergence between the plain output and that of the worst small move of the embeddings.

    Dropout begins anew with each pass, so that the passes differ by the move alone.
    """
    move = _noise(embedded, key).requires_grad_()
    risen = divergence(kind, output(embedded.moved(embedded.states.detach() + move)), plain.detach())
    [slope] = torch.autograd.grad(risen, [move], allow_unused=True)
    return divergence(kind, output(embedded.moved(embedded.states + _uphill(move, slope))), plain)


def _noise(embedded: Packed, key: Key) -> Tensor:
    """Noise (N, D) that is a text's own, wherever it stands."""
    width = embedded.states.shape[1]
    texts = zip(embedded.order, flat(embedded.lengths), strict=True)
    noise = [np.random.default_rng([*key, index]).standard_normal((length, width)) for index, length in texts]
    return torch.from_numpy(np.concatenate(noise) * FIRST_NOISE).to(embedded.states.device, embedded.states.dtype)


def _uphill(move: Tensor, slope: Tensor | None) -> Tensor:
    if slope is None:
        return move.detach()
    largest = slope.abs().amax(-1, keepdim=True)
    return (move + STEP * slope / largest.clamp_min(torch.finfo(slope.dtype).tiny)).detach()
