"""Words: what the grammar says of each one, and where it stands in its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text; white space is none.

    >>> word = Word("dogs", start=4, end=8, pos="NOUN", dep="nsubj", head=2, lemma="dog")
    >>> "The dogs bark."[word.start : word.end], word.is_number
    ('dogs', False)
    """

    text: str
    start: int
    """Of its first character in the text."""
    end: int
    """One past its last character."""
    pos: str
    """Universal part of speech, such as NOUN."""
    dep: str
    """Dependency label in the pipeline's own scheme, lower-cased, such as nsubj; a sentence's root has root."""
    head: int
    """Place of the word it depends on among the text's words; a root is its own head."""
    lemma: str
    """The lower-cased text where the pipeline knows no lemmas."""
    is_stop: bool = False
    """Whether the language's stop list holds it, in whatever case it is written."""
    is_punct: bool = False
    """Whether it is a punctuation mark."""
    negates: bool = False
    """Whether it denies something: not, nobody, kein."""
    number: str | None = None
    """The value of the number it is or belongs to ("38" for both words of thirty-eight), else its lower-cased text."""

    @property
    def is_number(self) -> bool:
        """Whether the word is a number, in digits or letters.

        >>> Word("38", 0, 2, "NUM", "root", 0, "38", number="38").is_number
        True
        """
        return self.number is not None


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A text and its words in their order.

    >>> barks = Word("barks", start=3, end=8, pos="VERB", dep="root", head=1, lemma="bark")
    >>> parsed = ParsedText("It barks", (Word("It", 0, 2, "PRON", "nsubj", 1, "it", is_stop=True), barks))
    >>> [word.lemma for word in parsed.words if not word.is_stop]
    ['bark']
    """

    text: str
    words: tuple[Word, ...]
