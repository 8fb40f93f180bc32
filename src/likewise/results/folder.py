"""A folder of results: the run, tidy tables, figures, a page."""

from __future__ import annotations

import csv
import json
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from likewise.metrics import Interval
from likewise.plotting.axes import save_figure
from likewise.results import table as results

PACKAGES = ("likewise", "torch", "transformers", "tokenizers", "numpy", "scipy", "spacy")

Draw = Callable[[], Any]
"""Draws a figure and returns its Axes."""

Table = tuple[Sequence[str], Sequence[Sequence[object]]]
"""A header and rows."""


@dataclass(frozen=True)
class Results:
    """What a run leaves behind: its settings, its tables and its figures, by file name without ending."""

    run: Mapping[str, Any]
    tables: Mapping[str, Table] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)


def made_by(command: str, began: float) -> dict[str, Any]:
    """What made a folder, when that began (seconds since the epoch), and how long it took."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    return {"command": command, "time": when, "seconds": round(time.time() - began, 1)}


def write_results(results: Results, folder: Path) -> Path:
    """Write ``run.json``, each table as csv and each figure as png and svg; the folder is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document({**results.run, "versions": versions()}, folder / "run.json")
    for name, table in results.tables.items():
        write_csv(table, folder / f"{name}.csv")
    for name, axes in results.figures.items():
        save_figure(axes, folder / f"{name}.png")
        save_figure(axes, folder / f"{name}.svg")
    return folder


def write_folder(
    folder: Path, run: Mapping[str, Any], tables: Mapping[str, results.Table], figures: Mapping[str, Draw], html: str
) -> Path:
    """Write run.json, each table as CSV, each figure as PNG and SVG, and index.html; the folder is made if missing."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document({**run, "versions": versions()}, folder / "run.json")
    for name, table in tables.items():
        if not table.summary:
            table.to_csv(folder / f"{name}.csv")
    for name, draw in figures.items():
        axes = draw()
        save_figure(axes, folder / f"{name}.png")
        save_figure(axes, folder / f"{name}.svg")
    (folder / "index.html").write_text(html, encoding="utf-8")
    return folder


def write_document(document: dict[str, Any], path: Path) -> None:
    """Write a document as JSON; numbers that JSON does not have become null."""
    text = json.dumps(finite(document), indent=2, ensure_ascii=False, default=str)
    # The command may hold a path that is not UTF-8, which cannot be written.
    path.write_text(text, encoding="utf-8", errors="replace")


def write_csv(table: Table, path: Path) -> None:
    """Write a table as csv."""
    header, rows = table
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def flat(header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A table whose intervals are three columns each: the value, ``_low`` and ``_high``.

    >>> flat(["k", "recall"], [[1, Interval(0.5, 0.4, 0.6)]])
    (['k', 'recall', 'recall_low', 'recall_high'], [[1, 0.5, 0.4, 0.6]])
    """
    names: list[str] = []
    for name, cell in zip(header, rows[0], strict=True):
        names += [name, f"{name}_low", f"{name}_high"] if isinstance(cell, Interval) else [name]
    return names, [
        [part for cell in row for part in (vars(cell).values() if isinstance(cell, Interval) else [cell])]
        for row in rows
    ]


def finite(value: Any) -> Any:
    """A document in which numbers that JSON does not have are null.

    >>> finite({"r2": [float("nan"), 1.0]})
    {'r2': [None, 1.0]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """The versions of all packages that a result may depend on.

    >>> "torch" in versions()
    True
    """
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
