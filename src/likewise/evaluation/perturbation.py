"""Perturbation: texts of which only some tokens are shown and the others are masked.

Tokens enter an all-mask sequence from most to least relevant; the area under the distance of its pooled vector to the
full text's (AUPC) is small if the important ones come first (Vasileiou & Eberle 2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.forward import TOKEN_BUDGET, Batch, exact_length_batches
from likewise.explain.explanation import Explanation
from likewise.progress import Ticker

Array = NDArray[np.float64]

STEP = 0.04
FRACTIONS: Array = np.round(np.arange(0, 1 + STEP / 2, STEP), 2)
"""The shares of tokens shown, 0 to 1."""


@dataclass(frozen=True)
class Shown:
    """A text's ids and the indices that are shown; hashable, so that equal ones are encoded once."""

    ids: tuple[int, ...]
    shown: frozenset[int]


def shown_steps(order: Sequence[int], always_shown: Iterable[int] = ()) -> list[frozenset[int]]:
    """The token indices shown at each fraction; the others enter in the given order.

    >>> [len(step) for step in shown_steps([2, 1])][:14:13]
    [0, 1]
    """
    always = frozenset(always_shown)
    counts = np.floor(FRACTIONS * len(order) + 0.5).astype(int)
    return [always | frozenset(order[:count]) for count in counts]


def shown_vectors(
    encoder: Encoder, texts: Sequence[Shown], ticker: Ticker | None = None, filler: str = "mask"
) -> NDArray[np.float32]:
    """Pooled vectors (n, d) of partly shown texts, before heads and any Normalize; equal ones are encoded once.

    ``filler`` is the role of the token that masks others. ``ticker`` is called once per batch.
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
        # The pooling mask is that of the whole text: mask tokens are special tokens, which may be left out.
        pooling_mask = encoder.pooling_mask_of(ids, encoder.modules_config.prompt_for(None))
        with torch.no_grad():
            pooled = encoder.pool(encoder.layer_states(Batch(torch.where(visible, ids, mask))), pooling_mask)
        for row, vector in zip(indices, pooled.float().cpu().numpy(), strict=True):
            rows[row] = vector
    return np.stack([rows[index[text]] for text in texts])


def area(found: Array) -> Array:
    """Trapezoid area over the fractions: (pairs, fractions) -> (pairs,)."""
    return np.asarray(np.trapezoid(found, FRACTIONS, axis=-1))


def token_curves(
    encoder: Encoder,
    explained: Mapping[str, Sequence[Explanation]],
    rank_special: bool = False,
    filler: str = "mask",
    ticker: Ticker | None = None,
) -> dict[str, Array]:
    """The distance to the full text while single tokens enter, by variant: (pairs, fractions)."""
    texts = {
        name: [shown for one in rows for shown in _token_steps(one, rank_special)] for name, rows in explained.items()
    }
    return _curves(encoder, texts, ticker, filler)


def pair_curves(
    encoder: Encoder,
    explained: Mapping[str, Sequence[Explanation]],
    deleting: bool = False,
    rank_special: bool = False,
    filler: str = "mask",
    ticker: Ticker | None = None,
) -> dict[str, Array]:
    """The same while the most relevant pairs of tokens enter or leave."""
    texts: dict[str, list[Shown]] = {name: [] for name in explained}
    for name, rows in explained.items():
        for one in rows:
            left, right = zip(*pair_steps(one, deleting, rank_special), strict=True)
            texts[name] += [Shown(one.left.ids, step) for step in left]
            texts[name] += [Shown(one.right.ids, step) for step in right]
    return _curves(encoder, texts, ticker, filler, full=0 if deleting else -1)


def _token_steps(explanation: Explanation, rank_special: bool) -> list[Shown]:
    """Both texts at each fraction; tokens enter by the sum of their row or column, signed, highest first."""
    found = []
    for side, axis in ((explanation.left, 1), (explanation.right, 0)):
        kept = () if rank_special else tuple(i for i, unit in enumerate(side.units) if unit.kind == "special")
        sums = explanation.relevance.sum(axis)
        order = [int(index) for index in np.argsort(-sums, kind="stable") if int(index) not in kept]
        found += [Shown(side.ids, step) for step in shown_steps(order, kept)]
    return found


def _curves(
    encoder: Encoder, texts: Mapping[str, list[Shown]], ticker: Ticker | None, filler: str, full: int = -1
) -> dict[str, Array]:
    """The distance of each step's pooled vector to the full text's, averaged over both sides of a pair.

    ``texts`` has, by variant, the steps of the left text and of the right one for each pair; ``full`` is the step that
    shows everything. -> (pairs, fractions) by variant.
    """
    vectors = shown_vectors(encoder, [text for steps in texts.values() for text in steps], ticker, filler)
    steps = vectors.reshape(len(texts), -1, 2, len(FRACTIONS), vectors.shape[-1]).astype(np.float64)
    distances = np.linalg.norm(steps - steps[:, :, :, full][:, :, :, None], axis=-1).mean(2)
    return dict(zip(texts, distances, strict=True))


def pair_steps(
    explanation: Explanation, deleting: bool = False, rank_special: bool = False
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The token indices of both texts at each fraction; token pairs enter (or leave) by relevance, strongest first.

    A pair brings both of its tokens; the fraction counts the tokens of both texts that have entered.
    """
    free = [
        [index for index, unit in enumerate(side.units) if rank_special or unit.kind != "special"]
        for side in (explanation.left, explanation.right)
    ]
    kept = [frozenset(range(len(side.units))) - frozenset(own)
            for side, own in zip((explanation.left, explanation.right), free, strict=True)]  # fmt: skip
    arrivals = _arrivals(explanation.relevance[np.ix_(*free)])
    counts = np.floor(FRACTIONS * len(arrivals) + 0.5).astype(int)
    steps = []
    for count in counts:
        come = [frozenset(free[side][index] for of, index in arrivals[:count] if of == side) for side in (0, 1)]
        shown = [own | (frozenset(frees) - new if deleting else new)
                 for own, frees, new in zip(kept, free, come, strict=True)]  # fmt: skip
        steps.append((shown[0], shown[1]))
    return steps


def _arrivals(relevance: Array) -> list[tuple[int, int]]:
    """(side, token) in the order in which the strongest pairs bring them."""
    order = np.argsort(-relevance, axis=None, kind="stable")
    rows, columns = np.unravel_index(order, relevance.shape)
    met = dict.fromkeys(
        item for row, column in zip(rows, columns, strict=True) for item in ((0, int(row)), (1, int(column)))
    )
    # Where one side has no free tokens, the other enters in its own order.
    rest = [(side, index) for side in (0, 1) for index in range(relevance.shape[side])]
    return list(dict.fromkeys([*met, *rest]))
