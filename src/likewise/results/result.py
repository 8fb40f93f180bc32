"""The contract of every result: tables, figures and a document; and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from likewise.plotting.html import Number, inline_figure, page, paragraph, section
from likewise.plotting.html import table as html_table
from likewise.results.folder import write_folder
from likewise.results.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from rich.text import Text


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

    run_key = "results"
    """The key of the document in run.json."""

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
        made = dict(run or {})
        html = self.to_html(str(made.get("command", "")))
        figures = {name: one.draw for name, one in self.figures().items()}
        return write_folder(Path(folder), made | {self.run_key: self.to_dict()}, self.tables(), figures, html)

    def _repr_html_(self) -> str:
        return "".join([*self._note_fragments(), *self._table_fragments()])

    def _note_fragments(self) -> list[str]:
        return [paragraph(note) for note in (*self.notes, *self.cautions)]

    def __repr__(self) -> str:
        rows = {name: len(one.rows) for name, one in self.tables().items()}
        listed = ", ".join(f"{name}: {count} rows" for name, count in rows.items())
        return f"<{type(self).__name__} {listed}>" if listed else f"<{type(self).__name__}>"


class Comparable(Result):
    """A result that can stand next to others of its kind, as several models on one corpus do."""

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


def table_section(name: str, table: Table) -> str:
    """A table as a section of a page."""
    note = [paragraph(table.note, note=True)] if table.note else []
    numeric = [table.numeric(index) for index in range(len(table.columns))]
    rows = [
        [Number(text) if right else text for text, right in zip(row, numeric, strict=True)] for row in table.texts()
    ]
    return section(table.title or name.replace("_", " "), [*note, html_table(table.headings, rows)])
