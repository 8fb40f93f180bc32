"""Modes of the forward pass: all compute the same states, and differ in what is held and whose the biases are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.forward import Batch, embed, embedding_parts
from likewise.encoder.model_view import scaled
from likewise.encoder.modes import (
    ALWAYS_FROZEN,
    LIVE,
    RULES,
    Detached,
    DetachedAt,
    Mode,
    Recorder,
    Replay,
    ReplayWithBiasRow,
    ReplayWithSharedBias,
)
from likewise.encoder.pooling import POOLERS
from tiny_models import CONFIGS, tiny_encoder

IDS = torch.tensor([[2, 30, 17, 60, 3], [2, 31, 40, 8, 3]])
COUNTED = torch.ones_like(IDS)


def inputs(encoder: Encoder) -> Tensor:
    return embed(encoder.model_view, Batch(IDS)).detach()


def recorded(encoder: Encoder, x: Tensor, **options: bool) -> Recorder:
    recorder = Recorder(**options)
    with torch.no_grad():
        encoder.vectors_from(x, COUNTED, recorder)
    return recorder


@pytest.mark.parametrize("name", CONFIGS)
def test_every_mode_runs_the_same_model(name: str) -> None:
    for pooling in (*POOLERS, "cls+mean"):
        encoder = tiny_encoder(name, pooling=pooling, normalize=True)
        x = inputs(encoder)
        with torch.no_grad():
            plain = encoder.vectors_from(x, COUNTED)
            recorder = recorded(encoder, x)
            for mode in (Detached(), Detached(()), Detached(("norm",)), Recorder(), DetachedAt(recorder)):
                assert torch.allclose(encoder.vectors_from(x, COUNTED, mode), plain, atol=1e-11)
            whole = encoder.vectors_from(x[:, None], COUNTED, ReplayWithBiasRow(recorder))
        assert torch.allclose(whole[:, 0], plain, atol=1e-11), "one row that holds all, with the biases"


@pytest.mark.parametrize("name", CONFIGS)
def test_embedding_parts_sum_to_the_embedding(name: str) -> None:
    encoder = tiny_encoder(name)
    for types in (None, (torch.arange(5) > 2).long().expand(2, -1)):
        if types is not None and encoder.model_view.embeddings.type is None:
            continue
        if types is not None and len(encoder.model_view.embeddings.type.weight) < 2:
            continue
        batch = Batch(IDS, types)
        with torch.no_grad():
            parts = embedding_parts(encoder.model_view, batch)
            whole = embed(encoder.model_view, batch)
        assert torch.allclose(sum(parts.values()), whole, atol=1e-12)
        view = encoder.model_view.embeddings
        wanted = ["word", *(["type"] if view.type is not None else []), *(["position"] if view.position else [])]
        assert list(parts)[: len(wanted)] == wanted
        assert ("bias" in parts) == (view.norm is not None and view.norm.bias is not None)
        assert all(part.shape == whole.shape for part in parts.values())


def test_a_part_is_what_the_norm_makes_of_it() -> None:
    """By hand: (term - its mean) / deviation of the whole * gain."""
    encoder = tiny_encoder("bert")
    table = encoder.model.embeddings
    with torch.no_grad():
        part = embedding_parts(encoder.model_view, Batch(IDS))["word"]
        word = table.word_embeddings(IDS)
        whole = word + table.position_embeddings(torch.arange(5)) + table.token_type_embeddings(torch.zeros_like(IDS))
        scale = (whole.var(-1, unbiased=False, keepdim=True) + table.LayerNorm.eps).rsqrt()
        by_hand = (word - word.mean(-1, keepdim=True)) * scale * table.LayerNorm.weight
    assert torch.allclose(part, by_hand, atol=1e-12)


def test_replay_is_linear_and_biases_belong_to_their_row() -> None:
    encoder = tiny_encoder("bert", pooling="max")
    x = inputs(encoder)
    recorder = recorded(encoder, x)
    torch.manual_seed(0)
    rows = torch.randn(2, 3, *x.shape[1:], dtype=x.dtype)
    with torch.no_grad():
        first = encoder.vectors_from(rows, COUNTED, Replay(recorder))
        doubled = encoder.vectors_from(2 * rows, COUNTED, Replay(recorder))
        summed = encoder.vectors_from(rows.sum(1, keepdim=True), COUNTED, Replay(recorder))
        nothing = torch.zeros_like(rows)
        assert not encoder.vectors_from(nothing, COUNTED, Replay(recorder)).any()
        bias = encoder.vectors_from(nothing, COUNTED, ReplayWithBiasRow(recorder))
        shared = encoder.vectors_from(rows, COUNTED, ReplayWithSharedBias(recorder))
    assert torch.allclose(doubled, 2 * first)
    assert torch.allclose(summed[:, 0], first.sum(1), atol=1e-11)
    assert not bias[:, :-1].any()
    assert bias[:, -1].abs().max() > 1e-3
    assert torch.allclose(shared.sum(1), first.sum(1) + bias[:, -1], atol=1e-10), "shared out, but none lost"


def test_shared_bias_by_hand() -> None:
    mode = ReplayWithSharedBias(Recorder())
    rows = torch.tensor([[3.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])[None, :, None]
    bias = torch.tensor([8.0, 4.0])
    # v = (2, 0); |<v_i, v>| = 6, 2, 0.
    assert (mode.add_bias(rows, bias) - rows)[0, :, 0].tolist() == [[6, 3], [2, 1], [0, 0]]
    equal = mode.add_bias(torch.zeros(1, 4, 1, 2), bias)
    assert equal[0, :, 0].tolist() == [[2, 1]] * 4, "where nothing stands, all get the same"
    assert mode.add_bias(rows, None) is rows


@pytest.mark.parametrize("name", CONFIGS)
def test_layers_that_are_not_kept_are_recorded_again(name: str) -> None:
    encoder = tiny_encoder(name)
    x = inputs(encoder)
    kept, again, lazy = (
        recorded(encoder, x, traced=True, **options)
        for options in ({}, {"keep": False}, {"keep": False, "lazy_maps": True})
    )
    assert sum(callable(item) for item in again.constants) == encoder.model_view.layers
    with torch.no_grad():
        constants = [list(record.forwards()) for record in (kept, again, lazy)]
        assert [rule for rule, _ in kept.backwards()] == [rule for rule, _ in reversed(constants[0])]
    for (rule, constant), (other_rule, other), (_, block) in zip(*constants, strict=True):
        assert rule == other_rule
        assert torch.allclose(constant, other)
        assert isinstance(block, Tensor) == (rule not in ("attention", "trace"))
        if rule == "attention":
            assert torch.allclose(block.whole(), constant)


def test_constants_are_kept_by_call() -> None:
    """ALBERT's layers share their modules, and each still has factors of its own."""
    encoder = tiny_encoder("albert")
    recorder = recorded(encoder, inputs(encoder))
    maps = [constant for rule, constant in recorder.constants if rule == "attention"]
    assert len(maps) == encoder.model_view.layers == 6
    assert not torch.allclose(maps[0], maps[2], atol=1e-3)


def test_a_replay_that_differs_from_its_record_is_noticed() -> None:
    encoder = tiny_encoder("bert")
    x = inputs(encoder)
    recorder = recorded(encoder, x)
    with pytest.raises(AssertionError, match="the replay differs from its record"):
        Replay(recorder).linearize("unit", lambda _: x)


def test_which_factors_are_held() -> None:
    held = {
        LIVE: set(),
        Detached(): {*RULES, *ALWAYS_FROZEN},
        Detached(("norm",)): {"norm", *ALWAYS_FROZEN},
        Recorder(): {*RULES, *ALWAYS_FROZEN},
        Replay(Recorder()): {*RULES, *ALWAYS_FROZEN},
    }
    for mode, rules in held.items():
        assert {rule for rule in (*RULES, *ALWAYS_FROZEN) if mode.linearizes(rule)} == rules
        assert mode.fused == (mode is LIVE)


def test_detached_cuts_the_derivative() -> None:
    z = torch.ones(3, requires_grad=True)

    def factor(_: Mode) -> Tensor:
        return z * 2

    assert not Detached(("norm",)).linearize("norm", factor).requires_grad
    assert Detached(("norm",)).linearize("attention", factor).requires_grad
    assert not Detached(()).linearize("unit", factor).requires_grad
    assert LIVE.linearize("norm", factor).requires_grad


def test_lengths_of_a_path_are_those_of_its_end() -> None:
    end = Recorder()
    end.linearize("unit", lambda _: torch.tensor(2.0))
    end.linearize("norm", lambda _: torch.tensor(5.0))
    end.linearize("unit", lambda _: torch.tensor(3.0))
    mode = DetachedAt(end)
    found = [float(mode.linearize("unit", lambda _: torch.tensor(9.0))) for _ in range(2)]
    assert found == [2, 3]
    assert float(mode.linearize("norm", lambda _: torch.tensor(9.0))) == 9


@pytest.mark.parametrize("name", ["bert", "qwen3"])
def test_norm_in_two_steps_is_the_norm(name: str) -> None:
    view = tiny_encoder(name).model_view.blocks[0].feed_forward_norm
    torch.manual_seed(1)
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    kept = view.module(x) if view.kind == "layer" else x / (x**2).mean(-1, keepdim=True).add(view.eps).sqrt()
    assert torch.allclose(scaled(view, x, LIVE), kept if view.kind == "layer" else kept * view.weight, atol=1e-12)


def test_layers_begin_where_asked() -> None:
    encoder = tiny_encoder("gpt_neo")
    x = inputs(encoder)
    with torch.no_grad():
        whole = encoder.vectors_from(x, COUNTED)
        for start in range(encoder.model_view.layers + 1):
            states = encoder.with_pooling(layer=start).layer_states(Batch(IDS))
            assert torch.allclose(encoder.vectors_from(states, COUNTED, start=start), whole, atol=1e-11)
