"""The figures of a training run: losses, scores, and what each task's predictions look like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from likewise.metrics import fitted_line
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.curves import Points, Series, best_line, curves, loss_curves
from likewise.plotting.heatmap import confusion_matrix
from likewise.plotting.scatter import fitted_scatter
from likewise.train import TrainReport
from likewise.train.eval_result import EvalResult
from likewise.train.heads import CLASSES

LOSS_PANEL, COLUMNS = (5.4, 3.2), 2
"""The size of a task's losses, and how many stand beside one another."""
CLASS_NAMES = {"sentiment": [str(label) for label in range(CLASSES)], "paraphrase": ["other", "paraphrase"]}


def parts(report: TrainReport) -> dict[str, dict[str, EvalResult]]:
    """The outcomes by part and task, of those parts that were measured."""
    return {name: found for name, found in (("dev", report.dev), ("test", report.test)) if found}


def file_names(tasks: Iterable[str]) -> dict[str, str]:
    """Each task's name as a part of a file's name, all different.

    >>> file_names(["similarity", "a/b", "a b"])
    {'similarity': 'similarity', 'a/b': 'a-b', 'a b': 'a-b-2'}
    """
    names: dict[str, str] = {}
    for task in tasks:
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", task).strip("-").lower() or "task"
        taken = set(names.values())
        tries = (plain if count == 1 else f"{plain}-{count}" for count in range(1, len(taken) + 2))
        names[task] = next(name for name in tries if name not in taken)
    return names


def figure_name(eval_result: EvalResult, part: str, file: str) -> str:
    """What the figure of an outcome is called."""
    return f"{'scatter' if eval_result.numeric else 'confusion'}-{part}-{file}"


def training_figures(report: TrainReport) -> Iterator[tuple[str, Any]]:
    """Every figure of a run with its name."""
    if report.epochs:
        yield "loss", _losses(report)
    if any(epoch["score"] is not None for epoch in report.epochs):
        yield "score", _scores(report)
    files = file_names(report.examples)
    for part, outcomes in parts(report).items():
        for task, eval_result in outcomes.items():
            if eval_result.kind == "mlm":
                continue  # all texts have the same truth
            yield figure_name(eval_result, part, files[task]), _outcome(eval_result, f"{task}, {part}")


def _losses(report: TrainReport) -> Any:
    """A panel for each task: their losses are not of one scale."""
    tasks = list(report.examples)
    panels = grid_of_axes(len(tasks), LOSS_PANEL, COLUMNS)
    across = (f"epoch (dotted: {report.best_epoch}, the one kept)", "loss")
    for ax, task in zip(panels, tasks, strict=True):
        ax.set_xlim(0, len(report.epochs) * 1.02)
        dev = _dev_losses(report, task)
        named = {task: dev} if np.size(dev[0]) else {}
        loss_curves({task: _train_losses(report, task)}, named, across, task, report.best_epoch, ax)
    return panels[0]


def _train_losses(report: TrainReport, task: str) -> Points:
    """Points of the curve, by epochs; those of whole epochs where there is no curve."""
    first = report.epochs[0]
    in_epoch = first["step"] / first["epoch"]
    points = [(point["step"] / in_epoch, point[task]) for point in report.curve if task in point]
    points = points or [(epoch["epoch"], epoch["train"][task]) for epoch in report.epochs]
    return [x for x, _ in points], [loss for _, loss in points]


def _dev_losses(report: TrainReport, task: str) -> Points:
    points = [(epoch["epoch"], epoch["dev"][task]["loss"]) for epoch in report.epochs if task in epoch["dev"]]
    return [x for x, _ in points], [loss for _, loss in points]


def _scores(report: TrainReport) -> Any:
    """The score of each epoch, and the measures that it is the mean of."""
    metrics = {task.name: task.metric for task in report.config.tasks if task.name in report.epochs[0]["dev"]}
    lines: dict[str, Series] = {
        f"{task} {metric}": (_numbers(epoch["dev"][task].get(metric) for epoch in report.epochs), None, None)
        for task, metric in metrics.items()
    }
    lines = {name: line for name, line in lines.items() if np.isfinite(line[0]).any()}
    if len(metrics) > 1:
        # The last line is drawn above the others.
        lines["score"] = (_numbers(epoch["score"] for epoch in report.epochs), None, None)
    across = f"epoch (dotted: {report.best_epoch}, the one kept)"
    epochs = [epoch["epoch"] for epoch in report.epochs]
    ax = curves(epochs, lines, (across, "on dev"), "dev, epoch by epoch", whole=True)
    if len(epochs) == 1:
        ax.set_xticks(epochs)
    best_line(ax, report.best_epoch)
    return ax


def _numbers(values: Iterable[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _outcome(eval_result: EvalResult, title: str) -> Any:
    counts = eval_result.confusion
    if counts is not None:
        return confusion_matrix(counts, CLASS_NAMES[eval_result.kind], title)
    line = fitted_line(eval_result.truth, eval_result.predicted)
    return fitted_scatter(eval_result.truth, eval_result.predicted, ("true", "predicted"), line, title)
