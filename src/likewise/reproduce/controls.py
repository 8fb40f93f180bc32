"""Controls that the published studies lack, for several items: models without training, intervals of differences."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike

from likewise.encoder import Encoder
from likewise.metrics import DRAWS, Array, Interval, bootstrap_draws, spearman

INITIAL_DEVIATION = 0.02  # of BERT's weights before training


def untrained(encoder: Encoder, seed: int = 0) -> Encoder:
    """A copy of the encoder with random weights, as BERT's are before training: norms 1, biases 0."""
    model, view = copy.deepcopy((encoder.model, encoder.model_view))  # together: the views look at the copied weights
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, INITIAL_DEVIATION, generator=generator)
            else:
                weight.fill_(0.0 if name.endswith("bias") else 1.0)
    return replace(encoder, model=model, model_view=view, postprocessing=None)


def spearman_difference(truth: ArrayLike, better: ArrayLike, worse: ArrayLike) -> Interval:
    """How much better (n,) follows truth (n,) than worse (n,) does: Spearman's difference over the same resamples."""
    value = spearman(better, truth) - spearman(worse, truth)
    draws = bootstrap_draws("spearman", better, truth) - bootstrap_draws("spearman", worse, truth)
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return Interval(value, float(low), float(high))


def resampled(statistic: Callable[[Array], float], n: int, draws: int = DRAWS, seed: int = 0) -> Interval:
    """A statistic of n rows with its percentile bootstrap interval.

    ``statistic`` takes weights (n,): how often each row counts. So any ratio or extreme of sums can be resampled.

    >>> values = np.array([1.0, 2.0, 3.0])
    >>> resampled(lambda weights: float((values * weights).sum() / weights.sum()), 3, draws=50).value
    2.0
    """
    rng = np.random.default_rng(seed)
    drawn = [statistic(np.bincount(rng.integers(0, n, n), minlength=n).astype(np.float64)) for _ in range(draws)]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return Interval(float(statistic(np.ones(n))), float(low), float(high))


def same_effect(effect: Interval, control: Interval, alternative: float = 0.0) -> bool:
    """Whether a control shows an effect, too: all of it is above the alternative, and it is not clearly smaller.

    >>> same_effect(Interval(0.5, 0.4, 0.6), Interval(0.1, 0.05, 0.15))
    False
    """
    return control.low > alternative and control.high >= effect.low
