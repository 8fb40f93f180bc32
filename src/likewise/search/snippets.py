"""Snippets: the sentences of a long text that carry its score, as character spans."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from likewise.grammar.spans import JOINER, Span, sentence_spans, word_spans

LIMIT = 320  # Characters of a snippet: about four lines of a terminal
LEAST = 0.25  # Of the strongest sentence's share: what another one needs to be shown for itself
Shared = tuple[int, int, float]  # A start, an end, and the share of what lies between in a score


def sentence_shares(text: str, words: Sequence[Shared]) -> list[Shared]:
    """The sentences of a text, each with the sum of its words' shares; words belong where they begin.

    A sentence of more than ``LIMIT`` characters counts as several.

    >>> sentence_shares("It rains. A cat sat.", [(3, 8, 0.1), (12, 15, 0.4), (16, 19, 0.1)])
    [(0, 10, 0.1), (10, 20, 0.5)]
    """
    spans = list(_sentences(text))
    shares, ordered, index = [0.0] * len(spans), sorted(words), 0
    for start, end, share in ordered:
        while index + 1 < len(spans) and spans[index + 1][0] <= start:
            index += 1
        if start < end and spans:
            shares[index] += share
    return [(*span, share) for span, share in zip(spans, shares, strict=True)]


def snippet(text: str, sentences: Sequence[Shared] = ()) -> list[Span]:
    """The spans of a text to show: all of a short text, else its strongest sentences, in the order of the text.

    The strongest sentence is always there. Others with a good part of its share follow as long as they fit, then the
    neighbours of the strongest. Without shares it is the beginning of the text.

    >>> snippet("A cat sat.")
    [(0, 10)]
    """
    if len(text.strip()) <= LIMIT:
        return [(0, len(text))]
    if not sentences:
        return [_stripped(text, *next(_cut(text, 0, len(text))))]
    by_share = sorted(range(len(sentences)), key=lambda index: -sentences[index][2])
    strongest, *others = by_share
    around = [index for index in (strongest + 1, strongest - 1) if 0 <= index < len(sentences)]
    chosen, length = {strongest}, _size(sentences[strongest])
    bar = max(0.0, LEAST * sentences[strongest][2])
    for index in [*(index for index in others if sentences[index][2] > bar), *around]:
        if index not in chosen and length + _size(sentences[index]) <= LIMIT:
            chosen.add(index)
            length += _size(sentences[index])
    return _joined(text, [sentences[index][:2] for index in sorted(chosen)])


def _size(sentence: Shared) -> int:
    return sentence[1] - sentence[0]


def _joined(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans with neighbours joined, and without blanks at their ends."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and not text[joined[-1][1] : start].strip():
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return [_stripped(text, *span) for span in joined]


def _stripped(text: str, start: int, end: int) -> Span:
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def _sentences(text: str) -> Iterator[Span]:
    for start, end in sentence_spans(text):
        if end - start <= LIMIT:
            yield start, end
        else:
            yield from _cut(text, start, end)


def _cut(text: str, start: int, end: int) -> Iterator[Span]:
    """Spans of at most ``LIMIT`` characters, cut between words, or in a word that is longer than that."""
    ends = [start, *(start + last for _, last in word_spans(text[start:end]))]
    while end - start > LIMIT:
        stop = ends[bisect_right(ends, start + LIMIT) - 1]
        if stop <= start:
            stop = _between_characters(text, start, start + LIMIT)
        yield start, stop
        start = stop
    yield start, end


def _between_characters(text: str, start: int, stop: int) -> int:
    """A place near ``stop`` that does not tear a sign that is made of several characters."""
    for place in range(stop, start, -1):
        if not (unicodedata.category(text[place]).startswith("M") or JOINER in text[place - 1 : place + 1]):
            return place
    return stop
