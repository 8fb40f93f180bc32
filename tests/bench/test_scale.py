"""The cost model of bench/scale.py on made-up measurements, whose answers are known."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("scale")
    for name in ("scale", "simulation"):
        sys.modules.pop(name, None)


def measurements(scale: Any) -> Any:
    """Windows of 1,024 texts take 2 seconds, with two workers 2.5; a worker starts in 3."""
    return scale.Measured(
        where="made up", load=[0.0, 0.0], texts=1024, windows=[[2.0] * 4] * 3, processor=[[2.0] * 4] * 3,
        two=[8.0, 8.0, 8.8], two_processor=[16.0] * 3, start=[3.0] * 3, start_processor=[6.0] * 3, text_bytes=100.0,
        vector_bytes=1536, id_bytes=8.0, memory=10**9, commits=[[0, 0.01], [1000, 0.02]], append=0.5,
        appends=[[0, 0.1], [100, 0.2]], known_bytes=100.0, product=1e-9, read=1e-5,
    )  # fmt: skip


def test_fit(scale: Any) -> None:
    model = scale.Model.fitted(measurements(scale))
    assert (model.window, model.shared, model.start) == (8.0, 1.25, 3.0)


@pytest.mark.parametrize(("count", "workers"), [(4096, 1), (1_000_000, 7), (10_000_000, 16_000)])
def test_hours_are_those_of_the_simulator(scale: Any, count: int, workers: int) -> None:
    model = scale.Model.fitted(measurements(scale))
    times = [model.window * model.shared] * math.ceil(count / 4096)
    twin = scale.simulate(times, scale.Cluster(workers, 2)).seconds
    assert 3600 * model.hours(count, workers) == pytest.approx(model.start + twin)


def test_lines_and_products(scale: Any) -> None:
    assert scale.line([[0, 1.0], [2, 2.0], [4, 3.0]]) == pytest.approx((1.0, 0.5))
    assert scale._products(10_000) == 26 * 10_000 * min(400, 10_000 // 39)


def test_tables(scale: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "TEXTS", (1_000_000,))
    monkeypatch.setattr(scale, "WORKERS", 20)
    model = scale.Model.fitted(measurements(scale))
    scale.print_measured(model)
    scale.print_validation(model.measured)
    scale.print_cost(model, 16, 2.0)
    scale.print_limits(model, 16)
    scale.print_simulation(model)
    shown = capsys.readouterr().out
    assert "| texts per second of processor time | 512 |" in shown
    # Four windows on two workers take two turns, and the start.
    assert "| two workers, simulated | 7.0 | 8.8 | 1.26 |" in shown
    assert "| two workers, simulated, times the ratio of the rounds before | 8.0 | 8.8 | 1.10 |" in shown
    assert "| nothing goes wrong | no order | 2.2 | 1.06 | 0.00% | 0 | 0 |" in shown
