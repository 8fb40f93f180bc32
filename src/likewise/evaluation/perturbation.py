"""Perturbation: texts of which only some tokens are shown, the others being masked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.batches import TOKEN_BUDGET, exact_length_batches
from likewise.encoder.forward import Batch
from likewise.progress import Ticker

Array = NDArray[np.float64]

STEP = 0.04
FRACTIONS: Array = np.round(np.arange(0, 1 + STEP / 2, STEP), 2)
"""The shares of tokens shown, 0 to 1."""


@dataclass(frozen=True)
class Shown:
    """A text's ids and which of them are shown; hashable, so that equal ones are encoded once."""

    ids: tuple[int, ...]
    shown: frozenset[int]


def shown_steps(order: Sequence[int], kept: Iterable[int] = ()) -> list[frozenset[int]]:
    """The places shown at each fraction, when tokens enter in the given order and others are always there.

    >>> [len(step) for step in shown_steps([2, 1])][:14:13]
    [0, 1]
    """
    always = frozenset(kept)
    counts = np.floor(FRACTIONS * len(order) + 0.5).astype(int)
    return [always | frozenset(order[:count]) for count in counts]


def shown_vectors(
    encoder: Encoder, texts: Sequence[Shown], ticker: Ticker | None = None, filler: str = "mask"
) -> NDArray[np.float32]:
    """Pooled vectors (n, d) of partly shown texts, before heads and any Normalize; equal ones are encoded once.

    ``filler`` is the role of the token that hides others. ``ticker`` hears that the work goes on.
    """
    ticker = ticker or Ticker(None)
    unique = list(dict.fromkeys(texts))
    index = {text: row for row, text in enumerate(unique)}
    mask = encoder.tokenizer.filler_id(filler)
    rows: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(unique)
    for indices in exact_length_batches([len(text.ids) for text in unique], TOKEN_BUDGET):
        ticker.add(0)
        chosen = [unique[row] for row in indices]
        ids = torch.tensor([text.ids for text in chosen], dtype=torch.long, device=encoder.device)
        visible = torch.zeros_like(ids, dtype=torch.bool)
        for row, text in enumerate(chosen):
            visible[row, list(text.shown)] = True
        # Which tokens count in pooling is asked of the whole text: a mask is a special token and would not.
        pooling_mask = encoder.pooling_mask_of(ids, encoder.modules_config.prompt_for(None))
        with torch.no_grad():
            pooled = encoder.pool(encoder.layer_states(Batch(torch.where(visible, ids, mask))), pooling_mask)
        for row, vector in zip(indices, pooled.float().cpu().numpy(), strict=True):
            rows[row] = vector
    return np.stack([rows[index[text]] for text in texts])
