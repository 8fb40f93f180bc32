"""The report of a training run: metrics, tables, figures, and an HTML page that explains them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.pooling import pooling_parts
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.curves import Series, best_line, curves, loss_curves
from likewise.plotting.html import inline_figure, paragraph, section
from likewise.plotting.terminal import shortened
from likewise.progress import Progress, Ticker
from likewise.results import Column, Figure, Result, Table
from likewise.results.result import figure_section, table_section
from likewise.train.config import CHOICES, ROLES, SINGLE, TaskConfig, TrainConfig
from likewise.train.heads import CLASSES
from likewise.train.results import CHARACTERS, CLOSE, KIND_NOTES, EvalResult, PairChange, pair_changes
from likewise.train.tasks import Overlap, fixed_sample

MEASURE_COLUMNS = ("part", "task", "n", "measure", "value")
COMPARED_PAIRS = 500  # Pairs among which the most changed ones are searched
OWN_FILES = re.compile(
    r"predictions-(dev|test)-[a-z0-9_-]+\.csv|(loss|score|(confusion|scatter)-(dev|test)-[a-z0-9_-]+)\.(png|svg)"
)
MISSING_TEXT = "–"  # For settings that have no value
LOSS_PANEL, COLUMNS = (5.4, 3.2), 2  # The size of a task's loss panel, and panels in a row
MEASURES = {
    "mse": "mean squared error",
    "mse_fitted": "mean squared error, predictions mapped by the best line",
    f"within_{CLOSE:g}": f"share within {CLOSE:g}",
    **{f"accuracy_{label}": f"accuracy of class {label}" for label in range(CLASSES)},
}
"""Measures whose names do not say what they are."""
NOTES = {
    "loss": "Solid: the loss in training, each point the mean of the steps since the last one; dashed, with open"
    " squares: on dev, after each epoch. Dropout is on in training and off on dev, so dev may be lower at first."
    " Each task has its own scale.",
    "score": "The score that chooses the best epoch, after each epoch.",
    "contrastive": "Measured by how well cosines of pairs follow the scores that people gave them. The loss on dev is"
    " the squared error of five times the cosine, and not comparable with that in training.",
    "changes": "The held-out pairs whose cosine changed the most, and the word pairs behind it: what each adds to the"
    " cosine before and after training. All word pairs and the bias sum to the cosine.",
}


@dataclass(frozen=True, eq=False, repr=False)
class TrainReport(Result):
    """The report of a finished run.

    >>> TrainReport.__name__
    'TrainReport'
    """

    config: TrainConfig
    model: str
    model_sha256: str
    weights: int  # trained parameters
    examples: dict[str, dict[str, int]]  # how many of each task in train, dev and test
    overlaps: tuple[Overlap, ...]
    truncated: int  # texts that were cut at the limit of tokens
    epochs: tuple[dict[str, Any], ...]  # each epoch's losses and dev measures
    curve: tuple[dict[str, float], ...]  # the training loss of each task, point by point
    best_epoch: int
    steps: int
    seconds: float
    dev: dict[str, EvalResult]  # the best epoch on all dev examples, by task
    test: dict[str, EvalResult]
    changes: tuple[PairChange, ...] = ()  # the pairs whose cosine changed the most

    @property
    def score(self) -> float | None:
        """The mean of the tasks' measures on all dev examples; None without any."""
        return sum(each.score for each in self.dev.values()) / len(self.dev) if self.dev else None

    @property
    def formula(self) -> str:
        """The terms of the score."""
        return mean_of([(result.task, result.metric) for result in self.dev.values()])

    @property
    def parts(self) -> dict[str, dict[str, EvalResult]]:
        """The results by part and task, of those parts that were measured."""
        return {name: found for name, found in (("dev", self.dev), ("test", self.test)) if found}

    @property
    def measures(self) -> list[tuple[str, str, int, str, float]]:
        """Every measure of every task: part, task, number of examples, measure and value."""
        return [
            (part, name, len(result.examples), measure, value)
            for part, results in self.parts.items()
            for name, result in results.items()
            for measure, value in result.metrics.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything except the single predictions."""
        return {
            "model": self.model, "model_sha256": self.model_sha256, "config": self.config.to_dict(),
            "weights": self.weights, "examples": self.examples,
            "overlaps": [overlap.to_dict() for overlap in self.overlaps], "truncated": self.truncated,
            "best_epoch": self.best_epoch, "steps": self.steps, "seconds": self.seconds,
            "score": self.score, "formula": self.formula if self.dev else None,
            "dev": {name: result.to_dict() for name, result in self.dev.items()},
            "test": {name: result.to_dict() for name, result in self.test.items()},
            "epochs": list(self.epochs), "curve": list(self.curve),
            "changes": [change.to_dict() for change in self.changes],
        }  # fmt: skip

    @property
    def title(self) -> str:
        """The model that was trained."""
        return f"Training of {self.model}"

    @property
    def notes(self) -> list[str]:
        """The score, its terms, and its epoch."""
        done = f"{len(self.epochs)} epoch{'' if len(self.epochs) == 1 else 's'}"
        if self.score is None:
            return [f"There were no dev examples: no epoch could be chosen, and the last of {done} was kept."]
        notes = [f"Score on dev: {self.score:.3f} = {self.formula}; epoch {self.best_epoch}, the best of {done}."]
        if any(math.isnan(result.metrics[result.metric]) for result in self.dev.values()):
            notes.append("A measure that does not exist, such as of constant predictions, counts as 0 in the score.")
        most = self.config.selection
        if most is not None and any(len(result.examples) > most for result in self.dev.values()):
            notes.append(f"Epochs were judged on {most} dev examples of each task at most; the score is of all.")
        return notes

    @property
    def cautions(self) -> list[str]:
        """Rows that train files share with dev or test files."""
        return [overlap.words for overlap in self.overlaps]

    def tables(self) -> dict[str, Table]:
        """Every measure; in files also every epoch and every prediction."""
        names = file_names(self.examples)
        predictions = {
            f"predictions-{part}-{names[task]}": result.table()
            for part, results in self.parts.items()
            for task, result in results.items()
        }
        measures = Table.of(MEASURE_COLUMNS, self.measures, f"{self.model}, epoch {self.best_epoch}")
        return {"measures": measures, "epochs": self._epoch_table(), **predictions}

    def _epoch_table(self) -> Table:
        """A row for each epoch: its losses and its dev measures."""
        rows: list[dict[str, Any]] = []
        for epoch in self.epochs:
            row = {"epoch": epoch["epoch"], "step": epoch["step"], "score": epoch["score"]}
            row["kept"] = int(epoch["epoch"] == self.best_epoch)
            row |= {f"train {task} loss": loss for task, loss in epoch["train"].items()}
            row |= {f"dev {task} {name}": each for task, found in epoch["dev"].items() for name, each in found.items()}
            rows.append({name: None if value != value else value for name, value in row.items()})
        header = list(dict.fromkeys(name for row in rows for name in row)) or ["epoch", "step", "score", "kept"]
        return Table.of(header, [[row.get(name) for name in header] for row in rows], detail=True)

    def figures(self) -> dict[str, Figure]:
        """Losses, scores, and each task's predictions."""
        found: dict[str, Figure] = {}
        if self.epochs:
            found["loss"] = Figure(partial(_losses, self), "Losses", NOTES["loss"])
        if any(epoch["score"] is not None for epoch in self.epochs):
            found["score"] = Figure(partial(_scores, self), "Scores", NOTES["score"])
        names = file_names(self.examples)
        for part, results in self.parts.items():
            for task, result in results.items():
                if result.kind != "mlm":  # all texts have the same truth
                    name = f"{'scatter' if result.numeric else 'confusion'}-{part}-{names[task]}"
                    found[name] = Figure(partial(result.draw, f"{task}, {part}"), f"{task}, {part}")
        return found

    def fragments(self) -> list[str]:
        """The page: scores, data and settings, curves, each task, and what changed."""
        drawn = self.figures()
        tables = [*([_measures(self)] if self.parts else []), *_setup_tables(self)]
        return [
            section("What was trained", map(paragraph, _setup(self))),
            *(table_section("", table) for table in tables if table.rows),
            *(figure_section(name, drawn[name]) for name in ("loss", "score") if name in drawn),
            *(part for task in self.config.tasks for part in _task(self, task, drawn.values())),
            *_changes(self.changes),
        ]

    def save(self, folder: Path | str, run: Mapping[str, Any] | None = None) -> Path:
        """Write the report; files of an earlier report that this one lacks are deleted, other files stay."""
        for old in Path(folder).glob("*"):
            if OWN_FILES.fullmatch(old.name):
                old.unlink()
        return super().save(folder, run)


def mean_of(measures: Sequence[tuple[str, str]]) -> str:
    """The formula of the mean of tasks' measures.

    >>> mean_of([("sentiment", "accuracy"), ("similarity", "pearson")])
    '(sentiment accuracy + similarity pearson) / 2'
    """
    parts = [" ".join(each) for each in measures]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)}) / {len(parts)}"


def file_names(tasks: Iterable[str]) -> dict[str, str]:
    """Each task's name as a part of a file's name, all different."""
    names: dict[str, str] = {}
    for task in tasks:
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", task).strip("-").lower() or "task"
        tries = (plain if count == 1 else f"{plain}-{count}" for count in range(1, len(names) + 2))
        names[task] = next(name for name in tries if name not in names.values())
    return names


def training_changes(
    load: Callable[[str], Encoder], report: TrainReport, progress: Progress | None = None
) -> tuple[PairChange, ...]:
    """What a run changed that has left its model in ``config.out``; empty if its vectors cannot be explained.

    The pairs are the held-out ones of the first bi-encoder task.
    """
    tasks = [task.name for task in report.config.tasks if task.kind not in SINGLE and not task.cross_encoder]
    held_out = [results[name].examples for results in (report.test, report.dev) for name in tasks if name in results]
    before, after = load(report.config.model), load(report.config.out)
    if not held_out or any("bilstm" in pooling_parts(each.pooling_config.pooling) for each in (before, after)):
        return ()
    ticker = Ticker(progress, 1, "comparing before and after")
    ticker.close()
    found = pair_changes(before, after, fixed_sample(held_out[0], COMPARED_PAIRS, 0))
    ticker.add()
    ticker.close()
    return tuple(found)


# Figures


def _losses(report: TrainReport) -> Any:
    """A panel for each task, since their losses have different scales; the points of whole epochs without a curve."""
    panels = grid_of_axes(len(report.examples), LOSS_PANEL, COLUMNS)
    labels = (f"epoch (dotted: {report.best_epoch}, the one kept)", "loss")
    in_epoch = report.epochs[0]["step"] / report.epochs[0]["epoch"]
    for ax, task in zip(panels, report.examples, strict=True):
        ax.set_xlim(0, len(report.epochs) * 1.02)
        train = [(point["step"] / in_epoch, point[task]) for point in report.curve if task in point]
        train = train or [(epoch["epoch"], epoch["train"][task]) for epoch in report.epochs]
        dev = [(epoch["epoch"], epoch["dev"][task]["loss"]) for epoch in report.epochs if task in epoch["dev"]]
        lines: list[Any] = [{task: tuple(zip(*points, strict=True))} if points else {} for points in (train, dev)]
        loss_curves(lines[0], lines[1], labels, task, report.best_epoch, ax)
    return panels[0]


def _scores(report: TrainReport) -> Any:
    """The score of each epoch, and the measures that it is the mean of."""
    metrics = {task.name: task.metric for task in report.config.tasks if task.name in report.epochs[0]["dev"]}
    values = {
        f"{task} {metric}": [epoch["dev"][task].get(metric) for epoch in report.epochs]
        for task, metric in metrics.items()
    }
    if len(metrics) > 1:
        # The last line is drawn above the others.
        values["score"] = [epoch["score"] for epoch in report.epochs]
    lines = {name: np.array(line, dtype=float) for name, line in values.items()}  # None becomes nan
    series: dict[str, Series] = {name: (line, None, None) for name, line in lines.items() if np.isfinite(line).any()}
    label = f"epoch (dotted: {report.best_epoch}, the one kept)"
    epochs = [epoch["epoch"] for epoch in report.epochs]
    ax = curves(epochs, series, (label, "on dev"), "dev, epoch by epoch", whole=True)
    if len(epochs) == 1:
        ax.set_xticks(epochs)
    best_line(ax, report.best_epoch)
    return ax


# The page


def _measures(report: TrainReport) -> Table:
    """Every measure of each task, a column for each part."""
    rows = []
    for task in report.examples:
        found = {part: results[task] for part, results in report.parts.items() if task in results}
        values = {part: {**one.metrics, "loss": one.loss, "examples": len(one.examples)} for part, one in found.items()}
        chosen = {one.metric for one in found.values()}
        for name in dict.fromkeys(name for own in values.values() for name in own):
            label = MEASURES.get(name, name.replace("_", " ")) + (" (chooses the best epoch)" if name in chosen else "")
            rows.append((task, label, *(values.get(part, {}).get(name) for part in report.parts)))
    return Table.of(("task", "measure", *(Column(part, format=".3f") for part in report.parts)), rows, "Measures")


def _setup(report: TrainReport) -> Iterator[str]:
    """What was trained, and for how long."""
    tasks = len(report.examples)
    cut = f"{report.truncated:,} texts were" if report.truncated != 1 else "1 text was"
    sizes = (size for size in ((3600, "hours"), (60, "minutes"), (1, "seconds")) if report.seconds >= 2 * size[0])
    size, unit = next(sizes, (1, "seconds"))
    yield (
        f"{report.model} learned {tasks} task{'' if tasks == 1 else 's'}: {report.weights:,} weights changed in"
        f" {report.steps:,} steps, {report.seconds / size:.1f} {unit}. {cut} cut at the limit of tokens."
    )
    yield f"Weights at the start: sha256 {report.model_sha256}."
    if not _changed_settings(report.config):
        yield "All settings are the default ones."
    if not report.overlaps and any(task.dev or task.test for task in report.config.tasks):
        yield "No row of a train file is in a dev or test file."


def _setup_tables(report: TrainReport) -> Iterator[Table]:
    """The files, the settings that differ from the default ones, and the rows that files share."""
    files = [
        (task.name, task.kind, role, ", ".join(source.file for source in sources), report.examples[task.name][role])
        for task in report.config.tasks
        for role in ROLES
        if (sources := getattr(task, role))
    ]
    yield Table.of(("task", "kind", "part", "files", "examples"), files, "Data")
    settings = _changed_settings(report.config)
    yield Table.of(("setting", "value", "default"), settings, "Settings that are not the default ones")
    shared = [
        (one.train, one.held_out, f"{one.rows} of {one.of} ({one.share:.1%})", one.dropped, "; ".join(one.examples))
        for one in report.overlaps
    ]
    header = ("train file", "dev or test file", "of its rows in both", "train rows dropped", "such as")
    dropped = "Rows of train files that are also in dev or test files were dropped from training."
    kept = "Train files hold rows of dev or test files, and nothing was dropped: scores look better than they are."
    yield Table.of(header, shared, "Overlap", dropped if any(one.dropped for one in report.overlaps) else kept)


def _changed_settings(config: TrainConfig) -> list[tuple[str, str, str]]:
    """The settings that differ from the default ones: name, value and default."""
    found = [*_changed(config, {}, ("tasks", "model", "out"), "")]
    for task in config.tasks:
        default = TaskConfig(kind=task.kind, train=task.train, pairs=task.pairs)
        own = {name: getattr(default, name) for name in CHOICES[task.kind]}
        found += _changed(task, own, ("kind", *ROLES, "name"), f"{task.name}: ")
    return found


def _changed(
    config: TrainConfig | TaskConfig, defaults: Mapping[str, Any], left_out: Sequence[str], prefix: str
) -> Iterator[tuple[str, str, str]]:
    for each in fields(config):
        default, value = defaults.get(each.name, each.default), getattr(config, each.name)
        if each.name not in left_out and default is not MISSING and value != default:
            yield prefix + each.name, _setting(value), _setting(default)


def _setting(value: Any) -> str:
    if value is None or value == "":
        return MISSING_TEXT
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _task(report: TrainReport, task: TaskConfig, drawn: Iterable[Figure]) -> Iterator[str]:
    """A task's results in words and figures, and its best and worst predictions."""
    found = {part: results[task.name] for part, results in report.parts.items() if task.name in results}
    if not found:
        yield section(f"Task: {task.name}", [paragraph("It has no dev or test examples: nothing was measured.")])
        return
    part, first = next(iter(found.items()))
    kinds = dict.fromkeys((task.kind, first.kind))
    notes = [paragraph((NOTES | KIND_NOTES)[kind], note=True) for kind in kinds]
    words = [paragraph(f"On {name}: {result.summary}") for name, result in found.items()]
    own = [figure for figure in drawn if figure.title in {f"{task.name}, {name}" for name in found}]
    figures = [f"<div class=wide>{inline_figure(each.draw(), each.title)}</div>\n" for each in own]
    yield section(f"Task: {task.name}", [*notes, *words, *figures])
    yield from (table_section("", table) for table in first.extreme_tables(f"{part}: {task.name}"))


def _changes(changes: Sequence[PairChange]) -> Iterator[str]:
    if changes:
        yield section("What changed", [paragraph(NOTES["changes"], note=True)])
    numbers = [Column(name, format="+.3f") for name in ("before", "after", "change")]
    for change in changes:
        left, right = (shortened(text, CHARACTERS) for text in change.example.texts)
        before, after = change.comparison.first.similarity, change.comparison.second.similarity
        rows = [(*row, row[3] - row[2]) for row in change.strongest()]
        title = f"{left} | {right}: {before:.3f} before, {after:.3f} after"
        yield table_section("", Table.of(("left word", "right word", *numbers), rows, title))
