"""Tables of training runs: one row with several seeds becomes one line of means and deviations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from likewise.plotting.html import Number, section
from likewise.plotting.html import table as html_table
from likewise.plotting.terminal import printable
from likewise.results import Result, Table
from likewise.train.runs import TableRow

PARTS = ("dev", "test")
LOW_IS_BETTER = ("loss", "mse", "mse_fitted", "perplexity", "false_positive_rate", "false_negative_rate", "seconds")
NO_MEASURES = ("n", "confusion", "best", "worst")
MISSING_TEXT = "–"
MARKUP = re.compile(r"([\\`*_\[\]|<])")
"""Characters that markdown does not show as they are."""
WIDE = (
    "font-size: .8rem; width: max-content; min-width: 100%; max-width: 96vw;"
    " position: relative; left: 50%; transform: translateX(-50%)"
)
"""A table may be wider than the page's text."""
PUBLISHED = (
    "Published: each task's measure, then their mean, as others report it; difference: our score on dev less that mean."
)

Cells = tuple[Sequence[str], list[Sequence[object]]]
"""A header and rows of HTML cells."""


@dataclass(frozen=True)
class Measure:
    """A measure of a task on a part, or of the whole run if these are empty.

    >>> Measure("accuracy", "dev", "sentiment").name
    'dev sentiment accuracy'
    """

    measure: str
    part: str = ""
    task: str = ""

    @property
    def name(self) -> str:
        """The measure in words."""
        return " ".join(word for word in (self.part, self.task, self.measure) if word)

    @property
    def low_is_better(self) -> bool:
        """Whether its best value is the lowest."""
        return self.measure in LOW_IS_BETTER


SCORE, SECONDS = Measure("score"), Measure("seconds")


@dataclass(frozen=True)
class Spread:
    """A value over seeds."""

    mean: float
    deviation: float | None
    """over seeds, with n - 1; None for a single one"""
    n: int
    """seeds that have the value"""

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.deviation is None else f" ± {self.deviation:.3f}")

    @classmethod
    def of(cls, values: Sequence[Any]) -> Spread | None:
        """The spread of the values that are numbers; None if none is.

        >>> Spread.of([1.0, 3.0, None]), Spread.of([float("nan")])
        (Spread(mean=2.0, deviation=1.4142135623730951, n=2), None)
        """
        known = [float(value) for value in values if value is not None and math.isfinite(value)]
        if not known:
            return None
        return cls(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None, len(known))


@dataclass(frozen=True, eq=False)
class TableLine:
    """All seeds of a row."""

    name: str
    seeds: tuple[int, ...]
    formula: str
    """the terms of its score"""
    published: tuple[float, ...]
    cells: Mapping[Measure, Spread]

    @property
    def difference(self) -> float | None:
        """The score less the published one, which is the last of ``published``."""
        found = self.cells.get(SCORE)
        return found.mean - self.published[-1] if found and self.published else None

    def to_dict(self) -> dict[str, Any]:
        """Everything, by the names of measures."""
        return {
            "name": self.name, "seeds": list(self.seeds), "formula": self.formula or None,
            "published": list(self.published), "difference": self.difference,
            "measures": {measure.name: asdict(cell) for measure, cell in self.cells.items()},
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class TrainingTable(Result):
    """A line for each row of a table of runs."""

    rows: tuple[TableRow, ...]
    groups: tuple[TableLine, ...]
    """the seeds of each row"""
    measures: tuple[Measure, ...]
    """every measure of every task, the score and the seconds"""
    chosen: tuple[Measure, ...]
    """the measures that choose the best epochs, the score and the seconds"""

    @property
    def title(self) -> str:
        """The heading of the page."""
        return "Training runs"

    @property
    def notes(self) -> list[str]:
        """The terms of the score, and what the columns hold."""
        formulas = self.formulas
        notes = [
            f"Score on dev = {formula}." if len(formulas) == 1 else f"Score on dev of {', '.join(names)} = {formula}."
            for formula, names in formulas.items()
        ]
        counts = {len(line.seeds) for line in self.groups}
        over = "means ± standard deviations (n - 1) over seeds" if max(counts, default=1) > 1 else "one seed"
        number = f", {max(counts)} of each row" if len(counts) == 1 and max(counts) > 1 else ""
        notes.append(f"Numbers: {over}{number}. Bold: the best of a measure.")
        return [*notes, *([PUBLISHED] if any(line.published for line in self.groups) else [])]

    @property
    def cautions(self) -> list[str]:
        """Rows that train files share with dev or test files."""
        return list(dict.fromkeys(overlap["words"] for row in self.rows for overlap in row.report["overlaps"]))

    @property
    def formulas(self) -> dict[str, list[str]]:
        """The terms of the scores, each with the names of its lines."""
        found: dict[str, list[str]] = {}
        for line in self.groups:
            if line.formula:
                found.setdefault(line.formula, []).append(line.name)
        return found

    def best(self, measure: Measure, decimals: int = 3) -> float | None:
        """The best mean of a measure as it is shown; None if all are the same."""
        means = [round(line.cells[measure].mean, decimals) for line in self.groups if measure in line.cells]
        if len(set(means)) < 2:
            return None
        return min(means) if measure.low_is_better else max(means)

    def to_dict(self) -> dict[str, Any]:
        """Every run's report, and the means over seeds."""
        return {
            "rows": [row.to_dict() for row in self.rows], "formulas": self.formulas,
            "lines": [line.to_dict() for line in self.groups],
        }  # fmt: skip

    def tables(self) -> dict[str, Table]:
        """A row for each run; in files also the exact means and deviations of each line."""
        rows = []
        for row in self.rows:
            metrics, dev = _metrics(row.report), row.report["dev"]
            measures = ", ".join(f"{name} {part[metrics[name]]:.3f}" for name, part in dev.items())
            published = row.published[-1] if row.published else None
            rows.append((row.name, row.seed, measures, row.report["score"], published))
        return {"runs": Table.of(("row", "seed", "dev", "score", "published"), rows), "table": self._exact()}

    def _exact(self) -> Table:
        """Every measure, its mean and its deviation in a column each."""
        tasks = max((len(line.published) for line in self.groups), default=0)
        names = [f"{measure.name}{end}" for measure in self.measures for end in ("", " sd")]
        header = ("name", "seeds", *names, *(f"published {index + 1}" for index in range(tasks)), "difference")
        rows = []
        for line in self.groups:
            cells = [line.cells.get(measure) for measure in self.measures]
            numbers = [each for cell in cells for each in ((cell.mean, cell.deviation) if cell else (None, None))]
            published = [*line.published, *[None] * (tasks - len(line.published))]
            rows.append((printable(line.name), " ".join(map(str, line.seeds)), *numbers, *published, line.difference))
        return Table.of(header, rows, detail=True)

    def fragments(self) -> list[str]:
        """The page: the chosen measures, then all others, the best ones bold."""
        others = [measure for measure in self.measures if measure not in self.chosen]
        turned: list[Sequence[object]] = [
            (each.name, *(self._cell(line, each) for line in self.groups)) for each in others
        ]
        header = ("measure", *(line.name for line in self.groups))
        return [_wide(self._chosen_cells()), section("Every other measure", [_wide((header, turned))])]

    def to_markdown(self) -> str:
        """The table as GitHub's markdown, followed by the meaning of its columns."""
        header, lines = self._chosen_cells()
        cells = [[_marked(cell) for cell in line] for line in lines]
        rule = ["---", *("---:" for _ in header[1:])]
        drawn = [f"| {' | '.join(line)} |" for line in ([*map(_plain, header)], rule, *cells)]
        return "\n".join([*drawn, "", *map(_plain, self.notes)]) + "\n"

    def _chosen_cells(self) -> Cells:
        """A line for each name."""
        published = any(line.published for line in self.groups)
        seeds = len({len(line.seeds) for line in self.groups}) > 1
        header = ["run", *(["seeds"] if seeds else []), *(measure.name for measure in self.chosen)]
        rows: list[Sequence[object]] = []
        for line in self.groups:
            row: list[object] = [line.name, *([Number(str(len(line.seeds)))] if seeds else [])]
            row += [self._cell(line, measure) for measure in self.chosen]
            rows.append([*row, *(_published(line) if published else [])])
        return [*header, *(["published", "difference"] if published else [])], rows

    def _cell(self, line: TableLine, measure: Measure) -> Number:
        spread = line.cells.get(measure)
        if spread is None:
            return Number(MISSING_TEXT)
        decimals = 0 if measure == SECONDS else 3
        text = f"{spread.mean:.{decimals}f}"
        if spread.deviation is not None:
            text += f"\n± {spread.deviation:.{decimals}f}"
        if spread.n < len(line.seeds):
            text += f"\n({spread.n} of {len(line.seeds)})"
        return Number(text, round(spread.mean, decimals) == self.best(measure, decimals))


def training_table(rows: Sequence[TableRow]) -> TrainingTable:
    """One line for each name, in the order of the rows."""
    groups: dict[str, list[TableRow]] = {}
    for row in rows:
        groups.setdefault(row.name, []).append(row)
    values = {id(row): _values(row.report) for row in rows}
    measures = _ordered(measure for row in rows for measure in values[id(row)])
    chosen = _ordered(measure for row in rows for measure in _chosen(row.report))
    lines = tuple(_line(name, group, [values[id(row)] for row in group]) for name, group in groups.items())
    return TrainingTable(
        tuple(rows), lines, tuple(measures), tuple(measure for measure in chosen if measure in measures)
    )


def _line(name: str, rows: Sequence[TableRow], values: Sequence[Mapping[Measure, Any]]) -> TableLine:
    measures = dict.fromkeys(measure for found in values for measure in found)
    spreads = {measure: Spread.of([found.get(measure) for found in values]) for measure in measures}
    cells = {measure: spread for measure, spread in spreads.items() if spread is not None}
    formula = rows[0].report.get("formula") or ""
    return TableLine(name, tuple(row.seed for row in rows), formula, rows[0].published, cells)


def _values(report: Mapping[str, Any]) -> dict[Measure, Any]:
    """Every number of a report that is a measure."""
    found: dict[Measure, Any] = {
        Measure(measure, part, task): value
        for part in PARTS
        for task, result in report[part].items()
        for measure, value in result.items()
        if measure not in NO_MEASURES
    }
    return found | {SCORE: report["score"], SECONDS: report["seconds"]}


def _metrics(report: Mapping[str, Any]) -> dict[str, str]:
    return {task["name"]: task["metric"] for task in report["config"]["task"]}


def _chosen(report: Mapping[str, Any]) -> list[Measure]:
    metrics = _metrics(report)
    return [*(Measure(metrics[task], part, task) for part in PARTS for task in report[part]), SCORE, SECONDS]


def _ordered(measures: Iterable[Measure]) -> list[Measure]:
    """Different measures: dev before test, then the score and the seconds."""
    order = {"dev": 0, "test": 2, "": 1}
    return sorted(dict.fromkeys(measures), key=lambda measure: 3 if measure == SECONDS else order[measure.part])


def _wide(cells: Cells) -> str:
    return f"<div style='{WIDE}'>{html_table(*cells)}</div>\n"


def _published(line: TableLine) -> list[Number]:
    if not line.published:
        return [Number(""), Number("")]
    *tasks, last = (f"{each:.3f}" for each in line.published)
    apart = line.difference
    return [
        Number(f"{', '.join(tasks)};\n{last}" if tasks else last),
        Number(MISSING_TEXT if apart is None else f"{apart:+.3f}"),
    ]


def _marked(cell: object) -> str:
    if isinstance(cell, Number):
        text = cell.text.replace("\n", " ")
        return f"**{text}**" if cell.marked else text
    return _plain(str(cell))


def _plain(text: str) -> str:
    """Text that markdown shows as it is, on one line."""
    return MARKUP.sub(r"\\\1", " ".join(printable(text).split()))
