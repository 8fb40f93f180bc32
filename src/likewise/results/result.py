"""The ``Result`` base class: tables, figures and a JSON document, and how they are written to files."""

from __future__ import annotations

import csv
import json
import math
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from likewise.errors import MissingExtra
from likewise.metrics import Interval
from likewise.plotting.axes import save_figure
from likewise.plotting.html import Number, inline_figure, page, paragraph, section
from likewise.plotting.html import table as html_table

if TYPE_CHECKING:
    import pandas as pd
    from rich.text import Text


PACKAGES = ("likewise", "torch", "transformers", "tokenizers", "numpy", "scipy", "spacy")


def made_by(command: str, began: float) -> dict[str, Any]:
    """What made a result, when that began (seconds since the epoch), and how long it took."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    return {"command": command, "time": when, "seconds": round(time.time() - began, 1)}


def write_document(document: dict[str, Any], path: Path) -> None:
    """Write a document as JSON; numbers that JSON does not have become null."""
    text = json.dumps(finite(document), indent=2, ensure_ascii=False, default=str)
    # The command may hold a path that is not UTF-8, which cannot be written.
    path.write_text(text, encoding="utf-8", errors="replace")


def finite(value: Any) -> Any:
    """A document in which numbers that JSON does not have are null."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """The versions of all packages that a result may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


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
    """A table: columns and rows.

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


@dataclass(frozen=True)
class Figure:
    """A figure that is drawn when it is needed: a function that returns its Axes, a title and a note for pages."""

    draw: Callable[[], Any]
    title: str = ""
    note: str = ""


class Result:
    """What a command shows. A subclass has ``to_dict``, and ``tables`` and ``figures`` if there are any.

    The first table is the one that ``to_dataframe`` gives unless another is named.
    """

    run_key = "results"  # The key of the document in run.json

    def to_dict(self) -> dict[str, Any]:
        """The numbers, as the documented JSON has them."""
        raise NotImplementedError

    def tables(self) -> dict[str, Table]:
        """The tables by name; files are named after them."""
        return {}

    def figures(self) -> dict[str, Figure]:
        """The figures by name; files are named after them."""
        return {}

    @property
    def main_figure(self) -> Figure | None:
        """The figure that ``--plot`` draws: the first one, if there is any."""
        return next(iter(self.figures().values()), None)

    @property
    def title(self) -> str:
        """The heading of the result's page."""
        return type(self).__name__

    @property
    def notes(self) -> Sequence[str]:
        """Sentences about the whole result: what was measured, on what."""
        return ()

    @property
    def cautions(self) -> Sequence[str]:
        """What a reader must know before trusting the numbers: skipped rows, cut texts, too little data."""
        return ()

    def lines(self, width: int) -> list[Text]:  # noqa: ARG002
        """What the terminal shows before the tables, in lines of at most ``width`` columns."""
        return []

    def fragments(self) -> list[str]:
        """The parts of the result's page as HTML: figures and tables unless a subclass draws its own."""
        return [*(figure_section(name, one) for name, one in self.figures().items()), *self._table_fragments()]

    def _table_fragments(self) -> list[str]:
        return [table_section(name, one) for name, one in self.tables().items() if not one.detail and one.rows]

    def to_dataframe(self, table: str | None = None) -> pd.DataFrame:
        """A table of the result as a pandas data frame; the first one, or the one that is named."""
        tables = self.tables()
        return tables[next(iter(tables)) if table is None else table].to_dataframe()

    def to_html(self, command: str = "") -> str:
        """A self-contained page."""
        made = [paragraph(command, note=True)] if command else []
        return page(self.title, [*self._note_fragments(), *made, *self.fragments()])

    def save(self, folder: Path | str, run: Mapping[str, Any] | None = None) -> Path:
        """Write run.json, every table as CSV, every figure as PNG and SVG, and the page."""
        folder, made = Path(folder), dict(run or {})
        html = self.to_html(str(made.get("command", "")))
        folder.mkdir(parents=True, exist_ok=True)
        write_document({**made, self.run_key: self.to_dict(), "versions": versions()}, folder / "run.json")
        for name, table in self.tables().items():
            if not table.summary:
                table.to_csv(folder / f"{name}.csv")
        for name, figure in self.figures().items():
            axes = figure.draw()
            save_figure(axes, folder / f"{name}.png")
            save_figure(axes, folder / f"{name}.svg")
        (folder / "index.html").write_text(html, encoding="utf-8")
        return folder

    def _repr_html_(self) -> str:
        return "".join([*self._note_fragments(), *self._table_fragments()])

    def _note_fragments(self) -> list[str]:
        return [paragraph(note) for note in (*self.notes, *self.cautions)]

    def __repr__(self) -> str:
        rows = {name: len(one.rows) for name, one in self.tables().items()}
        listed = ", ".join(f"{name}: {count} rows" for name, count in rows.items())
        return f"<{type(self).__name__} {listed}>" if listed else f"<{type(self).__name__}>"


class Comparable(Result):
    """A result that can be shown together with others of its type, such as several models on one corpus."""

    @classmethod
    def figures_of(cls, results: Sequence[Any]) -> dict[str, Figure]:
        """The figures that show several results together."""
        del results
        return {}

    def figures(self) -> dict[str, Figure]:
        """The figures of this result alone."""
        return self.figures_of((self,))


One = TypeVar("One", bound=Comparable, covariant=True)


@dataclass(frozen=True, repr=False)
class ResultSet(Result, Generic[One]):
    """Several results of one kind: their tables one below the other, their figures together."""

    results: tuple[One, ...]

    @property
    def title(self) -> str:
        """The first result's."""
        return self.results[0].title

    @property
    def notes(self) -> list[str]:
        """All notes, each once."""
        return list(dict.fromkeys(note for one in self.results for note in one.notes))

    @property
    def cautions(self) -> list[str]:
        """All cautions, each once."""
        return list(dict.fromkeys(caution for one in self.results for caution in one.cautions))

    def to_dict(self) -> dict[str, Any]:
        """A single result as itself, several under ``results``."""
        found = [one.to_dict() for one in self.results]
        return found[0] if len(found) == 1 else {"results": found}

    def tables(self) -> dict[str, Table]:
        """The rows of all results; empty cells fill the rows of a narrower table, as a shallower model has."""
        found: dict[str, Table] = {}
        for one in self.results:
            for name, table in one.tables().items():
                found[name] = found[name].extended(table) if name in found else table
        return found

    def figures(self) -> dict[str, Figure]:
        """The figures of all results together."""
        return self.results[0].figures_of(self.results)


def figure_section(name: str, figure: Figure) -> str:
    """A figure as a section of a page."""
    title = figure.title or name.replace("_", " ")
    note = [paragraph(figure.note, note=True)] if figure.note else []
    return section(title, [*note, f"<div class=wide>{inline_figure(figure.draw(), title)}</div>\n"])


def table_section(name: str, table: Table, level: int = 2) -> str:
    """A table as a section of a page."""
    note = [paragraph(table.note, note=True)] if table.note else []
    numeric = [table.numeric(index) for index in range(len(table.columns))]
    rows = [
        [Number(text) if right else text for text, right in zip(row, numeric, strict=True)] for row in table.texts()
    ]
    return section(table.title or name.replace("_", " "), [*note, html_table(table.headings, rows)], level)
