"""Thresholds equal their definitions, and their intervals cover the true threshold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import norm

from likewise.errors import DataError, UsageError
from likewise.search.probability_curves import ProbabilityCurve, share_interval
from likewise.search.thresholds import LIKELIHOOD_RATIO, ScoredLabels, likelihood_ratio


def drawn(rng: np.random.Generator, n: int, digits: int | None = None) -> ScoredLabels:
    """Standard normal scores whose probability of a match is logistic with slope 2."""
    scores = rng.normal(size=n)
    scores = scores if digits is None else scores.round(digits)
    return ScoredLabels.of(scores, rng.random(n) < expit(2 * scores))


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("wanted", [0.6, 0.75, 0.9])
def test_precision_threshold_is_the_lowest_score_with_that_precision(wanted: float, digits: int | None) -> None:
    data = drawn(np.random.default_rng(0), 300, digits)
    precision = {
        score: data.labels[data.scores >= score].mean()
        for score in set(data.scores.tolist()) if (data.scores >= score).sum() >= 10
    }  # fmt: skip
    found = data.precision_threshold(wanted)
    assert found.value == min(score for score, value in precision.items() if value >= wanted)
    # Outwards from the threshold up to the first score whose own interval leaves the wanted precision out.
    values = np.unique(data.scores)
    at, ends = int(np.flatnonzero(values == found.value)[0]), []
    for steps in (range(at - 1, -1, -1), range(at + 1, len(values))):
        end = at
        for step in steps:
            above = data.labels[data.scores >= values[step]]
            own = share_interval(above.sum(), len(above))
            if not own.low <= wanted <= own.high:
                break
            end = step
        ends.append(values[end])
    assert (found.low, found.high) == (ends[0], ends[1])


@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.95])
def test_recall_threshold_is_the_highest_score_with_that_recall(wanted: float) -> None:
    data = drawn(np.random.default_rng(1), 300, 2)
    matches = data.scores[data.labels == 1]
    found = data.recall_threshold(wanted)
    assert found.value == max(score for score in matches if (matches >= score).mean() >= wanted)
    assert found.low <= found.value <= found.high


def true_threshold(kind: str, wanted: float) -> float:
    """The threshold of the distribution that ``drawn`` draws from."""
    grid = np.linspace(-8, 8, 40_001)
    mass, matches = norm.pdf(grid), norm.pdf(grid) * expit(2 * grid)

    def distance(score: float) -> float:
        above = grid >= score
        share = matches[above].sum() / (mass[above] if kind == "precision" else matches).sum()
        return float(share - wanted)

    return float(np.log(wanted / (1 - wanted)) / 2) if kind == "probability" else float(brentq(distance, -4, 4))


@pytest.mark.parametrize("kind", ["precision", "recall", "probability"])
@pytest.mark.parametrize("wanted", [0.7, 0.85])
def test_intervals_cover_the_true_threshold(kind: str, wanted: float) -> None:
    rng, true, found = np.random.default_rng(2), true_threshold(kind, wanted), []
    for _ in range(200):
        data = drawn(rng, 800)
        if kind == "probability":
            curve = ProbabilityCurve.fit("isotonic", data.scores, data.labels)
            found.append(data.probability_threshold(wanted, curve))
        else:
            found.append(data.precision_threshold(wanted) if kind == "precision" else data.recall_threshold(wanted))
    held = np.mean([one.low <= true <= one.high for one in found])
    assert 0.91 <= held <= 0.995


def test_interval_of_a_logistic_probability_covers() -> None:
    rng, true, held = np.random.default_rng(3), true_threshold("probability", 0.7), 0
    for _ in range(100):
        data = drawn(rng, 400)
        one = data.probability_threshold(0.7, ProbabilityCurve.fit("logistic", data.scores, data.labels))
        held += one.low <= true <= one.high
    assert 90 <= held <= 100


def plain_ratio(matches: np.ndarray, pairs: np.ndarray, position: int, wanted: float) -> float:
    """The likelihood ratio by numerical optimization of both rising curves."""

    def best(bounds: list[tuple[float, float]]) -> float:
        def loss(chance: np.ndarray) -> float:
            return -float((matches * np.log(chance) + (pairs - matches) * np.log(1 - chance)).sum())

        rises = [{"type": "ineq", "fun": lambda chance, at=at: chance[at + 1] - chance[at]} for at in range(n - 1)]
        start = np.linspace(*np.clip([wanted - 0.2, wanted + 0.2], 0.05, 0.95), n)
        start = np.clip(start, *np.array(bounds).T)
        return -minimize(loss, start, bounds=bounds, constraints=rises, options={"maxiter": 500, "ftol": 1e-12}).fun

    n, edge = len(matches), 1e-9
    free = best([(edge, 1 - edge)] * n)
    return 2 * (free - best([(edge, wanted)] * position + [(wanted, 1 - edge)] * (n - position)))


@pytest.mark.parametrize("position", [0, 2, 4, 6])
@pytest.mark.parametrize("wanted", [0.3, 0.6])
def test_likelihood_ratio_by_numerical_optimization(position: int, wanted: float) -> None:
    pairs = np.array([9.0, 8, 10, 7, 9, 12])
    matches = np.array([1.0, 3, 2, 4, 6, 8])
    expected = plain_ratio(matches, pairs, position, wanted)
    assert likelihood_ratio(matches, pairs, position, wanted) == pytest.approx(expected, abs=1e-4)


def test_ends_of_a_probability_are_accepted_and_their_neighbours_are_not() -> None:
    data = drawn(np.random.default_rng(4), 500)
    found = data.probability_threshold(0.5, ProbabilityCurve.fit("isotonic", data.scores, data.labels))
    ones, matches = np.ones(500), data.labels.astype(float)
    ratios = [likelihood_ratio(matches, ones, position, 0.5) for position in range(500)]
    low, high = (int(np.flatnonzero(data.scores == end)[0]) for end in (found.low, found.high))
    assert max(ratios[low], ratios[high]) <= LIKELIHOOD_RATIO < min(ratios[low - 1], ratios[high + 1])


@pytest.mark.parametrize(
    ("scores", "labels", "flaw"),
    [
        ([0.1] * 40, [0, 1] * 20, "all 40 pairs have the same score, 0.1"),
        (np.arange(40), [1] * 40, "only 0 of 40 pairs do not match"),
        (np.arange(40), [1] * 5 + [0] * 35, "only 5 of 40 pairs match; give at least 10 of each"),
        (np.arange(40), [0, 2] * 20, "labels are 0 or 1"),
        ([np.nan, *range(39)], [0, 1] * 20, "a score is not a number"),
        (np.arange(3), [0, 1], "each score needs a label"),
    ],
)
def test_bad_pairs_are_rejected(scores: object, labels: object, flaw: str) -> None:
    with pytest.raises(DataError, match=flaw):
        ScoredLabels.of(scores, labels)  # type: ignore[arg-type]


def test_unreached_targets_name_the_best() -> None:
    data = ScoredLabels.of(np.arange(100.0), np.arange(100) % 2)
    with pytest.raises(UsageError, match=r"no threshold has a precision of 0.9 on these pairs: the highest is 0\.\d+"):
        data.precision_threshold(0.9)
    curve = ProbabilityCurve.fit("isotonic", data.scores, data.labels)
    with pytest.raises(UsageError, match=r"no score has a probability of 0\.999"):
        data.probability_threshold(0.999, curve)


def test_precision_and_recall_at_a_threshold() -> None:
    data = ScoredLabels.of(np.arange(40.0), [0] * 20 + [1] * 20)
    assert data.above(25) == (15, 15)
    assert data.precision(10).value == pytest.approx(20 / 30)
    assert data.recall(25).value == 0.75
    assert np.isnan(data.precision(100).value)
