"""Task heads (vectors -> predictions) and losses (predictions and targets -> one number).

A head for pairs takes features of two vectors (bi-encoder) or one vector (cross-encoder). Its output is one logit per
class, or one number per pair: a logit for paraphrase, a similarity from 0 to 1 for similarity.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from likewise.encoder import Encoder
from likewise.train.config import SINGLE, TaskConfig, TrainConfig
from likewise.train.examples import SCALES
from likewise.train.packed_encoder import Key, Packed, flat

CLASSES = 5  # Classes of sentiment
TOP = SCALES["similarity"].highest  # The highest similarity that people give; losses see similarities from 0 to 1

VECTOR_FEATURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "difference": torch.sub,
    "absolute": lambda left, right: (left - right).abs(),
    "product": torch.mul,
    "cosine": lambda left, right: F.cosine_similarity(left, right)[:, None],
    "dot": lambda left, right: (left * right).sum(1, keepdim=True),
}
"""Features of two batches of vectors (B, D): (B, D), or (B, 1) for cosine and dot."""


def features_of(task: TaskConfig) -> tuple[str, ...]:
    """The input of the task's head: names of features, or ``vector`` for one vector as it is."""
    if task.kind in SINGLE:
        return ("vector",)
    if task.kind == "count":
        return ("dot",)
    if task.cross_encoder:
        return ("vector", "jaccard") if task.head == "feed-forward" and "jaccard" in task.features else ("vector",)
    if task.head == "feed-forward":
        return task.features
    return ("difference",) if task.kind == "paraphrase" else ("cosine",)


def feature_width(names: Sequence[str], width: int) -> int:
    """The width of features of vectors of this width."""
    return sum(1 if name in ("cosine", "dot", "jaccard") else width for name in names)


def features(names: Sequence[str], vectors: Sequence[Tensor], jaccard: Tensor) -> Tensor:
    """One vector per example, or two, and the overlap (B, 1) of their token sets -> (B, F)."""
    given = {"vector": vectors[0], "jaccard": jaccard}
    made = [given[name] if name in given else VECTOR_FEATURES[name](vectors[0], vectors[1]) for name in names]
    return torch.cat(made, dim=1)


def pairwise_scores(vectors: Sequence[Tensor]) -> Tensor:
    """Vectors (B, D) of texts, of their other views and maybe of hard negatives -> cosines (B, B) or (B, 2B)."""
    first, *others = (F.normalize(each, dim=1) for each in vectors)
    return first @ torch.cat(others).T


# Heads


class FeedForward(nn.Module):
    """Layers of ReLU(norm(W x)) with dropout and skip connections, then one linear map: (B, F) -> (B, outputs)."""

    def __init__(self, width: int, hidden: int, depth: int, dropout: float, outputs: int) -> None:
        super().__init__()
        widths = [width] + [hidden] * depth
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(depth))
        # The skip over the first layer changes the width.
        self.skip = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, outputs)
        self.rate = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(B, F) -> (B, outputs)."""
        skipped = self.skip(x)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = skipped + F.dropout(F.relu(norm(layer(x))), self.rate, self.training)
            skipped = x
        out: Tensor = self.out(x)
        return out


class TokenHead(nn.Module):
    """States of masked tokens -> logits of all tokens, the last step through the model's own input embeddings."""

    def __init__(self, width: int, embedded: int, vocabulary: int) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(width, embedded), nn.LayerNorm(embedded)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, states: Tensor, embeddings: Tensor) -> Tensor:
        """States (M, D) and input embeddings (V, E) -> (M, V)."""
        logits: Tensor = self.norm(F.gelu(self.dense(states))) @ embeddings.T + self.bias
        return logits


def _cosine_map() -> nn.Module:
    """A linear map of the cosine that starts as the identity: (B, 1) -> (B, 1)."""
    line = nn.Linear(1, 1)
    nn.init.ones_(line.weight)
    nn.init.zeros_(line.bias)
    return nn.Sequential(OrderedDict(line=line))


def new_head(task: TaskConfig, config: TrainConfig, encoder: Encoder) -> nn.Module:
    """A fresh head for a task over its encoder, drawn from torch's generator."""
    if task.head == "tied":
        vocabulary, embedded = encoder.model_view.embeddings.word.weight.shape
        return TokenHead(encoder.model_view.hidden_size, embedded, vocabulary)
    outputs = CLASSES if task.kind == "sentiment" else 1
    seen = feature_width(features_of(task), encoder.dimension)
    if task.head == "feed-forward":
        return FeedForward(seen, config.hidden, config.depth, config.head_dropout, outputs)
    if task.head in ("cosine", "dot"):
        return nn.Identity()
    return _cosine_map() if features_of(task) == ("cosine",) else nn.Linear(seen, outputs)


@contextmanager
def frozen_batchnorm(heads: nn.Module) -> Iterator[None]:
    """Batch norms do not update their running averages inside this block."""
    norms = [module for module in heads.modules() if isinstance(module, nn.BatchNorm1d)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


# Losses

Loss = Callable[[Tensor, Tensor], Tensor]


def scaled_mse(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of similarities (B,) from 0 to 1, on the scale of people's scores from 0 to 5.

    On the cosine's own scale it would weigh next to nothing against the losses of other tasks.
    """
    return F.mse_loss(TOP * scores, TOP * targets)


def cosent(scores: Tensor, targets: Tensor, temperature: float = 0.05) -> Tensor:
    """CoSENT: log(1 + sum over pairs of examples of exp((s_i - s_j) / temperature) where i is less similar than j)."""
    gaps = (scores[:, None] - scores[None, :]) / temperature  # (B, B): entry i, j
    wrong = gaps[targets[:, None] < targets[None, :]]
    return torch.logsumexp(torch.cat([wrong.new_zeros(1), wrong]), dim=0)


def info_nce(scores: Tensor, targets: Tensor) -> Tensor:
    """Each text's other view against all others of the batch: scores (B, M), the positives on the diagonal."""
    del targets  # the diagonal says which views belong together
    return F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


LOSSES: dict[str, Loss] = {
    "scaled-mse": scaled_mse,
    "cosent": cosent,
    "mse": F.mse_loss,
    "info-nce": info_nce,
    "cross-entropy": lambda logits, targets: F.cross_entropy(logits, targets.long()),
    "bce": F.binary_cross_entropy_with_logits,
}


def loss_of(task: TaskConfig) -> Loss:
    """The loss of a task, with its temperature if it has one."""
    return partial(cosent, temperature=task.temperature) if task.loss == "cosent" else LOSSES[task.loss]


# SMART: the output should not change when the embeddings move a little in the worst direction (Jiang et al. 2020)

SQUARED: dict[str, Loss] = {"similarity": scaled_mse, "count": F.mse_loss}  # Kinds whose output is a number
FIRST_NOISE = 1e-5  # The spread of the first, random move
STEP = 1e-3  # How far the move then goes up the divergence, in the largest number of each token


def divergence(kind: str, one: Tensor, other: Tensor) -> Tensor:
    """How far two outputs of a head are apart: symmetric Kullback-Leibler of classes, squared error of numbers."""
    if kind in SQUARED:
        return SQUARED[kind](one, other)
    if kind == "paraphrase":
        one, other = torch.stack([one, -one], 1) / 2, torch.stack([other, -other], 1) / 2
    left, right = F.log_softmax(one, -1), F.log_softmax(other, -1)
    forward = F.kl_div(left, right, reduction="batchmean", log_target=True)
    return forward + F.kl_div(right, left, reduction="batchmean", log_target=True)


def smoothness(kind: str, output: Callable[[Packed], Tensor], embedded: Packed, plain: Tensor, key: Key) -> Tensor:
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
