"""Units: what an explanation speaks of. Tokens, words, sentences or the user's spans, by character offsets."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from likewise.encoder.tokens import TokenizedText
from likewise.errors import DataError, UsageError
from likewise.grammar.spans import Span, sentence_spans, word_spans

Granularity = str | Sequence[Span]
"""``token``, ``word``, ``sentence``, or the character spans of the groups."""

Kind = Literal["text", "special", "prompt", "rest"]
"""``rest``: the units that are not named, as one"""


@dataclass(frozen=True)
class Unit:
    """A group of tokens that is explained as one.

    >>> Unit("fire", 0, 4, (1,)).kind
    'text'
    """

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]
    """positions of its tokens in the text"""
    kind: Kind = "text"


def units_of(tokens: TokenizedText, granularity: Granularity, fold_special: bool = False) -> tuple[Unit, ...]:
    """Group a text's tokens; special tokens stand alone or, folded, together, and so does a prompt."""
    assert isinstance(tokens.text, str)
    check_granularity(granularity)
    groups: dict[object, list[int]] = {}
    spans = [] if granularity == "token" else _spans(tokens.text, granularity)
    for position, inside in enumerate(tokens.spans_of(spans)):
        key: object = ("token", position)
        if tokens.special[position]:
            key = "special" if fold_special else key
        elif granularity != "token":
            key = "prompt" if tokens.prompt[position] else key if inside is None else inside
        groups.setdefault(key, []).append(position)
    return tuple(_unit(tokens, indices) for indices in groups.values())


def check_granularity(granularity: Granularity) -> None:
    """Refuse an unknown way of grouping."""
    if isinstance(granularity, str) and granularity not in ("token", *SPANS):
        raise UsageError(f"cannot explain by {granularity!r}; choose from token, {', '.join(SPANS)}, or give spans")


def _unit(tokens: TokenizedText, indices: list[int]) -> Unit:
    first = indices[0]
    start = min(tokens.offsets[position][0] for position in indices)
    end = max(tokens.offsets[position][1] for position in indices)
    kind: Kind = "special" if tokens.special[first] else "prompt" if tokens.prompt[first] else "text"
    # The text as written, where there is any: a tokenizer's own marks say little.
    text = str(tokens.text)[start:end] if kind == "text" else ""
    names = list(dict.fromkeys(tokens.tokens[position] for position in indices))
    return Unit(text if text.strip() else " ".join(names), start, end, tuple(indices), kind)


def _spans(text: str, granularity: Granularity) -> list[Span]:
    if isinstance(granularity, str):
        return SPANS[granularity](text)
    try:
        given = sorted((operator.index(start), operator.index(end)) for start, end in granularity)
    except (TypeError, ValueError) as error:
        raise UsageError("a span is two character positions such as (0, 12)") from error
    for start, end in given:
        if not 0 <= start < end <= len(text):
            raise DataError(f"the span {start}:{end} does not lie in a text of {len(text)} characters")
    if any(first[1] > second[0] for first, second in pairwise(given)):
        raise DataError("spans overlap; each character can belong to one span only")
    # What the spans leave over is grouped by words.
    covered = set().union(*(range(*span) for span in given)) if given else set()
    rest = [span for span in word_spans(text) if not covered & set(range(*span))]
    return sorted([*given, *rest])


SPANS: dict[str, Callable[[str], list[Span]]] = {"word": word_spans, "sentence": sentence_spans}
