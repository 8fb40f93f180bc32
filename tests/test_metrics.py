"""Metrics against scipy, numpy and a plain loop."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from likewise.errors import DataError
from likewise.metrics import accuracy, bootstrap, pearson, scaled_mse, spearman

SEEDS = [0, 1, 2]
METRICS = {"pearson": pearson, "spearman": spearman, "scaled_mse": scaled_mse}
RESAMPLED = METRICS | {"accuracy": accuracy}
CONSTANTS = [[0.0] * 3, [0.1] * 3, [0.1] * 7, [0.7] * 10, [1e-3] * 25, [np.pi] * 99]


def tied(seed: int, n: int = 80) -> tuple[Any, Any]:
    """Two related rows; rounding to halves makes many ties."""
    rng = np.random.default_rng(seed)
    left = rng.normal(size=n)
    return np.round(2 * left) / 2, np.round(2 * (left + rng.normal(size=n))) / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_correlations_are_scipy_s(seed: int) -> None:
    left, right = tied(seed)
    assert len(set(left)) < len(left) / 2
    assert pearson(left, right) == pytest.approx(pearsonr(left, right).statistic, abs=1e-12)
    assert spearman(left, right) == pytest.approx(spearmanr(left, right).statistic, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_scaled_mse_is_what_a_fitted_line_leaves(seed: int) -> None:
    scores, truth = tied(seed)
    line = np.polyval(np.polyfit(scores, truth, 1), scores)
    assert scaled_mse(scores, truth) == pytest.approx(np.mean((line - truth) ** 2), abs=1e-12)


def test_scaled_mse_does_not_depend_on_the_scores_scale() -> None:
    scores, truth = tied(0)
    assert scaled_mse(scores, truth) == pytest.approx(scaled_mse(7 - 3 * scores, truth), abs=1e-12)
    assert scaled_mse(scores, 2 * scores + 1) == pytest.approx(0, abs=1e-12)


def test_scaled_mse_without_a_slope_is_the_variance() -> None:
    assert scaled_mse([1, 1, 1, 1], [1, 2, 3, 4]) == pytest.approx(1.25)


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda row: f"{len(row)} x {row[0]:.3g}")
@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_constant_rows_have_no_correlation(name: str, constant: list[float]) -> None:
    """Also where the mean of equal numbers is not quite that number: (0.1 + 0.1 + 0.1) / 3 != 0.1."""
    rising = list(range(len(constant)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for left, right in ((constant, rising), (rising, constant), (constant, constant)):
            assert np.isnan(METRICS[name](left, right))
        interval = bootstrap(name, constant, rising, draws=50)
    assert np.isnan([interval.value, interval.low, interval.high]).all()


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ([1, 2], [1, 2, 3], "equal length"),
        ([[1, 2]], [[1, 2]], "equal length"),
        ([1], [1], "at least 2"),
        ([], [], "2"),
    ],
    ids=["lengths", "matrices", "one", "none"],
)
def test_rows_that_do_not_fit(metric: Any, left: Any, right: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        metric(left, right)


class TestBootstrap:
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("name", RESAMPLED)
    def test_interval_is_a_plain_loop_s(self, name: str, seed: int) -> None:
        """The same resampled rows, one draw at a time; 250 draws are two whole blocks and a half."""
        left, right = tied(seed)
        rng = np.random.default_rng(seed)
        sizes = [100, 100, 50]
        rows = np.concatenate([rng.integers(0, len(left), (size, len(left))) for size in sizes])
        values = [RESAMPLED[name](left[row], right[row]) for row in rows]
        interval = bootstrap(name, left, right, draws=250, seed=seed)
        expected = [RESAMPLED[name](left, right), *np.percentile(values, [2.5, 97.5])]
        assert [interval.value, interval.low, interval.high] == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize("name", RESAMPLED)
    def test_interval_contains_the_value_and_narrows(self, name: str) -> None:
        few, many = bootstrap(name, *tied(0, 40)), bootstrap(name, *tied(0, 4000), draws=200)
        for interval in (few, many):
            assert interval.low < interval.value < interval.high
        assert many.high - many.low < (few.high - few.low) / 3

    def test_same_seed_same_interval(self) -> None:
        rows = tied(0)
        assert bootstrap("pearson", *rows, seed=3) == bootstrap("pearson", *rows, seed=3)
        assert bootstrap("pearson", *rows, seed=3).low != bootstrap("pearson", *rows, seed=4).low

    def test_draws_without_a_correlation_are_left_out(self) -> None:
        """With three rows one draw in nine repeats a single row and has none."""
        interval = bootstrap("pearson", [1, 2, 3], [1, 2, 4], draws=300)
        assert np.isfinite([interval.value, interval.low, interval.high]).all()

    def test_rows_that_do_not_fit(self) -> None:
        with pytest.raises(DataError, match="equal length"):
            bootstrap("pearson", [1, 2], [1, 2, 3])
