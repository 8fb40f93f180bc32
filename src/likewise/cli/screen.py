"""The screen: tables and JSON on stdout, progress and notices on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from likewise.plotting.text import printable
from likewise.progress import progress_bar as progress_bar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

SHORT_LETTERS = 12
"""Cells up to this length are not broken over lines."""


def show_json(document: Any) -> None:
    """Print exactly one JSON document; numbers that JSON does not know become null."""
    from likewise.results.folder import finite

    typer.echo(json.dumps(finite(document), ensure_ascii=False))


def show_table(header: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
    """Print a table; numbers are set to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(title)) if title else None, box=box.SIMPLE_HEAD, title_justify="left")
    for index, name in enumerate(header):
        cells = [row[index] for row in rows]
        numeric = bool(rows) and all(isinstance(cell, (int, float)) for cell in cells)
        lines = [line for cell in cells for line in str(cell).splitlines()]
        short = max(map(len, lines), default=0) <= SHORT_LETTERS
        table.add_column(
            Text(printable(name)), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric or short
        )
    for row in rows:
        # Text, not str: a user's "[bold]" is a text and no markup.
        table.add_row(*(Text(f"{cell:.4f}" if isinstance(cell, float) else printable(str(cell))) for cell in row))
    _console().print(table)


def with_interval(value: object) -> object:
    """A cell of a table: a value above its interval; whatever has none as it is."""
    from likewise.metrics import Interval

    return f"{value.value:.4f}\n{value.low:.3f} to {value.high:.3f}" if isinstance(value, Interval) else value


def show_lines(lines: Sequence[Text]) -> None:
    """Print coloured lines; colours are left out of files and pipes."""
    console = _console()
    for line in lines:
        console.print(line)


def screen_width() -> int:
    """Letters in a line; into a file or a pipe there is no screen to fit."""
    return _console().width


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def notice(message: str) -> None:
    """Say something on stderr, where it cannot spoil a JSON document."""
    typer.echo(f"likewise: {printable(message)}", err=True)
