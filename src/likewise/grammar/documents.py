"""Documents: from what a spaCy pipeline says of a text to words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from likewise.grammar.negations import NEGATION_LABELS, is_negation
from likewise.grammar.numbers import VALUES, number_value, with_compounds
from likewise.grammar.words import ParsedText, Word

if TYPE_CHECKING:
    from spacy.tokens import Doc, Token

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def readable(text: str) -> tuple[str, list[int]]:
    """A text as a pipeline can read it, and where each of its characters stood.

    Parsers take a run of white space for a word, and even for an object; here it is one blank. A byte that was
    no UTF-8 becomes U+FFFD, for spaCy raises on it.

    >>> readable("  a   dog")
    ('a dog', [2, 3, 6, 7, 8])
    """
    indices = [
        index
        for index, letter in enumerate(text)
        if not letter.isspace() or (index > 0 and not text[index - 1].isspace())
    ]
    plain = "".join(" " if text[index].isspace() else text[index] for index in indices)
    return _LONE_SURROGATES.sub("\ufffd", plain), indices


def parsed_text(text: str, doc: Doc, indices: list[int]) -> ParsedText:
    """A text's words out of the document that was made of its readable form."""
    kept = [token for token in doc if not token.is_space]
    number = {token.i: index for index, token in enumerate(kept)}
    words = (_word(text, token, number[_visible_head(token).i], indices) for token in kept)
    return ParsedText(text, with_compounds(tuple(words)))


def _visible_head(token: Token) -> Token:
    """The nearest head that is no white space; the token itself where there is none."""
    head = token.head
    while head.is_space and head.head.i != head.i:
        head = head.head
    return token if head.is_space else head


def _word(text: str, token: Token, head: int, indices: list[int]) -> Word:
    start, end = indices[token.idx], indices[token.idx + len(token) - 1] + 1
    lemma, dep, language = token.lemma_ or token.lower_, token.dep_.lower(), token.vocab.lang
    denies = is_negation(token.text, language, lemma) or "Polarity=Neg" in str(token.morph)
    return Word(
        text=text[start:end],
        start=start,
        end=end,
        pos=token.pos_,
        dep=dep,
        head=head,
        lemma=lemma,
        is_stop=token.vocab[token.lower_].is_stop,
        is_punct=token.is_punct,
        negates=denies or dep in NEGATION_LABELS,
        number=number_value(token.text, language) if _is_number(token) else None,
    )


def _is_number(token: Token) -> bool:
    """By its form or its tag; in "the one" and "ein Hund" the same letters count nothing."""
    looks_so = token.like_num or token.lower_ in VALUES.get(token.vocab.lang, {})
    counts = token.pos_ == "NUM" or (looks_so and token.pos_ not in ("PRON", "DET"))
    return counts and any(letter.isalnum() for letter in token.text)
