"""Errors by level of the human score, and the rows where both scores differ most."""

from __future__ import annotations

import numpy as np
import pytest

from likewise.data import ScoredPair
from likewise.lint.pos_relevance import disagreements, level_edges, level_errors, score_line
from likewise.metrics import scaled_mse


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_levels_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = np.append(rng.uniform(0, 5, 40), [0.0, 5.0])
    predicted = truth / 5 + rng.normal(size=42) * 0.2
    found = level_errors(predicted, truth)
    slope, shift = np.polyfit(predicted, truth, 1)
    for place, level in enumerate(found.levels):
        inside = [
            (slope * p + shift - t) ** 2 for p, t in zip(predicted, truth, strict=True) if min(int(t), 4) == place
        ]
        assert (level.name, level.n) == (f"{place}-{place + 1}", len(inside))
        assert level.error.value == pytest.approx(sum(inside) / len(inside))
        assert level.error.low <= level.error.value <= level.error.high
    overall = sum(level.error.value * level.n for level in found.levels) / 42
    assert overall == pytest.approx(scaled_mse(predicted, truth))
    assert len(found.to_dict()["levels"]) == 5
    assert found.plot().get_xlabel() == "human score"
    assert "0-1" in found._repr_html_()


def test_edges() -> None:
    assert level_edges(np.array([1.0, 3.2])) == [1.0, 2.0, 3.0, 4.0]
    assert level_edges(np.array([0.0, 1.0])) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert level_edges(np.array([2.0, 2.0]))[0] == 2.0


def test_constant_predictions_are_mapped_to_the_mean() -> None:
    slope, intercept = score_line(np.ones(3), np.array([1.0, 2.0, 6.0]))
    assert (slope * np.ones(3) + intercept).tolist() == [3.0, 3.0, 3.0]


def test_disagreements_are_worst_first() -> None:
    truth = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 0.0])
    predicted = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    pairs = [ScoredPair(f"l{row}", f"r{row}", score, str(row)) for row, score in enumerate(truth.tolist())]
    found = disagreements(pairs, predicted, truth, 2)
    slope, shift = np.polyfit(predicted, truth, 1)
    assert found[0].id == "5" and found[0].difference == pytest.approx(slope + shift)
    assert abs(found[0].difference) >= abs(found[1].difference)
    assert found[0].difference == found[0].predicted - found[0].human
