"""Where and with how many threads a model runs."""

from __future__ import annotations

import pytest
import torch

from likewise.encoder import Encoder
from likewise.encoder.device import choose_device, set_threads
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
