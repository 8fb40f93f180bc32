"""Roles by usual names, for files whose columns are not those of texts and pairs; and their rows as examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

from likewise.data.columns import usual_column
from likewise.data.location import BadRow, Location, shown
from likewise.data.records import Record
from likewise.data.rows import Report, Row, suffix_of
from likewise.data.skipped import SkippedRows
from likewise.errors import DataError

Example = TypeVar("Example")


class UsualRoles:
    """Gives rows their roles by usual names; the last answer is kept, since most files name all rows alike.

    >>> finder = UsualRoles(Path("a.csv"), "a.csv", {"text": ("text",), "word": ("word", "lemma")}, ("text", "word"))
    >>> finder.record(Row({"lemma": "bank", "text": "a bank"}, 2, 1)).text("word")
    'bank'
    """

    def __init__(self, path: Path, file: str, names: Mapping[str, Sequence[str]], needed: Sequence[str]) -> None:
        self.file, self.names, self.needed = file, names, needed
        self.own_names = suffix_of(path) in (".jsonl", ".ndjson")
        self._present: tuple[str, ...] | None = None
        self._roles: dict[str, str] = {}

    def record(self, row: Row) -> Record:
        """The row with its roles, or a DataError that says which column is missing."""
        present = tuple(row.values)
        if present != self._present:
            # Rows of JSON bring their own names, so a missing one is the row's fault and not the file's.
            self._roles = self._found(present, Location(self.file, row.line if self.own_names else None))
            self._present = present
        return Record(row, self._roles, Location(self.file, row.line))

    def _found(self, present: Sequence[str], location: Location) -> dict[str, str]:
        found: dict[str, str] = {}
        for role, usual in self.names.items():
            column = usual_column(usual, present, found.values())
            if column is not None:
                found[role] = column
            elif role in self.needed:
                listed = ", ".join(map(shown, present))
                raise location.error(f"no column {' or '.join(usual[:3])}; its columns are {listed}; rename one")
        return found


def built_examples(
    read: Callable[[Report], Iterator[Row]], build: Callable[[Row], Example], file: str, on_bad: Report | None
) -> Iterator[Example]:
    """The good rows' examples, the first one read here and now, so that a wrong file is told at the call."""
    skipped = SkippedRows()

    def report(error: DataError) -> None:
        if on_bad is None:
            raise error
        skipped(error)
        on_bad(error)

    def examples() -> Iterator[Example]:
        for row in read(report):
            try:
                example = build(row)
            except BadRow as error:
                report(error)
            else:
                yield example

    found = examples()
    first = next(found, None)
    if first is None:
        raise Location(file).error(f"no row can be used; {skipped}")
    return chain([first], found)
