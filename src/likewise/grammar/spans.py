"""Character spans of words and sentences, in any language, without spaCy."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

Span = tuple[int, int]
SENTENCE_END = re.compile(r"(?:(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+|\n)\s*")
NO_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Characters of scripts without spaces between words: each is its own word."""

JOINER = "\u200d"  # joins emoji, and some scripts' characters, into one sign
SKIN_TONE = re.compile("[\U0001f3fb-\U0001f3ff]")
FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]+$")
ASCII_WORD = re.compile(r"\w+(?:(?:'(?=\w)|(?<=\d)[.,](?=\d))\w+)*|\S")
"""The same as ``_joins`` for ASCII texts, ten times faster."""


def word_spans(text: str) -> list[Span]:
    """Character spans of the words of a text; apostrophes and separators inside numbers do not split them."""
    if text.isascii():
        return [found.span() for found in ASCII_WORD.finditer(text)]
    return _joined_spans(text)


def _joined_spans(text: str) -> list[Span]:
    """The words of a text in any script, character by character."""
    spans: list[Span] = []
    for index, letter in enumerate(text):
        if letter.isspace():
            continue
        last = spans[-1] if spans else (0, 0)
        if last[1] == index and last != (0, 0) and _joins(text, index, last[0]):
            spans[-1] = (last[0], index + 1)
        else:
            spans.append((index, index + 1))
    return spans


def _joins(text: str, index: int, start: int) -> bool:
    """Whether a character continues the word before it, which begins at ``start``."""
    if (in_sign := _continues_sign(text, index, start)) is not None:
        return in_sign
    before, here = text[index - 1], text[index]
    after = text[index + 1] if index + 1 < len(text) else " "
    if NO_SPACES.match(here) or NO_SPACES.match(before):
        return False
    if here in "'’":
        return _is_letter(before) and _is_letter(after)
    if here in ".,":
        return before.isdigit() and after.isdigit()
    # A mark before a letter may be separate, such as an opening quotation mark.
    return _is_letter(here) and (
        _is_letter(before) or (before in "'’.," and index >= 2 and _joins(text, index - 1, start))
    )


def _continues_sign(text: str, index: int, start: int) -> bool | None:
    """Whether a character belongs to the sign before it, such as an accent; None if its script does not say."""
    before, here = text[index - 1], text[index]
    if unicodedata.category(here).startswith("M") or here == JOINER or before == JOINER or SKIN_TONE.match(here):
        return True
    if FLAG_LETTERS.match(here) and (run := FLAG_LETTERS.search(text, start, index)):
        # Flags are pairs of letters: the second one joins, the third begins the next flag.
        return len(run[0]) % 2 == 1
    return None


def sign_spans(text: str) -> list[Span]:
    """Character spans of the signs of a text: a letter with its accents, a joined emoji or a flag is one.

    >>> sign_spans("e\u0301a")
    [(0, 2), (2, 3)]
    """
    spans: list[Span] = []
    for index in range(len(text)):
        if spans and _continues_sign(text, index, spans[-1][0]):
            spans[-1] = (spans[-1][0], index + 1)
        else:
            spans.append((index, index + 1))
    return spans


def _is_letter(letter: str) -> bool:
    return letter == "_" or unicodedata.category(letter)[0] in "LNM"


def sentence_spans(text: str) -> list[Span]:
    """Character spans of the sentences of a text, by their closing marks and by line breaks."""
    ends = [found.end() for found in SENTENCE_END.finditer(text)]
    edges = [0, *(end for end in ends if end < len(text)), len(text)]
    return [(start, end) for start, end in pairwise(edges) if text[start:end].strip()]
