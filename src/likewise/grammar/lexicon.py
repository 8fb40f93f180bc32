"""Language tables: negations, and number words with their values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from likewise.grammar.words import Word

# With inflected forms, because many pipelines have no lemmas.
NEGATIONS: dict[str, frozenset[str]] = {
    "en": frozenset({
        "not", "n't", "nt", "no", "nope", "never", "none", "nobody", "nothing", "nowhere", "neither", "nor",
        "without", "cannot", "hardly", "scarcely", "barely",
    }),
    "de": frozenset({
        "nicht", "nichts", "nie", "niemals", "nimmer", "nirgends", "nirgendwo", "nein", "niemand", "niemandem",
        "niemanden", "niemandes", "kein", "keine", "keinem", "keinen", "keiner", "keines", "keins",
        "keinerlei", "keinesfalls", "keineswegs", "weder", "ohne", "kaum",
    }),
}  # fmt: skip
"""By language code; lower-cased."""

NEGATION_LABELS = frozenset({"neg", "ng"})
"""Dependency labels of negating words in ClearNLP's and TIGER's schemes."""


def is_negation(text: str, language: str, lemma: str = "") -> bool:
    """Whether a word, by its text or its lemma, is a negation in the language.

    >>> is_negation("Keine", "de"), is_negation("n’t", "en"), is_negation("knot", "en")
    (True, True, False)
    """
    known = NEGATIONS.get(language, frozenset())
    return any(form.lower().replace("’", "'") in known for form in (text, lemma))


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
    """The values of number words; the pattern joins ten and unit, as in thirty-eight."""
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
"""By language: number words and their values."""

SEPARATORS = {"en": (",", "."), "de": (".", ",")}
"""By language: the thousands separator and the decimal point."""


def number_value(text: str, language: str) -> str:
    """A number as plain digits if its value is known, else its lower-cased text.

    >>> number_value("1,000", "en"), number_value("1.000", "de"), number_value("achtunddreißig", "de")
    ('1000', '1000', '38')
    """
    lowered = "".join(_plain_digit(character) for character in text.lower())
    if lowered in VALUES.get(language, {}):
        return str(VALUES[language][lowered])
    thousands, point = map(re.escape, SEPARATORS.get(language, SEPARATORS["en"]))
    match = re.fullmatch(rf"(\d{{1,3}}(?:{thousands}\d{{3}})+|\d+)(?:{point}(\d+))?", lowered)
    if match is None:
        return lowered
    whole, decimals = re.sub(r"\D", "", match[1]), match[2]
    return f"{whole}.{decimals}" if decimals else whole


def with_compounds(words: Sequence[Word]) -> tuple[Word, ...]:
    """The same words; ten and unit in letters (thirty - eight) both have the whole number.

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


def _plain_digit(character: str) -> str:
    """The ASCII digit of any script's digit; other characters unchanged."""
    return str(unicodedata.decimal(character, character))


def _is_ten(word: Word) -> bool:
    return word.text.isalpha() and word.number in {str(ten) for ten in range(20, 100, 10)}


def _is_unit(word: Word) -> bool:
    return word.text.isalpha() and word.number in set("123456789")
