"""Columns equal rows: <J x, u> = <x, J^T u> for every family and readout, biases and references included."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder, attention
from likewise.encoder.forward import Batch, embed
from likewise.encoder.learned_pooling import new_learned_pooling
from likewise.encoder.modes import Recorder, Replay, ReplayWithBiasRow, Transposed
from likewise.encoder.pooling import POOLERS, Dense, ModulesConfig
from likewise.encoder.postprocessing import POSTPROCESSORS, fit_postprocessing
from likewise.explain import linear_map
from likewise.explain.settings import Settings
from likewise.explain.texts import TextInput, TextMap, token_groups
from tiny_models import BIASES, CONFIGS, tiny_encoder

TEXT = "A man is playing the flute, quietly!"
IDS = torch.tensor([[2, 30, 17, 60, 8, 3], [2, 31, 40, 8, 9, 3]])
COUNTED = torch.ones_like(IDS)
ADAPTED = {"modernbert": BIASES, "qwen3": {"attention_bias": True}, "qwen3-sliding": {"attention_bias": True}}


@cache
def encoder_of(name: str, seed: int = 0) -> Encoder:
    return tiny_encoder(name, seed, config=ADAPTED.get(name))


def dense(activation: str, width: int, out: int) -> Dense:
    torch.manual_seed(width)
    weight = torch.randn(out, width, dtype=torch.float64) / 4
    return Dense(weight, torch.randn(out, dtype=torch.float64) / 2, activation)


def readouts(encoder: Encoder) -> dict[str, Encoder]:
    """One encoder for each way of reading a vector."""
    found = {pooling: encoder.with_pooling(pooling=pooling) for pooling in (*POOLERS, "cls+mean", "max+last")}
    if encoder.model_view.pooler is not None:
        found |= {pooling: encoder.with_pooling(pooling=pooling) for pooling in ("pooler", "pooler+max")}
    learned = encoder.with_learned_pooling(new_learned_pooling("qkv", 32, seed=3))
    texts = ["a", "the man", TEXT, "the xylophone", "a dog ran"]
    heads = replace(
        encoder, modules_config=ModulesConfig(heads=(dense("Sigmoid", 32, 20), dense("Tanh", 20, 9)), normalizes=True)
    )
    found |= {
        "qkv": learned,
        "layers": encoder.with_pooling(layer=[0, 1, -1]),
        "first-last": encoder.with_pooling(layer="first-last", pooling="max"),
        "layer 0": encoder.with_pooling(layer=0),
        "heads": heads,
        "cut": heads.with_pooling(truncate_dim=5),
        "cut heads off": heads.with_pooling(heads=False, truncate_dim=7, normalize=True),
        "no special tokens": encoder.with_pooling(special_tokens=False, normalize=True),
        "units": heads.with_pooling(normalize=True),
    }
    for kind in POSTPROCESSORS:
        fitted = fit_postprocessing(kind, encoder.encode(texts), 3 if kind == "whitening" else None)
        found[kind] = encoder.with_postprocessing(fitted).with_pooling(normalize=True)
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_transpose_is_the_adjoint(name: str, seed: int) -> None:
    """In float64, batches of texts, several directions at once, biases included."""
    for pooling_config, encoder in readouts(encoder_of(name, seed)).items():
        torch.manual_seed(seed)
        with torch.no_grad():
            x = embed(encoder.model_view, Batch(IDS))
            record = Recorder()
            whole = encoder.vectors_from(x, COUNTED, record)
            rows = torch.randn(2, 3, *x.shape[1:], dtype=x.dtype)
            directions = torch.randn(2, 4, whole.shape[-1], dtype=torch.float64)
            forward = encoder.vectors_from(rows, COUNTED, Replay(record)).double()
            mode = Transposed(record, COUNTED.double() / COUNTED.shape[1])
            back = encoder.directions_from(directions, COUNTED, mode)
            bias = encoder.vectors_from(torch.zeros_like(rows[:, :1]), COUNTED, ReplayWithBiasRow(record))[:, 0]
        assert back.shape == (2, 4, *x.shape[1:])
        left = torch.einsum("brd,bkd->bkr", forward, directions)
        right = torch.einsum("brte,bkte->bkr", rows, back.double())
        scale = max(1.0, float(left.abs().max()))
        assert float((left - right).abs().max()) < 1e-12 * scale, pooling_config
        collected = torch.as_tensor(mode.biases, dtype=torch.float64).expand(2, 4, 6).sum(-1)
        wanted = torch.einsum("bd,bkd->bk", bias.double(), directions)
        assert float((collected - wanted).abs().max()) < 1e-11 * max(1.0, float(wanted.abs().max())), pooling_config


def text_map(encoder: Encoder, text: str = TEXT, granularity: str = "token", **options: Any) -> TextMap:
    settings = Settings(**options)
    return TextMap.of(encoder, token_groups(encoder, TextInput(text, granularity=granularity), settings), settings)


OPTIONS: list[dict[str, Any]] = [
    {"bias": "separate"},
    {"bias": "local"},
    {"bias": "separate", "reference": "filler"},
    {"bias": "local", "reference": "filler"},
    {"bias": "local", "reference": "the dog"},
    {"bias": "local", "split": True},
    {"bias": "separate", "split": True, "reference": "filler"},
    {"bias": "separate", "granularity": "word", "fold_special": True},
    {"bias": "local", "granularity": "word"},
    {"bias": "traced"},
    {"bias": "traced", "reference": "filler", "split": True},
    {"bias": "traced", "granularity": "word", "fold_special": True},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_columns_equal_rows(name: str, options: dict[str, Any]) -> None:
    for pooling_config, encoder in readouts(encoder_of(name)).items():
        one = text_map(encoder, **options)
        rows = one.contributions()
        directions = np.random.default_rng(0).standard_normal((3, len(rows.vector)))
        columns = one.shares(directions)
        wanted = directions @ rows.values.astype(np.float64).T
        scale = max(1.0, float(np.abs(wanted).max()))
        assert np.abs(columns.values - wanted).max() < 1e-10 * scale, pooling_config
        assert np.abs(columns.bias - directions @ rows.bias).max() < 1e-10 * scale, pooling_config
        # Both are complete.
        assert rows.missing < 1e-9 * max(1.0, float(np.linalg.norm(rows.vector))), pooling_config
        whole = columns.values.sum(1) + columns.bias
        assert np.abs(whole - directions @ rows.vector.astype(np.float64)).max() < 1e-9 * scale, pooling_config
        for part, values in columns.parts.items():
            assert np.abs(values - directions @ rows.parts[part].T).max() < 1e-10 * scale


def local_twin(model: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """A BERT over one row: the tokens of a mask (T,), and each bias at their positions alone. -> (D,)."""
    at = mask[:, None]

    def linear(row: torch.Tensor, module: Any) -> torch.Tensor:
        return row @ module.weight.T + at * module.bias

    def normed(row: torch.Tensor, whole: torch.Tensor, module: Any) -> torch.Tensor:
        centred = whole - whole.mean(-1, keepdim=True)
        scale = 1 / (centred**2).mean(-1, keepdim=True).add(module.eps).sqrt()
        return (row - row.mean(-1, keepdim=True)) * scale * module.weight + at * module.bias

    def heads(states: torch.Tensor) -> torch.Tensor:
        return states.reshape(len(states), 4, -1).transpose(0, 1)

    row, whole = at * x, x
    for layer in model.encoder.layer:
        own, after = layer.attention.self, layer.attention.output
        maps = torch.softmax(heads(own.query(whole)) @ heads(own.key(whole)).transpose(1, 2) / 8**0.5, -1)
        row_mixed = (maps @ heads(linear(row, own.value))).transpose(0, 1).flatten(1)
        whole_mixed = (maps @ heads(own.value(whole))).transpose(0, 1).flatten(1)
        row, whole = row + linear(row_mixed, after.dense), whole + after.dense(whole_mixed)
        row, whole = normed(row, whole, after.LayerNorm), after.LayerNorm(whole)
        inner = layer.intermediate.dense(whole)
        gate = 0.5 * (1 + torch.erf(inner / 2**0.5))
        row_inner = linear(row, layer.intermediate.dense) * gate
        row, whole = row + linear(row_inner, layer.output.dense), whole + layer.output.dense(inner * gate)
        row, whole = normed(row, whole, layer.output.LayerNorm), layer.output.LayerNorm(whole)
    return row.mean(0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_local_biases_equal_their_slow_twin(seed: int) -> None:
    """A bias that is added at position t belongs to the token at t."""
    encoder = encoder_of("bert", seed)
    found = text_map(encoder, bias="local", reference="none").contributions()
    with torch.no_grad():
        x = embed(encoder.model_view, Batch(torch.tensor([found.ids])))[0]
        every = torch.eye(len(x), dtype=x.dtype)
        slow = torch.stack([local_twin(encoder.model, x, mask) for mask in every]).numpy()
    assert np.abs(found.values - slow).max() < 1e-10
    assert not found.bias.any()


def traced_twin(model: Any, x: torch.Tensor) -> torch.Tensor:
    """A BERT over one row for each token, its biases dealt out by who owns each position: (T, D).

    Position t holds s_t = h_t + sum_i v_ti after attention, and belongs to the owners of i by |<v_ti, s_t>|.
    """
    count, width = x.shape
    owners = torch.eye(count, dtype=x.dtype)  # owners[t, r]: how much of position t belongs to row r
    rows = [torch.diag(owners[:, r]) @ x for r in range(count)]

    def dealt(rows: list[torch.Tensor], bias: torch.Tensor) -> list[torch.Tensor]:
        return [row + owners[:, r, None] * bias for r, row in enumerate(rows)]

    def normed(rows: list[torch.Tensor], module: Any) -> list[torch.Tensor]:
        centred = [row - row.mean(-1, keepdim=True) for row in rows]
        scale = 1 / (sum(centred) ** 2).mean(-1, keepdim=True).add(module.eps).sqrt()
        return dealt([row * scale * module.weight for row in centred], module.bias)

    for layer in model.encoder.layer:
        own, after, whole = layer.attention.self, layer.attention.output, sum(rows)
        shape = (count, 4, width // 4)
        query, key = own.query(whole).view(shape), own.key(whole).view(shape)
        maps = torch.softmax(torch.einsum("thw,ihw->hti", query, key) / (width // 4) ** 0.5, -1)
        out = after.dense.weight.view(width, 4, width // 4)
        values = [row.view(shape) for row in dealt([row @ own.value.weight.T for row in rows], own.value.bias)]
        brought = torch.einsum("hti,ihw,dhw->tid", maps, sum(values), out)  # v_ti
        sums = whole + brought.sum(1)
        parts = torch.einsum("tid,td->ti", brought, sums) + torch.diag((whole * sums).sum(-1))
        owners = parts.abs() / parts.abs().sum(-1, keepdim=True) @ owners
        mixed = [torch.einsum("hti,ihw,dhw->td", maps, value, out) for value in values]
        rows = [row + new for row, new in zip(rows, dealt(mixed, after.dense.bias), strict=True)]
        rows = normed(rows, after.LayerNorm)
        inner = dealt([row @ layer.intermediate.dense.weight.T for row in rows], layer.intermediate.dense.bias)
        gate = 0.5 * (1 + torch.erf(sum(inner) / 2**0.5))
        down = dealt([row * gate @ layer.output.dense.weight.T for row in inner], layer.output.dense.bias)
        rows = normed([row + new for row, new in zip(rows, down, strict=True)], layer.output.LayerNorm)
    return torch.stack([row.mean(0) for row in rows])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_traced_biases_equal_their_slow_twin(seed: int) -> None:
    encoder = encoder_of("bert", seed)
    found = text_map(encoder, bias="traced", reference="none").contributions()
    with torch.no_grad():
        x = embed(encoder.model_view, Batch(torch.tensor([found.ids])))[0]
        slow = traced_twin(encoder.model, x).numpy()
    assert np.abs(found.values - slow).max() < 1e-10
    assert not found.bias.any()


@pytest.mark.parametrize("options", [*OPTIONS[:2], *OPTIONS[-3:-1]], ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_maps_computed_by_block(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any size, windows included, give the same rows and columns as whole maps."""
    encoder = encoder_of(name)
    kept = text_map(encoder, **options)
    directions = np.random.default_rng(0).standard_normal((3, 32))
    for cells, window in ((1, 2), (150, 3), (2**23, 256)):
        monkeypatch.setattr(attention, "BLOCK_CELLS", cells)
        monkeypatch.setattr(attention, "WINDOW_BLOCK", window)
        again = text_map(encoder, memory=1e-9, **options)
        assert not again.linear.record.keep and again.linear.record.lazy_maps
        assert np.abs(again.vector - kept.vector).max() < 1e-11
        assert np.abs(again.shares(directions).values - kept.shares(directions).values).max() < 1e-10
        assert np.abs(again.contributions().values - kept.contributions().values).max() < 1e-10


@pytest.mark.parametrize("name", ["modernbert", "qwen3-sliding", "gpt_neo"])
def test_fused_windows_equal_whole_attention(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = encoder_of(name)
    text = "the man is playing a flute and the dog ran over the hill . " * 2
    whole = encoder.encode([text])
    monkeypatch.setattr(attention, "WINDOW_BLOCK", 2)
    assert np.abs(encoder.encode([text]) - whole).max() < 1e-6
    assert len(encoder.tokenize([text])[0]) > 2 * (5 + 2), "the text was to be cut into blocks"


@pytest.mark.parametrize("size", [1, 30, 100])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_chunks_of_rows(options: dict[str, Any], size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a chunk ends, within the parts of a unit too."""
    whole = text_map(encoder_of("bert"), "the dog ran", **options).contributions()
    monkeypatch.setattr(linear_map, "ROW_TOKENS", size)
    cut = text_map(encoder_of("bert"), "the dog ran", **options).contributions()
    assert np.abs(cut.values - whole.values).max() < 1e-11 and np.abs(cut.bias - whole.bias).max() < 1e-11


@pytest.mark.parametrize("size", [1, 30, 100])
def test_chunks_of_directions(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    directions = np.random.default_rng(0).standard_normal((7, 32))
    for name in ("bert", "qwen3"):
        whole = text_map(encoder_of(name), bias="local").shares(directions)
        monkeypatch.setattr(linear_map, "ROW_TOKENS", size)
        cut = text_map(encoder_of(name), bias="local").shares(directions)
        assert np.abs(cut.values - whole.values).max() < 1e-11
        monkeypatch.undo()
