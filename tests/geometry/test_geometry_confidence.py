"""Confidence bands: intervals by draws, by words and by blocks left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from likewise.geometry.geometry import ConfidenceBand
from likewise.geometry.measuring import drawn_means
from likewise.metrics import Interval


def test_a_band_of_draws_is_their_percentiles() -> None:
    draws = np.random.default_rng(0).normal(size=(3, 400))
    band = ConfidenceBand.of_draws(draws)
    for layer in range(3):
        assert band.values[layer] == draws[layer, 0]
        assert band.ends(layer) == pytest.approx(np.percentile(draws[layer, 1:], [2.5, 97.5]).tolist())


def test_a_band_of_intervals_keeps_them() -> None:
    band = ConfidenceBand.of_intervals([Interval(1.0, 0.5, 1.5), Interval(2.0, 1.0, 3.0)])
    assert band.values.tolist() == [1.0, 2.0] and band.ends(1) == [1.0, 3.0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_jackknife_of_a_mean_is_the_interval_of_a_mean(seed: int) -> None:
    """Leaving out one value at a time gives the mean's own standard error, to the last digit."""
    values = np.random.default_rng(seed).normal(size=10)
    without = np.array([np.delete(values, place).mean() for place in range(10)])
    band = ConfidenceBand.of_jackknife(np.array([values.mean()]), without[None])
    reach = t.ppf(0.975, 9) * values.std(ddof=1) / np.sqrt(10)
    assert band.ends(0) == pytest.approx([values.mean() - reach, values.mean() + reach], abs=1e-12)


def test_few_blocks_have_no_interval() -> None:
    assert np.isnan(ConfidenceBand.of_jackknife(np.ones(2), np.ones((2, 4))).ends(0)).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_drawn_means_leave_out_what_is_not_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2, 9))
    values[1, 3] = np.nan
    found = drawn_means(values, draws=30, seed=seed)
    weights = np.random.default_rng((seed, 1)).poisson(1.0, (30, 9))
    for row in range(2):
        assert found[row, 0] == pytest.approx(np.nanmean(values[row]), abs=1e-12)
        for draw in range(30):
            pairs = [(w, v) for w, v in zip(weights[draw], values[row], strict=True) if np.isfinite(v)]
            total = sum(w for w, _ in pairs)
            expected = sum(w * v for w, v in pairs) / total if total else np.nan
            assert found[row, 1 + draw] == pytest.approx(expected, abs=1e-12, nan_ok=True)
