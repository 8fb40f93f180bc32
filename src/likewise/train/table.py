"""Tables of training runs: the same row with several seeds becomes one line of means and deviations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from likewise.train.running import TableRow

PARTS = ("dev", "test")
LOW_IS_BETTER = ("loss", "mse", "mse_fitted", "perplexity", "false_positive_rate", "false_negative_rate", "seconds")
NO_MEASURES = ("n", "confusion", "best", "worst")


@dataclass(frozen=True)
class Column:
    """What a column holds: a measure of a task on a part, or of the whole run where these are empty.

    >>> Column("accuracy", "dev", "sentiment").name
    'dev sentiment accuracy'
    """

    measure: str
    part: str = ""
    task: str = ""

    @property
    def name(self) -> str:
        """The column in words."""
        return " ".join(word for word in (self.part, self.task, self.measure) if word)

    @property
    def low_is_better(self) -> bool:
        """Whether its best value is the lowest."""
        return self.measure in LOW_IS_BETTER


SCORE, SECONDS = Column("score"), Column("seconds")


@dataclass(frozen=True)
class Spread:
    """A value over seeds."""

    mean: float
    deviation: float | None
    """over seeds, with n - 1; None of a single one"""
    n: int
    """seeds that have the value"""

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.deviation is None else f" ± {self.deviation:.3f}")

    @classmethod
    def of(cls, values: Sequence[Any]) -> Spread | None:
        """The spread of those values that are numbers; None where none is.

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
    """what its score is the mean of"""
    published: tuple[float, ...]
    cells: Mapping[Column, Spread]

    @property
    def difference(self) -> float | None:
        """How far the score lies above the published one, which stands last."""
        found = self.cells.get(SCORE)
        return found.mean - self.published[-1] if found and self.published else None

    def to_dict(self) -> dict[str, Any]:
        """Everything, by the names of columns."""
        return {
            "name": self.name, "seeds": list(self.seeds), "formula": self.formula or None,
            "published": list(self.published), "difference": self.difference,
            "measures": {column.name: asdict(cell) for column, cell in self.cells.items()},
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """A line for each row of a table of runs."""

    lines: tuple[TableLine, ...]
    columns: tuple[Column, ...]
    """every measure of every task, the score and the seconds"""
    chosen: tuple[Column, ...]
    """those that epochs are judged by, the score and the seconds"""

    @property
    def formulas(self) -> dict[str, list[str]]:
        """What scores are the means of, each with the names of its lines."""
        found: dict[str, list[str]] = {}
        for line in self.lines:
            if line.formula:
                found.setdefault(line.formula, []).append(line.name)
        return found

    def best(self, column: Column, decimals: int = 3) -> float | None:
        """The best mean of a column as it is shown; None where there is nothing to tell apart."""
        means = [round(line.cells[column].mean, decimals) for line in self.lines if column in line.cells]
        if len(set(means)) < 2:
            return None
        return min(means) if column.low_is_better else max(means)


def training_table(rows: Sequence[TableRow]) -> TrainingTable:
    """One line for each name, in the order of the rows."""
    groups: dict[str, list[TableRow]] = {}
    for row in rows:
        groups.setdefault(row.name, []).append(row)
    values = {id(row): _values(row.report) for row in rows}
    measures = _ordered(column for row in rows for column in values[id(row)])
    chosen = _ordered(column for row in rows for column in _chosen(row.report))
    lines = tuple(_line(name, group, [values[id(row)] for row in group]) for name, group in groups.items())
    return TrainingTable(lines, tuple(measures), tuple(column for column in chosen if column in measures))


def _line(name: str, rows: Sequence[TableRow], values: Sequence[Mapping[Column, Any]]) -> TableLine:
    columns = dict.fromkeys(column for found in values for column in found)
    spreads = {column: Spread.of([found.get(column) for found in values]) for column in columns}
    cells = {column: spread for column, spread in spreads.items() if spread is not None}
    formula = rows[0].report.get("formula") or ""
    return TableLine(name, tuple(row.seed for row in rows), formula, rows[0].published, cells)


def _values(report: Mapping[str, Any]) -> dict[Column, Any]:
    """Every number of a report that is a measure."""
    found: dict[Column, Any] = {
        Column(measure, part, task): value
        for part in PARTS
        for task, eval_result in report[part].items()
        for measure, value in eval_result.items()
        if measure not in NO_MEASURES
    }
    return found | {SCORE: report["score"], SECONDS: report["seconds"]}


def _chosen(report: Mapping[str, Any]) -> list[Column]:
    metrics = {task["name"]: task["metric"] for task in report["config"]["task"]}
    return [
        *(Column(metrics[task], part, task) for part in PARTS for task in report[part]),
        SCORE,
        SECONDS,
    ]


def _ordered(columns: Any) -> list[Column]:
    """Different columns: dev before test, then the score and the seconds."""
    order = {"dev": 0, "test": 2, "": 1}
    return sorted(dict.fromkeys(columns), key=lambda column: 3 if column == SECONDS else order[column.part])
