"""What is left given the length, and how often clusters that differ in length alone are found to differ in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from likewise.attention.significance import (
    cluster_test,
    length_strata,
    partial_permutation_test,
    partial_test,
    permutation_test,
    residual_ranks,
)
from likewise.errors import DataError

Curve = Callable[[np.ndarray, np.random.Generator], np.ndarray]
BINS = [(0, 18), (18, 22), (22, 27), (27, 34), (34, None)]
LOW, HIGH = stats.binom.interval(0.999, 200, 0.05)
"""What 200 tests at 5 % find where there is nothing."""


def curve(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 2 * z**2 + rng.normal(size=len(z))


def skewed_curve(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Errors of mean 0 that are skewed to one side for short texts, to the other for long ones."""
    return z**2 + np.where(z > 0, 1, -1) * (rng.exponential(1, len(z)) - 1)


def label_curve(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Similarity labels with ties, cut off at 0 and 5."""
    return np.round(np.clip(2.5 + 1.5 * z - 0.8 * z**2 + rng.normal(0, 1.3, len(z)), 0, 5) * 5) / 5


@dataclass(frozen=True)
class Points:
    """Values and clusters that follow the length; nothing else joins them but ``effect``, added in one cluster."""

    values: np.ndarray
    length: np.ndarray
    labels: np.ndarray

    @classmethod
    def draw(cls, rng: np.random.Generator, shape: Curve, blur: float, effect: float = 0.0) -> Points:
        length = np.round(np.exp(rng.normal(3, 0.45, 600)) + 5)
        z = (np.log(length - 4) - 3) / 0.5
        labels = np.digitize(z + rng.normal(0, blur, 600), [-0.8, 0, 1])
        return cls(shape(z, rng) + effect * (labels == 1), length, labels)

    @property
    def naive(self) -> bool:
        return bool(stats.kruskal(*(self.values[self.labels == cluster] for cluster in range(4))).pvalue < 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "blur"), [(curve, 0.3), (skewed_curve, 0.3), (label_curve, 0.3), (label_curve, 1.5)])
def test_level_is_kept_where_length_is_all(shape: Curve, blur: float) -> None:
    rng, naive, partial, pairs, shuffled = np.random.default_rng(0), 0, 0, 0, 0
    for seed in range(200):
        points = Points.draw(rng, shape, blur)
        test = partial_test(points.values, points.length, points.labels)
        naive, partial = naive + points.naive, partial + (test.kruskal_p < 0.05)
        pairs += test.pairs_significant > 0
        shuffled += partial_permutation_test(points.values, points.length, points.labels, 99, seed).p <= 0.05
    assert naive > 0.95 * 200
    # Clusters of like length (a small blur) leave this test below its level, as its docstring says.
    assert (0 if blur < 1 else LOW) <= partial <= HIGH
    assert pairs <= HIGH
    assert LOW <= shuffled <= HIGH


def test_values_themselves_still_follow_length_within_strata() -> None:
    """Why what is left is shuffled: within a wide stratum, clusters of like length still part values that follow it."""
    rng, raw, left = np.random.default_rng(0), 0, 0
    for seed in range(200):
        points = Points.draw(rng, curve, 0.3)
        strata = length_strata(points.length, most=8)
        raw += permutation_test(points.values, points.labels, strata, 99, seed).p <= 0.05
        left += (
            permutation_test(residual_ranks(points.values, points.length), points.labels, strata, 99, seed).p <= 0.05
        )
    assert raw > 100 and left <= HIGH


@pytest.mark.parametrize(("blur", "effect"), [(0.3, 1.0), (1.5, 0.7)])
def test_what_clusters_add_to_length_is_found(blur: float, effect: float) -> None:
    rng, partial, shuffled = np.random.default_rng(0), 0, 0
    for seed in range(50):
        points = Points.draw(rng, curve, blur, effect)
        partial += partial_test(points.values, points.length, points.labels).kruskal_p < 0.05
        shuffled += partial_permutation_test(points.values, points.length, points.labels, 99, seed).p <= 0.05
    assert min(partial, shuffled) > 0.9 * 50


def test_partial_test_is_a_test_of_what_is_left() -> None:
    points = Points.draw(np.random.default_rng(0), curve, 1.5)
    found = partial_test(points.values, points.length, points.labels, alpha=0.3).to_dict()
    assert found == cluster_test(residual_ranks(points.values, points.length), points.labels, alpha=0.3).to_dict()


def test_shapes_are_checked() -> None:
    with pytest.raises(DataError, match="two values for each point"):
        residual_ranks([1.0, 2.0], [1.0])


def test_given_leaves_no_trace_of_the_other() -> None:
    points = Points.draw(np.random.default_rng(0), curve, 1.0)
    left, length = residual_ranks(points.values, points.length), points.length
    groups = [left[low <= length] if high is None else left[(low <= length) & (length < high)] for low, high in BINS]
    assert stats.kruskal(*groups).pvalue > 0.05
    assert left.mean() == pytest.approx(0, abs=1e-6)
    assert stats.spearmanr(left, length).statistic == pytest.approx(0, abs=0.02)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("other", [[7, 7, 7, 7, 7], [1, 1, 1, 2, 2], [1, 2, 3, 4, 100], [3, 3, 3, 3, np.inf]], ids=str)
def test_given_takes_few_points(other: list[float]) -> None:
    left = residual_ranks([3.0, 1.0, 4.0, 1.0, 5.0], other)
    assert np.isfinite(left).all() and np.abs(left).max() > 0.1
    assert left.sum() == pytest.approx(0, abs=1e-6)
    assert residual_ranks([2.0], [1.0]).tolist() == [0] and residual_ranks([], []).tolist() == []


def test_given_a_constant_is_the_ranks() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    np.testing.assert_allclose(residual_ranks(values, np.ones(5)), stats.rankdata(values) - 3)


def test_given_itself_nothing_is_left() -> None:
    length = np.random.default_rng(0).integers(5, 40, 300)
    assert not residual_ranks(length, length).any()
    assert not residual_ranks(length**3, -length).any()


def test_given_keeps_ties_and_gaps() -> None:
    rng = np.random.default_rng(0)
    values, length = rng.integers(0, 26, 400) / 5, rng.integers(5, 12, 400).astype(float)
    values[3], length[9] = np.nan, np.nan
    left = residual_ranks(values, length)
    assert np.flatnonzero(np.isnan(left)).tolist() == [3, 9]
    known = ~np.isnan(left)
    pairs = np.stack([values[known], length[known]], 1)
    assert len(np.unique(left[known])) <= len(np.unique(pairs, axis=0))
