"""Tables: typed columns and rows, defined once for the terminal, pages, CSV files and data frames."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from likewise.errors import MissingExtra
from likewise.metrics import Interval

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column: its name in files and data frames, its heading for people, and the format of its numbers.

    The format is a format specification, or a function for numbers such as p-values.
    """

    name: str
    heading: str = ""
    format: str | Callable[[float], str] = ".4f"

    def text(self, value: object) -> str:
        """A cell as people read it; an interval stands under its value.

        >>> Column("recall", format=".2f").text(Interval(0.5, 0.4, 0.6))
        '0.50\\n0.40 to 0.60'
        """
        if value is None:
            return ""
        if isinstance(value, Interval):
            return f"{self.text(value.value)}\n{self.text(value.low)} to {self.text(value.high)}"
        if isinstance(value, float):
            if not math.isfinite(value):
                return "-"
            return self.format(value) if callable(self.format) else f"{value:{self.format}}"
        return str(value)


@dataclass(frozen=True)
class Table:
    """Rows under columns.

    ``detail`` marks a table that is too long to read: only files and data frames have it. ``summary`` marks one that
    repeats parts of another for people: files leave it out.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[object]]
    title: str = ""
    note: str = ""
    detail: bool = False
    summary: bool = False

    @classmethod
    def of(
        cls, header: Iterable[str | Column], rows: Iterable[Sequence[object]], title: str = "", note: str = "",
        detail: bool = False, summary: bool = False,
    ) -> Table:  # fmt: skip
        """A table whose columns may be given by their names alone.

        >>> Table.of(["model", Column("spearman", "Spearman", ".3f")], [["minilm", 0.82]]).headings
        ['model', 'Spearman']
        """
        columns = tuple(one if isinstance(one, Column) else Column(one) for one in header)
        return cls(columns, [tuple(row) for row in rows], title, note, detail, summary)

    @property
    def headings(self) -> list[str]:
        """The headings for people."""
        return [column.heading or column.name.replace("_", " ") for column in self.columns]

    def texts(self) -> list[list[str]]:
        """Every cell as people read it."""
        return [[column.text(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]

    def numeric(self, index: int) -> bool:
        """Whether a column holds numbers only."""
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(isinstance(cell, (int, float, Interval)) for cell in cells)

    def extended(self, other: Table) -> Table:
        """The rows of both tables under the columns of the wider one.

        >>> Table.of(["layer_0"], [[0.1]]).extended(Table.of(["layer_0", "layer_1"], [[0.2, 0.3]])).rows
        [(0.1, None), (0.2, 0.3)]
        """
        wider = max(self, other, key=lambda table: len(table.columns))
        rows = [(*row, *[None] * (len(wider.columns) - len(row))) for row in (*self.rows, *other.rows)]
        return replace(self, columns=wider.columns, rows=rows)

    def flat(self) -> tuple[list[str], list[list[object]]]:
        """Names and rows with three columns for each interval: the value, ``_low`` and ``_high``.

        >>> Table.of(["k", "recall"], [[1, Interval(0.5, 0.4, 0.6)]]).flat()
        (['k', 'recall', 'recall_low', 'recall_high'], [[1, 0.5, 0.4, 0.6]])
        """
        wide = [any(isinstance(row[index], Interval) for row in self.rows) for index in range(len(self.columns))]
        names: list[str] = []
        for column, is_wide in zip(self.columns, wide, strict=True):
            names += [column.name, f"{column.name}_low", f"{column.name}_high"] if is_wide else [column.name]
        return names, [
            [part for cell, is_wide in zip(row, wide, strict=True) for part in _parts(cell, is_wide)]
            for row in self.rows
        ]

    def to_csv(self, path: Path) -> None:
        """Write the table as CSV."""
        names, rows = self.flat()
        with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
            csv.writer(file).writerows([names, *rows])

    def to_dataframe(self) -> pd.DataFrame:
        """The table as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("pandas", "pandas") from error
        names, rows = self.flat()
        return pd.DataFrame(rows, columns=names)


def _parts(cell: object, is_wide: bool) -> list[object]:
    if not is_wide:
        return [cell]
    return [cell.value, cell.low, cell.high] if isinstance(cell, Interval) else [cell, None, None]
