from __future__ import annotations

from likewise.grammar import ParsedText, Word
from likewise.grammar.words import noun_matches, shared_nouns


def parsed(*tagged: str) -> ParsedText:
    """Words as dog/NOUN."""
    words, start = [], 0
    for each in tagged:
        text, pos = each.split("/")
        words.append(Word(text, start, start + len(text), pos, "dep", 0, text.lower()))
        start += len(text) + 1
    return ParsedText(" ".join(word.text for word in words), tuple(words))


LEFT = parsed("Dogs/NOUN", "chase/VERB", "a/DET", "dog/NOUN", "in/ADP", "Rome/PROPN")


def test_nouns_are_shared_whatever_their_case_but_in_the_same_form() -> None:
    assert shared_nouns(LEFT, parsed("rome/PROPN", "dogs/NOUN")) == 2
    assert shared_nouns(LEFT, parsed("chase/NOUN", "a/DET", "cat/NOUN")) == 0
    assert shared_nouns(LEFT, parsed("chase/VERB")) == 0


def test_a_noun_counts_as_often_as_both_have_it() -> None:
    twice, thrice = parsed("dog/NOUN", "dog/NOUN"), parsed("dog/NOUN", "dog/NOUN", "dog/NOUN")
    assert shared_nouns(twice, thrice) == shared_nouns(thrice, twice) == 2
    assert len(noun_matches(twice, thrice)) == 6


def test_matches_are_places_of_words() -> None:
    assert noun_matches(LEFT, parsed("A/DET", "dog/NOUN", "and/CCONJ", "Rome/PROPN")) == [(3, 1), (5, 3)]
