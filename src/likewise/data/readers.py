"""Readers: a path or a data set's name -> an iterator of typed examples.

They stream in constant memory and raise a file's errors at the call, not at the first ``next``. A bad row raises too,
unless ``on_bad`` takes its error; then reading continues with the next row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from likewise.data.bad_rows import Location, SkippedRows, shown
from likewise.data.catalogue import locate
from likewise.data.columns import (
    GUESSED,
    MEANINGS,
    USUAL_NAMES,
    Columns,
    Record,
    RoleFinder,
    UsualRoles,
    assigned,
    built_examples,
    has_own_names,
)
from likewise.data.rows import Report, Row, rows, suffix_of
from likewise.errors import DataError


def _meta() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Text:
    """One text.

    >>> Text("A plane is taking off.", id="1").text
    'A plane is taking off.'
    """

    text: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """One text with its class; the label is exactly as in the file.

    >>> LabelledText("Great book.", label="5", id="1").label
    '5'
    """

    text: str
    label: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that belong together, such as a sentence and its compression.

    >>> Pair("A boy was seen at noon.", "A boy was seen.", id="1").right
    'A boy was seen.'
    """

    left: str
    right: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how similar people find them, on the data set's own scale.

    >>> ScoredPair("A plane.", "An air plane.", score=5.0, id="1").score
    5.0
    """

    left: str
    right: str
    score: float
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts and the class of their relation, such as entailment.

    >>> LabelledPair("A man sleeps.", "A man is awake.", label="contradiction", id="1").label
    'contradiction'
    """

    left: str
    right: str
    label: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


Example = TypeVar("Example")


def read_texts(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[Text]:
    """Yield the texts of a file or a data set.

    >>> from likewise.data import read_texts
    >>> len(next(read_texts("sample/sentences")).text) > 0
    True
    """
    return _read(source, lambda row: Text(row.text("text"), row.id, row.meta), ("text",), columns, data_dir, on_bad)


def read_labelled_texts(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[LabelledText]:
    """Yield texts with their classes.

    >>> from likewise.data import read_labelled_texts
    >>> next(read_labelled_texts("amazon/kindle_15k")).label  # doctest: +SKIP
    '4'
    """

    def build(row: Record) -> LabelledText:
        return LabelledText(row.text("text"), row.label("label"), row.id, row.meta)

    return _read(source, build, ("text", "label"), columns, data_dir, on_bad)


def read_pairs(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[Pair]:
    """Yield pairs of texts; a score or a label stays in ``meta``.

    >>> from likewise.data import read_pairs
    >>> pair = next(read_pairs("sample/pairs"))
    >>> pair.left != pair.right
    True
    """

    def build(row: Record) -> Pair:
        return Pair(row.text("left"), row.text("right"), row.id, row.meta)

    return _read(source, build, ("left", "right"), columns, data_dir, on_bad)


def pair_columns(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None
) -> tuple[str, str] | None:
    """The columns of a pair's two texts, by the first row of a file or a data set; None if it has no pairs.

    >>> from likewise.data import pair_columns
    >>> pair_columns("sample/pairs"), pair_columns("sample/sentences")
    (('sentence1', 'sentence2'), None)
    """
    path, file = locate(source, data_dir), str(source)
    first = next(rows(path, file, SkippedRows()), None)
    if first is None:
        return None
    try:
        found = assigned(tuple(first.values), ("left", "right"), columns, Location(file))
    except DataError:
        return None
    return found["left"], found["right"]


def holds_pairs(source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None) -> bool:
    """Whether the first row of a file or a data set has the two texts of a pair.

    >>> from likewise.data import holds_pairs
    >>> holds_pairs("sample/pairs"), holds_pairs("sample/sentences")
    (True, False)
    """
    return pair_columns(source, columns=columns, data_dir=data_dir) is not None


def read_scored_pairs(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[ScoredPair]:
    """Yield pairs of texts with their similarity scores.

    >>> from likewise.data import read_scored_pairs
    >>> next(read_scored_pairs("stsb/test")).score  # doctest: +SKIP
    2.5
    """

    def build(row: Record) -> ScoredPair:
        return ScoredPair(row.text("left"), row.text("right"), row.number("score"), row.id, row.meta)

    return _read(source, build, ("left", "right", "score"), columns, data_dir, on_bad)


def read_labelled_pairs(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[LabelledPair]:
    """Yield pairs of texts with the class of their relation.

    >>> from likewise.data import read_labelled_pairs
    >>> next(read_labelled_pairs("snli/dev")).label  # doctest: +SKIP
    'neutral'
    """

    def build(row: Record) -> LabelledPair:
        return LabelledPair(row.text("left"), row.text("right"), row.label("label"), row.id, row.meta)

    return _read(source, build, ("left", "right", "label"), columns, data_dir, on_bad)


def _read(
    source: str | Path,
    build: Callable[[Record], Example],
    wanted: tuple[str, ...],
    columns: Columns,
    data_dir: Path | None,
    on_bad: Report | None,
) -> Iterator[Example]:
    path, file = locate(source, data_dir), str(source)
    if suffix_of(path) == ".txt" and wanted != ("text",):
        what = " and ".join(MEANINGS[role] for role in wanted if role != "text")
        raise Location(file).error(f"plain text has no columns for {what}; use .csv, .tsv or .jsonl")
    finder = RoleFinder(file, wanted, columns, has_own_names(path))
    return built_examples(partial(rows, path, file), lambda row: build(finder.record(row)), file, on_bad)


SENSE_NAMES = {
    "word": ("word", "lemma", "target", "target_word"),
    "index": ("word_index", "token_index", "target_index", "index", "position"),
    "sense": ("sense", "sense_label", "label", "synset", "sense_id"),
    "text": USUAL_NAMES["text"],
    "id": USUAL_NAMES["id"],
}
NEEDED = ("word", "index", "sense", "text")
TOKEN = re.compile(r"\S+")
SAME_CHARACTERS = 3
"""How many first characters a word shares with its forms: enough for plurals and most other forms."""


@dataclass(frozen=True, slots=True)
class SenseExample:
    """A word in a text, and the sense that it has there.

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
        """Whether the text there begins like the word."""
        written, word = (each.casefold()[:SAME_CHARACTERS] for each in (self.written, self.word))
        return written == word


def read_senses(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: Report | None = None
) -> Iterator[SenseExample]:
    """Yield words in context; the index counts the words of the text, separated by blanks, from 0.

    >>> from likewise.data import read_senses
    >>> next(read_senses("coarsewsd20/test")).sense  # doctest: +SKIP
    'apple_apple_inc.'
    """
    path, file = locate(source, data_dir), str(source)
    if suffix_of(path) == ".txt":
        raise Location(file).error("plain text has no columns for words and senses; use .csv, .tsv or .jsonl")
    named = ((role, columns.of(role)) for role in ("text", "id"))
    given: dict[str, tuple[str, ...]] = {role: (name,) for role, name in named if name is not None}
    finder = UsualRoles(path, file, SENSE_NAMES | given, (*NEEDED, *given))

    def build(row: Row) -> SenseExample:
        record = finder.record(row)
        text = record.text("text")
        start, end = _span(record, text)
        return SenseExample(text, record.text("word"), start, end, record.label("sense"), record.id)

    return built_examples(partial(rows, path, file), build, file, on_bad)


def _span(record: Record, text: str) -> tuple[int, int]:
    """The character span of the word that the index names."""
    index, parts = record.number("index"), [found.span() for found in TOKEN.finditer(text)]
    if index not in range(len(parts)):
        location = record.location.at(record.roles["index"])
        raise location.error(f"the text has words 0 to {len(parts) - 1}, not {shown(index)}; count them by its blanks")
    return parts[int(index)]
