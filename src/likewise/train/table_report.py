"""A table of training runs: as csv, JSON, a page, and markdown for documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from likewise.plotting.html import Number, page, paragraph, section, table
from likewise.plotting.text import printable
from likewise.results.folder import Table, versions, write_csv, write_document
from likewise.train.running import TableRow
from likewise.train.table import SECONDS, Column, TableLine, TrainingTable, training_table

NONE = "–"
MARKS = re.compile(r"([\\`*_\[\]|<])")
"""What markdown would not show as it is."""
WIDE = (
    "font-size: .8rem; width: max-content; min-width: 100%; max-width: 96vw;"
    " position: relative; left: 50%; transform: translateX(-50%)"
)
"""A table may be wider than the page's text."""
PUBLISHED = (
    "Published: each task's measure, then their mean, as somebody else reports it; difference: our score on dev less"
    " that mean."
)


def write_table(rows: list[TableRow], metadata: Mapping[str, Any], folder: Path) -> Path:
    """Write a table of runs as table.csv, table.json and table.html; ``facts`` say how it was made."""
    folder.mkdir(parents=True, exist_ok=True)
    found = training_table(rows)
    write_csv(_exact(found), folder / "table.csv")
    document = {
        "formulas": found.formulas, "rows": [line.to_dict() for line in found.lines],
        "runs": [_run(row) for row in rows], "run": {**metadata, "versions": versions()},
    }  # fmt: skip
    write_document(document, folder / "table.json")
    (folder / "table.html").write_text(_page(found, metadata), encoding="utf-8")
    return folder


def table_markdown(rows: list[TableRow]) -> str:
    """The table as GitHub's markdown, with what its columns mean below it."""
    found = training_table(rows)
    header, lines = _shown(found, found.chosen)
    cells = [[_marked(cell) for cell in line] for line in lines]
    rule = ["---", *("---:" for _ in header[1:])]
    drawn = [f"| {' | '.join(line)} |" for line in ([*map(_plain, header)], rule, *cells)]
    return "\n".join([*drawn, "", *map(_plain, _about(found))]) + "\n"


def _run(row: TableRow) -> dict[str, Any]:
    """One run without its curves."""
    kept = ("model", "model_sha256", "score", "seconds", "steps", "best_epoch", "weights", "config")
    return {"name": row.name, "seed": row.seed, **{name: row.report.get(name) for name in kept}}


def _exact(found: TrainingTable) -> Table:
    """Every measure, its mean and its deviation in a column each."""
    tasks = max((len(line.published) for line in found.lines), default=0)
    names = [f"{column.name}{end}" for column in found.columns for end in ("", " sd")]
    header = ("name", "seeds", *names, *(f"published {index + 1}" for index in range(tasks)), "difference")
    rows = []
    for line in found.lines:
        cells = [line.cells.get(column) for column in found.columns]
        numbers = [each for cell in cells for each in ((cell.mean, cell.deviation) if cell else (None, None))]
        published = [*line.published, *[None] * (tasks - len(line.published))]
        summary = ("" if each is None else each for each in (*numbers, *published, line.difference))
        rows.append((printable(line.name), " ".join(map(str, line.seeds)), *summary))
    return header, rows


def _page(found: TrainingTable, metadata: Mapping[str, Any]) -> str:
    every = [column for column in found.columns if column not in found.chosen]
    summary = [
        paragraph(str(metadata.get("command", "")), note=True),
        *map(paragraph, _about(found)),
        _small(_shown(found, found.chosen)),
        section("Every other measure", [_small(_turned(found, every))]),
    ]
    return page("Training runs", summary)


def _small(found: Table) -> str:
    return f"<div style='{WIDE}'>{table(*found)}</div>\n"


def _about(found: TrainingTable) -> list[str]:
    """What the score is, and what columns hold."""
    formulas = found.formulas
    summary = [
        f"Score on dev = {formula}." if len(formulas) == 1 else f"Score on dev of {', '.join(names)} = {formula}."
        for formula, names in formulas.items()
    ]
    counts = {len(line.seeds) for line in found.lines}
    over = "means ± standard deviations (n - 1) over seeds" if max(counts, default=1) > 1 else "one seed"
    number = f", {max(counts)} of each row" if len(counts) == 1 and max(counts) > 1 else ""
    summary.append(f"Numbers: {over}{number}. Bold: the best of a measure.")
    return [*summary, *([PUBLISHED] if any(line.published for line in found.lines) else [])]


def _shown(found: TrainingTable, columns: Sequence[Column]) -> Table:
    """The table as it is read: a line for each name."""
    published = any(line.published for line in found.lines)
    seeds = len({len(line.seeds) for line in found.lines}) > 1
    header = ["run", *(["seeds"] if seeds else []), *(column.name for column in columns)]
    rows: list[Sequence[object]] = []
    for line in found.lines:
        row: list[object] = [line.name, *([Number(str(len(line.seeds)))] if seeds else [])]
        row += [_cell(found, line, column) for column in columns]
        rows.append([*row, *(_published(line) if published else [])])
    return [*header, *(["published", "difference"] if published else [])], rows


def _turned(found: TrainingTable, columns: Sequence[Column]) -> Table:
    """The same on its side, for many columns: a line for each measure."""
    rows = [(column.name, *(_cell(found, line, column) for line in found.lines)) for column in columns]
    return ("measure", *(line.name for line in found.lines)), rows


def _cell(found: TrainingTable, line: TableLine, column: Column) -> Number:
    spread = line.cells.get(column)
    if spread is None:
        return Number(NONE)
    decimals = 0 if column == SECONDS else 3
    text = f"{spread.mean:.{decimals}f}"
    if spread.deviation is not None:
        text += f"\n± {spread.deviation:.{decimals}f}"
    if spread.n < len(line.seeds):
        text += f"\n({spread.n} of {len(line.seeds)})"
    return Number(text, round(spread.mean, decimals) == found.best(column, decimals))


def _published(line: TableLine) -> list[Number]:
    if not line.published:
        return [Number(""), Number("")]
    *tasks, last = (f"{each:.3f}" for each in line.published)
    apart = line.difference
    return [
        Number(f"{', '.join(tasks)};\n{last}" if tasks else last),
        Number(NONE if apart is None else f"{apart:+.3f}"),
    ]


def _marked(cell: object) -> str:
    if isinstance(cell, Number):
        text = cell.text.replace("\n", " ")
        return f"**{text}**" if cell.marked else text
    return _plain(str(cell))


def _plain(text: str) -> str:
    """Letters that markdown shows as they are, on one line."""
    return MARKS.sub(r"\\\1", " ".join(printable(text).split()))
