"""Grammar: from texts to words, parts of speech and dependency labels, by spaCy."""

from likewise.grammar.alignment import align
from likewise.grammar.grammar import Grammar
from likewise.grammar.roles import roles
from likewise.grammar.words import ParsedText, Word

__all__ = ["Grammar", "ParsedText", "Word", "align", "roles"]
