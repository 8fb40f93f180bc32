"""Tokens of a run: each text is tokenized once; batches of like length, and the tokens that mlm masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from likewise.encoder.forward import Batch
from likewise.encoder.tokens import TextOrPair, TokenizedText, Tokenizer
from likewise.errors import UsageError

WINDOW = 10_000
"""Texts tokenized at once: the tokenizer's output besides the ids is large."""
GROUP_COST = 300
"""What a group of texts costs besides its tokens, in tokens; measured with the bundled model, from 30 to 1,000."""


class TokenTable:
    """Token ids, types and own tokens of texts, and of pairs that are one sequence, by number."""

    def __init__(self, tokenizer: Tokenizer, prompt: str = "") -> None:
        self._tokenizer, self._prompt = tokenizer, prompt
        self._indices: dict[TextOrPair, int] = {}
        self.ids: list[tuple[int, ...]] = []
        self.types: list[tuple[int, ...]] = []
        self.own: list[tuple[int, ...]] = []
        """positions of a text's own tokens: no special ones, none of the prompt"""
        self.truncated = 0

    def add(self, texts: Iterable[TextOrPair]) -> None:
        """Tokenize texts that are new."""
        new = [text for text in dict.fromkeys(texts) if text not in self._indices]
        for start in range(0, len(new), WINDOW):
            for text in self._tokenizer.tokenize(new[start : start + WINDOW], self._prompt):
                self._append(text)

    def _append(self, text: TokenizedText) -> None:
        self._indices[text.text] = len(self.ids)
        self.ids.append(text.ids)
        self.types.append(text.types)
        marks = zip(text.special, text.prompt, strict=True)
        self.own.append(tuple(index for index, (special, prompt) in enumerate(marks) if not special and not prompt))
        self.truncated += text.truncated

    def words(self, index: int) -> frozenset[int]:
        """The set of a text's own tokens."""
        ids = self.ids[index]
        return frozenset(ids[own] for own in self.own[index])

    def indices(self, texts: Sequence[TextOrPair]) -> list[int]:
        """The numbers of texts; new ones are added."""
        self.add(texts)
        return [self._indices[text] for text in texts]

    def batch(self, indices: Sequence[int], device: torch.device) -> Batch:
        """Texts by number as a padded batch; without a mask if all have one length."""
        lengths = [len(self.ids[index]) for index in indices]
        longest = max(lengths)
        rows = [_padded(self.ids[index], longest) for index in indices]
        types = [_padded(self.types[index], longest) for index in indices]
        mask = None
        if min(lengths) < longest:
            mask = torch.tensor([[1] * length + [0] * (longest - length) for length in lengths], device=device)
        return Batch(torch.tensor(rows, device=device), torch.tensor(types, device=device), mask)


def _padded(row: Sequence[int], longest: int) -> list[int]:
    return [*row, *[0] * (longest - len(row))]  # the mask hides padding, so any known id will do


def jaccard(left: frozenset[int], right: frozenset[int]) -> float:
    """The Jaccard similarity of two sets; 0 if both are empty.

    >>> jaccard(frozenset({1, 2}), frozenset({2, 3}))
    0.3333333333333333
    """
    return len(left & right) / max(1, len(left | right))


def length_groups(lengths: Sequence[int], cost: int = GROUP_COST) -> list[list[int]]:
    """Indices of texts in groups of like length that minimize padded tokens plus the cost of each group.

    >>> length_groups([5, 100, 6, 90], cost=10)
    [[0, 2], [3, 1]]
    """
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    # Cuts lie only between different lengths: one within a length costs a group and saves nothing.
    sizes = [lengths[index] for index in order]
    cuts = [index for index in range(len(order)) if index == 0 or sizes[index] > sizes[index - 1]] + [len(order)]
    best, begins = [0], [0]  # up to each cut: the least cost, and the cut at which its last group begins
    for number, end in enumerate(cuts[1:], start=1):
        tries = ((best[early] + cost + (end - cuts[early]) * sizes[end - 1], early) for early in range(number))
        found = min(tries)
        best.append(found[0])
        begins.append(found[1])
    made: list[list[int]] = []
    number = len(cuts) - 1
    while number:
        made.append(order[cuts[begins[number]] : cuts[number]])
        number = begins[number]
    return made[::-1]


# Masked language modelling

MaskedTokens = Mapping[int, int]
"""Positions of a text's masked tokens, and the ids that are shown there."""
UNMASKED = -100
"""Target of tokens that are not masked; losses ignore it."""
SHOWN_AS_MASK, SHOWN_AS_ANY = 0.8, 0.1
"""Shares of masked tokens shown as the mask or as any token; the rest is shown as it is (Devlin et al. 2019)."""


@dataclass(frozen=True)
class Masking:
    """How tokens are masked."""

    share: float
    mask: int
    """the id of the mask"""
    others: tuple[int, ...]
    """the ids that may stand for any token"""

    @classmethod
    def of(cls, tokenizer: Tokenizer, share: float) -> Masking:
        """Masking with the mask token of a model's own tokenizer."""
        mask = tokenizer.vocabulary.id_of("mask")
        if mask is None:
            raise UsageError(
                "this model's tokenizer has no mask token, which a task of kind mlm needs; use another model"
            )
        special = set(tokenizer.special_ids())
        size = tokenizer.backend.get_vocab_size(with_added_tokens=True)
        return cls(share, mask, tuple(each for each in range(size) if each not in special))

    def masked(self, own: Sequence[int], ids: Sequence[int], key: Sequence[int]) -> MaskedTokens:
        """Which of a text's own tokens are masked, at least one if there is any, and what is shown for them.

        >>> Masking(0.5, 9, (1, 2)).masked([1, 2], [7, 3, 4, 7], [1]).keys() <= {1, 2}
        True
        """
        rng = np.random.default_rng([*key])
        count = min(len(own), max(1, round(self.share * len(own))))
        positions = sorted(int(index) for index in rng.choice(np.array(own, dtype=int), count, replace=False))
        draws = zip(positions, rng.random(count), rng.integers(len(self.others), size=count), strict=True)
        shown: dict[int, int] = {}
        for position, draw, other in draws:
            unmasked = ids[position] if draw >= SHOWN_AS_MASK + SHOWN_AS_ANY else self.others[other]
            shown[position] = self.mask if draw < SHOWN_AS_MASK else unmasked
        return shown


def mask_tokens(batch: Batch, masked: Sequence[MaskedTokens]) -> tuple[Batch, Tensor]:
    """A batch with tokens masked, and the true ids of these, (N,) over all texts laid end to end."""
    ids = batch.ids.clone()
    targets = torch.full_like(ids, UNMASKED)
    for row, own in enumerate(masked):
        for position, shown in own.items():
            targets[row, position], ids[row, position] = ids[row, position].clone(), shown
    flat = targets.flatten() if batch.mask is None else targets[batch.mask.bool()]
    return replace(batch, ids=ids), flat
