"""Methods: how contributions are computed, and how two texts' contributions make a relevance matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.forward import layers
from likewise.encoder.modes import RULES, Detached, DetachedAt, Recorder
from likewise.errors import UsageError
from likewise.explain.contributions import Contributions
from likewise.explain.jacobians import Function, jacobian_products
from likewise.explain.linear_map import Inputs, LinearMap, Replayed
from likewise.explain.reference import reference_embeddings
from likewise.explain.settings import Settings

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Method:
    """``values`` of a batch of texts, ``relevance`` of two texts' contributions (n, d), (m, d) -> (n, m)."""

    values: Callable[[Encoder, Inputs, Settings], Replayed]
    relevance: Callable[[Contributions, Contributions, int], Array]
    own_length: bool = False
    """the cosine divides by the length of the contributions' sum, not of the model's vector"""
    reference: bool = False
    """the bias slots hold a reference text"""


def bilrp(encoder: Encoder, inputs: Inputs, settings: Settings) -> Replayed:
    """BiLRP (Eberle et al. 2020; Vasileiou & Eberle 2024): all three rules by replay, fewer by forward mode."""
    if set(settings.rules) == set(RULES):
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


def dot_products(left: Contributions, right: Contributions, _seed: int) -> Array:
    """<c_i, d_j>: (n, m)."""
    return left.values.astype(np.float64) @ right.values.astype(np.float64).T


def squared_dot_products(left: Contributions, right: Contributions, seed: int) -> Array:
    """<c_i, d_j>^2, as the published embedding baseline has it, on the scale of one product: (n, m)."""
    products = dot_products(left, right, seed)
    return products**2 / (left.divisor * right.divisor)


def random_numbers(left: Contributions, right: Contributions, seed: int) -> Array:
    """Noise that depends on the seed and on both texts: (n, m)."""
    texts = [text.encode("utf-8", "replace") for text in (left.text, right.text)]
    characters = [number for text in texts for number in (len(text), *text[:64])]
    noise = np.random.default_rng([seed, *characters]).standard_normal((len(left.units), len(right.units)))
    return noise * left.divisor * right.divisor / noise.size


METHODS: dict[str, Method] = {
    "bilrp": Method(bilrp, dot_products),
    "hxp": Method(hessian_product, dot_products),
    "integrated-jacobian": Method(integrated_jacobians, dot_products, reference=True),
    "embedding": Method(embedding, dot_products, own_length=True),
    "embedding-squared": Method(embedding, squared_dot_products, own_length=True),
    "random": Method(embedding, random_numbers, own_length=True),
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
    return name == "bilrp" and set(settings.rules) == set(RULES)
