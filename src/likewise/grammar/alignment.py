"""Alignment: which grammar word each of a model's tokens belongs to."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from likewise.grammar.words import Word


def align(spans: Sequence[tuple[int, int]], words: Sequence[Word]) -> list[int | None]:
    """For each token's characters (start, end), the place of the word it shares most with; the first on a tie.

    None where the span is empty, as those of special tokens are, or touches no word. The words stand in the
    order of the text and do not overlap; the spans may come in any order.

    >>> words = [Word("can", 0, 3, "AUX", "aux", 2, "can"), Word("not", 3, 6, "PART", "advmod", 2, "not")]
    >>> align([(0, 0), (0, 2), (2, 6), (6, 7)], words)
    [None, 0, 1, None]
    """
    ends = [word.end for word in words]
    return [_best(start, end, words, bisect_right(ends, start)) for start, end in spans]


def _best(start: int, end: int, words: Sequence[Word], first: int) -> int | None:
    """The word with the largest overlap, from the first one that ends behind the span's start."""
    best, most = None, 0
    for index in range(first, len(words)):
        if words[index].start >= end:
            break
        overlap = min(end, words[index].end) - max(start, words[index].start)
        if overlap > most:
            best, most = index, overlap
    return best
