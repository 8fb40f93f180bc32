"""Confidence bands: one value per layer, each with its 95 % interval."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likewise.metrics import Interval

Array = NDArray[np.float64]
ENDS = (2.5, 97.5)
LEAST_BLOCKS = 5


@dataclass(frozen=True, eq=False)
class ConfidenceBand:
    """Values (L,) of the layers and the ends (L,) of their intervals; nan where there is nothing to measure.

    >>> ConfidenceBand.of_draws(np.array([[0.5, 0.4, 0.6]])).values.tolist()
    [0.5]
    """

    values: Array
    low: Array
    high: Array

    @classmethod
    def of_draws(cls, draws: Array) -> ConfidenceBand:
        """From a value and its bootstrap draws in each layer, (L, 1 + B)."""
        with warnings.catch_warnings():
            # A layer without any finite draw has no interval, which needs no warning.
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = np.nanpercentile(draws[:, 1:], ENDS, axis=1)
        return cls(draws[:, 0], low, high)

    @classmethod
    def of_jackknife(cls, values: Array, without: Array) -> ConfidenceBand:
        """From the values (L,) and those (L, g) with each of g blocks left out; no interval below ``LEAST_BLOCKS``.

        For measures that resampling biases: a resampled corpus repeats its words, which lowers its rank.
        """
        from scipy.stats import t

        blocks = without.shape[1]
        if blocks < LEAST_BLOCKS:
            return cls(values, np.full_like(values, np.nan), np.full_like(values, np.nan))
        spread = np.square(without - without.mean(1, keepdims=True)).sum(1)
        reach = t.ppf(ENDS[1] / 100, blocks - 1) * np.sqrt((blocks - 1) / blocks * spread)
        return cls(values, values - reach, values + reach)

    @classmethod
    def of_intervals(cls, intervals: Sequence[Interval]) -> ConfidenceBand:
        """From an interval in each layer."""
        return cls(*(np.array([getattr(one, end) for one in intervals]) for end in ("value", "low", "high")))

    def at(self, layer: int) -> Interval:
        """The value of a layer with its interval."""
        return Interval(float(self.values[layer]), float(self.low[layer]), float(self.high[layer]))

    def ends(self, layer: int) -> list[float]:
        """The interval of a layer."""
        return [float(self.low[layer]), float(self.high[layer])]

    @classmethod
    def without_interval(cls, values: Array) -> ConfidenceBand:
        """Values (L,) without intervals."""
        nothing = np.full(len(values), np.nan)
        return cls(values, nothing, nothing)


def drawn_means(values: Array, draws: int, seed: int) -> Array:
    """The mean of each row (L, W) and its Poisson bootstrap draws over the W words, the same in all rows: (L, 1 + B).

    A word without a value in a row (nan) is left out there; one word alone has a mean and no draws. The same seed draws
    the same words.

    >>> drawn_means(np.array([[1.0, 3.0, np.nan]]), draws=10, seed=0).shape
    (1, 11)
    """
    # A separate random stream: texts use the same seed, and their draws must be independent.
    weights = np.random.default_rng((seed, 1)).poisson(1.0, (draws, values.shape[1])).astype(np.float64)
    weights = np.vstack([np.ones(values.shape[1]), weights])
    there = np.isfinite(values)
    sums, counts = np.where(there, values, 0.0) @ weights.T, there @ weights.T
    means: Array = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    means[there.sum(1) < 2, 1:] = np.nan
    return means
