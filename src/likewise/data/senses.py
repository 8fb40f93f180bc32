"""Senses: words in context, each with the sense that it has there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from likewise.data.catalogue import locate
from likewise.data.columns import GUESSED, USUAL_NAMES, Columns
from likewise.data.location import Location, shown
from likewise.data.records import Record
from likewise.data.rows import Report, Row, rows, suffix_of
from likewise.data.usual_roles import UsualRoles, built_examples

SENSE_NAMES = {
    "word": ("word", "lemma", "target", "target_word"),
    "index": ("word_index", "token_index", "target_index", "index", "position"),
    "sense": ("sense", "sense_label", "label", "synset", "sense_id"),
    "text": USUAL_NAMES["text"],
    "id": USUAL_NAMES["id"],
}
NEEDED = ("word", "index", "sense", "text")
TOKEN = re.compile(r"\S+")
SAME_LETTERS = 3
"""How many first letters a word and a form of it have in common: enough for plurals and most other forms."""


@dataclass(frozen=True, slots=True)
class SenseExample:
    """A word at a place of a text, and the sense that it has there.

    >>> one = SenseExample("Two banks of the river", "bank", 4, 9, "bank_shore", "1")
    >>> one.written, one.is_form
    ('banks', True)
    """

    text: str
    word: str
    start: int
    """where the word begins in the text"""
    end: int
    """where it ends"""
    sense: str
    id: str

    @property
    def written(self) -> str:
        """The word as the text has it."""
        return self.text[self.start : self.end]

    @property
    def is_form(self) -> bool:
        """Whether what is written there begins as the word does."""
        written, word = (each.casefold()[:SAME_LETTERS] for each in (self.written, self.word))
        return written == word


def read_senses(
    source: str | Path,
    *,
    columns: Columns = GUESSED,
    data_dir: Path | None = None,
    on_bad: Report | None = None,
) -> Iterator[SenseExample]:
    """Yield words in context; the index counts the blank-separated parts of the text from 0 on.

    >>> from likewise.data import read_senses
    >>> next(read_senses("coarsewsd20/test")).sense  # doctest: +SKIP
    'apple_apple_inc.'
    """
    path, file = locate(source, data_dir), str(source)
    if suffix_of(path) == ".txt":
        raise Location(file).error("plain text has no columns for words and senses; use .csv, .tsv or .jsonl")
    given: dict[str, tuple[str, ...]] = {
        role: (name,) for role in ("text", "id") if (name := columns.of(role)) is not None
    }
    finder = UsualRoles(path, file, SENSE_NAMES | given, (*NEEDED, *given))

    def build(row: Row) -> SenseExample:
        record = finder.record(row)
        text = record.text("text")
        start, end = _span(record, text)
        return SenseExample(text, record.text("word"), start, end, record.label("sense"), record.id)

    return built_examples(lambda report: rows(path, file, report), build, file, on_bad)


def _span(record: Record, text: str) -> tuple[int, int]:
    """The characters of the part of the text that the index names."""
    index, parts = record.number("index"), [found.span() for found in TOKEN.finditer(text)]
    if index not in range(len(parts)):
        location = record.location.at(record.roles["index"])
        raise location.error(f"the text has words 0 to {len(parts) - 1}, not {shown(index)}; count them by its blanks")
    return parts[int(index)]
