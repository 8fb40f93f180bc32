"""Nouns that two texts have in common."""

from __future__ import annotations

from collections import Counter

from likewise.grammar.words import ParsedText, Word

NOUNS = frozenset({"NOUN", "PROPN"})


def noun_form(word: Word) -> str | None:
    """How a noun is known again: its letters in lower case; None for other words.

    >>> noun_form(Word("Dogs", start=0, end=4, pos="NOUN", dep="nsubj", head=1, lemma="dog"))
    'dogs'
    """
    return word.text.lower() if word.pos in NOUNS else None


def shared_nouns(left: ParsedText, right: ParsedText) -> int:
    """How many nouns two texts share; one that stands twice in both counts twice.

    >>> dog = Word("dog", start=0, end=3, pos="NOUN", dep="root", head=0, lemma="dog")
    >>> shared_nouns(ParsedText("dog", (dog,)), ParsedText("dog dog", (dog, dog)))
    1
    """
    one, other = (Counter(form for word in text.words if (form := noun_form(word))) for text in (left, right))
    return (one & other).total()


def noun_matches(left: ParsedText, right: ParsedText) -> list[tuple[int, int]]:
    """The places of words of two texts that are the same noun.

    >>> dog = Word("dog", start=0, end=3, pos="NOUN", dep="root", head=0, lemma="dog")
    >>> noun_matches(ParsedText("dog", (dog,)), ParsedText("dog dog", (dog, dog)))
    [(0, 0), (0, 1)]
    """
    forms = [[noun_form(word) for word in text.words] for text in (left, right)]
    return [
        (row, column)
        for row, one in enumerate(forms[0])
        for column, other in enumerate(forms[1])
        if one is not None and one == other
    ]
