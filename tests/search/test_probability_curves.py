"""Curves from score to probability: equal to their definitions, cross-validated, measured."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.model_selection import StratifiedKFold

from likewise.search.probability_curves import (
    CurveQuality,
    ProbabilityCurve,
    calibration_error,
    cross_validated,
    reliability_bins,
    share_interval,
)


def drawn(seed: int, n: int = 60, digits: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Scores with some ties, and labels that follow them."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n).round(digits)
    return scores, (rng.random(n) < expit(2 * scores)).astype(int)


def plain_isotonic(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """By the min-max formula: the largest mean from any start of the least mean to any end."""
    values = np.unique(scores)
    groups = [labels[scores == value] for value in values]
    fitted = [
        max(
            min(np.concatenate(groups[start : end + 1]).mean() for end in range(at, len(values)))
            for start in range(at + 1)
        )
        for at in range(len(values))
    ]
    edge = 1 / (len(scores) + 2)
    return np.clip(np.array(fitted)[np.searchsorted(values, scores)], edge, 1 - edge)


@pytest.mark.parametrize(("seed", "digits"), [(0, 3), (1, 1), (2, 0)])
def test_isotonic_curve_is_the_min_max_formula(seed: int, digits: int) -> None:
    scores, labels = drawn(seed, digits=digits)
    curve = ProbabilityCurve.fit("isotonic", scores, labels)
    np.testing.assert_allclose(curve(scores), plain_isotonic(scores, labels), atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_logistic_curve_solves_the_score_equations(scale: float) -> None:
    scores, labels = drawn(3, 500)
    predicted = ProbabilityCurve.fit("logistic", scores * scale, labels)(scores * scale)
    assert abs((predicted - labels).sum()) < 0.05
    assert abs(((predicted - labels) * scores).sum()) < 0.05


def test_curves_stay_inside_and_rise() -> None:
    scores, labels = np.array([0.1, 0.2, 0.8, 0.9] * 3), np.array([0, 0, 1, 1] * 3)
    for kind in ("isotonic", "logistic"):
        found = ProbabilityCurve.fit(kind, scores, labels)(np.linspace(-1, 2, 50))
        assert (np.diff(found) >= 0).all()
        assert 0 < found[0] < found[-1] < 1


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
@pytest.mark.parametrize("probability", [0.2, 0.5, 0.8])
def test_inverse_is_the_lowest_score_of_a_probability(kind: str, probability: float) -> None:
    curve = ProbabilityCurve.fit(kind, *drawn(4, 400))
    found = curve.inverse(probability)
    assert curve([found])[0] >= probability - 1e-9
    assert curve([found - 1e-6])[0] < probability


def test_inverse_of_an_unreached_probability_is_nan() -> None:
    curve = ProbabilityCurve.fit("isotonic", [1, 2, 3, 4], [0, 1, 0, 0])
    assert np.isnan(curve.inverse(0.9))
    assert curve.inverse(0.01) == 1


@pytest.mark.parametrize("kind", ["isotonic", "logistic"])
def test_cross_validation_never_sees_the_pair_itself(kind: str) -> None:
    scores, labels = drawn(5)
    found = cross_validated(kind, scores, labels, seed=7)
    for fit, held_out in StratifiedKFold(5, shuffle=True, random_state=7).split(scores, labels):
        np.testing.assert_array_equal(
            found[held_out], ProbabilityCurve.fit(kind, scores[fit], labels[fit])(scores[held_out])
        )


def test_bins_have_equal_mass_and_the_error_is_their_mean_distance() -> None:
    rng = np.random.default_rng(0)
    predicted = rng.random(997)
    labels = (rng.random(997) < predicted**2).astype(int)
    bins = reliability_bins(predicted, labels)
    assert {one.pairs for one in bins} == {66, 67}
    assert len(bins) == 15
    order = sorted(range(997), key=lambda row: predicted[row])
    error, start = 0.0, 0
    for one in bins:
        rows = order[start : start + one.pairs]
        start += one.pairs
        share = sum(labels[row] for row in rows) / len(rows)
        assert one.observed.value == pytest.approx(share)
        assert one.observed.low <= share <= one.observed.high
        error += len(rows) / 997 * abs(share - sum(predicted[row] for row in rows) / len(rows))
    assert calibration_error(predicted, labels) == pytest.approx(error)
    assert error > 0.1


def test_quality_by_the_definitions() -> None:
    predicted, labels = np.array([0.9, 0.2, 0.6, 0.5]), np.array([1, 0, 0, 1])
    found = CurveQuality.of(predicted, labels)
    assert found.brier.value == pytest.approx((0.01 + 0.04 + 0.36 + 0.25) / 4)
    assert found.log_loss == pytest.approx(-np.log([0.9, 0.8, 0.4, 0.5]).mean())


def test_exact_probabilities_have_the_error_of_chance() -> None:
    rng = np.random.default_rng(1)
    predicted = rng.random(3000)
    exact = CurveQuality.of(predicted, rng.random(3000) < predicted)
    wrong = CurveQuality.of(predicted, rng.random(3000) < 0.5)
    assert exact.calibration_error < 1.5 * exact.calibration_error_by_chance
    assert wrong.calibration_error > 5 * wrong.calibration_error_by_chance


def test_interval_of_a_share_covers_it() -> None:
    rng = np.random.default_rng(2)
    found = [share_interval(matches, 50) for matches in rng.binomial(50, 0.9, 1000)]
    assert np.mean([one.low <= 0.9 <= one.high for one in found]) > 0.93
