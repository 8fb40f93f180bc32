"""Heads: the vectors of a task's texts -> predictions.

A pair head sees features of two vectors (bi-encoder) or one vector (cross-encoder). The output is one logit per class,
or one number per pair: a logit for paraphrase, a similarity from 0 to 1 for similarity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from likewise.encoder import Encoder
from likewise.train.config import SINGLE, TaskConfig, TrainConfig

CLASSES = 5
"""Classes of sentiment."""


def difference(left: Tensor, right: Tensor) -> Tensor:
    """(B, D) and (B, D) -> (B, D)."""
    return left - right


def absolute(left: Tensor, right: Tensor) -> Tensor:
    """The size of the difference, the same in both orders: -> (B, D)."""
    return (left - right).abs()


def product(left: Tensor, right: Tensor) -> Tensor:
    """The terms of the dot product: -> (B, D)."""
    return left * right


def cosine(left: Tensor, right: Tensor) -> Tensor:
    """-> (B, 1)."""
    return F.cosine_similarity(left, right)[:, None]


def dot(left: Tensor, right: Tensor) -> Tensor:
    """The plain dot product: -> (B, 1)."""
    return (left * right).sum(1, keepdim=True)


def pairwise_scores(vectors: Sequence[Tensor]) -> Tensor:
    """Vectors (B, D) of texts, of their other views and maybe of hard negatives -> cosines (B, B) or (B, 2B)."""
    first, *others = (F.normalize(each, dim=1) for each in vectors)
    return first @ torch.cat(others).T


VECTOR_FEATURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "difference": difference,
    "absolute": absolute,
    "product": product,
    "cosine": cosine,
    "dot": dot,
}


class FeedForward(nn.Module):
    """Layers of ReLU(norm(W x)) with dropout and skip connections, then one linear map: (B, F) -> (B, outputs).

    >>> FeedForward(4, 8, 2, 0.1, 5)(torch.zeros(3, 4)).shape
    torch.Size([3, 5])
    """

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


class CosineMap(nn.Module):
    """A linear map of the cosine that starts as the identity: (B, 1) -> (B, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(1, 1)
        nn.init.ones_(self.line.weight)
        nn.init.zeros_(self.line.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1) -> (B, 1)."""
        out: Tensor = self.line(x)
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


class Plain(nn.Module):
    """The features themselves: a cosine is its own score."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1) -> (B, 1)."""
        return x


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
        return Plain()
    if task.kind == "similarity" and not task.cross_encoder:
        return CosineMap()
    return nn.Linear(seen, outputs)


def features(names: Sequence[str], vectors: Sequence[Tensor], jaccard: Tensor) -> Tensor:
    """One vector per example, or two, and the overlap (B, 1) of their token sets -> (B, F)."""
    made: list[Tensor] = []
    for name in names:
        special: dict[str, Any] = {"vector": vectors[0], "jaccard": jaccard}
        made.append(special[name] if name in special else VECTOR_FEATURES[name](vectors[0], vectors[1]))
    return made[0] if len(made) == 1 else torch.cat(made, dim=1)


def bounded(task: TaskConfig) -> bool:
    """Whether a similarity head gives a logit that a sigmoid maps to 0 to 1."""
    return task.kind == "similarity" and task.head == "feed-forward"
