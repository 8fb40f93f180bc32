"""Words for linting: when two count as the same, and which numbers a text holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import takewhile

from likewise.grammar import ParsedText, Word

ENDINGS = frozenset({"", "s", "es", "d", "ed", "ing", "e", "n", "en"})
"""Inflections by which two forms of a word may differ; for pipelines that know no lemmas."""
SHORTEST_STEM = 3
HYPHENS = "-‐‑"
MAGNITUDES = frozenset({"12", "100", "1000", "1000000", "1000000000"})


@lru_cache(maxsize=100_000)
def same_word(first: str, second: str) -> bool:
    """Whether two lemmas, or two forms where there are no lemmas, are one word; a crude test of English endings.

    >>> same_word("chases", "chased"), same_word("Hugged", "hugs"), same_word("cat", "dog")
    (True, True, False)
    """
    one, other = first.lower(), second.lower()
    if one == other:
        return True
    stem = "".join(a for a, _ in takewhile(lambda both: both[0] == both[1], zip(one, other, strict=False)))
    return len(stem) >= SHORTEST_STEM and all(_is_ending(form[len(stem) :], stem) for form in (one, other))


def _is_ending(tail: str, stem: str) -> bool:
    doubled = len(tail) > 1 and tail[0] == stem[-1] and tail[1:] in ENDINGS
    return tail in ENDINGS or doubled


@dataclass(frozen=True)
class Number:
    """A number in a text: its value, whether its first word is written in letters, and the places of its words."""

    value: str
    in_letters: bool
    indices: tuple[int, ...]


def numbers_of(parsed: ParsedText) -> list[Number]:
    """A text's numbers in order; thirty-eight and 2 million are one number each."""
    found: list[Number] = []
    for index, word in enumerate(parsed.words):
        if word.number is None:
            continue
        in_letters = word.text.isalpha()
        if found and in_letters and _goes_on(parsed.words, found[-1].indices[-1], index):
            last = found[-1]
            value = word.number if last.value == word.number else _times(last.value, word.number)
            if value is not None:
                found[-1] = Number(value, last.in_letters, (*last.indices, index))
                continue
        found.append(Number(word.number, in_letters, (index,)))
    return found


def words_of_numbers(parsed: ParsedText, values: Collection[str]) -> list[Word]:
    """The words that write one of these values."""
    return [parsed.words[index] for number in numbers_of(parsed) if number.value in values for index in number.indices]


def _goes_on(words: tuple[Word, ...], last: int, index: int) -> bool:
    """Whether only hyphens stand between two places."""
    return all(word.text in HYPHENS for word in words[last + 1 : index])


def _times(value: str, magnitude: str) -> str | None:
    """2.5 million as one number; None where the second is no magnitude."""
    if magnitude not in MAGNITUDES:
        return None
    try:
        return f"{(Decimal(value) * Decimal(magnitude)).normalize():f}"
    except ArithmeticError:
        return None


def number_difference(left: ParsedText, right: ParsedText) -> tuple[list[str], list[str]]:
    """The numbers of each text that the other lacks, as multisets.

    A "one" in letters counts only against another number: it may be no more than an article.
    """
    found = [Counter((one.value, one.in_letters) for one in numbers_of(parsed)) for parsed in (left, right)]
    first, second = (_values(numbers) for numbers in found)
    lacking = first - second, second - first
    kept = [
        own if other or numbers[("1", False)] else Counter({value: own[value] for value in own if value != "1"})
        for own, other, numbers in zip(lacking, lacking[::-1], found, strict=True)
    ]
    return sorted(kept[0].elements()), sorted(kept[1].elements())


def _values(numbers: Counter[tuple[str, bool]]) -> Counter[str]:
    values: Counter[str] = Counter()
    for (value, _), count in numbers.items():
        values[value] += count
    return values
