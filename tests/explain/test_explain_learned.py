"""Learned poolings: QKV's ledger is complete and equals backward passes; a BiLSTM is refused where it must be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ledgers import contributions, explain
from likewise.encoder import Encoder
from likewise.encoder.learned_pooling import QkvPooling, new_learned_pooling
from likewise.encoder.pooling import Dense, ModulesConfig
from likewise.errors import UsageError
from likewise.evaluation.perturbation import Shown, shown_vectors
from likewise.explain import explain_many
from plain_models import PLAIN, embeddings_of, hugging_face, products_by_backward_passes
from tiny_models import CONFIGS, tiny_encoder

LEFT, RIGHT = "A man is playing the flute, quietly!", "the xylophone"
REFUSED = r"bilstm pooling cannot be explained, since an LSTM is no sum over tokens; explain with --pooling mean"


def strong_qkv(seed: int = 0) -> QkvPooling:
    """Weights strong enough that the tokens do not weigh the same."""
    module = new_learned_pooling("qkv", 32).double()
    assert isinstance(module, QkvPooling)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(std=0.4)
        module.query.mul_(2)
    return module


def qkv_encoder(name: str = "bert", seed: int = 0, pooling: str = "qkv", **modules_config: Any) -> Encoder:
    encoder = tiny_encoder(name, seed, modules_config=ModulesConfig(learned=strong_qkv(seed), **modules_config))
    return encoder.with_pooling(pooling=pooling)


def plain_qkv(module: QkvPooling, states: Tensor, held: bool) -> Tensor:
    """One text's states (T, D) -> (D,), by the equation."""
    keys = states @ module.key.weight.T + module.key.bias
    weights = torch.softmax(keys @ module.query / math.sqrt(states.shape[1]), 0)
    values = states @ module.value.weight.T + module.value.bias
    return (weights.detach() if held else weights) @ values


def ids_of(encoder: Encoder, text: str) -> Tensor:
    return torch.tensor(encoder.tokenize([text])[0].ids)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", PLAIN)
def test_contributions_equal_backward_passes_through_a_plain_model(name: str, seed: int) -> None:
    encoder = qkv_encoder(name, seed)
    module = encoder.modules_config.learned
    assert isinstance(module, QkvPooling)
    x, plain = embeddings_of(encoder.model, ids_of(encoder, LEFT)), PLAIN[name](encoder.model)
    slow = products_by_backward_passes(lambda x: plain_qkv(module, plain(x), held=True), x).numpy()
    whole = plain_qkv(module, plain(x), held=True).detach().numpy()
    found = contributions(encoder, [LEFT])[0]
    assert np.abs(found.values - slow).max() < 1e-10
    assert np.abs(found.vector - whole).max() < 1e-10
    assert np.abs(found.bias - (whole - slow.sum(0))).max() < 1e-10


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hxp_equals_the_true_jacobian(seed: int) -> None:
    encoder = qkv_encoder(seed=seed)
    module, ids = encoder.modules_config.learned, ids_of(encoder, LEFT)
    assert isinstance(module, QkvPooling)
    x, live = embeddings_of(encoder.model, ids), hugging_face(encoder.model, ids)
    slow = products_by_backward_passes(lambda x: plain_qkv(module, live(x), held=False), x).numpy()
    assert np.abs(contributions(encoder, [LEFT], method="hxp")[0].values - slow).max() < 1e-10
    held = products_by_backward_passes(lambda x: plain_qkv(module, live(x), held=True), x).numpy()
    assert np.abs(held - slow).max() > 1e-3, "held and live weights would look the same"


@pytest.mark.parametrize("name", CONFIGS)
def test_ledgers_sum_to_the_similarity(name: str) -> None:
    encoder = qkv_encoder(name)
    shown = float(encoder.similarity([LEFT], [RIGHT])[0, 0])
    for options in ({}, {"similarity": "dot"}, {"granularity": "word"}, {"bias": "shared"}, {"memory": 1e-9}):
        found = explain(encoder, LEFT, RIGHT, **options)
        assert abs(found.gap) < 1e-9 * max(1.0, abs(found.similarity))
        if "similarity" not in options:
            assert found.similarity == pytest.approx(shown, abs=1e-5)
    assert found.metadata.pooling == "qkv"


def test_ledgers_with_heads_joined_poolings_and_tokens_that_do_not_count() -> None:
    torch.manual_seed(0)
    head = Dense(torch.randn(12, 64).double() / 4, torch.randn(12).double(), "Tanh")
    encoder = qkv_encoder(pooling="max+qkv", heads=(head,), normalizes=True)
    variants: list[dict[str, Any]] = [
        {}, {"special_tokens": False}, {"layer": [0, -1]}, {"normalize": True, "truncate_dim": 5},
        {"pooling": "qkv+cls"},
    ]  # fmt: skip
    for pooling_config in variants:
        assert abs(explain(encoder.with_pooling(**pooling_config), LEFT, RIGHT).gap) < 1e-9


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_integrated_jacobians_sum_up(seed: int) -> None:
    """From the last layer on, where the path leads through the pooling alone and a few steps are enough."""
    encoder = qkv_encoder(seed=seed)
    found = explain(encoder, LEFT, RIGHT, method="integrated-jacobian", steps=60, start_layer=3, similarity="dot")
    reference = found.reference
    total = found.relevance.sum() + reference["f(r,y)"] + reference["f(x,r)"] - reference["f(r,r)"]
    assert total == pytest.approx(found.similarity, abs=1e-8)


def test_batches_equal_one_by_one() -> None:
    encoder = qkv_encoder()
    texts = ["the man is", "a dog ran", LEFT, "the dog is"]
    together = contributions(encoder, texts)
    for text, found in zip(texts, together, strict=True):
        alone = contributions(encoder, [text])[0]
        assert np.abs(found.values - alone.values).max() < 1e-11
        assert np.abs(found.bias - alone.bias).max() < 1e-11


def test_single_precision(tiny: Encoder) -> None:
    encoder = tiny.with_learned_pooling(new_learned_pooling("qkv", 16))
    found = explain(encoder, LEFT, RIGHT)
    assert abs(found.gap) < 1e-5
    assert found.similarity == pytest.approx(float(encoder.similarity([LEFT], [RIGHT])[0, 0]), abs=1e-5)


@pytest.mark.parametrize("pooling", ["bilstm", "mean+bilstm"])
@pytest.mark.parametrize("method", ["bilrp", "hxp", "integrated-jacobian"])
def test_a_bilstm_is_refused(method: str, pooling: str, tiny: Encoder) -> None:
    encoder = tiny.with_learned_pooling(new_learned_pooling("bilstm", 16)).with_pooling(pooling=pooling)
    with pytest.raises(UsageError, match=REFUSED):
        explain(encoder, LEFT, RIGHT, method=method)
    with pytest.raises(UsageError, match=REFUSED):
        explain_many(encoder, [(LEFT, RIGHT)], method=method)
    with pytest.raises(UsageError, match=REFUSED):
        contributions(encoder, [LEFT], method=method)
    assert abs(explain(encoder.with_pooling(pooling="mean"), LEFT, RIGHT).gap) < 1e-5


@pytest.mark.parametrize("method", ["embedding", "embedding-squared", "random"])
def test_baselines_and_perturbation_need_no_derivative(method: str, tiny: Encoder) -> None:
    encoder = tiny.with_learned_pooling(new_learned_pooling("bilstm", 16))
    found = explain(encoder, LEFT, RIGHT, method=method)
    assert found.similarity == pytest.approx(float(encoder.similarity([LEFT], [RIGHT])[0, 0]), abs=1e-5)
    ids = encoder.tokenize([LEFT])[0].ids
    shown = shown_vectors(encoder, [Shown(ids, frozenset(range(len(ids))))])
    assert np.allclose(shown, replace(encoder).encode([LEFT], normalize=False), atol=1e-6)
