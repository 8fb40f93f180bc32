"""Controls that the published studies lack, for several items: models without training, intervals of differences."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike

from likewise.encoder import Encoder
from likewise.metrics import Interval, bootstrap_draws, spearman

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


def same_effect(effect: Interval, control: Interval, alternative: float = 0.0) -> bool:
    """Whether a control shows an effect, too: all of it is above the alternative, and it is not clearly smaller.

    >>> same_effect(Interval(0.5, 0.4, 0.6), Interval(0.1, 0.05, 0.15))
    False
    """
    return control.low > alternative and control.high >= effect.low
