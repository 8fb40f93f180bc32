"""Grammar: the words, parts of speech and dependency labels of texts, by spaCy."""

from likewise.grammar.grammar import Grammar
from likewise.grammar.words import ParsedText, Word, align, roles

__all__ = ["Grammar", "ParsedText", "Word", "align", "roles"]
