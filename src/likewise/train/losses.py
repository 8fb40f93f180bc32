"""Losses: what a task's head gives and the targets -> one number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.train.config import TaskConfig
from likewise.train.examples import SCALES

TOP = SCALES["similarity"].highest
"""The highest similarity that people give; for its loss one lies between 0 and 1."""


def mse(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of similarities (B,) from 0 to 1, on the scale of people's scores from 0 to 5.

    Beside the losses of other tasks it would weigh next to nothing on the scale of the cosine.

    >>> float(mse(torch.tensor([0.5]), torch.tensor([0.7])))
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


def squares(numbers: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of numbers (B,) as they are."""
    return F.mse_loss(numbers, targets)


def info_nce(scores: Tensor, targets: Tensor) -> Tensor:
    """Each text's own other view against all others of the batch: scores (B, M), the own ones on the diagonal.

    >>> float(info_nce(20 * torch.eye(3), torch.zeros(3))) < 1e-6
    True
    """
    del targets  # what belongs together is told by its place
    return F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits (B, C) and classes (B,)."""
    return F.cross_entropy(logits, targets.long())


def bce(logits: Tensor, targets: Tensor) -> Tensor:
    """Binary cross-entropy of logits (B,) and targets (B,) of 0 or 1."""
    return F.binary_cross_entropy_with_logits(logits, targets)


Loss = Callable[[Tensor, Tensor], Tensor]

LOSSES: dict[str, Loss] = {
    "mse": mse,
    "cosent": cosent,
    "squares": squares,
    "info-nce": info_nce,
    "cross-entropy": cross_entropy,
    "bce": bce,
}


def loss_of(task: TaskConfig) -> Loss:
    """The loss of a task, with its temperature where it has one."""
    return partial(cosent, temperature=task.temperature) if task.loss == "cosent" else LOSSES[task.loss]


SQUARED = {"similarity": mse, "count": squares}
"""Of kinds whose output is a number and not a choice."""


def divergence(kind: str, one: Tensor, other: Tensor) -> Tensor:
    """How far two outputs of a head are apart: symmetric Kullback-Leibler of classes, squares of numbers."""
    if kind in SQUARED:
        return SQUARED[kind](one, other)
    if kind == "paraphrase":
        one, other = torch.stack([one, -one], 1) / 2, torch.stack([other, -other], 1) / 2
    left, right = F.log_softmax(one, -1), F.log_softmax(other, -1)
    forward = F.kl_div(left, right, reduction="batchmean", log_target=True)
    return forward + F.kl_div(right, left, reduction="batchmean", log_target=True)
