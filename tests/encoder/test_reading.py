"""Which layers a reading averages, and which readings are refused."""

from __future__ import annotations

import pytest

from likewise.encoder.pooling_head import Layer, PoolingConfig
from likewise.errors import UsageError

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
    with pytest.raises(UsageError, match="the model's own pooler reads the last layer only"):
        PoolingConfig(pooling=pooling, layer=layer).layers_of(DEPTH)


@pytest.mark.parametrize("layer", [-1, 6, [6]])
def test_the_models_pooler_takes_any_name_of_the_last_layer(layer: Layer) -> None:
    assert PoolingConfig(pooling="pooler", layer=layer).layers_of(DEPTH) == (6,)


def test_the_models_pooler_refuses_first_last() -> None:
    with pytest.raises(UsageError, match="the model's own pooler reads the last layer only"):
        PoolingConfig(pooling="pooler", layer="first-last").layers_of(DEPTH)


@pytest.mark.parametrize("size", [0, -3])
def test_truncate_dim_is_at_least_one(size: int) -> None:
    with pytest.raises(UsageError, match=f"truncate_dim must be at least 1, got {size}"):
        PoolingConfig(truncate_dim=size)


def test_unknown_pooling_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="unknown pooling 'avg'"):
        PoolingConfig(pooling="avg")
