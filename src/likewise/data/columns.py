"""Columns of a file: which one holds the text, the score or the label; and the conversion of rows to examples."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from likewise.data.remote import AnyPath
from likewise.data.rows import BadRow, Location, OnBad, Row, SkippedRows, is_text_pair, rows, shown, suffix_of
from likewise.errors import DataError

SHOWN_COLUMNS = 12
Value = str | int | float | bool
LARGEST = 2**63
# Not a number with leading zeros: it names something, such as a town.
PLAIN_VALUE = re.compile(r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?|true|false", re.IGNORECASE | re.ASCII)

# In order of preference. Case and punctuation are ignored: "Sentence 1" and "sentence_1" are "sentence1".
USUAL_NAMES = {
    "text": (
        "text", "sentence", "content", "document", "passage", "body", "review", "abstract",
        "comment", "message", "tweet", "utterance", "title", "word",
    ),
    "left": (
        "sentence1", "text1", "left", "premise", "question1", "sentence_a", "text_a", "anchor", "full",
        "original", "query", "s1",
    ),
    "right": (
        "sentence2", "text2", "right", "hypothesis", "question2", "sentence_b", "text_b", "positive",
        "compressed", "compression", "passage", "document", "answer", "s2",
    ),
    "score": (
        "score", "similarity", "similarity_score", "sts_score", "relatedness_score", "relatedness",
        "label_score", "gold_score", "gold",
    ),
    "label": (
        "label", "gold_label", "entailment_label", "class", "sentiment", "is_duplicate", "sense", "topic",
        "category",
    ),
    # Not "sid": STSb restarts it in each of its source files, so it does not identify a row.
    "id": ("id", "_id", "guid", "uid", "pair_id", "idx"),
}  # fmt: skip

MEANINGS = {role: f"the {role} text" if role in ("left", "right") else f"the {role}" for role in USUAL_NAMES}


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns to read; None guesses from the usual names.

    >>> Columns(text="headline").text
    'headline'
    """

    text: str | None = None
    left: str | None = None  # the first text of a pair
    right: str | None = None  # its second text
    score: str | None = None  # how similar the texts of a pair are
    label: str | None = None
    id: str | None = None  # without one, rows are numbered from 1

    def of(self, role: str) -> str | None:
        """The given name for a role."""
        name: str | None = getattr(self, role)
        return name


GUESSED = Columns()


def column_flag(role: str) -> str:
    """The command-line flag for a role's column."""
    return f"--{role}-column"


def guess(role: str, present: Sequence[str], taken: Collection[str] = ()) -> str | None:
    """The column with a usual name for the role, or None."""
    return usual_column(USUAL_NAMES[role], present, taken)


def usual_column(usual: Sequence[str], present: Sequence[str], taken: Collection[str] = ()) -> str | None:
    """The column of the first usual name that is present, or None; case and punctuation are ignored.

    >>> usual_column(["query-id", "qid"], ["Query ID", "score"])
    'Query ID'
    """
    by_key = {_key(name): name for name in reversed(present) if name not in taken}
    return next((by_key[_key(name)] for name in usual if _key(name) in by_key), None)


def assigned(present: Sequence[str], wanted: Sequence[str], columns: Columns, location: Location) -> dict[str, str]:
    """Role -> column, for the wanted roles and for the id if there is one."""
    found: dict[str, str] = {}
    for role in (*wanted, "id"):
        if (name := columns.of(role)) is not None:
            found[role] = _named(role, name, present, location)
    # A column that the user gave to one role is not guessed for another: `--left-column sentence2` swaps sides.
    taken = set(found.values())
    for role in (*wanted, "id"):
        if (name := found.get(role) or guess(role, present, taken)) is not None:
            found[role] = name
        elif role != "id":
            raise location.error(_missing(role, present, location))
    return {role: found[role] for role in (*wanted, "id") if role in found}


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


def _named(role: str, name: str, present: Sequence[str], location: Location) -> str:
    """The column of a given name, exactly or in another case."""
    found = name if name in present else next((one for one in present if one.casefold() == name.casefold()), None)
    if found is None:
        hint = _header_hint(present, location)
        raise location.error(f"no column {shown(name)} ({column_flag(role)}); {_listed(present)}{hint}")
    return found


def _missing(role: str, present: Sequence[str], location: Location) -> str:
    message = (
        f"no column for {MEANINGS[role]}; {_listed(present)}; "
        f"expected {', '.join(USUAL_NAMES[role])}, or name it with {column_flag(role)}"
    )
    left = guess("left", present)
    if role == "text" and left is not None and guess("right", present) is not None:
        return f"{message}; these are pairs, so choose a side, for example {column_flag('text')} {left}"
    return message + _header_hint(present, location)


def _listed(present: Sequence[str]) -> str:
    names = ", ".join(shown(name) for name in present[:SHOWN_COLUMNS])
    more = f" and {len(present) - SHOWN_COLUMNS} more" if len(present) > SHOWN_COLUMNS else ""
    return f"its columns are {names}{more}" if present else "it has no columns"


def _header_hint(present: Sequence[str], location: Location) -> str:
    """What may be wrong with the header line; JSON rows have none."""
    if location.line is not None:
        return ""
    separator = next((mark for mark in ";\t|," if mark in "".join(present[:1])), None)
    if len(present) == 1 and separator is not None:
        return f"; are they separated by {separator!r}? Use commas in .csv and tabs in .tsv"
    if all(guess(role, present) is None for role in USUAL_NAMES):
        return "; the first line looks like data: add a header line that names the columns"
    return ""


@dataclass(frozen=True, slots=True)
class Record:
    """A row, the column of each role, and the line for errors."""

    row: Row
    roles: Mapping[str, str]
    location: Location
    is_table: bool = False  # whether all values are texts, as in CSV

    def text(self, role: str) -> str:
        """The role's text, exactly as in the file; an empty text is a bad row."""
        value = self._value(role, "the text is empty")
        if not isinstance(value, str):
            raise self.error(role, f"expected a text, got {shown(value)}")
        return value

    def number(self, role: str) -> float:
        """The role's finite number."""
        value = self._value(role)
        try:
            number = _number(value)
        except (ValueError, OverflowError):
            raise self.error(role, f"expected a number, got {shown(value)}") from None
        if not math.isfinite(number):
            raise self.error(role, f"expected a finite number, got {shown(value)}")
        return number

    def label(self, role: str) -> str:
        """The role's label as the file has it; JSON's 1 is '1', its true is 'true'."""
        value = self._value(role)
        if isinstance(value, list | dict):
            raise self.error(role, f"expected a label, got {shown(value)}")
        return _written(value)

    @property
    def id(self) -> str:
        """The id column's value, else the number of the row."""
        value = self.row.values.get(self.roles.get("id", ""))
        written = "" if value is None else _written(value)
        return written if written.strip() else str(self.row.number)

    @property
    def meta(self) -> dict[str, str]:
        """The columns that have no role."""
        return {name: _written(value) for name, value in self._others}

    @property
    def typed_meta(self) -> dict[str, Value]:
        """The same with numbers, true and false as such: of a table by how they are written, else by their type."""
        return {name: _typed(value, self.is_table) for name, value in self._others}

    @property
    def _others(self) -> Iterator[tuple[str, object]]:
        used = set(self.roles.values())
        named = ((name, value) for name, value in self.row.values.items() if name and name not in used)
        return ((name, value) for name, value in named if value is not None)

    def error(self, role: str, message: str) -> DataError:
        """The error of a role's value."""
        return self.location.at(self.roles[role]).error(message)

    def _value(self, role: str, blank: str = "the value is missing") -> object:
        value = self.row.values.get(self.roles[role])
        if value is None:
            raise self.error(role, "the value is missing")
        if isinstance(value, str) and not value.strip():
            raise self.error(role, blank)
        return value


class RoleFinder:
    """Gives rows their roles, and keeps the last answer, since most files name all rows alike.

    Each row of JSON brings its own names, so a missing column makes a bad row there, not a bad file.
    """

    def __init__(self, path: AnyPath, file: str, wanted: Sequence[str], columns: Columns) -> None:
        self.file, self.wanted, self.columns = file, wanted, columns
        self.own_names = suffix_of(path) in (".jsonl", ".ndjson")
        self.is_table = suffix_of(path) in (".csv", ".tsv") and path.is_file()
        self._names: tuple[str, ...] | None = None
        self._roles: dict[str, str] = {}

    def record(self, row: Row) -> Record:
        """The row with its roles, or a DataError that says which column is missing."""
        if self.own_names and "left" in self.wanted:
            row = _with_sides(row, self.columns)
        names = tuple(row.values)
        if names != self._names:
            self._roles = self._assigned(names, Location(self.file, row.line if self.own_names else None))
            self._names = names
        return Record(row, self._roles, Location(self.file, row.line), self.is_table)

    def _assigned(self, present: Sequence[str], location: Location) -> dict[str, str]:
        return assigned(present, self.wanted, self.columns, location)


def _number(value: object) -> float:
    """A number, or a string that holds one; Python's ``1_000`` and JSON's true are not numbers in a file."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "_" in str(value):
        raise ValueError
    return float(value)


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _typed(value: object, is_table: bool) -> Value:
    """A text, a finite number, true or false; everything else as JSON writes it."""
    if isinstance(value, bool):
        return value
    if is_table and isinstance(value, str) and PLAIN_VALUE.fullmatch(value.strip()):
        value = json.loads(value.strip().lower().removeprefix("+"))
    is_number = isinstance(value, int | float) and abs(value) < LARGEST
    return value if is_number else _written(value)  # type: ignore[return-value]


def _with_sides(row: Row, columns: Columns) -> Row:
    """Split a pair in one field, as in ``{"set": [full, compressed]}``, into two columns."""
    fields = {name: value for name, value in row.values.items() if is_text_pair(value)}
    names = tuple(row.values)
    named = columns.left or columns.right or (guess("left", names) and guess("right", names))
    if named or len(fields) != 1:
        return row
    [(field, (left, right))] = fields.items()
    rest = {name: value for name, value in row.values.items() if name != field}
    return replace(row, values={**rest, "sentence1": left, "sentence2": right})


Item = TypeVar("Item")
ReadRows = Callable[[Any, str, OnBad], Iterator[Row]]


def read_examples(
    path: AnyPath, finder: RoleFinder, build: Callable[[Record], Item], on_bad: OnBad | None, read: ReadRows = rows
) -> Iterator[Item]:
    """The examples of the good rows. The first is read at the call, so that a wrong file raises there."""
    skipped = SkippedRows()

    def report(error: DataError) -> None:
        if on_bad is None:
            raise error
        skipped(error)
        on_bad(error)

    def examples() -> Iterator[Item]:
        for row in read(path, finder.file, report):
            try:
                example = build(finder.record(row))
            except BadRow as error:
                report(error)
            else:
                yield example

    found = examples()
    first = next(found, None)
    if first is None:
        raise Location(finder.file).error(f"no row can be used; {skipped}")
    return chain([first], found)
