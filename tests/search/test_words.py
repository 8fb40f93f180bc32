"""Occurrences of words: the words that rankers count, at the characters where they are written."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from likewise.search.words import cased_words, occurrences, words

LETTERS = [
    *"abAB19_ .,'!-\n", "e\u0301", "\u0301", "é", "İ", "ı", "ß", "Σ", "ς", "🦊", "👩\u200d👩\u200d👧",
    "\u05e9\u05b8\u05c1", "שלום", "مرحبا", "हि", "\u0928\u094d\u0926\u0940", "각", "\u1100\u1161\u11a8", "\u1161",
    "東京", "ｆｕｌｌ", "Å", "\u212b", "ﬁ", "\u09c7\u09be", "q\u0323\u0307", "\u2028",
]  # fmt: skip


def random_text(seed: int) -> str:
    rng = np.random.default_rng(seed)
    return "".join(LETTERS[index] for index in rng.integers(0, len(LETTERS), rng.integers(0, 40)))


@pytest.mark.parametrize("seed", range(400))
def test_are_the_words_where_they_are_written(seed: int) -> None:
    text = random_text(seed)
    for lower, plain in ((True, words(text)), (False, cased_words(text))):
        found = occurrences(text, lower)
        assert [word for word, _, _ in found] == plain
        done = 0
        for word, start, end in found:
            assert done <= start < end <= len(text)
            done = start if text[start:end] != word else end
            # Σ alone is σ, and at the end of a word ς.
            own = unicodedata.normalize("NFC", text[start:end].lower() if lower else text[start:end])
            assert word.replace("ς", "σ") in own.replace("ς", "σ")


def test_spans_hold_nothing_but_the_word() -> None:
    text = "Cafe\u0301, CAFÉ — Rome’s café-bar 👩\u200d👩\u200d👧 שלום"
    assert [text[start:end] for _, start, end in occurrences(text)] == [
        "Cafe\u0301", "CAFÉ", "Rome", "s", "café", "bar", "שלום"
    ]  # fmt: skip


def test_no_words() -> None:
    assert occurrences("") == occurrences("... !") == []
