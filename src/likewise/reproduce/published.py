"""Published numbers of the studies: one JSON file for each, with where every value is printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from likewise.errors import DataError
from likewise.results import Column, Table


@dataclass(frozen=True)
class PublishedValue:
    """One printed number."""

    item: str
    row: str
    column: str
    value: float
    where: str  # the table, figure or section that prints it
    model: str
    data: str
    n: int | None = None  # how many pairs, texts or words it was measured on


@dataclass(frozen=True)
class PublishedStudy:
    """The citation, the models and the numbers of a study."""

    name: str
    citation: str
    models: tuple[str, ...]  # hub ids that the study used
    values: tuple[PublishedValue, ...]

    def of(self, item: str) -> dict[tuple[str, str], PublishedValue]:
        """The values of an item by row and column."""
        return {(one.row, one.column): one for one in self.values if one.item == item}


@cache
def published_study(name: str) -> PublishedStudy:
    """Read a study's file."""
    path = resources.files("likewise.reproduce") / "published" / f"{name}.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    defaults = stored.get("defaults", {})
    values = tuple(PublishedValue(**(defaults | one)) for one in stored["values"])
    if len({(one.item, one.row, one.column) for one in values}) < len(values):
        raise DataError(f"published/{name}.json has two values for one cell; remove one")
    return PublishedStudy(name, stored["citation"], tuple(stored["models"]), values)


def side_by_side(
    published: Iterable[PublishedValue],
    measured: Mapping[tuple[str, str], object],
    model: str,
    title: str = "",
    note: str = "",
) -> Table:
    """Published and measured numbers in one table: a line for each row of either, two columns for each column.

    ``measured`` has values or intervals by row and column. Rows keep their order of first appearance.
    """
    printed = {(one.row, one.column): one.value for one in published}
    cells: Sequence[tuple[str, str]] = list(dict.fromkeys((*printed, *measured)))
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    header = [Column("row", " ")]
    for column in columns:
        header += [Column(f"{column}_published", f"{column}, published", ".3f")]
        header += [Column(f"{column}_measured", f"{column}, {model}", ".3f")]
    table = [
        (row, *(cell for column in columns for cell in (printed.get((row, column)), measured.get((row, column)))))
        for row in rows
    ]
    return Table.of(header, table, title, note)
