"""Hiding: which tokens of a text a masked language model has to find again, and what stands in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from likewise.encoder.forward import Batch
from likewise.encoder.tokens import Tokenizer
from likewise.errors import UsageError

Hidden = Mapping[int, int]
"""Places of a text's hidden tokens, and the ids that are shown there."""
NOTHING = -100
"""In place of the id of a token that is not hidden; losses pass it over."""
SHOWN_AS_MASK, SHOWN_AS_ANY = 0.8, 0.1
"""Shares of hidden tokens for which a mask or any token stands; the rest is shown as it is (Devlin et al. 2019)."""


@dataclass(frozen=True)
class Hiding:
    """How tokens are hidden."""

    share: float
    mask: int
    """the id of the mask"""
    others: tuple[int, ...]
    """the ids that may stand for any token"""

    @classmethod
    def of(cls, tokenizer: Tokenizer, share: float) -> Hiding:
        """That of a model's own tokenizer."""
        mask = tokenizer.vocabulary.id_of("mask")
        if mask is None:
            raise UsageError(
                "this model's tokenizer has no mask token, which a task of kind mlm needs; take another model"
            )
        special = set(tokenizer.special_ids())
        size = tokenizer.backend.get_vocab_size(with_added_tokens=True)
        return cls(share, mask, tuple(each for each in range(size) if each not in special))

    def hidden(self, own: Sequence[int], ids: Sequence[int], key: Sequence[int]) -> Hidden:
        """Which of a text's own tokens are hidden, at least one where there is any, and what is shown for them.

        >>> Hiding(0.5, 9, (1, 2)).hidden([1, 2], [7, 3, 4, 7], [1]).keys() <= {1, 2}
        True
        """
        rng = np.random.default_rng([*key])
        count = min(len(own), max(1, round(self.share * len(own))))
        indices = sorted(int(index) for index in rng.choice(np.array(own, dtype=int), count, replace=False))
        shown: dict[int, int] = {}
        for index, draw, other in zip(
            indices, rng.random(count), rng.integers(len(self.others), size=count), strict=True
        ):
            kept = ids[index] if draw >= SHOWN_AS_MASK + SHOWN_AS_ANY else self.others[other]
            shown[index] = self.mask if draw < SHOWN_AS_MASK else kept
        return shown


def hide(batch: Batch, hidden: Sequence[Hidden]) -> tuple[Batch, Tensor]:
    """A batch with tokens hidden, and the ids of these, (N,) over all texts laid end to end."""
    ids = batch.ids.clone()
    wanted = torch.full_like(ids, NOTHING)
    for row, own in enumerate(hidden):
        for index, shown in own.items():
            wanted[row, index], ids[row, index] = ids[row, index].clone(), shown
    flat = wanted.flatten() if batch.mask is None else wanted[batch.mask.bool()]
    return replace(batch, ids=ids), flat
