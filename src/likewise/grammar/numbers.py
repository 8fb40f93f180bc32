"""Numbers: one spelling for the value of a number, in digits or in letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from likewise.grammar.words import Word

_ENGLISH = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_ENGLISH_TENS = (
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
)  # fmt: skip
_GERMAN = (
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
)  # fmt: skip
_GERMAN_TENS = (
    "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig",
)  # fmt: skip


def _values(small: Sequence[str], tens: Sequence[str], pattern: str) -> dict[str, int]:
    """Number words to their values; the pattern joins ten and unit, as in thirty-eight."""
    values = dict(zip([*small, *tens], [*range(20), *range(20, 100, 10)], strict=True))
    joined = {
        pattern.format(ten=ten, unit=unit).replace("einsund", "einund"): values[ten] + values[unit]
        for ten in tens
        for unit in small[1:10]
    }
    return values | joined


VALUES: dict[str, dict[str, int]] = {
    "en": _values(_ENGLISH, _ENGLISH_TENS, "{ten}-{unit}")
    | {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9},
    "de": _values(_GERMAN, _GERMAN_TENS, "{unit}und{ten}")
    | {"dreissig": 30, "hundert": 100, "tausend": 1000, "million": 10**6, "millionen": 10**6, "milliarde": 10**9},
}
"""Per language, number words to their values."""

SEPARATORS = {"en": (",", "."), "de": (".", ",")}
"""Per language, what groups thousands and what begins the decimals."""


def number_value(text: str, language: str) -> str:
    """One spelling of a number: plain digits where its value is known, else its lower-cased text.

    >>> number_value("1,000", "en"), number_value("1.000", "de"), number_value("achtunddreißig", "de")
    ('1000', '1000', '38')
    """
    lowered = "".join(_plain_digit(letter) for letter in text.lower())
    if lowered in VALUES.get(language, {}):
        return str(VALUES[language][lowered])
    thousands, point = map(re.escape, SEPARATORS.get(language, SEPARATORS["en"]))
    token_groups = re.fullmatch(rf"(\d{{1,3}}(?:{thousands}\d{{3}})+|\d+)(?:{point}(\d+))?", lowered)
    if token_groups is None:
        return lowered
    whole, decimals = re.sub(r"\D", "", token_groups[1]), token_groups[2]
    return f"{whole}.{decimals}" if decimals else whole


def with_compounds(words: Sequence[Word]) -> tuple[Word, ...]:
    """The same words, where ten and unit in letters (thirty - eight) both carry the whole number.

    >>> parts = [("thirty", "30"), ("eight", "8")]
    >>> words = [Word(text, 0, 0, "NUM", "nummod", 0, text, number=number) for text, number in parts]
    >>> [word.number for word in with_compounds(words)]
    ['38', '38']
    """
    joined = list(words)
    for index, ten in enumerate(words):
        other = index + (2 if index + 1 < len(words) and words[index + 1].text in "-‐‑" else 1)
        if other < len(words) and _is_ten(ten) and _is_unit(words[other]):
            whole = str(int(ten.number or 0) + int(words[other].number or 0))
            joined[index], joined[other] = replace(ten, number=whole), replace(words[other], number=whole)
    return tuple(joined)


def _plain_digit(letter: str) -> str:
    """The ASCII digit for any script's; other letters as they are."""
    return str(unicodedata.decimal(letter, letter))


def _is_ten(word: Word) -> bool:
    return word.text.isalpha() and word.number in {str(ten) for ten in range(20, 100, 10)}


def _is_unit(word: Word) -> bool:
    return word.text.isalpha() and word.number in set("123456789")
