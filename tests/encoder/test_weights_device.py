"""Where and with how many threads a model runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder
from likewise.encoder.forward import Batch
from likewise.encoder.learned_pooling import new_learned_pooling
from likewise.encoder.onnx_backend import OnnxBackend
from likewise.encoder.pooling import Dense
from likewise.encoder.weights import choose_device, set_threads
from likewise.errors import UsageError


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Which devices there are, for the test to say."""
    there = {"cuda": False, "mps": False}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there["cuda"])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: there["mps"])
    return there


def test_auto_prefers_the_fastest(present: dict[str, bool]) -> None:
    assert choose_device() == torch.device("cpu")
    present["mps"] = True
    assert choose_device("auto") == torch.device("mps")
    present["cuda"] = True
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")


def test_a_numbered_device(present: dict[str, bool]) -> None:
    present["cuda"] = True
    assert choose_device("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_an_absent_device_names_the_cure(name: str, present: dict[str, bool]) -> None:
    with pytest.raises(UsageError, match=f"no {name.split(':')[0]} device here; use --device cpu"):
        choose_device(name)


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "cpu:x"])
def test_an_unknown_device_names_the_known(name: str) -> None:
    with pytest.raises(UsageError, match=f"unknown device '{name}'; choose from auto, cpu, cuda, mps"):
        choose_device(name)


def test_threads() -> None:
    before = torch.get_num_threads()
    assert set_threads(None) == before
    try:
        assert set_threads(2) == torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, -1])
def test_threads_are_at_least_one(count: int) -> None:
    with pytest.raises(UsageError, match=f"threads must be at least 1, got {count}"):
        set_threads(count)


def test_an_encoder_refuses_an_absent_device(tiny: Encoder, present: dict[str, bool]) -> None:
    assert tiny.device == torch.device("cpu")
    with pytest.raises(UsageError, match="no cuda device here"):
        tiny.to("cuda")


@pytest.fixture
def meta(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """Another device that every machine has; its tensors have shapes and no numbers."""
    monkeypatch.setattr("likewise.encoder.weights.choose_device", torch.device)
    return torch.device("meta")


def with_modules(tiny: Encoder, **changes: Any) -> Encoder:
    generator = torch.Generator().manual_seed(1)
    head = Dense(torch.randn(8, 16, generator=generator), torch.randn(8, generator=generator), "Tanh")
    return replace(tiny, modules_config=replace(tiny.modules_config, heads=(head,)), **changes)


def tensors(encoder: Encoder) -> list[torch.Tensor]:
    return [*encoder.model.parameters(), *encoder.model.buffers(), *encoder.modules_config.tensors().values()]


def test_the_moved_encoder_is_all_on_its_device_and_the_old_one_stays(tiny: Encoder, meta: torch.device) -> None:
    before = with_modules(tiny.with_learned_pooling(new_learned_pooling("qkv", 16))).without_layer(1)
    vectors, weights = before.encode(["a cat sat"]), [id(tensor) for tensor in tensors(before)]
    moved = before.to("meta")
    assert {tensor.device for tensor in tensors(moved)} == {meta}
    assert moved.device == meta and moved.model_view.layers == before.model_view.layers
    assert {parameter.requires_grad for parameter in moved.model.parameters()} == {
        parameter.requires_grad for parameter in before.model.parameters()
    }
    states = moved.layer_states(Batch(torch.zeros(1, 3, dtype=torch.long, device=meta)))
    pooled = moved.finish(moved.pool(states, torch.ones(1, 3, device=meta)))
    assert pooled.shape == (1, 8) and pooled.device == meta
    assert before.device == torch.device("cpu") and [id(tensor) for tensor in tensors(before)] == weights
    np.testing.assert_array_equal(before.encode(["a cat sat"]), vectors)


def test_the_views_of_the_moved_encoder_are_those_of_its_own_weights(tiny: Encoder, meta: torch.device) -> None:
    moved = tiny.to("meta")
    words = moved.model_view.embeddings.word.weight
    assert any(words is weight for weight in moved.model.parameters())


def test_the_present_device_changes_nothing(tiny: Encoder) -> None:
    assert tiny.to("cpu") is tiny


def test_a_moved_model_is_still_known_by_its_file(tiny: Encoder, meta: torch.device) -> None:
    assert tiny.to("meta").hash == tiny.hash


def test_a_model_that_was_trained_is_not_known_by_its_file(tiny_folder: Any, meta: torch.device) -> None:
    encoder = Encoder.load(str(tiny_folder), device="cpu")
    with torch.no_grad():
        next(encoder.model.parameters()).add_(1.0)
    moved = encoder.to("meta")
    assert not moved._is_as_loaded()


def test_a_backend_stays_on_the_cpu(tiny: Encoder, meta: torch.device) -> None:
    with pytest.raises(UsageError, match="backend onnx runs on the cpu; load the model without it"):
        replace(tiny, backend=OnnxBackend("onnx")).to("meta")
