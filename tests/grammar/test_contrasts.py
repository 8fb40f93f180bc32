"""Differences that change a meaning: numbers, negations, roles, names; with a parser and without one."""

from __future__ import annotations

from itertools import product

import pytest

from likewise.grammar import Grammar
from likewise.grammar.contrasts import (
    LIGHT_RULES,
    MEANING_RULES,
    lightly_parsed,
    meaning_flags,
    name_difference,
    negating_words,
    number_difference,
    same_word,
)

FLAGGED = [
    ("Two boats left.", "Five boats left.", {"number": "2 against 5"}),
    ("It costs $1,000.", "It costs $1.000,5.", {"number": "1000 against 1.000,5"}),
    ("I own thirty-eight cats.", "I own 38 cats.", {}),
    ("I own 38 cats.", "I own cats.", {"number": "left only: 38"}),
    ("One should go.", "You should go.", {}),
    ("He works on Windows 7.", "He works on Windows 10.", {"number": "7 against 10"}),
    ("It is red.", "It is not red.", {"negation": "right only: not"}),
    ("It isn't red.", "It is red.", {"negation": "left only: isn't"}),
    ("It isn’t red.", "It is red.", {"negation": "left only: isn’t"}),
    ("It is never red.", "It is not red.", {}),
    ("I live in Paris.", "I live in London.", {"name": "Paris against London"}),
    ("I live in paris.", "I live in Paris.", {}),
    ("I met Ada Lovelace.", "I met Lovelace.", {}),
    ("I live in Paris.", "I live there.", {"name": "left only: Paris"}),
    ("I'm here.", "You are here.", {}),
    ("Paris is here.", "London is here.", {}),  # the first word of a sentence has a capital anyway
    ("So it is. Really it is.", "So it is. Surely it is.", {}),
    ('He said: "Never!"', 'He said: "Always!"', {"negation": "left only: Never", "name": "Never against Always"}),
    ("", "", {}),
    ("😀 5", "😀 6", {"number": "5 against 6"}),
]


@pytest.mark.parametrize(("left", "right", "flags"), FLAGGED)
def test_flags_without_a_parser(left: str, right: str, flags: dict[str, str]) -> None:
    assert meaning_flags(lightly_parsed(left), lightly_parsed(right), LIGHT_RULES["en"]) == flags


def test_german_without_a_parser() -> None:
    left, right = (lightly_parsed(text, "de") for text in ("Drei Hunde bellen.", "Zwei Katzen bellen nicht."))
    assert meaning_flags(left, right, LIGHT_RULES["de"]) == {"negation": "right only: nicht", "number": "3 against 2"}
    assert {word.pos for word in left.words} == {"NUM", "X"}


def test_light_words_lie_in_the_text() -> None:
    text = "In Ōsaka I don't own thirty-eight 🐈‍⬛, Bob."
    for word in lightly_parsed(text).words:
        assert text[word.start : word.end] == word.text


@pytest.mark.parametrize("pair", [("It is red.", "It is blue."), ("No.", "Never.")])
def test_nothing_is_negated_alone(pair: tuple[str, str]) -> None:
    assert negating_words(*map(lightly_parsed, pair)) == ([], [])


def test_differences_are_of_both_sides() -> None:
    left, right = lightly_parsed("With Ada and 2 cats."), lightly_parsed("With Bob and 3 cats.")
    assert name_difference(left, right) == (["Ada"], ["Bob"])
    assert number_difference(left, right) == (["2"], ["3"])


@pytest.mark.data
def test_flags_of_a_parser(english: Grammar) -> None:
    pairs = [
        ("The dog chased the postman.", "The postman chased the dog.", "role"),
        ("Paris is a city.", "London is a city.", "name"),
        ("Two boats left.", "Five boats left.", "number"),
        ("It is red.", "It is not red.", "negation"),
    ]
    for left, right, rule in pairs:
        assert list(meaning_flags(*english.parse([left, right]))) == [rule]
    assert set(MEANING_RULES) == {rule for *_, rule in pairs}


def test_names_are_compared_by_their_forms() -> None:
    """The index by stems finds what comparing each name with each word finds."""
    forms = ["Run", "Runs", "running", "runner", "Marie", "Maries", "Mar", "Ann", "Anns", "Anne", "Stopped", "stopping"]
    for name in forms:
        for other in forms:
            left, right = lightly_parsed(f"the {name.title()}"), lightly_parsed(f"the {other.lower()}")
            assert bool(name_difference(left, right)[0]) != same_word(name, other), (name, other)


@pytest.mark.slow
def test_names_of_long_texts_take_linear_time() -> None:
    names = ["Aaa" + "".join(letters) for letters in product("bcfghjkmpq", repeat=4)]
    left, right = (lightly_parsed("the " + " ".join(name + end for name in names)) for end in ("xo", "yo"))
    assert len(name_difference(left, right)[0]) == 10_000
