"""Correlations, errors and accuracy, with bootstrap intervals; what a score means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError

Array = NDArray[np.float64]
Metric = Callable[[Array, Array], Array]
DRAWS = 1000
SIGN_FLIPS = 9999
COUNTS_AT_ONCE = 2**21  # The largest number of counts of drawn values in memory


@dataclass(frozen=True)
class Interval:
    """A value and the ends of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ScoreMeaning:
    """What a score means in its corpus, as a calibration measured it.

    >>> print(ScoreMeaning(0.992, 0.71))
    above 99.2 % of unrelated pairs; match 0.71
    """

    percentile: float  # the share of unrelated pairs with a lower score, 0 to 1
    probability: float | None = None  # of a match; None if the calibration had no labelled pairs

    def to_dict(self) -> dict[str, Any]:
        """Both numbers by name."""
        return {"percentile": self.percentile, "probability": self.probability}

    def __str__(self) -> str:
        match = "" if self.probability is None else f"; match {self.probability:.2f}"
        # Rounded down: no score is above 100 % of pairs.
        percent = math.floor(1000 * min(self.percentile, 0.9999) + 1e-9) / 10
        return f"above {percent:.1f} % of unrelated pairs{match}"


def pearson(left: ArrayLike, right: ArrayLike) -> float:
    """Pearson's correlation of (n,) and (n,); nan if one of them is constant."""
    return float(_pearson_rows(*_pair(left, right))[0])


def spearman(left: ArrayLike, right: ArrayLike) -> float:
    """Spearman's rank correlation of (n,) and (n,), ties by average ranks."""
    return float(_spearman_rows(*_pair(left, right))[0])


def scaled_mse(scores: ArrayLike, truth: ArrayLike) -> float:
    """Mean squared error of scores (n,), mapped to the truth (n,) by least squares (slope and intercept)."""
    return float(_scaled_mse_rows(*_pair(scores, truth))[0])


def mean_squared_error(predicted: ArrayLike, truth: ArrayLike) -> float:
    """Mean squared error of (n,) and (n,), on the truth's own scale.

    >>> mean_squared_error([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    a, b = _pair(predicted, truth)
    return float(((a - b) ** 2).mean())


def share_within(predicted: ArrayLike, truth: ArrayLike, distance: float) -> float:
    """The share of (n,) within a distance of (n,).

    >>> share_within([1.0, 2.0], [1.01, 2.5], 0.05)
    0.5
    """
    a, b = _pair(predicted, truth)
    return float((np.abs(a - b) <= distance).mean())


def fitted_line(x: ArrayLike, y: ArrayLike) -> tuple[float, float] | None:
    """Slope and intercept of the least-squares line of y (n,) over x (n,); None if x is constant."""
    (a,), (b,) = _pair(x, y)
    if np.ptp(a) == 0:
        return None
    centred = a - a.mean()
    slope = float((centred * b).sum() / (centred**2).sum())
    return slope, float(b.mean() - slope * a.mean())


def confusion(truth: ArrayLike, predicted: ArrayLike, classes: int) -> NDArray[np.int64]:
    """How often each true class (row) was predicted as each class (column): (classes, classes)."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (np.asarray(truth, np.int64), np.asarray(predicted, np.int64)), 1)
    return counts


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """The share of (n,) and (n,) that agrees; nan if n is 0."""
    same = np.asarray(truth) == np.asarray(predicted)
    return float(same.mean()) if len(same) else float("nan")


def bootstrap(metric: str, left: ArrayLike, right: ArrayLike, draws: int = DRAWS, seed: int = 0) -> Interval:
    """A metric of (n,) and (n,) by name, with its percentile bootstrap interval over resampled rows."""
    drawn = bootstrap_draws(metric, left, right, draws, seed)
    low, high = np.nanpercentile(drawn, [2.5, 97.5]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return Interval(float(ROW_METRICS[metric](*_pair(left, right))[0]), float(low), float(high))


def bootstrap_draws(metric: str, left: ArrayLike, right: ArrayLike, draws: int = DRAWS, seed: int = 0) -> Array:
    """A metric of (n,) and (n,) by name on resampled rows: (draws,). The same seed draws the same rows.

    >>> bootstrap_draws("pearson", [1, 2, 3, 4], [1, 2, 3, 5], draws=10).shape
    (10,)
    """
    (a,), (b,) = _pair(left, right)
    rng, n = np.random.default_rng(seed), len(a)
    # A hundred draws at a time: fast, and small enough for long inputs.
    parts = (rng.integers(0, n, (min(100, draws - start), n)) for start in range(0, draws, 100))
    return np.concatenate([ROW_METRICS[metric](a[rows], b[rows]) for rows in parts])


def bootstrap_means(values: ArrayLike, draws: int = DRAWS, seed: int = 0) -> list[Interval]:
    """The mean of each row (m, n) with its percentile bootstrap interval; all rows are resampled together."""
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(f"rows (m, n) of at least one value are needed, got shape {rows.shape}")
    n, rng = rows.shape[1], np.random.default_rng(seed)
    means = np.empty((draws, len(rows)))
    # A mean needs only how often each column is drawn: a product instead of a copy of the rows.
    some = max(1, min(draws, COUNTS_AT_ONCE // n))
    for start in range(0, draws, some):
        drawn = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(min(some, draws - start))]
        means[start : start + len(drawn)] = np.array(drawn, dtype=np.float64) @ rows.T / n
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return [Interval(*map(float, ends)) for ends in zip(rows.mean(1), low, high, strict=True)]


def sign_flip_test(differences: ArrayLike, draws: int = SIGN_FLIPS, seed: int = 0) -> list[float]:
    """The two-sided p-value of the mean of each row (m, n) of paired differences, by Fisher's randomization test.

    If both members of a pair are alike, each difference may as well have the other sign. With few columns all signs
    are tried, with more ``draws`` random ones. All rows have the same signs.

    >>> sign_flip_test([[1.0, 2.0, 3.0], [1.0, -1.0, 0.0]])
    [0.25, 1.0]
    """
    rows = np.asarray(differences, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(f"rows (m, n) of at least one difference are needed, got shape {rows.shape}")
    n, rng = rows.shape[1], np.random.default_rng(seed)
    exact = 2**n <= draws
    total, some = (2**n if exact else draws), max(1, COUNTS_AT_ONCE // n)
    # A sum that only rounding keeps below the observed one counts.
    least = np.abs(rows.sum(1)) * (1 - 1e-12)
    extreme = np.zeros(len(rows), np.int64)
    for start in range(0, total, some):
        numbers = np.arange(start, min(start + some, total))
        flips = numbers[:, None] >> np.arange(n) & 1 if exact else rng.integers(0, 2, (len(numbers), n), np.int8)
        extreme += (np.abs((1.0 - 2.0 * flips) @ rows.T) >= least).sum(0)
    # The observed signs are among all signs, and count as one more draw otherwise.
    return [float(p) for p in (extreme / total if exact else (extreme + 1) / (total + 1))]


def _pair(left: ArrayLike, right: ArrayLike) -> tuple[Array, Array]:
    """Two checked rows of equal length, each (1, n)."""
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise DataError(f"two rows of equal length are needed, got shapes {a.shape} and {b.shape}")
    if len(a) < 2:
        raise DataError(f"a correlation needs at least 2 pairs, got {len(a)}")
    return a[None], b[None]


def _pearson_rows(a: Array, b: Array) -> Array:
    """Row by row: (m, n) and (m, n) -> (m,)."""
    # Not by the deviation: the mean of equal numbers may differ from them by rounding.
    varies = (np.ptp(a, axis=1) > 0) & (np.ptp(b, axis=1) > 0)
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    spread = np.sqrt((a**2).sum(1) * (b**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(varies & (spread > 0), (a * b).sum(1) / spread, np.nan)


def _spearman_rows(a: Array, b: Array) -> Array:
    from scipy.stats import rankdata

    return _pearson_rows(rankdata(a, axis=1), rankdata(b, axis=1))


def _scaled_mse_rows(a: Array, b: Array) -> Array:
    """The residual of a least-squares line is (1 - r^2) of the variance, all of it without a slope."""
    explained = np.nan_to_num(_pearson_rows(a, b)) ** 2
    return np.maximum(b.var(1) * (1 - explained), 0.0)  # type: ignore[no-any-return]


def _accuracy_rows(a: Array, b: Array) -> Array:
    return np.asarray((a == b).mean(1), dtype=np.float64)


ROW_METRICS: dict[str, Metric] = {
    "pearson": _pearson_rows,
    "spearman": _spearman_rows,
    "scaled_mse": _scaled_mse_rows,
    "accuracy": _accuracy_rows,
}
