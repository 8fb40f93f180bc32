"""Units: what an explanation speaks of. Tokens, words, sentences or the user's spans, by character offsets."""

from __future__ import annotations

import operator
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from likewise.encoder.tokens import TokenizedText
from likewise.errors import DataError, UsageError

Span = tuple[int, int]
By = str | Sequence[Span]
"""``token``, ``word``, ``sentence``, or the character spans of the groups."""

Kind = Literal["text", "special", "prompt"]

SENTENCE_END = re.compile(r"(?:(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s)|[。！？]+|\n)\s*")
NO_SPACES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""Letters of scripts that put no space between words: each is a word of its own."""

JOINER = "\u200d"  # glues emoji, and some scripts' letters, into one sign
SKIN_TONE = re.compile("[\U0001f3fb-\U0001f3ff]")
FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")


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
    """places of its tokens in the text"""
    kind: Kind = "text"


def units_of(tokens: TokenizedText, by: By, fold_special: bool = False) -> tuple[Unit, ...]:
    """Group a text's tokens; special tokens stand alone or, folded, together, and so does a prompt."""
    assert isinstance(tokens.text, str)
    check_by(by)
    groups: dict[object, list[int]] = {}
    spans = [] if by == "token" else _spans(tokens.text, by)
    starts = [start for start, _ in spans]
    for place, (start, end) in enumerate(tokens.offsets):
        key: object = ("token", place)
        if tokens.special[place]:
            key = "special" if fold_special else key
        elif by != "token":
            inside = None if tokens.prompt[place] else _covering(spans, starts, start, end)
            key = "prompt" if tokens.prompt[place] else key if inside is None else inside
        groups.setdefault(key, []).append(place)
    return tuple(_unit(tokens, places) for places in groups.values())


def check_by(by: By) -> None:
    """Refuse an unknown way of grouping."""
    if isinstance(by, str) and by not in ("token", *SPANS):
        raise UsageError(f"cannot explain by {by!r}; choose from token, {', '.join(SPANS)}, or give spans")


def _unit(tokens: TokenizedText, places: list[int]) -> Unit:
    first = places[0]
    start = min(tokens.offsets[place][0] for place in places)
    end = max(tokens.offsets[place][1] for place in places)
    kind: Kind = "special" if tokens.special[first] else "prompt" if tokens.prompt[first] else "text"
    # The text as the reader wrote it, where there is any: a tokenizer's own marks say little.
    text = str(tokens.text)[start:end] if kind == "text" else ""
    names = list(dict.fromkeys(tokens.tokens[place] for place in places))
    return Unit(text if text.strip() else " ".join(names), start, end, tuple(places), kind)


def _covering(spans: list[Span], starts: list[int], start: int, end: int) -> int | None:
    """The span that holds a token's first letter, or the first one that begins within it."""
    place = bisect_right(starts, start) - 1
    if place >= 0 and start < spans[place][1]:
        return place
    later = place + 1
    return later if later < len(spans) and spans[later][0] < end else None


def _spans(text: str, by: By) -> list[Span]:
    if isinstance(by, str):
        return SPANS[by](text)
    try:
        given = sorted((operator.index(start), operator.index(end)) for start, end in by)
    except (TypeError, ValueError) as error:
        raise UsageError("a span is two character places such as (0, 12)") from error
    for start, end in given:
        if not 0 <= start < end <= len(text):
            raise DataError(f"the span {start}:{end} does not lie in a text of {len(text)} characters")
    if any(first[1] > second[0] for first, second in pairwise(given)):
        raise DataError("spans overlap; each character can belong to one span only")
    # What the spans leave over is grouped by words.
    covered = set().union(*(range(*span) for span in given)) if given else set()
    rest = [span for span in word_spans(text) if not covered & set(range(*span))]
    return sorted([*given, *rest])


def word_spans(text: str) -> list[Span]:
    """Character spans of the words of a text; apostrophes and separators inside numbers do not split them.

    >>> [text[slice(*span)] for text in ["It's 1,000."] for span in word_spans(text)]
    ["It's", '1,000', '.']
    """
    spans: list[Span] = []
    for place, letter in enumerate(text):
        if letter.isspace():
            continue
        last = spans[-1] if spans else (0, 0)
        if last[1] == place and last != (0, 0) and _joins(text, place):
            spans[-1] = (last[0], place + 1)
        else:
            spans.append((place, place + 1))
    return spans


def _joins(text: str, place: int) -> bool:
    """Whether a letter goes on with the word of the letter before it."""
    before, here = text[place - 1], text[place]
    after = text[place + 1] if place + 1 < len(text) else " "
    if unicodedata.category(here).startswith("M") or here == JOINER or before == JOINER or SKIN_TONE.match(here):
        return True
    if FLAG_LETTER.match(here) and FLAG_LETTER.match(before):
        # Flags are pairs of letters: the second one joins, the third opens the next flag.
        return (place - _first_of_run(text, place)) % 2 == 1
    if NO_SPACES.match(here) or NO_SPACES.match(before):
        return False
    if here in "'’":
        return _is_letter(before) and _is_letter(after)
    if here in ".,":
        return before.isdigit() and after.isdigit()
    return _is_letter(here) and (_is_letter(before) or before in "'’.,") and not _opens(text, place)


def _first_of_run(text: str, place: int) -> int:
    """Where the run of flag letters that a place lies in begins."""
    while place > 0 and FLAG_LETTER.match(text[place - 1]):
        place -= 1
    return place


def _opens(text: str, place: int) -> bool:
    """Whether a mark before this letter stands alone, as a quotation mark that opens."""
    before = text[place - 1]
    if _is_letter(before):
        return False
    return not (place >= 2 and _joins(text, place - 1))


def _is_letter(letter: str) -> bool:
    return letter == "_" or unicodedata.category(letter)[0] in "LNM"


def sentence_spans(text: str) -> list[Span]:
    """Character spans of the sentences of a text, by their closing marks and by line breaks.

    >>> [text[slice(*span)] for text in ["It rains. Stay in!"] for span in sentence_spans(text)]
    ['It rains. ', 'Stay in!']
    """
    ends = [found.end() for found in SENTENCE_END.finditer(text)]
    edges = [0, *(end for end in ends if end < len(text)), len(text)]
    return [(start, end) for start, end in pairwise(edges) if text[start:end].strip()]


SPANS: dict[str, Callable[[str], list[Span]]] = {"word": word_spans, "sentence": sentence_spans}
