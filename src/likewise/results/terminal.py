"""Prints a result in a terminal with rich: notes, lines, then tables."""

from __future__ import annotations

import sys
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from likewise.plotting.terminal import printable
from likewise.results import Result, Table

SHORT = 12  # Cells of at most so many characters are not broken over lines
PIPE_WIDTH = 160
PADDING = 2  # Blanks around a cell


def console() -> Console:
    """Standard output; files and pipes get a fixed width and no colours."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def print_result(result: Result) -> None:
    """Print a result: its notes, its lines and its tables."""
    out = console()
    for note in result.notes:
        out.print(Text(printable(note)))
    for line in result.lines(out.width):
        out.print(line)
    for table in result.tables().values():
        if table.rows and not table.detail:
            for part in _fitting(table, out.width):
                out.print(_rich(part))


def _fitting(table: Table, width: int) -> list[Table]:
    """A table in as many parts as the terminal needs for its columns of numbers; each part repeats the texts before."""
    texts = table.texts()
    numeric = [table.numeric(index) for index in range(len(table.columns))]
    first = numeric.index(True) if True in numeric else len(numeric)
    sizes = [max(len(line) for cell in (heading, *(row[index] for row in texts)) for line in cell.splitlines() or [""])
             for index, heading in enumerate(table.headings)]  # fmt: skip
    left = width - sum(min(size, SHORT) + PADDING for size in sizes[:first]) - PADDING
    if not all(numeric[first:]) or sum(size + PADDING for size in sizes[first:]) <= left:
        return [table]
    fitting = max(1, left // (max(sizes[first:]) + PADDING))
    parts = []
    for start in range(first, len(numeric), fitting):
        chosen = [*range(first), *range(start, min(start + fitting, len(numeric)))]
        rows = [tuple(row[index] for index in chosen) for row in table.rows]
        parts.append(replace(table, columns=tuple(table.columns[index] for index in chosen), rows=rows))
    return [parts[0], *(replace(part, title="", note="") for part in parts[1:])]


def _rich(table: Table) -> RichTable:
    title = "\n".join(part for part in (table.title, table.note) if part)
    shown = RichTable(title=Text(printable(title)) if title else None, box=box.SIMPLE_HEAD, title_justify="left")
    texts = table.texts()
    for index, heading in enumerate(table.headings):
        numeric = table.numeric(index)
        longest = max((len(line) for row in texts for line in row[index].splitlines()), default=0)
        shown.add_column(
            Text(printable(heading)), justify="right" if numeric else "left", overflow="fold",
            no_wrap=numeric or longest <= SHORT,
        )  # fmt: skip
    for row in texts:
        # Text, not str: a user's "[bold]" is text, not markup.
        shown.add_row(*(Text(printable(cell)) for cell in row))
    return shown
