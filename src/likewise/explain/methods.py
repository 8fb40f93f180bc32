"""Methods: how the contributions of one text's units are computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.forward import layers
from likewise.encoder.modes import Detached, DetachedAt, Recorder
from likewise.errors import UsageError
from likewise.explain.linear_map import Inputs, LinearMap, Replayed, reference_embeddings, rows_at_once
from likewise.explain.settings import Settings

Function = Callable[[Tensor], Tensor]
"""Embeddings (B, T, E) -> vectors (B, d), or the way back."""


@dataclass(frozen=True)
class Method:
    """What computes the contributions of a batch of texts, and what two such texts are then scaled by."""

    values: Callable[[Encoder, Inputs, Settings], Replayed]
    own_length: bool = False
    """the cosine divides by the length of the contributions' sum, not of the model's vector"""
    reference: bool = False
    """the bias slots hold a reference text"""


def bilrp(encoder: Encoder, inputs: Inputs, settings: Settings) -> Replayed:
    """BiLRP (Eberle et al. 2020; Vasileiou & Eberle 2024): all three rules by replay, fewer by forward mode."""
    if settings.holds_all:
        return LinearMap.of(encoder, inputs, settings).rows()
    return _detached(encoder, inputs, settings.rules)


def hessian_product(encoder: Encoder, inputs: Inputs, _settings: Settings) -> Replayed:
    """HxP: the true Jacobian of each text, times its tokens' embeddings."""
    return _detached(encoder, inputs, ())


def _detached(encoder: Encoder, inputs: Inputs, rules: tuple[str, ...]) -> Replayed:
    vectors = encoder.vectors_from(inputs.x, inputs.pooling_mask)

    def vector_of(texts: Inputs) -> Function:
        return lambda x: encoder.vectors_from(x, texts.pooling_mask, Detached(rules))

    values = jacobian_products(vector_of, inputs, inputs.x, vectors.shape[-1])
    return Replayed(vectors, values, torch.zeros_like(vectors))


def integrated_jacobians(encoder: Encoder, inputs: Inputs, settings: Settings) -> Replayed:
    """The Jacobian averaged along the straight path from a reference text (Moeller et al. 2023).

    The path is integrated by Gauss and Legendre; the bias slot holds the reference's own vector.
    """
    start = start_layer(encoder, settings)
    silent = reference_embeddings(encoder, inputs.batch)
    begin, end = (_states_at(encoder, each, start) for each in (silent, inputs.x))
    inputs = replace(inputs, x=end, sources=(end - begin)[None])
    vectors = encoder.vectors_from(end, inputs.pooling_mask, start=start)

    def vector_of(texts: Inputs) -> Function:
        recorder = Recorder()
        encoder.vectors_from(texts.x, texts.pooling_mask, recorder, start)
        return lambda x: encoder.vectors_from(x, texts.pooling_mask, DetachedAt(recorder), start)

    nodes, weights = np.polynomial.legendre.leggauss(settings.steps)
    total = torch.zeros((), dtype=vectors.dtype, device=vectors.device)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        points = begin + float(node) * (end - begin)
        total = total + float(weight) * jacobian_products(vector_of, inputs, points, vectors.shape[-1])
    return Replayed(vectors, total, vector_of(inputs)(begin))


def start_layer(encoder: Encoder, settings: Settings) -> int:
    """The layer at which the path begins, checked."""
    lowest = min(encoder.pooling_config.layers_of(encoder.model_view.layers))
    if not 0 <= settings.start_layer <= lowest:
        raise UsageError(f"integrated Jacobians can start at layers 0 to {lowest} here, not {settings.start_layer}")
    return settings.start_layer


def _states_at(encoder: Encoder, x: Tensor, start: int) -> Tensor:
    steps = layers(encoder.model_view, x)
    return x if start == 0 else next(step.states for index, step in enumerate(steps) if index == start)


def embedding(encoder: Encoder, inputs: Inputs, _settings: Settings) -> Replayed:
    """The baseline without a model: the input embeddings themselves."""
    vectors = encoder.vectors_from(inputs.x, inputs.pooling_mask)
    values = inputs.masks @ inputs.x
    return Replayed(vectors, values, values.new_zeros(len(values), values.shape[-1]))


METHODS: dict[str, Method] = {
    "bilrp": Method(bilrp),
    "hxp": Method(hessian_product),
    "integrated-jacobian": Method(integrated_jacobians, reference=True),
    "embedding": Method(embedding, own_length=True),
    "embedding-squared": Method(embedding, own_length=True),
    "random": Method(embedding, own_length=True),
}


def method_named(name: str) -> Method:
    """A method by its name.

    >>> method_named("hxp").reference
    False
    """
    if name not in METHODS:
        raise UsageError(f"unknown method {name!r}; choose from {', '.join(METHODS)}")
    return METHODS[name]


def is_complete(name: str, settings: Settings) -> bool:
    """Whether a method promises that its ledger sums to the similarity.

    >>> is_complete("bilrp", Settings()), is_complete("bilrp", Settings(rules=("norm",)))
    (True, False)
    """
    return name == "bilrp" and settings.holds_all


def has_columns(name: str, settings: Settings) -> bool:
    """Whether explanations can be pulled back: the ledger is linear in each token of both texts."""
    return is_complete(name, settings) and settings.bias != "shared"


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
    # As the value: a pooling head may end in double precision. Zeros fill the last chunk, as a graph of rows needs.
    every = torch.eye(-(-width // size) * size, width, dtype=value.dtype, device=value.device)
    found = []
    for some in torch.split(every, size):
        per_token = torch.einsum("kte,pte->ptk", pull_back(some), inputs.sources[:, 0])
        found.append((inputs.masks[0] @ per_token).transpose(0, 1).flatten(0, 1))
    return torch.cat(found, dim=1)[None, :, :width]
