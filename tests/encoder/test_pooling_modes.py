"""The readout gives the vectors of ``encode`` in every mode, and rows are read out one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from likewise.encoder import Encoder, pooling
from likewise.encoder.forward import Batch, embed
from likewise.encoder.modes import LIVE, Detached, Recorder, Replay, ReplayWithBiasRow
from likewise.encoder.pooling import POOLERS, Dense, Layer, ModulesConfig, PoolingConfig
from likewise.encoder.postprocessing import PostProcessing
from likewise.errors import UsageError
from tiny_models import tiny_encoder

TEXTS = ["the man is a", "a dog xyz", ""]
POOLINGS = [*POOLERS, "pooler", "cls+max", "pooler+mean"]


def states_and_counts(seed: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    pooling_mask = torch.tensor([[0, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    return torch.randn(3, 5, 32, dtype=torch.float64), pooling_mask


def head(activation: str, width: int, out: int) -> Dense:
    torch.manual_seed(out)
    return Dense(torch.randn(out, width).double() / 4, torch.randn(out).double(), activation)


@pytest.mark.parametrize(
    "pooling_config",
    [
        *({"pooling": pooling} for pooling in POOLINGS),
        {"layer": [0, -1]}, {"layer": "first-last"}, {"layer": 1}, {"normalize": True}, {"special_tokens": False},
        {"special_tokens": False, "pooling": "max"}, {"truncate_dim": 3}, {"truncate_dim": 3, "normalize": True},
    ],
)  # fmt: skip
def test_vectors_from_embeddings_are_those_of_encode(pooling_config: dict[str, Any]) -> None:
    encoder = tiny_encoder("bert", **pooling_config)
    shown = encoder.encode(TEXTS)
    for text, vector in zip(TEXTS, shown, strict=True):
        ids = torch.tensor([encoder.tokenize([text])[0].ids])
        with torch.no_grad():
            x = embed(encoder.model_view, Batch(ids))
            for mode in (LIVE, Detached(), Recorder()):
                found = encoder.vectors_from(x, encoder.pooling_mask_of(ids), mode)[0]
                assert np.allclose(found.numpy(), vector, atol=2e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_rows_are_pooled_as_texts_are(pooling: str) -> None:
    encoder = tiny_encoder("bert", pooling=pooling)
    states, pooling_mask = states_and_counts()
    recorder = Recorder()
    with torch.no_grad():
        plain = encoder.pool(states, pooling_mask)
        recorded = encoder.pool(states, pooling_mask, recorder)
        assert torch.allclose(plain, recorded, atol=1e-12)
        rows = torch.stack([states * 0.25, states * 0.75, torch.zeros_like(states)], 1)
        replayed = ReplayWithBiasRow(recorder)
        found = encoder.pool(rows, pooling_mask, replayed)
    assert found.shape == (3, 3, plain.shape[-1])
    assert torch.allclose(found.sum(1), plain, atol=1e-12)
    assert torch.allclose(found[:, 1], 3 * found[:, 0], atol=1e-12)


def test_max_pooling_replays_its_winners() -> None:
    encoder = tiny_encoder("bert", pooling="max")
    states, pooling_mask = states_and_counts()
    recorder = Recorder()
    encoder.pool(states, pooling_mask, recorder)
    torch.manual_seed(5)
    other = torch.randn(3, 1, 5, 32, dtype=torch.float64)
    found = encoder.pool(other, pooling_mask, Replay(recorder))
    for text in range(2):
        real = pooling_mask[text].nonzero()[:, 0]
        winners = real[states[text, real].argmax(0)]
        assert torch.equal(found[text, 0], other[text, 0, winners, torch.arange(32)])
    assert not found[2].any(), "no token counts"


def test_unit_vectors() -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    for mode in (LIVE, Detached()):
        assert torch.allclose(pooling.unit(vectors, mode), torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
    recorder = Recorder()
    pooling.unit(vectors, recorder)
    rows = torch.tensor([[[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]]])
    assert torch.allclose(pooling.unit(rows, Replay(recorder))[0], torch.tensor([[0.6, 0.0], [0.0, 0.8]]))


@pytest.mark.parametrize("activation", ["Tanh", "Sigmoid", "ReLU", "Identity"])
def test_heads_in_every_mode(activation: str) -> None:
    modules_config = ModulesConfig(heads=(head(activation, 32, 9), head("Tanh", 9, 4)), normalizes=True)
    encoder = replace(tiny_encoder("bert"), modules_config=modules_config)
    pooled = states_and_counts()[0][:, 0]
    recorder = Recorder()
    plain = encoder.finish(pooled)
    assert torch.allclose(plain.norm(dim=-1), torch.ones(3).double())
    assert torch.allclose(encoder.finish(pooled, Detached()), plain, atol=1e-12)
    assert torch.allclose(encoder.finish(pooled, recorder), plain, atol=1e-12)
    rows = torch.stack([pooled, torch.zeros_like(pooled)], 1)
    found = encoder.finish(rows, ReplayWithBiasRow(recorder))
    assert torch.allclose(found.sum(1), plain, atol=1e-12)
    by_hand = getattr(torch.nn, activation)()(pooled @ modules_config.heads[0].weight.T + modules_config.heads[0].bias)
    assert torch.allclose(modules_config.heads[0](pooled), by_hand, atol=1e-12)


def test_a_head_of_another_width_is_refused() -> None:
    modules_config = ModulesConfig(heads=(head("Tanh", 64, 9),))
    encoder = replace(tiny_encoder("bert"), modules_config=modules_config)
    with pytest.raises(UsageError, match=r"takes 64 dimensions.*gives 32.*--no-heads"):
        encoder.encode(["a"])
    assert encoder.encode(["a"], heads=False).shape == (1, 32)
    with pytest.raises(UsageError, match="lower truncate_dim"):
        tiny_encoder("bert", truncate_dim=33).encode(["a"])


def test_postprocessing_tells_its_shift() -> None:
    torch.manual_seed(0)
    processing = PostProcessing("whitening", np.arange(4.0), torch.randn(4, 2).double().numpy())
    vectors = torch.randn(3, 4)
    by_hand = processing(vectors.numpy())
    found = processing.forward(vectors, LIVE)
    assert found.dtype == torch.float64
    assert np.allclose(found.numpy(), by_hand, atol=1e-5)
    rows = torch.stack([vectors, torch.zeros_like(vectors)], 1)
    replayed = processing.forward(rows, ReplayWithBiasRow(Recorder()))
    assert torch.allclose(replayed.sum(1), found)
    assert np.allclose(replayed[0, 1].numpy(), -processing.center @ processing.matrix)


def test_gradients_flow_from_vectors_to_embeddings(tiny: Encoder) -> None:
    ids = torch.tensor([[2, 30, 17, 3]])
    x = embed(tiny.model_view, Batch(ids)).detach().requires_grad_()
    tiny.vectors_from(x, torch.ones_like(ids)).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().min(-1).values.max() > 0


DEPTH = 6


@pytest.mark.parametrize(
    ("layer", "layers"),
    [
        (0, (0,)),
        (3, (3,)),
        (6, (6,)),
        (-1, (6,)),
        (-7, (0,)),
        ([0, -1], (0, 6)),
        ((2, 4, 5), (2, 4, 5)),
        (range(1, 4), (1, 2, 3)),
        ("first-last", (1, 6)),
    ],
)
def test_layers(layer: Layer, layers: tuple[int, ...]) -> None:
    assert PoolingConfig(layer=layer).layers_of(DEPTH) == layers


def test_first_and_last_are_one_in_a_model_of_one_layer() -> None:
    assert PoolingConfig(layer="first-last").layers_of(1) == (1,)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (7, "no layer 7; this model has layers 0 to 6 (or -1 for the last)"),
        (-8, "no layer -8; this model has layers 0 to 6 (or -1 for the last)"),
        ([0, 9], "no layer 9; this model has layers 0 to 6 (or -1 for the last)"),
        ("middle", "unknown layer 'middle'; give a number, several, or first-last"),
        ([], "no layer given; give a number, several, or first-last"),
    ],
)
def test_wrong_layers_are_refused(layer: Layer, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        PoolingConfig(layer=layer).layers_of(DEPTH)
    assert str(raised.value) == message


@pytest.mark.parametrize("pooling", ["pooler", "mean+pooler"])
@pytest.mark.parametrize("layer", [3, [5, 6], 0])
def test_the_models_pooler_reads_the_last_layer_only(pooling: str, layer: Layer) -> None:
    with pytest.raises(UsageError, match="the model's own pooler takes the last layer only"):
        PoolingConfig(pooling=pooling, layer=layer).layers_of(DEPTH)


@pytest.mark.parametrize("layer", [-1, 6, [6]])
def test_the_models_pooler_takes_any_name_of_the_last_layer(layer: Layer) -> None:
    assert PoolingConfig(pooling="pooler", layer=layer).layers_of(DEPTH) == (6,)


def test_the_models_pooler_refuses_first_last() -> None:
    with pytest.raises(UsageError, match="the model's own pooler takes the last layer only"):
        PoolingConfig(pooling="pooler", layer="first-last").layers_of(DEPTH)


@pytest.mark.parametrize("size", [0, -3])
def test_truncate_dim_is_at_least_one(size: int) -> None:
    with pytest.raises(UsageError, match=f"truncate_dim must be at least 1, got {size}"):
        PoolingConfig(truncate_dim=size)


def test_unknown_pooling_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="unknown pooling 'avg'"):
        PoolingConfig(pooling="avg")
