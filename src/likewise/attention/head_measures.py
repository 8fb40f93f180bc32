"""Head measures: where each head of each layer looks, averaged over sequences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likewise.encoder.tokens import TokenizedText

MEASURES = ("entropy", "first", "separators", "previous", "next", "between")
NOTES = {
    "entropy": "entropy of a token's attention as a share of log n, 1 where it looks everywhere alike",
    "first": "share of attention on the opening special token, as [CLS]",
    "separators": "share of attention on the other special tokens, as [SEP]",
    "previous": "share of attention on the token before",
    "next": "share of attention on the token after",
    "between": "share of attention that tokens of one text give to tokens of the other",
}


@dataclass(frozen=True, eq=False)
class HeadMeasures:
    """The mean over sequences of each measure, for every layer and head, beside what even attention would give.

    >>> found = HeadMeasures({"next": np.array([[0.5, 0.1]])}, {"next": 0.08})
    >>> found.values["next"].shape
    (1, 2)
    """

    values: dict[str, NDArray[np.float64]]
    """By measure: (L, H)."""
    even: dict[str, float]
    """By measure: its value where every token looks at all tokens alike."""

    def to_dict(self) -> dict[str, Any]:
        """Each measure's values, layer by layer, and its value for even attention."""
        return {name: {"values": found.tolist(), "even": self.even[name]} for name, found in self.values.items()}


def measures_of(maps: Tensor, tokens: Sequence[TokenizedText]) -> Tensor:
    """All measures of maps (L, B, H, T, T) of texts of one length: (B, M, L, H), M as in ``MEASURES``.

    nan where a text has nothing to measure: no token before or after another, or a pair with an empty text.
    """
    roles = torch.stack([token_roles(text) for text in tokens]).to(maps)
    first, separators, left, right = roles.unbind(1)
    length = maps.shape[-1]
    found = [
        _entropy(maps) / np.log(length) if length > 1 else torch.full_like(maps[..., 0, 0], torch.nan),
        _share(maps, first),
        _share(maps, separators),
        maps.diagonal(-1, -2, -1).mean(-1),
        maps.diagonal(1, -2, -1).mean(-1),
        _between(maps, left, right),
    ]
    return torch.stack(found).permute(2, 0, 1, 3)


def token_roles(text: TokenizedText) -> Tensor:
    """Which tokens open, separate, belong to the first text, to the second: (4, T), 1 or 0."""
    special = torch.tensor(text.special)
    sides = torch.tensor([-1 if side is None else side for side in text.sides])
    opens = torch.zeros_like(special)
    opens[0] = special[0]
    roles: Tensor = torch.stack([opens, special & ~opens, sides == 0, sides == 1]).float()
    return roles


def _entropy(maps: Tensor) -> Tensor:
    """The mean entropy over query tokens: (L, B, H)."""
    entropies: Tensor = torch.special.entr(maps).sum(-1)
    return entropies.mean(-1)


def _share(maps: Tensor, chosen: Tensor) -> Tensor:
    """The mean share of attention on chosen tokens (B, T): (L, B, H)."""
    return torch.einsum("lbhij,bj->lbh", maps, chosen) / maps.shape[-1]


def _between(maps: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The mean over the tokens of both texts of their attention on the other text: (L, B, H)."""
    crossing = torch.einsum("lbhij,bi,bj->lbh", maps, left, right) + torch.einsum("lbhij,bi,bj->lbh", maps, right, left)
    both = (left.sum(1) > 0) & (right.sum(1) > 0)
    return crossing / torch.where(both, (left + right).sum(1), torch.nan)[None, :, None]


def even_measures(tokens: Sequence[TokenizedText]) -> NDArray[np.float64]:
    """The measures of even attention, each text on its own: (n, M)."""
    found = []
    for text in tokens:
        even = torch.full((1, 1, 1, len(text), len(text)), 1 / len(text))
        found.append(measures_of(even, [text])[0, :, 0, 0].double().numpy())
    return np.array(found)


def averaged(per_text: NDArray[np.float32], even: NDArray[np.float64]) -> HeadMeasures:
    """Measures of texts (n, M, L, H), and of even attention (n, M), averaged over the texts that have them."""
    with warnings.catch_warnings():
        # That no text at all has a measure; it is nan then.
        warnings.simplefilter("ignore", RuntimeWarning)
        means: NDArray[np.float64] = np.asarray(np.nanmean(per_text, axis=0, dtype=np.float64))
        flat: list[float] = np.asarray(np.nanmean(even, axis=0)).tolist()
    return HeadMeasures(dict(zip(MEASURES, means, strict=True)), dict(zip(MEASURES, flat, strict=True)))
