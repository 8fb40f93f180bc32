"""Tables of training runs: trains every row with every seed, and reports means and deviations over the seeds."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import locate
from likewise.encoder.weights import model_key
from likewise.errors import UsageError
from likewise.grammar.grammar import chosen
from likewise.plotting.html import Number, section
from likewise.plotting.html import table as html_table
from likewise.plotting.terminal import printable
from likewise.progress import Progress, named
from likewise.results import Result, Table
from likewise.storage import file_hash, write_text
from likewise.train.config import TrainConfig
from likewise.train.loop import CHECKPOINT
from likewise.train.processes import Processes
from likewise.train.runs import LOCK, Row, RunContext, remove_checkpoint

RECORD = "row.json"  # The file of a finished row of a table
PARTS = ("dev", "test")
LOW_IS_BETTER = ("loss", "mse", "mse_fitted", "perplexity", "false_positive_rate", "false_negative_rate", "seconds")
NO_MEASURES = ("n", "confusion", "best", "worst")
MISSING_TEXT = "–"
MARKUP = re.compile(r"([\\`*_\[\]|<])")  # Characters that markdown does not show as they are
WIDE = (
    "font-size: .8rem; width: max-content; min-width: 100%; max-width: 96vw;"
    " position: relative; left: 50%; transform: translateX(-50%)"
)
"""A table may be wider than the page's text."""
PUBLISHED = (
    "Published: each task's measure, then their mean, as others report it; difference: our score on dev less that mean."
)

Cells = tuple[Sequence[str], list[Sequence[object]]]  # A header and rows of HTML cells


# Runs


@dataclass(frozen=True)
class TableRow:
    """A finished row: its name, its seed and its report as JSON."""

    name: str
    seed: int
    published: tuple[float, ...]
    report: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The report with the row's name, seed and published numbers."""
        return {"name": self.name, "seed": self.seed, "published": list(self.published), **self.report}


def train_table(
    run_context: RunContext,
    rows: Sequence[Row],
    folder: Path,
    keep_models: bool = False,
    progress: Progress | None = None,
) -> list[TableRow]:
    """Every row's run, one after the other; finished rows are read back, an interrupted one is resumed."""
    done, model_sum = [], cache(lambda model: model_key(run_context.load(model)))
    file_sum = cache(lambda name: file_hash(locate(name, run_context.data_dir)))
    processes = Processes.joined(cpu=True)

    def inputs(config: TrainConfig) -> dict[str, Any]:
        """Everything that a row depends on, as JSON gives it back."""
        sources = [source for task in config.tasks for source in (*task.train, *task.dev, *task.test)]
        grammars = {chosen(source.grammar or None) for source in sources if source.target == "shared-nouns"}
        found = {
            "config": replace(config, out="").to_dict(),
            "limits": asdict(run_context.limits),
            "files": {name: file_sum(name) for name in sorted({source.file for source in sources})},
            "model": model_sum(config.model),
        }
        known: dict[str, Any] = json.loads(json.dumps(found | ({"grammars": sorted(grammars)} if grammars else {})))
        return known

    for index, row in enumerate(rows, start=1):
        record, used = folder / row.slug / RECORD, inputs(row.config)
        if not record.exists():
            config = replace(row.config, out=str(record.parent))
            noted = named(progress, f"row {index}/{len(rows)}, {row.name}")
            with replace(run_context, resume=True).run(config, noted) as report:
                if processes.first:
                    write_text(record, json.dumps({"facts": used, "report": report.to_dict()}))
                    _tidy(record.parent, keep_models)
        elif processes.first and (record.parent / CHECKPOINT).exists():  # the run was stopped before it was tidied
            _tidy(record.parent, keep_models)
            remove_checkpoint(record.parent)
        processes.wait()
        done.append(TableRow(row.name, row.config.seed, row.published, _report(record, row, used)))
    return done


def _tidy(folder: Path, keep_models: bool) -> None:
    """Delete the model of a finished row unless it is kept; the checkpoint stays until the run is finished."""
    for left in [] if keep_models else list(folder.iterdir()):
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name not in (RECORD, CHECKPOINT, LOCK):
            left.unlink()


def _report(path: Path, row: Row, used: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known, report = found["facts"], dict(found["report"])
        changed = [name for name in used if known[name] != used[name]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} cannot be read; delete it, and the row is trained again") from error
    if changed:
        what = ", ".join(changed).replace("config", "settings")
        raise UsageError(f"{path} is of other {what} than row {row.name!r} has; choose another out, or delete it")
    return report


# The table


@dataclass(frozen=True)
class Measure:
    """A measure of a task on a part, or of the whole run if these are empty."""

    measure: str
    part: str = ""
    task: str = ""

    @property
    def name(self) -> str:
        """The measure in words."""
        return " ".join(word for word in (self.part, self.task, self.measure) if word)


SCORE, SECONDS = Measure("score"), Measure("seconds")


@dataclass(frozen=True)
class Spread:
    """A value over seeds."""

    mean: float
    deviation: float | None  # over seeds, with n - 1; None for a single one
    n: int  # seeds that have the value

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
    formula: str  # the terms of its score
    published: tuple[float, ...]
    cells: Mapping[Measure, Spread]

    @property
    def difference(self) -> float | None:
        """The score less the published one, which is the last of ``published``."""
        found = self.cells.get(SCORE)
        return found.mean - self.published[-1] if found and self.published else None

    @property
    def published_cells(self) -> list[Number]:
        """The published numbers and the difference as people read them."""
        if not self.published:
            return [Number(""), Number("")]
        *tasks, last = (f"{each:.3f}" for each in self.published)
        apart = MISSING_TEXT if self.difference is None else f"{self.difference:+.3f}"
        return [Number(f"{', '.join(tasks)};\n{last}" if tasks else last), Number(apart)]

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
    groups: tuple[TableLine, ...]  # the seeds of each row
    measures: tuple[Measure, ...]  # every measure of every task, the score and the seconds
    chosen: tuple[Measure, ...]  # the measures that choose the best epochs, the score and the seconds

    title = "Training runs"

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
        turned = [(each.name, *(self._cell(line, each) for line in self.groups)) for each in others]
        rest = html_table(("measure", *(line.name for line in self.groups)), turned)
        drawn = [f"<div style='{WIDE}'>{table}</div>\n" for table in (html_table(*self._chosen_cells()), rest)]
        return [drawn[0], section("Every other measure", drawn[1:])]

    def to_markdown(self) -> str:
        """The table as GitHub's markdown, followed by the meaning of its columns."""
        header, lines = self._chosen_cells()
        rule = ["---", *("---:" for _ in header[1:])]
        marked = [[*map(_marked, line)] for line in (header, *lines)]
        drawn = [f"| {' | '.join(line)} |" for line in (marked[0], rule, *marked[1:])]
        return "\n".join([*drawn, "", *map(_marked, self.notes)]) + "\n"

    def _chosen_cells(self) -> Cells:
        """A line for each name; columns that say nothing are left out."""
        published = any(line.published for line in self.groups)
        seeds = len({len(line.seeds) for line in self.groups}) > 1
        header = ["run", *(["seeds"] if seeds else []), *(measure.name for measure in self.chosen)]
        rows: list[Sequence[object]] = [
            [
                line.name,
                *([Number(str(len(line.seeds)))] if seeds else []),
                *(self._cell(line, measure) for measure in self.chosen),
                *(line.published_cells if published else []),
            ]
            for line in self.groups
        ]
        return [*header, *(["published", "difference"] if published else [])], rows

    def _cell(self, line: TableLine, measure: Measure) -> Number:
        """A mean and its deviation; bold if it is the best of different ones."""
        spread = line.cells.get(measure)
        if spread is None:
            return Number(MISSING_TEXT)
        decimals = 0 if measure == SECONDS else 3
        text = f"{spread.mean:.{decimals}f}"
        if spread.deviation is not None:
            text += f"\n± {spread.deviation:.{decimals}f}"
        if spread.n < len(line.seeds):
            text += f"\n({spread.n} of {len(line.seeds)})"
        means = {round(other.cells[measure].mean, decimals) for other in self.groups if measure in other.cells}
        best = min(means) if measure.measure in LOW_IS_BETTER else max(means)
        return Number(text, len(means) > 1 and round(spread.mean, decimals) == best)


def training_table(rows: Sequence[TableRow]) -> TrainingTable:
    """One line for each name, in the order of the rows."""
    groups: dict[str, list[TableRow]] = {}
    for row in rows:
        groups.setdefault(row.name, []).append(row)
    lines = tuple(_line(name, group) for name, group in groups.items())
    measures = _ordered(measure for row in rows for measure in _values(row.report))
    metrics = {pair for row in rows for pair in _metrics(row.report).items()}
    choosing = {Measure(metric, part, task) for task, metric in metrics for part in PARTS} | {SCORE, SECONDS}
    chosen = tuple(measure for measure in measures if measure in choosing)
    return TrainingTable(tuple(rows), lines, measures, chosen)


def _line(name: str, rows: Sequence[TableRow]) -> TableLine:
    values = [_values(row.report) for row in rows]
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


def _ordered(measures: Iterable[Measure]) -> tuple[Measure, ...]:
    """Different measures: dev, the score, test, then the seconds."""
    order = {"dev": 0, "": 1, "test": 2}
    return tuple(sorted(dict.fromkeys(measures), key=lambda each: 3 if each == SECONDS else order[each.part]))


def _marked(cell: object) -> str:
    """A cell that markdown shows as it is, on one line."""
    if isinstance(cell, Number):
        text = cell.text.replace("\n", " ")
        return f"**{text}**" if cell.marked else text
    return MARKUP.sub(r"\\\1", " ".join(printable(str(cell)).split()))
