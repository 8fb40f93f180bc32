"""Run files: what an item found with one model, with command, seed, versions, hash of the weights and time.

A run file is one JSON document and the SVG figures next to it. Pages are made from run files alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from likewise.errors import DataError
from likewise.metrics import Interval
from likewise.plotting.axes import settled
from likewise.reproduce.study import Finding
from likewise.reproduce.verdicts import Verdict, interval_of
from likewise.results import Column, Table
from likewise.results.result import finite
from likewise.storage import write_text


@dataclass(frozen=True)
class DrawnFigure:
    """A figure in a file next to the run file."""

    file: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Record:
    """A run file."""

    study: str
    item: str
    model: str
    key: str  # a hash of everything that the numbers depend on
    command: str
    date: str
    seconds: float | None  # unknown of some imported runs
    processor_seconds: float | None = None  # of all threads; other programs on the machine hardly change it
    rate: float | None = None  # tokens per second that the model encoded then
    budget: str = "quick"
    seeds: int = 1
    model_sha256: str = ""
    data: Mapping[str, str] = field(default_factory=dict)  # file -> sha256
    versions: Mapping[str, str] = field(default_factory=dict)
    stand_in: str = ""  # what it means that the model is not the study's own
    origin: str = ""  # of an imported run: the page that printed it
    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, DrawnFigure] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """The name of the file without its ending."""
        return f"{self.item}-{short(self.model)}"

    @property
    def made(self) -> str:
        """When it was made, how much work it was, and with which weights."""
        time = "" if self.processor_seconds is None else f", {self.processor_seconds:.0f} s of processor time"
        weights = f", weights {self.model_sha256[:12]}" if self.model_sha256 else ""
        return f"{self.date}{time}{weights}"

    def write(self, folder: Path) -> Path:
        """Write the run file into the folder of its study."""
        path = folder / self.study / f"{self.stem}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = {name: getattr(self, name) for name in self.__dataclass_fields__}
        stored |= {
            "tables": {name: table_document(table) for name, table in self.tables.items()},
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "verdicts": [verdict.to_dict() for verdict in self.verdicts],
        }
        write_text(path, json.dumps(finite(stored), indent=1, ensure_ascii=False) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a run file."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            stored["tables"] = {name: _table(one) for name, one in stored["tables"].items()}
            stored["figures"] = {name: DrawnFigure(**one) for name, one in stored["figures"].items()}
            stored["verdicts"] = tuple(Verdict.from_dict(one) for one in stored["verdicts"])
            stored["notes"] = tuple(stored["notes"])
            return cls(**stored)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path} is not a run file ({error}); remove it and run the item again") from error


def short(model: str) -> str:
    """A model's name as a file name has it.

    >>> short("sentence-transformers/all-mpnet-base-v2")
    'all-mpnet-base-v2'
    """
    return Path(model).name


def draw(finding: Finding, folder: Path, stem: str) -> dict[str, DrawnFigure]:
    """Write the figures of a finding as SVG."""
    drawn = {}
    for name, figure in finding.figures.items():
        ax, file = figure.draw(), f"{stem}-{name}.svg"
        folder.mkdir(parents=True, exist_ok=True)
        import matplotlib  # is there if the figure is

        # Without the date and with fixed ids: the same run writes the same bytes.
        with matplotlib.rc_context({"svg.hashsalt": "likewise"}):
            settled(ax).savefig(folder / file, metadata={"Date": None})
        drawn[name] = DrawnFigure(file, figure.title, figure.note)
    return drawn


def records(folder: Path) -> Iterator[Record]:
    """All run files below a folder, in order of their names."""
    for path in sorted(folder.glob("*/*.json")):
        yield Record.read(path)


def table_document(table: Table) -> dict[str, Any]:
    """A table as JSON; a format that is a function is applied, since only its text can be stored."""
    texts = [callable(column.format) for column in table.columns]
    columns = [
        {"name": one.name, "heading": one.heading, "format": "" if callable(one.format) else one.format}
        for one in table.columns
    ]
    rows = [
        [
            column.text(cell) if is_text else asdict(cell) if isinstance(cell, Interval) else cell
            for column, cell, is_text in zip(table.columns, row, texts, strict=True)
        ]
        for row in table.rows
    ]
    return {"title": table.title, "note": table.note, "detail": table.detail, "columns": columns, "rows": rows}


def _table(stored: Mapping[str, Any]) -> Table:
    columns = [Column(**one) for one in stored["columns"]]
    rows = [[interval_of(cell) if isinstance(cell, dict) else cell for cell in row] for row in stored["rows"]]
    return Table.of(columns, rows, stored["title"], stored["note"], stored["detail"])
