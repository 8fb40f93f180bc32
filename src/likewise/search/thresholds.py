"""Thresholds of a score for a wanted precision, recall or probability, with intervals that cover as they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError, UsageError
from likewise.metrics import Interval
from likewise.search.probability_curves import Array, ProbabilityCurve, Z, share_interval, wilson_ends

LIKELIHOOD_RATIO = 2.26916  # The 95 % quantile of the limit of 2 log(ratio) at a point (Banerjee and Wellner 2001)
LEAST_ABOVE = 10  # Fewer pairs above a threshold say nothing about its precision
LEAST_OF_CLASS = 10


@dataclass(frozen=True, eq=False)
class ScoredLabels:
    """Scores (n,), rising, of labelled pairs, and their labels (n,): 1 is a match."""

    scores: Array
    labels: NDArray[np.int64]

    @classmethod
    def of(cls, scores: ArrayLike, labels: ArrayLike) -> ScoredLabels:
        """Sort and check them."""
        given, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels)
        if given.shape != truth.shape or given.ndim != 1:
            raise DataError(f"each score needs a label, got shapes {given.shape} and {truth.shape}")
        if not np.isfinite(given).all():
            raise DataError("a score is not a number; check the model's vectors")
        if not np.isin(truth, (0, 1)).all():
            raise DataError("labels are 0 or 1; say from which score on a pair is a match (--match-from)")
        matches = int(truth.sum())
        for name, count in (("match", matches), ("do not match", len(truth) - matches)):
            if count < LEAST_OF_CLASS:
                raise DataError(f"only {count} of {len(truth)} pairs {name}; give at least {LEAST_OF_CLASS} of each")
        if np.ptp(given) == 0:
            raise DataError(f"all {len(given)} pairs have the same score, {given[0]:g}; give other pairs or a model")
        order = np.argsort(given, kind="stable")
        return cls(given[order], truth[order].astype(np.int64))

    @property
    def base_rate(self) -> float:
        """The share of matches."""
        return float(self.labels.mean())

    def above(self, threshold: float) -> tuple[int, int]:
        """How many pairs have at least this score, and how many of them match."""
        first = int(np.searchsorted(self.scores, threshold))
        return len(self.scores) - first, int(self.labels[first:].sum())

    def precision(self, threshold: float) -> Interval:
        """The share of matches among the pairs with at least this score."""
        count, matches = self.above(threshold)
        return share_interval(matches, count) if count else Interval(*[float("nan")] * 3)

    def recall(self, threshold: float) -> Interval:
        """The share of the matches that have at least this score."""
        return share_interval(self.above(threshold)[1], int(self.labels.sum()))

    def _steps(self) -> tuple[Array, Array, Array]:
        """Each different score, highest first, with the pairs and the matches of at least this score."""
        scores, first = np.unique(self.scores, return_index=True)
        matches = np.concatenate([[0], np.cumsum(self.labels)])
        return scores[::-1], (len(self.scores) - first[::-1]).astype(float), (matches[-1] - matches[first[::-1]]) * 1.0

    def precision_threshold(self, wanted: float) -> Interval:
        """The lowest score from which on ``wanted`` of the pairs match.

        Interval: the scores around it whose own precision, by Wilson's interval, may be the wanted one. The matches
        above a given score are binomial, so this covers as often as it says; a bootstrap of the threshold covers less.
        """
        scores, pairs, matches = self._steps()
        enough = (matches >= wanted * pairs) & (pairs >= LEAST_ABOVE)
        if not enough.any():
            best = np.argmax(np.where(pairs >= LEAST_ABOVE, matches / pairs, -1))
            reached = f"the highest is {matches[best] / pairs[best]:.3f}, from {scores[best]:.4f} on"
            raise UsageError(f"no threshold has a precision of {wanted:g} on these pairs: {reached}; want less")
        found = int(np.flatnonzero(enough)[-1])
        low, high = wilson_ends(matches, pairs)
        rejected = (wanted < low) | (wanted > high)
        before, after = np.flatnonzero(rejected[:found]), np.flatnonzero(rejected[found:])
        top = int(before[-1]) + 1 if len(before) else 0
        bottom = found + int(after[0]) - 1 if len(after) else len(scores) - 1
        return Interval(float(scores[found]), float(scores[max(bottom, found)]), float(scores[min(top, found)]))

    def recall_threshold(self, wanted: float) -> Interval:
        """The highest score that ``wanted`` of the matches have at least; interval: order statistics, exact."""
        from scipy.stats import binom

        matches = self.scores[self.labels == 1][::-1]
        count = len(matches)
        rank = max(1, int(np.ceil(wanted * count - 1e-9)))
        ends = binom.ppf([0.975, 0.025], count, wanted)
        low, high = (int(np.clip(end, 0, count - 1)) for end in (ends[0], ends[1] - 1))
        return Interval(float(matches[rank - 1]), float(matches[low]), float(matches[high]))

    def probability_threshold(self, wanted: float, curve: ProbabilityCurve) -> Interval:
        """The lowest score at which the probability of a match is ``wanted``, by a curve that was fitted here."""
        found = curve.inverse(wanted)
        if np.isnan(found):
            best = f"the highest probability is {curve.values[-1]:.3f}"
            raise UsageError(f"no score has a probability of {wanted:g} on these pairs: {best}; want less")
        ends = self._logistic_ends(found, curve) if curve.kind == "logistic" else self._isotonic_ends(wanted, found)
        return Interval(found, *ends)

    def _logistic_ends(self, found: float, curve: ProbabilityCurve) -> tuple[float, float]:
        """By the curvature of the likelihood (delta method)."""
        weights = (chance := curve(self.scores)) * (1 - chance)
        rows = np.column_stack([self.scores, np.ones(len(self.scores))])
        covariance = np.linalg.pinv((rows * weights[:, None]).T @ rows)
        gradient = -np.array([found, 1.0]) / curve.values[0]
        half = Z * float(np.sqrt(gradient @ covariance @ gradient))
        return found - half, found + half

    def _isotonic_ends(self, wanted: float, found: float) -> tuple[float, float]:
        """The scores at which a probability of ``wanted`` is not rejected by a likelihood ratio.

        A bootstrap of an isotonic curve is not consistent at a point; the likelihood ratio has a known limit.
        """
        values, first = np.unique(self.scores, return_index=True)
        ends = [*first[1:], len(self.scores)]
        pairs = np.diff([0, *ends]).astype(float)
        matches = np.diff(np.concatenate([[0], np.cumsum(self.labels)])[[0, *ends]]).astype(float)

        def accepted(position: int) -> bool:
            return likelihood_ratio(matches, pairs, position, wanted) <= LIKELIHOOD_RATIO

        start = int(np.clip(np.searchsorted(values, found), 0, len(values) - 1))
        low, high = (_last_accepted(accepted, start, end) for end in (0, len(values) - 1))
        return min(float(values[low]), found), max(float(values[high]), found)


def likelihood_ratio(matches: Array, pairs: Array, position: int, wanted: float) -> float:
    """Twice the log of the ratio of two best rising curves through the matches (n,) of pairs (n,).

    The one is free; the other is at most ``wanted`` before a position, and at least that from there on.
    """
    before, after = slice(None, position), slice(position, None)
    free, under, over = (_rising(matches[part], pairs[part]) for part in (slice(None), before, after))
    bound = np.concatenate([np.minimum(under, wanted), np.maximum(over, wanted)])
    return 2 * (_likelihood(free, matches, pairs) - _likelihood(bound, matches, pairs))


def _last_accepted(accepted: Callable[[int], bool], start: int, end: int) -> int:
    """Towards ``end``, the last position that is accepted, by halving; ``start`` counts as accepted."""
    if accepted(end):
        return end
    while abs(end - start) > 1:
        middle = (start + end) // 2
        start, end = (middle, end) if accepted(middle) else (start, middle)
    return start


def _rising(matches: Array, pairs: Array) -> Array:
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(matches / pairs, weights=pairs).x) if len(pairs) else pairs


def _likelihood(chance: Array, matches: Array, pairs: Array) -> float:
    from scipy.special import xlog1py, xlogy

    return float((xlogy(matches, chance) + xlog1py(pairs - matches, -chance)).sum())
