"""QKV and BiLSTM pooling equal plain loops over tokens; their place in an encoder, and how they are built again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.encoder import encode_variants
from likewise.encoder.learned_pooling import (
    LEARNED,
    BiLstmPooling,
    LearnedPooling,
    QkvPooling,
    learned_from,
    learned_settings,
    new_learned_pooling,
)
from likewise.encoder.modes import Detached, Recorder, Replay, ReplayWithBiasRow, ReplayWithSharedBias
from likewise.encoder.pooling import ModulesConfig
from likewise.encoder.weights import identity
from likewise.errors import ModelError, UsageError
from tiny_models import tiny_encoder

LENGTHS = (9, 5, 2, 1)
WIDTH = 6
TEXTS = ["A man is playing a flute.", "a", "", "Two dogs run over the hill.", "the cat sat"]


def random_case(seed: int) -> tuple[Tensor, Tensor]:
    """States (4, 9, 6) and counting tokens (4, 9): ragged, with holes, as where special tokens do not count."""
    torch.manual_seed(seed)
    states = torch.randn(len(LENGTHS), max(LENGTHS), WIDTH, dtype=torch.float64)
    pooling_mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]) & (torch.rand(states.shape[:2]) < 0.7)
    pooling_mask[torch.arange(len(LENGTHS)), torch.tensor(LENGTHS) - 1] = True
    return states, pooling_mask.long()


def strong(kind: str, seed: int = 0, width: int = WIDTH) -> LearnedPooling:
    """A pooling in float64 whose every weight shows in what comes out."""
    module = new_learned_pooling(kind, width, seed=seed).double()
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_(std=0.7)
    return module


def matrix_vector(matrix: list[list[float]], vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def plus(*vectors: list[float]) -> list[float]:
    return [sum(parts) for parts in zip(*vectors, strict=True)]


def plain_qkv(module: QkvPooling, tokens: list[list[float]]) -> list[float]:
    """sum_t softmax_t(<query, K x_t + k> / sqrt(D)) (V x_t + v)."""
    weights = {name: weight.tolist() for name, weight in module.state_dict().items()}
    scores = []
    for token in tokens:
        key = plus(matrix_vector(weights["key.weight"], token), weights["key.bias"])
        scores.append(sum(q * k for q, k in zip(weights["query"], key, strict=True)) / math.sqrt(len(token)))
    total, pooled = sum(math.exp(score) for score in scores), [0.0] * len(tokens[0])
    for token, score in zip(tokens, scores, strict=True):
        value = plus(matrix_vector(weights["value.weight"], token), weights["value.bias"])
        pooled = plus(pooled, [math.exp(score) / total * part for part in value])
    return pooled


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def plain_lstm(weights: dict[str, Any], tokens: list[list[float]], suffix: str) -> list[float]:
    """The last state of one direction; torch orders the gates input, forget, cell, output."""
    hidden = len(weights[f"lstm.bias_ih_l0{suffix}"]) // 4
    state, cell = [0.0] * hidden, [0.0] * hidden
    for token in tokens:
        gates = plus(
            matrix_vector(weights[f"lstm.weight_ih_l0{suffix}"], token),
            matrix_vector(weights[f"lstm.weight_hh_l0{suffix}"], state),
            weights[f"lstm.bias_ih_l0{suffix}"],
            weights[f"lstm.bias_hh_l0{suffix}"],
        )
        let_in, forget, new, out = (gates[part * hidden : (part + 1) * hidden] for part in range(4))
        four = zip(forget, cell, let_in, new, strict=True)
        cell = [sigmoid(f) * c + sigmoid(i) * math.tanh(n) for f, c, i, n in four]
        state = [sigmoid(o) * math.tanh(c) for o, c in zip(out, cell, strict=True)]
    return state


def plain_bilstm(module: BiLstmPooling, tokens: list[list[float]]) -> list[float]:
    weights = {name: weight.tolist() for name, weight in module.state_dict().items()}
    return plain_lstm(weights, tokens, "") + plain_lstm(weights, tokens[::-1], "_reverse")


PLAIN: dict[str, Any] = {"qkv": plain_qkv, "bilstm": plain_bilstm}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", LEARNED)
def test_poolings_equal_a_plain_loop(kind: str, seed: int) -> None:
    states, pooling_mask = random_case(seed)
    module = strong(kind, seed)
    kept = [row[counts == 1].tolist() for row, counts in zip(states, pooling_mask, strict=True)]
    slow = torch.tensor([PLAIN[kind](module, tokens) for tokens in kept], dtype=torch.float64)
    found = module(states, pooling_mask)
    assert found.shape == (len(LENGTHS), module.dimension)
    assert torch.allclose(found, slow, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", LEARNED)
def test_padded_equals_unpadded(kind: str) -> None:
    states, _ = random_case(3)
    module = strong(kind)
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    together = module(states, mask)
    for row, length in enumerate(LENGTHS):
        alone = module(states[row : row + 1, :length], torch.ones(1, length))
        assert torch.allclose(together[row], alone[0], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", LEARNED)
def test_states_that_do_not_count_do_not_matter(kind: str) -> None:
    states, pooling_mask = random_case(4)
    module = strong(kind)
    other = torch.where(pooling_mask[..., None] == 1, states, 1e6)
    assert torch.equal(module(states, pooling_mask), module(other, pooling_mask))


@pytest.mark.parametrize("kind", LEARNED)
def test_no_counting_token_gives_zeros_and_no_nan_to_the_gradient(kind: str) -> None:
    states, pooling_mask = random_case(5)
    pooling_mask[1] = 0
    module = strong(kind)
    pooled = module(states.requires_grad_(), pooling_mask)
    assert torch.equal(pooled[1], torch.zeros(module.dimension, dtype=torch.float64))
    assert pooled[0].abs().min() > 0
    pooled.sum().backward()
    assert states.grad is not None and not states.grad[1].any() and states.grad[0].any()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in module.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", LEARNED)
def test_half_precision(kind: str, dtype: torch.dtype) -> None:
    states, pooling_mask = random_case(6)
    module = new_learned_pooling(kind, WIDTH)
    exact = module(states.float(), pooling_mask)
    found = module.to(dtype)(states.to(dtype), pooling_mask)
    assert found.dtype == dtype
    assert torch.allclose(found.float(), exact, atol=2e-2)


# Modes


@pytest.mark.parametrize("mode", [ReplayWithBiasRow, ReplayWithSharedBias])
def test_qkv_replays_its_weights(mode: type[Replay]) -> None:
    states, pooling_mask = random_case(7)
    module = strong("qkv")
    recorder = Recorder()
    with torch.no_grad():
        whole = module(states, pooling_mask, recorder)
        assert torch.allclose(whole, module(states, pooling_mask), atol=1e-12)
        rows = torch.stack([states * 0.25, states * 0.75, torch.zeros_like(states)], 1)
        found = module(rows, pooling_mask, mode(recorder))
    assert found.shape == (4, 3, WIDTH)
    assert torch.allclose(found.sum(1), whole, atol=1e-12)


def test_qkv_replays_other_rows_by_the_recorded_weights() -> None:
    states, pooling_mask = random_case(8)
    module = strong("qkv")
    recorder = Recorder()
    with torch.no_grad():
        module(states, pooling_mask, recorder)
        other = torch.randn(4, 2, 9, WIDTH, dtype=torch.float64)
        found = module(other, pooling_mask, Replay(recorder))
        slow = torch.einsum("bt,brtd,ed->bre", module.weights(states, pooling_mask), other, module.value.weight)
    assert torch.allclose(found, slow, atol=1e-12)


def test_qkv_is_held_or_live_as_attention_is() -> None:
    states, pooling_mask = random_case(9)
    module = strong("qkv")
    tangent = torch.randn_like(states)

    def derivative(*mode: Any) -> Tensor:
        return torch.func.jvp(lambda x: module(x, pooling_mask, *mode), (states,), (tangent,))[1]

    slow = (module(states + 1e-6 * tangent, pooling_mask) - module(states - 1e-6 * tangent, pooling_mask)) / 2e-6
    assert torch.allclose(derivative(), slow, atol=1e-8)
    assert torch.allclose(derivative(Detached(())), slow, atol=1e-8)
    held = torch.einsum("bt,btd,ed->be", module.weights(states, pooling_mask), tangent, module.value.weight)
    assert torch.allclose(derivative(Detached()), held, atol=1e-12)


# Building


@pytest.mark.parametrize("kind", LEARNED)
def test_fresh_weights_depend_on_the_seed_alone(kind: str) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = new_learned_pooling(kind, 8, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    same, other = new_learned_pooling(kind, 8, seed=1), new_learned_pooling(kind, 8, seed=2)
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, same.state_dict()[name])
        assert not torch.equal(weight, other.state_dict()[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gru", 8), "unknown learned pooling 'gru'; choose from qkv, bilstm"),
        (("qkv", 8, 4), "qkv pooling has no hidden size; leave it out"),
        (("qkv", 0), "sizes start at 1, got width 0"),
        (("bilstm", 8, 0), "sizes start at 1, got width 8 and hidden 0"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        new_learned_pooling(*arguments)


@pytest.mark.parametrize("module", [new_learned_pooling("qkv", 8), new_learned_pooling("bilstm", 8, 3)])
def test_built_again(module: LearnedPooling) -> None:
    states = torch.randn(2, 4, 8)
    again = learned_from(learned_settings(module), module.state_dict())
    assert torch.equal(again(states, torch.ones(2, 4)), module(states, torch.ones(2, 4)))
    assert all(weight.requires_grad for weight in again.parameters())
    assert again.double()(states.double(), torch.ones(2, 4)).dtype == torch.float64


SETTINGS: list[Any] = [
    None, [], "qkv", {}, {"kind": "gru", "width": 8}, {"kind": ["qkv"], "width": 8}, {"kind": "qkv"},
    {"kind": "qkv", "width": "8"}, {"kind": "qkv", "width": 8.0}, {"kind": "qkv", "width": True},
    {"kind": "qkv", "width": 0}, {"kind": "qkv", "width": 9}, {"kind": "qkv", "width": 10**12},
    {"kind": "qkv", "width": 10**40}, {"kind": "bilstm", "width": 8}, {"kind": "bilstm", "width": 8, "hidden": -1},
    {"kind": "bilstm", "width": 8, "hidden": 4},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_settings_that_do_not_fit_are_refused_in_one_line(settings: Any) -> None:
    with pytest.raises(ModelError, match="pooling") as raised:
        learned_from(settings, new_learned_pooling("qkv", 8).state_dict())
    assert "\n" not in str(raised.value)


def test_weights_that_do_not_fit_are_refused_in_one_line() -> None:
    module = new_learned_pooling("qkv", 8)
    state = module.state_dict()
    wrong: list[dict[str, Tensor]] = [
        {},
        {name: weight for name, weight in state.items() if name != "query"},
        state | {"more": torch.ones(1)},
        state | {"query": torch.ones(1, 8)},
        {name: weight.int() for name, weight in state.items()},
    ]
    for tensors in wrong:
        with pytest.raises(ModelError, match="not the weights of a qkv pooling of width 8; save the") as raised:
            learned_from(learned_settings(module), tensors)
        assert "\n" not in str(raised.value)


# In an encoder


@pytest.fixture(params=list(LEARNED))
def learned(request: pytest.FixtureRequest, tiny: Encoder) -> Encoder:
    return tiny.with_learned_pooling(new_learned_pooling(request.param, 16, seed=4))


def test_encode_reads_with_it(learned: Encoder) -> None:
    states = learned.states(TEXTS, attention=False)
    module = learned.modules_config.learned
    assert module is not None and learned.pooling_config.pooling == module.kind
    with torch.no_grad():
        pooled = [module(torch.tensor(each.hidden[-1:]), torch.ones(1, len(each.tokens))) for each in states]
    unit = torch.nn.functional.normalize(torch.cat(pooled), dim=-1).numpy()
    assert np.abs(learned.encode(TEXTS) - unit).max() < 1e-6
    assert learned.dimension == 16


def test_it_is_joined_with_others_and_reads_other_layers(learned: Encoder) -> None:
    kind = learned.pooling_config.pooling
    joined = learned.with_pooling(pooling=f"mean+{kind}", layer=1, normalize=False)
    assert joined.encode(TEXTS).shape == (len(TEXTS), 32)
    halves = [joined.with_pooling(pooling=part).encode(TEXTS) for part in ("mean", kind)]
    assert np.allclose(joined.encode(TEXTS), np.concatenate(halves, axis=1), atol=1e-6)
    both = encode_variants(learned, TEXTS, [{"pooling": kind}, {"pooling": "mean"}])
    assert np.allclose(both[0].vectors, learned.encode(TEXTS), atol=1e-6)


def test_special_tokens_need_not_count(learned: Encoder) -> None:
    without = learned.with_pooling(special_tokens=False).encode(TEXTS)
    assert not without[2].any(), "no token of an empty text counts"
    assert np.abs(without - learned.encode(TEXTS))[[0, 1]].max() > 1e-3


def test_a_model_that_learned_none_says_so(tiny: Encoder, learned: Encoder, tiny_folder: Any) -> None:
    other = {"qkv": "bilstm", "bilstm": "qkv"}[learned.pooling_config.pooling]
    for encoder, kind in ((tiny, "qkv"), (tiny, "mean+bilstm"), (learned, other)):
        name = kind.split("+")[-1]
        with pytest.raises(ModelError, match=f"has no learned {name} pooling; choose from cls, last, max, mean"):
            encoder.encode("a", pooling=kind)
    with pytest.raises(ModelError, match="has no learned qkv pooling"):
        Encoder.load(str(tiny_folder), device="cpu", pooling="qkv")


def test_another_width_is_refused(tiny: Encoder) -> None:
    with pytest.raises(ModelError, match=r"qkv pooling takes 12 dimensions, but .* has 16; create"):
        tiny.with_learned_pooling(new_learned_pooling("qkv", 12))


def test_heads_after_a_wider_pooling(tiny: Encoder) -> None:
    wide = tiny.with_learned_pooling(new_learned_pooling("bilstm", 16, hidden=12))
    assert wide.dimension == 24
    assert tiny.dimension == 16


def test_it_follows_the_model(tiny_folder: Any) -> None:
    encoder = Encoder.load(str(tiny_folder), device="cpu", dtype="float64")
    for kind in LEARNED:
        learned = encoder.with_learned_pooling(new_learned_pooling(kind, 16)).to("cpu")
        assert learned.modules_config.learned is not None
        assert {weight.dtype for weight in learned.modules_config.learned.parameters()} == {torch.float64}
        assert learned.encode(TEXTS).shape == (len(TEXTS), 16)


def test_hashes(tiny: Encoder) -> None:
    modules = [new_learned_pooling(kind, 16, seed=seed) for kind in LEARNED for seed in (0, 1)]
    encoders = [tiny, *(tiny.with_learned_pooling(module) for module in modules)]
    assert len({encoder.heads_hash for encoder in encoders}) == 5
    assert {encoder.hash for encoder in encoders} == {tiny.hash}
    before = encoders[1].heads_hash
    assert identity(encoders[1])["dense_sha256"] == before
    with torch.no_grad():
        next(modules[0].parameters()).add_(1)
    assert encoders[1].heads_hash != before
    assert tiny.heads_hash == replace(tiny, modules_config=replace(tiny.modules_config, learned=None)).heads_hash


def test_gradients_reach_its_weights(learned: Encoder) -> None:
    module = learned.modules_config.learned
    assert module is not None
    states, pooling_mask = torch.randn(2, 5, 16), torch.ones(2, 5)
    learned.finish(learned.pool(states, pooling_mask))[:, 0].sum().backward()
    grads = [weight.grad for weight in module.parameters()]
    module.zero_grad(set_to_none=True)
    assert all(grad is not None and grad.isfinite().all() for grad in grads)
    assert any(grad is not None and grad.any() for grad in grads)


def test_the_pooling_head_pools_rows_with_it() -> None:
    encoder = replace(tiny_encoder("bert"), modules_config=ModulesConfig(learned=strong("qkv", width=32)))
    encoder = encoder.with_pooling(pooling="cls+qkv")
    states, pooling_mask = torch.randn(2, 5, 32, dtype=torch.float64), torch.ones(2, 5)
    recorder = Recorder()
    with torch.no_grad():
        whole = encoder.pool(states, pooling_mask, recorder)
        rows = torch.stack([states, torch.zeros_like(states)], 1)
        mode = ReplayWithBiasRow(recorder)
        found = encoder.pool(rows, pooling_mask, mode)
    assert torch.allclose(found.sum(1), whole, atol=1e-12)
