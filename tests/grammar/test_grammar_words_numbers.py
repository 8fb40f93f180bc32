from __future__ import annotations

import pytest

from likewise.grammar.words import Word, number_value, with_compounds


@pytest.mark.parametrize(
    ("text", "language", "value"),
    [
        ("38", "en", "38"),
        ("Thirty-Eight", "en", "38"),
        ("nineteen", "en", "19"),
        ("ninety-nine", "en", "99"),
        ("1,000", "en", "1000"),
        ("1,234,567.89", "en", "1234567.89"),
        ("3.5", "en", "3.5"),
        ("3,5", "en", "3,5"),
        ("3,5", "de", "3.5"),
        ("1.000", "de", "1000"),
        ("1.000,50", "de", "1000.50"),
        ("24.12.", "de", "24.12."),
        ("Einundzwanzig", "de", "21"),
        ("achtunddreißig", "de", "38"),
        ("siebenundneunzig", "de", "97"),
        ("eins", "de", "1"),
        ("٣٨", "ar", "38"),
        ("३८", "hi", "38"),
        ("3rd", "en", "3rd"),
        ("10:30", "en", "10:30"),
        ("²", "en", "²"),
        ("eight", "fr", "eight"),
    ],
)
def test_values(text: str, language: str, value: str) -> None:
    assert number_value(text, language) == value


def numbers(*parts: tuple[str, str | None]) -> list[str | None]:
    words = [Word(text, 0, 1, "NUM", "nummod", 0, text, number=number) for text, number in parts]
    return [word.number for word in with_compounds(words)]


def test_ten_and_unit_make_one_number() -> None:
    assert numbers(("Thirty", "30"), ("-", None), ("eight", "8"), ("men", None)) == ["38", None, "38", None]
    assert numbers(("thirty", "30"), ("eight", "8")) == ["38", "38"]


def test_other_neighbours_stay_apart() -> None:
    assert numbers(("30", "30"), ("8", "8")) == ["30", "8"]
    assert numbers(("30", "30"), ("eight", "8")) == ["30", "8"]
    assert numbers(("thirty", "30"), ("8", "8")) == ["30", "8"]
    assert numbers(("thirty", "30"), (",", None), ("eight", "8")) == ["30", None, "8"]
    assert numbers(("eight", "8"), ("thirty", "30")) == ["8", "30"]
    assert numbers(("ten", "10"), ("eight", "8")) == ["10", "8"]
    assert numbers(("thirty", "30"), ("-", None)) == ["30", None]
