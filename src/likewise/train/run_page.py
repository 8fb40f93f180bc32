"""The page of a training run: its figures, and what its numbers mean in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

import numpy as np

from likewise.metrics import fitted_line
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.curves import Points, Series, best_line, curves, loss_curves
from likewise.plotting.heatmap import confusion_matrix
from likewise.plotting.html import Number, inline_png, inline_svg, paragraph, section, table
from likewise.plotting.scatter import fitted_scatter, line_text
from likewise.plotting.terminal import shortened
from likewise.results import Figure
from likewise.train.config import CHOICES, ROLES, TaskConfig, TrainConfig
from likewise.train.heads import CLASSES
from likewise.train.results import CLOSE, EvalResult, PairChange, TrainReport, file_names

MISSING_TEXT = "–"
"""For numbers that do not exist."""
CHARACTERS = 220
"""How much of a text is shown."""
LOSS_PANEL, COLUMNS = (5.4, 3.2), 2
"""The size of a task's loss panel, and panels in a row."""
HEAVY = 120_000
"""Characters of a figure above which the page holds it as a picture, to stay small."""
CLASS_NAMES = {"sentiment": [str(label) for label in range(CLASSES)], "paraphrase": ["other", "paraphrase"]}
MEASURES = {
    "mse": "mean squared error",
    "mse_fitted": "mean squared error, predictions mapped by the best line",
    f"within_{CLOSE:g}": f"share within {CLOSE:g}",
    "false_positive_rate": "false positive rate",
    "false_negative_rate": "false negative rate",
}
NOTES = {
    "loss": "Solid: the loss in training, each point the mean of the steps since the last one; dashed, with open"
    " squares: on dev, after each epoch. Dropout is on in training and off on dev, so dev may be lower at first."
    " Each task has its own scale.",
    "score": "The score that chooses the best epoch, after each epoch.",
    "sentiment": "Classes run from 0, the most negative, to 4, the most positive. A row is a true class: how many of it"
    " got which prediction, and their share of the row.",
    "paraphrase": "Pairs are paraphrases or other ones. A row is the truth: how many of them got which prediction, and"
    " their share of the row.",
    "similarity": "A point is a pair, on the scale from 0 to 5; denser colour means more pairs.",
    "count": "A point is a pair: its true number and the predicted one; denser colour means more pairs.",
    "mlm": "Accuracy is the share of masked tokens that were found, averaged over texts; perplexity is e to the loss.",
    "contrastive": "Measured by how well cosines of pairs follow the scores that people gave them. The loss on dev is"
    " the squared error of five times the cosine, and not comparable with that in training.",
    "changes": "The held-out pairs whose cosine changed the most, and the word pairs behind it: what each adds to the"
    " cosine before and after training. All word pairs and the bias sum to the cosine.",
}
ERRORS = {
    "sentiment": "1 - probability of the true class",
    "paraphrase": "distance of the probability from the truth",
    "similarity": "distance",
    "count": "distance",
    "mlm": "share of masked tokens that were not found",
}

Cells = tuple[Sequence[str], list[Sequence[object]]]
"""A header and rows of HTML cells."""


# Figures


def training_figures(report: TrainReport) -> dict[str, Figure]:
    """Every figure of a run by its name."""
    found: dict[str, Figure] = {}
    if report.epochs:
        found["loss"] = Figure(lambda: _losses(report), "Losses", NOTES["loss"])
    if any(epoch["score"] is not None for epoch in report.epochs):
        found["score"] = Figure(lambda: _scores(report), "Scores", NOTES["score"])
    names = file_names(report.examples)
    for part, results in report.parts.items():
        for task, result in results.items():
            if result.kind != "mlm":  # all texts have the same truth
                title = f"{task}, {part}"
                found[figure_name(result, part, names[task])] = Figure(partial(_predictions, result, title), title)
    return found


def figure_name(result: EvalResult, part: str, file: str) -> str:
    """The name of the figure of a result."""
    return f"{'scatter' if result.numeric else 'confusion'}-{part}-{file}"


def _losses(report: TrainReport) -> Any:
    """A panel for each task: their losses have different scales."""
    tasks = list(report.examples)
    panels = grid_of_axes(len(tasks), LOSS_PANEL, COLUMNS)
    labels = (f"epoch (dotted: {report.best_epoch}, the one kept)", "loss")
    for ax, task in zip(panels, tasks, strict=True):
        ax.set_xlim(0, len(report.epochs) * 1.02)
        points = [(epoch["epoch"], epoch["dev"][task]["loss"]) for epoch in report.epochs if task in epoch["dev"]]
        dev = {task: _points(points)} if points else {}
        loss_curves({task: _train_losses(report, task)}, dev, labels, task, report.best_epoch, ax)
    return panels[0]


def _train_losses(report: TrainReport, task: str) -> Points:
    """Points of the curve, by epochs; those of whole epochs if there is no curve."""
    first = report.epochs[0]
    in_epoch = first["step"] / first["epoch"]
    points = [(point["step"] / in_epoch, point[task]) for point in report.curve if task in point]
    return _points(points or [(epoch["epoch"], epoch["train"][task]) for epoch in report.epochs])


def _points(points: Sequence[tuple[float, float]]) -> Points:
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
    label = f"epoch (dotted: {report.best_epoch}, the one kept)"
    epochs = [epoch["epoch"] for epoch in report.epochs]
    ax = curves(epochs, lines, (label, "on dev"), "dev, epoch by epoch", whole=True)
    if len(epochs) == 1:
        ax.set_xticks(epochs)
    best_line(ax, report.best_epoch)
    return ax


def _numbers(values: Iterable[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def _predictions(result: EvalResult, title: str) -> Any:
    counts = result.confusion
    if counts is not None:
        return confusion_matrix(counts, CLASS_NAMES[result.kind], title)
    line = fitted_line(result.truth, result.predicted)
    return fitted_scatter(result.truth, result.predicted, ("true", "predicted"), line, title)


# The page


def training_fragments(report: TrainReport) -> list[str]:
    """The parts of the page."""
    drawn = {name: _drawn(name, figure) for name, figure in report.figures().items()}
    titles = {"loss": "Losses", "score": "Scores"}
    return [
        *([section("Measures", _measures(report))] if report.parts else []),
        section("Data and settings", _setup(report)),
        *(section(titles[name], [paragraph(NOTES[name], note=True), drawn[name]]) for name in titles if name in drawn),
        *(section(f"Task: {task.name}", _task(report, task, drawn)) for task in report.config.tasks),
        *([section("What changed", _changes(report.changes))] if report.changes else []),
    ]


def _drawn(name: str, figure: Figure) -> str:
    # The colours of a matrix are its numbers; those of points may become fewer.
    ax, label = figure.draw(), name.replace("-", " ")
    drawn = inline_svg(ax, label, dots=name.startswith("scatter"))
    return f"<div>{drawn if len(drawn) <= HEAVY else inline_png(ax, label)}</div>\n"


def _small(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in small type, with all columns in sight."""
    return f"<div style='font-size: .85rem'>{table(header, rows)}</div>\n"


def _number(value: float | None) -> str:
    """A number with three decimals."""
    return MISSING_TEXT if value is None or math.isnan(value) else f"{value:.3f}"


def score_notes(report: TrainReport) -> list[str]:
    """The score, its terms, and its epoch."""
    done = f"{len(report.epochs)} epoch{'' if len(report.epochs) == 1 else 's'}"
    if report.score is None:
        return [f"There were no dev examples: no epoch could be chosen, and the last of {done} was kept."]
    notes = [
        f"Score on dev: {_number(report.score)} = {report.formula}; epoch {report.best_epoch}, the best of {done}."
    ]
    if any(math.isnan(result.metrics[result.metric]) for result in report.dev.values()):
        notes.append("A measure that does not exist, such as of constant predictions, counts as 0 in the score.")
    most = report.config.selection
    if most is not None and any(len(result.examples) > most for result in report.dev.values()):
        notes.append(f"Epochs were judged on {most} dev examples of each task at most; the score is of all.")
    return notes


def _measures(report: TrainReport) -> Iterator[str]:
    """Every measure of each task, a column for each part; the terms of the score are bold."""
    yield paragraph("Bold: the measure that chooses the best epoch.", note=True)
    rows: list[Sequence[object]] = []
    for task in report.examples:
        found = {part: results[task] for part, results in report.parts.items() if task in results}
        names = list(dict.fromkeys(name for result in found.values() for name in result.metrics))
        cells: dict[str, dict[str, Number]] = {
            _measure_name(name): {
                part: Number(_number(one.metrics.get(name)), name == one.metric) for part, one in found.items()
            }
            for name in names
        }
        if found:
            cells["loss"] = {part: Number(_number(one.loss)) for part, one in found.items()}
            cells["examples"] = {part: Number(f"{len(one.examples):,}") for part, one in found.items()}
        for index, (name, own) in enumerate(cells.items()):
            numbers = [own.get(part, Number(MISSING_TEXT)) for part in report.parts]
            rows.append(("" if index else task, name, *numbers))
    yield table(("task", "measure", *report.parts), rows)


def _measure_name(measure: str) -> str:
    start, _, label = measure.rpartition("_")
    return f"accuracy of class {label}" if start == "accuracy" else MEASURES.get(measure, measure)


def _setup(report: TrainReport) -> Iterator[str]:
    """What was trained on what, and for how long."""
    tasks = len(report.examples)
    cut = f"{report.truncated:,} texts were" if report.truncated != 1 else "1 text was"
    yield paragraph(
        f"{report.model} learned {tasks} task{'' if tasks == 1 else 's'}: {report.weights:,} weights changed in"
        f" {report.steps:,} steps, {_duration(report.seconds)}. {cut} cut at the limit of tokens."
    )
    yield paragraph(f"Weights at the start: sha256 {report.model_sha256}.")
    yield _small(*_task_table(report))
    settings = _settings_table(report.config)
    yield paragraph(f"{'Settings that are not' if settings[1] else 'All settings are'} the default ones.")
    if settings[1]:
        yield _small(*settings)
    if any(task.dev or task.test for task in report.config.tasks):
        yield paragraph(_overlap_words(report))
    if report.overlaps:
        rows = [
            (one.train, one.held_out, f"{one.rows} of {one.of} ({one.share:.1%})", one.dropped, "; ".join(one.examples))
            for one in report.overlaps
        ]
        yield _small(("train file", "dev or test file", "of its rows in both", "train rows dropped", "such as"), rows)


def _duration(seconds: float) -> str:
    for name, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} seconds"


def _task_table(report: TrainReport) -> Cells:
    """The tasks: their files, and how many examples each part has."""
    rows: list[Sequence[object]] = []
    for task in report.config.tasks:
        cells: list[object] = []
        for role in ROLES:
            files = ", ".join(source.file for source in getattr(task, role))
            cells += [files or MISSING_TEXT, Number(f"{report.examples[task.name].get(role, 0):,}" if files else "")]
        rows.append((task.name, task.kind, *cells))
    return ("task", "kind", "train", "n", "dev", "n", "test", "n"), rows


def _settings_table(config: TrainConfig) -> Cells:
    """The settings that differ from the default ones, and those."""
    rows: list[Sequence[object]] = list(_changed(config, {}, ("tasks", "model", "out"), ""))
    for task in config.tasks:
        default = TaskConfig(kind=task.kind, train=task.train, pairs=task.pairs)
        own = {name: getattr(default, name) for name in CHOICES[task.kind]}
        rows += _changed(task, own, ("kind", *ROLES, "name"), f"{task.name}: ")
    return ("setting", "value", "default"), rows


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


def _overlap_words(report: TrainReport) -> str:
    if not report.overlaps:
        return "No row of a train file is in a dev or test file."
    if any(one.dropped for one in report.overlaps):
        return "Rows of train files that are also in dev or test files were dropped from training:"
    return "Train files hold rows of dev or test files, and nothing was dropped: scores look better than they are."


# Tasks


def _task(report: TrainReport, task: TaskConfig, drawn: Mapping[str, str]) -> Iterator[str]:
    found = {part: results[task.name] for part, results in report.parts.items() if task.name in results}
    if not found:
        yield paragraph("It has neither dev nor test examples: nothing was measured.")
        return
    part, first = next(iter(found.items()))
    yield from (paragraph(NOTES[kind], note=True) for kind in dict.fromkeys((task.kind, first.kind)))
    yield from (paragraph(f"On {name}: {SUMMARIES[result.kind](result)}") for name, result in found.items())
    file = file_names(report.examples)[task.name]
    names = [figure_name(result, name, file) for name, result in found.items()]
    figures = "".join(f"<div style='flex: 1 1 20rem'>{drawn[name]}</div>" for name in names if name in drawn)
    yield f"<div style='display: flex; flex-wrap: wrap; gap: 1.5rem'>{figures}</div>\n"
    for what, indices in zip(("Best", "Worst"), first.extremes(), strict=True):
        yield paragraph(f"{what} predictions on {part}, by {ERRORS[first.kind]}:")
        yield _small(*_examples(first, indices))


def _examples(result: EvalResult, indices: Sequence[int]) -> Cells:
    """Chosen examples, their texts shortened."""
    rows: list[Sequence[object]] = []
    for index in indices:
        one, values = result.examples[index], (float(result.truth[index]), float(result.predicted[index]))
        numbers = [_number(each) if result.numeric else f"{each:g}" for each in values]
        texts = [shortened(text, CHARACTERS) for text in one.texts]
        error = Number(_number(float(result.errors[index])))
        rows.append((*texts, *map(Number, numbers), error, shortened(f"{one.file} {one.id}", 60)))
    return (*result.text_columns, "true", "predicted", "error", "row"), rows


def _changes(changes: Sequence[PairChange]) -> Iterator[str]:
    yield paragraph(NOTES["changes"], note=True)
    for change in changes:
        left, right = (shortened(text, CHARACTERS) for text in change.example.texts)
        cosines = (change.comparison.first.similarity, change.comparison.second.similarity)
        yield paragraph(f"{left} | {right}: {cosines[0]:.3f} before, {cosines[1]:.3f} after")
        rows = [
            (row[0], row[1], *(Number(f"{each:+.3f}") for each in (row[2], row[3], row[3] - row[2])))
            for row in change.strongest()
        ]
        yield _small(("left word", "right word", "before", "after", "change"), rows)


def _number_summary(result: EvalResult) -> str:
    found = result.metrics
    line = fitted_line(result.truth, result.predicted)
    fitted = "True scores are all the same, so no line fits" if line is None else (
        f"The line that fits best is predicted = {line_text(*line, 'true')} (equal would be 1.00 true + 0.00)"
    )  # fmt: skip
    return (
        f"Pearson {_number(found['pearson'])}, Spearman {_number(found['spearman'])}. {fitted}."
        f" {found[f'within_{CLOSE:g}']:.1%} of {len(result.examples)} predictions lie within {CLOSE:g} of the truth."
    )


def _paraphrase_summary(result: EvalResult) -> str:
    counts = result.confusion
    assert counts is not None
    (_, false_positive), (false_negative, _) = counts.tolist()
    others, paraphrases = counts.sum(1).tolist()
    return (
        f"accuracy {_number(result.metrics['accuracy'])}. Of {others} pairs that are no paraphrases {false_positive}"
        f" ({_share(false_positive, others)}) were called paraphrases: false positives. Of {paraphrases} paraphrases"
        f" {false_negative} ({_share(false_negative, paraphrases)}) were missed: false negatives."
    )


def _sentiment_summary(result: EvalResult) -> str:
    counts = result.confusion
    assert counts is not None
    right = [
        f"{_share(counts[label, label], counts[label].sum())} of {counts[label].sum()} in class {name}"
        for label, name in enumerate(CLASS_NAMES["sentiment"])
    ]
    return f"accuracy {_number(result.metrics['accuracy'])}. Right: {', '.join(right)}."


def _mlm_summary(result: EvalResult) -> str:
    found = result.metrics
    return f"{found['accuracy']:.1%} of masked tokens found, perplexity {found['perplexity']:.1f}."


SUMMARIES: dict[str, Callable[[EvalResult], str]] = {
    "similarity": _number_summary,
    "count": _number_summary,
    "paraphrase": _paraphrase_summary,
    "sentiment": _sentiment_summary,
    "mlm": _mlm_summary,
}


def _share(count: Any, of: Any) -> str:
    return f"{count / of:.1%}" if of else "none"
