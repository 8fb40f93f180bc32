"""Curves from a score to the probability of a match, and how good predicted probabilities are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.metrics import Interval, bootstrap_means

Array = NDArray[np.float64]
BINS = 15
FOLDS = 5
Z = 1.959964  # The normal quantile of a 95 % interval
CHANCE_DRAWS = 200


@dataclass(frozen=True, eq=False)
class ProbabilityCurve:
    """The probability of a match at every score: an isotonic curve through its knots, or a logistic one.

    >>> curve = ProbabilityCurve.fit("isotonic", [0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    >>> curve([0.15, 0.85]).round(2).tolist()
    [0.17, 0.83]
    """

    kind: str  # isotonic or logistic
    knots: Array  # scores (k,), rising
    values: Array  # the probability at each knot (k,), or the slope and the intercept of the logit

    @classmethod
    def fit(cls, kind: str, scores: ArrayLike, labels: ArrayLike) -> ProbabilityCurve:
        """Fit scores (n,) to labels (n,) of 0 and 1."""
        return FITS[kind](np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64))

    def __call__(self, scores: ArrayLike) -> Array:
        """The probability at each score (n,)."""
        given = np.asarray(scores, dtype=np.float64)
        if self.kind == "isotonic":
            return np.asarray(np.interp(given, self.knots, self.values))
        from scipy.special import expit

        slope, intercept = self.values
        return np.asarray(expit(slope * given + intercept))

    def inverse(self, probability: float) -> float:
        """The lowest score with at least this probability; nan if there is none."""
        if self.kind == "logistic":
            slope, intercept = self.values
            return float((np.log(probability / (1 - probability)) - intercept) / slope)
        if probability > self.values[-1]:
            return float("nan")
        after = int(np.searchsorted(self.values, probability))
        ends = slice(max(after - 1, 0), after + 1)
        return float(np.interp(probability, self.values[ends], self.knots[ends]))


def _isotonic(scores: Array, labels: Array) -> ProbabilityCurve:
    from sklearn.isotonic import IsotonicRegression

    # No sample proves a probability of 0 or 1: the ends are those of Laplace's rule.
    edge = 1 / (len(scores) + 2)
    fitted = IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip").fit(scores, labels)
    return ProbabilityCurve("isotonic", np.array(fitted.X_thresholds_), np.array(fitted.y_thresholds_))


def _logistic(scores: Array, labels: Array) -> ProbabilityCurve:
    from sklearn.linear_model import LogisticRegression

    # Scaled, because dot products may be large; the weak penalty keeps the slope finite where the classes separate.
    centre, spread = scores.mean(), scores.std()
    fitted = LogisticRegression(C=1e3).fit((scores[:, None] - centre) / spread, labels)
    slope = fitted.coef_[0, 0] / spread
    ends = np.array([scores.min(), scores.max()])
    return ProbabilityCurve("logistic", ends, np.array([slope, fitted.intercept_[0] - slope * centre]))


FITS: dict[str, Callable[[Array, Array], ProbabilityCurve]] = {"isotonic": _isotonic, "logistic": _logistic}


def cross_validated(kind: str, scores: Array, labels: NDArray[np.int64], seed: int = 0) -> Array:
    """The probability (n,) of each pair by a curve that was fitted without it, in five stratified folds."""
    from sklearn.model_selection import StratifiedKFold

    found = np.empty(len(scores))
    for fit, held_out in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(scores, labels):
        found[held_out] = ProbabilityCurve.fit(kind, scores[fit], labels[fit])(scores[held_out])
    return found


@dataclass(frozen=True)
class ReliabilityBin:
    """Pairs of similar predicted probability: their number, the mean prediction, and the share of matches."""

    pairs: int
    predicted: float
    observed: Interval


def reliability_bins(predicted: ArrayLike, labels: ArrayLike, bins: int = BINS) -> list[ReliabilityBin]:
    """Probabilities (n,) and labels (n,) in bins of equal mass, lowest first."""
    given, truth = np.asarray(predicted, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    parts = np.array_split(np.argsort(given, kind="stable"), min(bins, len(given)))
    return [
        ReliabilityBin(len(rows), float(given[rows].mean()), share_interval(float(truth[rows].sum()), len(rows)))
        for rows in parts
    ]


def calibration_error(predicted: ArrayLike, labels: ArrayLike, bins: int = BINS) -> float:
    """The expected calibration error: the mean distance of prediction and share of matches over bins of equal mass.

    >>> calibration_error([0.25, 0.25, 0.25, 0.25], [0, 0, 0, 1], bins=1)
    0.0
    """
    found = reliability_bins(predicted, labels, bins)
    total = sum(one.pairs for one in found)
    return sum(one.pairs * abs(one.predicted - one.observed.value) for one in found) / total


@dataclass(frozen=True)
class CurveQuality:
    """How good predicted probabilities are: lower is better for all numbers."""

    brier: Interval
    log_loss: float
    calibration_error: float
    calibration_error_by_chance: float  # what exact probabilities would give on so many pairs

    @classmethod
    def of(cls, predicted: ArrayLike, labels: ArrayLike, seed: int = 0) -> CurveQuality:
        """Measure probabilities (n,) on labels (n,) that they were not fitted on."""
        given, truth = np.asarray(predicted, dtype=np.float64), np.asarray(labels, dtype=np.float64)
        loss = -np.mean(np.log(np.clip(np.where(truth == 1, given, 1 - given), 1e-12, 1)))
        rng = np.random.default_rng(seed)
        chance = [calibration_error(given, rng.random(len(given)) < given) for _ in range(CHANCE_DRAWS)]
        [brier] = bootstrap_means([(given - truth) ** 2], seed=seed)
        return cls(brier, float(loss), calibration_error(given, truth), float(np.mean(chance)))


def share_interval(part: float, total: int) -> Interval:
    """A share with its 95 % interval (Wilson).

    >>> share_interval(8, 10).low > 0.49
    True
    """
    low, high = wilson_ends(np.array([part]), np.array([total]))
    return Interval(part / total, float(low[0]), float(high[0]))


def wilson_ends(part: Array, total: Array) -> tuple[Array, Array]:
    """The ends of Wilson's 95 % intervals of shares: (n,) of (n,)."""
    centre = (part + Z**2 / 2) / (total + Z**2)
    half = Z * np.sqrt(part * (total - part) / total + Z**2 / 4) / (total + Z**2)
    return centre - half, centre + half
