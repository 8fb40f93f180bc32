"""Words in the layers: which words a text has, and their vectors, averaged over their tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from likewise.encoder import Encoder
from likewise.encoder.tokens import TokenizedText
from likewise.errors import UsageError
from likewise.grammar.spans import Span, word_spans

Places = tuple[int, ...]


def require_layers(encoder: Encoder) -> None:
    """Refuse an encoder whose layers cannot be looked into."""
    if encoder.backend is not None:
        raise UsageError("only the backend torch shows what the layers hold; load the model with --backend torch")


def spans_of_words(text: str, punctuation: bool = False) -> list[Span]:
    """Character spans of a text's words, with its punctuation marks or without.

    >>> [text[slice(*span)] for text in ["Rob a bank!"] for span in spans_of_words(text)]
    ['Rob', 'a', 'bank']
    """
    found = word_spans(text)
    return found if punctuation else [span for span in found if any(map(str.isalnum, text[slice(*span)]))]


def tokens_of_spans(tokens: TokenizedText, spans: Sequence[Span]) -> list[Places]:
    """The places of the tokens of each sorted span; none for a span that was cut off or has no token of its own."""
    found: list[list[int]] = [[] for _ in spans]
    for index, inside in enumerate(tokens.spans_of(spans)):
        if inside is not None:
            found[inside].append(index)
    return [tuple(indices) for indices in found]


def averaged_tokens(hidden: Tensor, groups: Sequence[tuple[int, Places]]) -> Tensor:
    """The mean states of groups of tokens, each (row, places): hidden (L, B, T, D) -> (L, N, D), float32 or wider."""
    layers, rows, length, width = hidden.shape
    flat = hidden.reshape(layers, rows * length, width)
    found = flat[:, torch.tensor([row * length + indices[0] for row, indices in groups], dtype=torch.long)]
    if found.dtype not in (torch.float32, torch.float64):
        found = found.float()  # sums of half precision overflow
    # Most words are one token: only the others are summed, a token more at each step.
    longer = [(which, row * length, indices) for which, (row, indices) in enumerate(groups) if len(indices) > 1]
    sizes = torch.tensor([len(indices) for _, _, indices in longer], dtype=found.dtype, device=hidden.device)
    whole = [which for which, _, _ in longer]
    step = 1
    while longer:
        added = torch.tensor([first + indices[step] for _, first, indices in longer])
        found[:, [which for which, _, _ in longer]] += flat[:, added]
        step += 1
        longer = [each for each in longer if len(each[2]) > step]
    if whole:
        found[:, whole] /= sizes[:, None]
    return found
