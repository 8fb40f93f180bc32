"""Perturbation: embeddings of texts in which some tokens are shown and the others are masked.

Tokens enter a fully masked text, the most relevant first. AUPC is the area under the distance of its pooled vector to
the full text's; it is small if important tokens come first (Vasileiou & Eberle 2024).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.forward import TOKEN_BUDGET, Batch, exact_length_batches
from likewise.explain.explanation import ExplainedText, Explanation
from likewise.metrics import Array
from likewise.progress import Ticker

STEP = 0.04
FRACTIONS: Array = np.round(np.arange(0, 1 + STEP / 2, STEP), 2)  # The shares of tokens shown, 0 to 1


@dataclass(frozen=True)
class Shown:
    """A text's ids and the indices that are shown; hashable, so that equal ones are encoded once."""

    ids: tuple[int, ...]
    shown: frozenset[int]


def shown_steps(order: Sequence[int], always_shown: Collection[int] = ()) -> list[frozenset[int]]:
    """The token indices shown at each fraction; the others enter in the given order."""
    return [frozenset((*always_shown, *order[:count])) for count in _counts(len(order))]


def _counts(tokens: int) -> list[int]:
    """How many of the tokens are shown at each fraction."""
    return [int(fraction * tokens + 0.5) for fraction in FRACTIONS]


def _fixed_tokens(side: ExplainedText, rank_special: bool) -> frozenset[int]:
    """The indices of the special tokens, which stay in place unless they are ranked like the rest."""
    special = (index for index, unit in enumerate(side.units) if unit.kind == "special")
    return frozenset(() if rank_special else special)


def shown_vectors(
    encoder: Encoder, texts: Sequence[Shown], filler: str = "mask", ticker: Ticker | None = None
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


def distance_curves(
    encoder: Encoder,
    explained: Mapping[str, Sequence[Explanation]],
    kind: str = "tokens",
    rank_special: bool = False,
    filler: str = "mask",
    ticker: Ticker | None = None,
) -> dict[str, Array]:
    """The distance of each step's pooled vector to the full text's, averaged over both sides of a pair.

    ``kind``: ``tokens`` enter, or the most relevant pairs of tokens enter (``insertion``) or leave (``deletion``).
    -> (pairs, fractions) by variant.
    """

    def steps_of(one: Explanation) -> Iterable[Sequence[frozenset[int]]]:
        if kind == "tokens":
            return token_steps(one, rank_special)
        return zip(*pair_steps(one, kind == "deletion", rank_special), strict=True)

    texts = [
        Shown(side.ids, step)
        for rows in explained.values()
        for one in rows
        for side, steps in zip((one.left, one.right), steps_of(one), strict=True)
        for step in steps
    ]
    vectors = shown_vectors(encoder, texts, filler, ticker)
    by_step = vectors.reshape(len(explained), -1, 2, len(FRACTIONS), vectors.shape[-1]).astype(np.float64)
    full = by_step[:, :, :, 0 if kind == "deletion" else -1]
    distances = np.linalg.norm(by_step - full[:, :, :, None], axis=-1).mean(2)
    return dict(zip(explained, distances, strict=True))


def token_steps(explanation: Explanation, rank_special: bool) -> Iterator[list[frozenset[int]]]:
    """The steps of both texts; tokens enter by the sum of their row or column, signed, highest first."""
    for side, axis in ((explanation.left, 1), (explanation.right, 0)):
        kept = _fixed_tokens(side, rank_special)
        order = np.argsort(-explanation.relevance.sum(axis), kind="stable").tolist()
        yield shown_steps([index for index in order if index not in kept], kept)


def pair_steps(
    explanation: Explanation, deleting: bool = False, rank_special: bool = False
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The token indices of both texts at each fraction; token pairs enter (or leave) by relevance, strongest first.

    A pair brings both of its tokens; the fraction counts the tokens of both texts that have entered.
    """
    sides = (explanation.left, explanation.right)
    kept = [_fixed_tokens(side, rank_special) for side in sides]
    free = [
        [index for index in range(len(side.units)) if index not in own] for side, own in zip(sides, kept, strict=True)
    ]
    arrivals = _arrivals(explanation.relevance[np.ix_(*free)])
    steps = []
    for count in _counts(len(arrivals)):
        entered = [{free[side][index] for of, index in arrivals[:count] if of == side} for side in (0, 1)]
        left, right = (
            own | (frozenset(tokens) - new if deleting else new)
            for own, tokens, new in zip(kept, free, entered, strict=True)
        )
        steps.append((left, right))
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
