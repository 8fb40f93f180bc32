"""Losses: a head's output and the targets -> one number; and SMART's regularizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.train.config import TaskConfig
from likewise.train.examples import SCALES
from likewise.train.packed_encoder import Key, Packed, flat

TOP = SCALES["similarity"].highest
"""The highest similarity that people give; the loss sees similarities from 0 to 1."""


def scaled_mse(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of similarities (B,) from 0 to 1, on the scale of people's scores from 0 to 5.

    On the cosine's own scale it would weigh next to nothing against the losses of other tasks.

    >>> float(scaled_mse(torch.tensor([0.5]), torch.tensor([0.7])))
    1.0
    """
    return F.mse_loss(TOP * scores, TOP * targets)


def cosent(scores: Tensor, targets: Tensor, temperature: float = 0.05) -> Tensor:
    """CoSENT: log(1 + sum over pairs of examples of exp((s_i - s_j) / temperature) where i is less similar than j).

    >>> float(cosent(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]))) < 1e-6
    True
    """
    gaps = (scores[:, None] - scores[None, :]) / temperature  # (B, B): entry i, j
    wrong = gaps[targets[:, None] < targets[None, :]]
    return torch.logsumexp(torch.cat([wrong.new_zeros(1), wrong]), dim=0)


def mse(numbers: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of numbers (B,) as they are."""
    return F.mse_loss(numbers, targets)


def info_nce(scores: Tensor, targets: Tensor) -> Tensor:
    """Each text's other view against all others of the batch: scores (B, M), the positives on the diagonal.

    >>> float(info_nce(20 * torch.eye(3), torch.zeros(3))) < 1e-6
    True
    """
    del targets  # the diagonal says which views belong together
    return F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits (B, C) and classes (B,)."""
    return F.cross_entropy(logits, targets.long())


def bce(logits: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy of logits (B,) and targets (B,) of 0 or 1."""
    return F.binary_cross_entropy_with_logits(logits, targets)


Loss = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, Loss] = {
    "scaled-mse": scaled_mse,
    "cosent": cosent,
    "mse": mse,
    "info-nce": info_nce,
    "cross-entropy": cross_entropy,
    "bce": bce,
}


def loss_of(task: TaskConfig) -> Loss:
    """The loss of a task, with its temperature if it has one."""
    return partial(cosent, temperature=task.temperature) if task.loss == "cosent" else LOSSES[task.loss]


# SMART: the output should not change when the embeddings move a little in the worst direction (Jiang et al. 2020)

SQUARED = {"similarity": scaled_mse, "count": mse}
"""Kinds whose output is a number and not a choice."""
FIRST_NOISE = 1e-5
"""The spread of the first, random move."""
STEP = 1e-3
"""How far the move then goes up the divergence, in the largest number of each token."""

Output = Callable[[Packed], Tensor]


def divergence(kind: str, one: Tensor, other: Tensor) -> Tensor:
    """How far two outputs of a head are apart: symmetric Kullback-Leibler of classes, squared error of numbers."""
    if kind in SQUARED:
        return SQUARED[kind](one, other)
    if kind == "paraphrase":
        one, other = torch.stack([one, -one], 1) / 2, torch.stack([other, -other], 1) / 2
    left, right = F.log_softmax(one, -1), F.log_softmax(other, -1)
    forward = F.kl_div(left, right, reduction="batchmean", log_target=True)
    return forward + F.kl_div(right, left, reduction="batchmean", log_target=True)


def smoothness(kind: str, output: Output, embedded: Packed, plain: Tensor, key: Key) -> Tensor:
    """The divergence between the plain output and that after the worst small move of the embeddings.

    Dropout restarts with each pass, so the passes differ by the move alone.
    """
    move = _noise(embedded, key).requires_grad_()
    risen = divergence(kind, output(embedded.moved(embedded.states.detach() + move)), plain.detach())
    [slope] = torch.autograd.grad(risen, [move], allow_unused=True)
    return divergence(kind, output(embedded.moved(embedded.states + _uphill(move, slope))), plain)


def _noise(embedded: Packed, key: Key) -> Tensor:
    """Noise (N, D) that depends on the text alone, not on its position in the batch."""
    width = embedded.states.shape[1]
    texts = zip(embedded.order, flat(embedded.lengths), strict=True)
    noise = [np.random.default_rng([*key, index]).standard_normal((length, width)) for index, length in texts]
    return torch.from_numpy(np.concatenate(noise) * FIRST_NOISE).to(embedded.states.device, embedded.states.dtype)


def _uphill(move: Tensor, slope: Tensor | None) -> Tensor:
    if slope is None:
        return move.detach()
    largest = slope.abs().amax(-1, keepdim=True)
    return (move + STEP * slope / largest.clamp_min(torch.finfo(slope.dtype).tiny)).detach()
