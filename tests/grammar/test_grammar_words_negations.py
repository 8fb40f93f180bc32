from __future__ import annotations

import pytest

from likewise.grammar.words import NEGATIONS, is_negation


@pytest.mark.parametrize("text", ["not", "NOT", "n't", "n’t", "No", "never", "nobody", "without", "neither", "nor"])
def test_english(text: str) -> None:
    assert is_negation(text, "en")


@pytest.mark.parametrize("text", ["nicht", "Kein", "keinem", "NIEMALS", "niemand", "nichts", "ohne", "weder"])
def test_german(text: str) -> None:
    assert is_negation(text, "de")


@pytest.mark.parametrize(
    ("text", "language"), [("know", "en"), ("note", "en"), ("noch", "de"), ("not", "de"), ("", "en")]
)
def test_others_do_not_deny(text: str, language: str) -> None:
    assert not is_negation(text, language)


def test_a_lemma_is_enough() -> None:
    assert is_negation("keinster", "de", lemma="kein")


def test_an_unknown_language_has_none() -> None:
    assert not is_negation("not", "xx")


def test_the_sets_are_lower_cased() -> None:
    assert all(word == word.lower() for words in NEGATIONS.values() for word in words)
