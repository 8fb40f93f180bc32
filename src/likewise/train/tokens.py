"""Tokens of a run: each text is cut into tokens once and has a number from then on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from likewise.encoder.forward import Batch
from likewise.encoder.tokens import TextOrPair, TokenizedText, Tokenizer

WINDOW = 10_000
"""Texts that are cut at once: what the tokenizer says beside the ids is large."""


class TokenTable:
    """Token ids, types and sets of texts and of pairs that are one sequence, by number."""

    def __init__(self, tokenizer: Tokenizer, prompt: str = "") -> None:
        self._tokenizer, self._prompt = tokenizer, prompt
        self._places: dict[TextOrPair, int] = {}
        self.ids: list[tuple[int, ...]] = []
        self.types: list[tuple[int, ...]] = []
        self.own: list[tuple[int, ...]] = []
        """the places of a text's own tokens: no special ones, and none of the prompt"""
        self.truncated = 0

    def add(self, texts: Iterable[TextOrPair]) -> None:
        """Cut texts that are not known yet."""
        new = [text for text in dict.fromkeys(texts) if text not in self._places]
        for start in range(0, len(new), WINDOW):
            for text in self._tokenizer.tokenize(new[start : start + WINDOW], self._prompt):
                self._keep(text)

    def _keep(self, text: TokenizedText) -> None:
        self._places[text.text] = len(self.ids)
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
        """The numbers of texts; those that are new are added."""
        self.add(texts)
        return [self._places[text] for text in texts]

    def batch(self, indices: Sequence[int], device: torch.device) -> Batch:
        """Texts by number as a padded batch; without a mask where all are of one length."""
        lengths = [len(self.ids[index]) for index in indices]
        longest = max(lengths)
        rows = [_padded(self.ids[index], longest) for index in indices]
        types = [_padded(self.types[index], longest) for index in indices]
        mask = None
        if min(lengths) < longest:
            mask = torch.tensor([[1] * length + [0] * (longest - length) for length in lengths], device=device)
        return Batch(torch.tensor(rows, device=device), torch.tensor(types, device=device), mask)


def _padded(row: Sequence[int], longest: int) -> list[int]:
    # Any known id will do: nobody looks at padding.
    return [*row, *[0] * (longest - len(row))]


def jaccard(left: frozenset[int], right: frozenset[int]) -> float:
    """The share of two sets that both have; 0 where both are empty.

    >>> jaccard(frozenset({1, 2}), frozenset({2, 3}))
    0.3333333333333333
    """
    return len(left & right) / max(1, len(left | right))
