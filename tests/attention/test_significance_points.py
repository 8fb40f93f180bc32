"""Ties of points: R squared by least squares; ties across length are found, and none at the nominal rate."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from likewise.attention.significance import point_tie, residual_ranks

Array = NDArray[np.float64]


def drawn(seed: int, tie: float, n: int = 300) -> tuple[Array, Array, Array]:
    """Points along a curve of length with a width of their own; values that follow length in a curve, and the width."""
    rng = np.random.default_rng(seed)
    length = np.rint(rng.lognormal(3.1, 0.45, n))
    width = rng.normal(size=n)
    points = np.column_stack([np.log(length) + 0.05 * width, np.sqrt(length) - 0.1 * width + rng.normal(0, 0.05, n)])
    values = np.clip(np.round(2.5 + np.sin(length / 9) + tie * width + rng.normal(size=n), 1), 0, 5)
    return points, values, length


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_r2_is_that_of_least_squares(seed: int) -> None:
    points, values, length = drawn(seed, 0.3)
    target = residual_ranks(values, length)
    columns = np.column_stack([np.ones(len(target)), *(residual_ranks(column, length) for column in points.T)])
    left = target - columns @ np.linalg.lstsq(columns, target, rcond=None)[0]
    expected = 1 - np.square(left).sum() / np.square(target - target.mean()).sum()
    assert point_tie(points, values, length, draws=1).r2 == pytest.approx(expected, abs=1e-10)


@pytest.mark.slow
def test_a_tie_across_length_is_found_where_none_is_only_by_chance() -> None:
    found = [point_tie(*drawn(seed, 0.4), draws=99, seed=seed).p for seed in range(20)]
    assert max(found) <= 0.05
    none = [point_tie(*drawn(seed, 0.0), draws=99, seed=seed).p <= 0.05 for seed in range(200)]
    low, high = binom.interval(0.999, 200, 0.05)
    assert low <= sum(none) <= high


def test_missing_values_are_left_out_and_nothing_is_told_of_a_constant() -> None:
    points, values, length = drawn(0, 0.4)
    holes = values.copy()
    holes[:50] = np.nan
    assert point_tie(points, holes, length, draws=9) == point_tie(points[50:], values[50:], length[50:], draws=9)
    flat = point_tie(points, np.ones(300), length, draws=9)
    assert (flat.r2, flat.p) == (0.0, 1.0)
    assert np.isnan(point_tie(points, np.full(300, np.nan), length, draws=9).r2)
    assert point_tie(np.ones((300, 2)), values, length, draws=9).r2 == 0.0
