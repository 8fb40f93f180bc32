"""Records: rows whose columns have been given their roles, with checked values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from likewise.data.columns import Columns, assigned, guess
from likewise.data.location import Location, shown
from likewise.data.rows import Row, is_text_pair


@dataclass(frozen=True, slots=True)
class Record:
    """A row, the column of each role, and the line to name in errors.

    >>> record = Record(Row({"text": "hello"}, 2, 1), {"text": "text"}, Location("a.csv", 2))
    >>> record.text("text"), record.id
    ('hello', '1')
    """

    row: Row
    roles: Mapping[str, str]
    location: Location

    def text(self, role: str) -> str:
        """The role's text, exactly as in the file; an empty one is a bad row."""
        value = self._value(role)
        if not isinstance(value, str):
            raise self._at(role).error(f"expected a text, got {shown(value)}")
        if not value.strip():
            raise self._at(role).error("the text is empty")
        return value

    def number(self, role: str) -> float:
        """The role's finite number."""
        value = self._present(role)
        try:
            number = _number(value)
        except (ValueError, OverflowError):
            raise self._at(role).error(f"expected a number, got {shown(value)}") from None
        if not math.isfinite(number):
            raise self._at(role).error(f"expected a finite number, got {shown(value)}")
        return number

    def label(self, role: str) -> str:
        """The role's label as it is written in the file; JSON's 1 is '1', its true is 'true'."""
        value = self._present(role)
        if isinstance(value, list | dict):
            raise self._at(role).error(f"expected a label, got {shown(value)}")
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
        used = set(self.roles.values())
        return {
            name: _written(value)
            for name, value in self.row.values.items()
            if name and name not in used and value is not None
        }

    def _at(self, role: str) -> Location:
        return self.location.at(self.roles[role])

    def _value(self, role: str) -> object:
        value = self.row.values.get(self.roles[role])
        if value is None:
            raise self._at(role).error("the value is missing")
        return value

    def _present(self, role: str) -> object:
        value = self._value(role)
        if isinstance(value, str) and not value.strip():
            raise self._at(role).error("the value is missing")
        return value


class RoleFinder:
    """Gives rows their roles; the last answer is kept, since most files name all rows alike.

    ``own_names`` says that each row brings its own names (JSON), so a missing column is the row's fault.

    >>> finder = RoleFinder("a.csv", ["text"], Columns(), own_names=False)
    >>> finder.record(Row({"sentence": "hello"}, 2, 1)).text("text")
    'hello'
    """

    def __init__(self, file: str, wanted: Sequence[str], columns: Columns, own_names: bool) -> None:
        self.file, self.wanted, self.columns, self.own_names = file, wanted, columns, own_names
        self._names: tuple[str, ...] | None = None
        self._roles: dict[str, str] = {}

    def record(self, row: Row) -> Record:
        """The row with its roles, or a DataError that says which column is missing."""
        if self.own_names and "left" in self.wanted:
            row = _with_sides(row, self.columns)
        location = Location(self.file, row.line)
        names = tuple(row.values)
        if names != self._names:
            at = location if self.own_names else Location(self.file)
            self._roles = assigned(names, self.wanted, self.columns, at)
            self._names = names
        return Record(row, self._roles, location)


def _number(value: object) -> float:
    """A JSON number or a written one; Python's own ``1_000`` and JSON's true are no numbers in a file."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError
    if isinstance(value, str) and "_" in value:
        raise ValueError
    return float(value)


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _with_sides(row: Row, columns: Columns) -> Row:
    """Spread a pair that sits in one field, as in ``{"set": [full, compressed]}``, over two columns."""
    fields = {name: value for name, value in row.values.items() if is_text_pair(value)}
    names = tuple(row.values)
    named = columns.left or columns.right or (guess("left", names) and guess("right", names))
    if named or len(fields) != 1:
        return row
    [(field, (left, right))] = fields.items()
    rest = {name: value for name, value in row.values.items() if name != field}
    return replace(row, values={**rest, "sentence1": left, "sentence2": right})
