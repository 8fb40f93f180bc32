"""The words of texts as rankers of words count them, and where they occur in the text as it is written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from likewise.grammar.spans import Span

# scikit-learn's own pattern drops words of one letter: the 5 of "5 killed", and every part of "U.S.".
WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text: runs of letters, digits and underscores, in lower case.

    >>> words("U.S. troops: 5 killed")
    ['u', 's', 'troops', '5', 'killed']
    """
    return cased_words(text.lower())


def cased_words(text: str) -> list[str]:
    """``words`` in their original case."""
    # NFC, so that an accent that is a character of its own does not split its word.
    return WORD.findall(unicodedata.normalize("NFC", text))


def occurrences(text: str, lower: bool = True) -> list[tuple[str, int, int]]:
    """The same words in order, each with its start and end in the text as it is written.

    >>> occurrences("Cafe\\u0301 open")
    [('café', 0, 5), ('open', 6, 10)]
    """
    lowered = text.lower() if lower else text
    if len(lowered) == len(text) and unicodedata.is_normalized("NFC", lowered):
        return [(found[0], *found.span()) for found in WORD.finditer(lowered)]
    # Lower case never shortens a text, so each character of the lowered text has one origin.
    origin = [index for index, letter in enumerate(text) for _ in (letter.lower() if lower else letter)]
    starts, ends, normal = [], [], []
    for start, end in _clusters(lowered):
        composed = unicodedata.normalize("NFC", lowered[start:end])
        normal.append(composed)
        starts += [origin[start]] * len(composed)
        ends += [origin[end - 1] + 1] * len(composed)
    return [(found[0], starts[found.start()], ends[found.end() - 1]) for found in WORD.finditer("".join(normal))]


def _clusters(text: str) -> Iterator[Span]:
    """Spans that can be normalized on their own: a character and all that may compose with it."""
    start = 0
    for index in range(1, len(text)):
        letter, before = text[index], text[start:index]
        # ASCII composes with nothing before it; the general test is slow.
        if letter.isascii() or (
            not unicodedata.combining(letter)
            and unicodedata.normalize("NFC", before + letter)
            == unicodedata.normalize("NFC", before) + unicodedata.normalize("NFC", letter)
        ):
            yield start, index
            start = index
    if text:
        yield start, len(text)
