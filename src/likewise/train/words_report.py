"""What is said of a training run, in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from likewise.metrics import fitted_line
from likewise.plotting.html import Number
from likewise.plotting.scatter import line_text
from likewise.results.folder import Table
from likewise.train import TaskConfig, TrainConfig, TrainReport
from likewise.train.eval_result import CLOSE, EvalResult
from likewise.train.figures import CLASS_NAMES, parts

NONE = "–"
"""For what does not exist."""
LETTERS = 220
"""How much of a text is shown."""
MEASURES = {
    "mse": "mean squared error",
    "mse_fitted": "mean squared error, predictions mapped by the best line",
    f"within_{CLOSE:g}": f"share within {CLOSE:g}",
    "false_positive_rate": "false positive rate",
    "false_negative_rate": "false negative rate",
}
OWN = ("tasks", "model", "out")
TASK_OWN = ("kind", "train", "dev", "test", "name")
"""Settings that are told elsewhere."""


def shown(value: float | None) -> str:
    """A number with three decimals.

    >>> shown(0.5), shown(float("nan"))
    ('0.500', '–')
    """
    return NONE if value is None or math.isnan(value) else f"{value:.3f}"


def measure_name(measure: str) -> str:
    """A measure in words.

    >>> measure_name("accuracy_3")
    'accuracy of class 3'
    """
    start, _, label = measure.rpartition("_")
    return f"accuracy of class {label}" if start == "accuracy" else MEASURES.get(measure, measure)


def score_words(report: TrainReport) -> list[str]:
    """The score, what it is made of, and which epoch it is of."""
    which = f"epoch {report.best_epoch}"
    done = f"{len(report.epochs)} epoch{'' if len(report.epochs) == 1 else 's'}"
    if report.score is None:
        return [f"There were no dev examples: no epoch could be chosen, and the last of {done} was kept."]
    summary = [f"Score on dev: {shown(report.score)} = {report.formula}; {which}, the best of {done}."]
    if any(math.isnan(eval_result.metrics[eval_result.metric]) for eval_result in report.dev.values()):
        summary.append(
            "A measure that does not exist, as of predictions that are all the same, counts as 0 in the score."
        )
    most = report.config.selection
    if most is not None and any(len(eval_result.examples) > most for eval_result in report.dev.values()):
        summary.append(f"Epochs were judged on {most} dev examples of each task at most; the score is of all.")
    return summary


def done_words(report: TrainReport) -> list[str]:
    """What was trained, and for how long."""
    tasks = len(report.examples)
    cut = f"{report.truncated:,} texts were" if report.truncated != 1 else "1 text was"
    return [
        f"{report.model} learnt {tasks} task{'' if tasks == 1 else 's'}: {report.weights:,} weights changed in"
        f" {report.steps:,} steps, {duration(report.seconds)}. {cut} cut at the limit of tokens.",
        f"Weights at the start: sha256 {report.model_sha256}.",
    ]


def duration(seconds: float) -> str:
    """A stretch of time, as one says it.

    >>> duration(12.34), duration(754), duration(9000)
    ('12.3 seconds', '12.6 minutes', '2.5 hours')
    """
    for name, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.1f} seconds"


def task_table(report: TrainReport) -> Table:
    """The tasks: their files, and how many examples each part has."""
    rows: list[Sequence[object]] = []
    for task in report.config.tasks:
        counts = report.examples[task.name]
        cells = []
        for part in ("train", "dev", "test"):
            files = ", ".join(source.file for source in getattr(task, part))
            cells += [files or NONE, Number(f"{counts.get(part, 0):,}" if files else "")]
        rows.append((task.name, task.kind, *cells))
    return ("task", "kind", "train", "n", "dev", "n", "test", "n"), rows


def settings_table(config: TrainConfig) -> Table:
    """The settings that are not the default ones, beside those."""
    rows = list(_changed(config, TrainConfig, {}, OWN, ""))
    for task in config.tasks:
        usual = TaskConfig(kind=task.kind, train=task.train, pairs=task.pairs)
        own = {name: getattr(usual, name) for name in ("head", "loss", "metric")}
        rows += _changed(task, TaskConfig, own, TASK_OWN, f"{task.name}: ")
    return ("setting", "value", "default"), rows


def _changed(
    config: Any, kind: Any, usual: dict[str, Any], left_out: Sequence[str], prefix: str
) -> Iterator[tuple[str, str, str]]:
    for each in fields(kind):
        default = usual.get(each.name, each.default)
        value = getattr(config, each.name)
        if each.name not in left_out and default is not MISSING and value != default:
            yield prefix + each.name, _setting(value), _setting(default)


def _setting(value: Any) -> str:
    if value is None or value == "":
        return NONE
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def overlap_words(report: TrainReport) -> str:
    """Whether dev and test files were in the train files, and what was done about it."""
    if not report.overlaps:
        return "No row of a train file stands in a dev or test file."
    if any(one.dropped for one in report.overlaps):
        return "Rows of train files that dev or test files hold too were dropped from training:"
    return "Train files hold rows of dev or test files, and nothing was dropped: scores look better than they are."


def overlap_table(report: TrainReport) -> Table:
    """What train files had in common with dev and test files."""
    rows = [
        (one.train, one.held_out, f"{one.rows} of {one.of} ({one.share:.1%})", one.dropped, "; ".join(one.examples))
        for one in report.overlaps
    ]
    return ("train file", "dev or test file", "of its rows in both", "train rows dropped", "such as"), rows


def measure_table(report: TrainReport) -> Table:
    """Every measure of each task, a column for each part; what the score is made of is marked."""
    measured = parts(report)
    rows: list[Sequence[object]] = []
    for task in report.examples:
        found = {part: outcomes[task] for part, outcomes in measured.items() if task in outcomes}
        names = list(dict.fromkeys(name for eval_result in found.values() for name in eval_result.metrics))
        for name in names:
            cells = {part: Number(shown(one.metrics.get(name)), name == one.metric) for part, one in found.items()}
            rows.append((task if name == names[0] else "", measure_name(name), *_columns(cells, measured)))
        if found:
            losses = {part: Number(shown(one.loss)) for part, one in found.items()}
            counts = {part: Number(f"{len(one.examples):,}") for part, one in found.items()}
            rows += [("", "loss", *_columns(losses, measured)), ("", "examples", *_columns(counts, measured))]
    return ("task", "measure", *measured), rows


def _columns(cells: Mapping[str, Number], measured: Iterable[str]) -> list[Number]:
    return [cells.get(part, Number(NONE)) for part in measured]


def outcome_words(eval_result: EvalResult, part: str) -> str:
    """What an outcome comes to, in a sentence."""
    return WORDS[eval_result.kind](eval_result, part)


def _similar(eval_result: EvalResult, part: str) -> str:
    found = eval_result.metrics
    line = fitted_line(eval_result.truth, eval_result.predicted)
    fitted = "True scores are all the same, so no line fits" if line is None else (
        f"The line that fits best is predicted = {line_text(*line, 'true')} (equal would be 1.00 true + 0.00)"
    )  # fmt: skip
    return (
        f"On {part}: Pearson {shown(found['pearson'])}, Spearman {shown(found['spearman'])}. {fitted}."
        f" {found[f'within_{CLOSE:g}']:.1%} of {len(eval_result.examples)} predictions lie within {CLOSE:g} of the truth."
    )


def _alike(eval_result: EvalResult, part: str) -> str:
    counts = eval_result.confusion
    assert counts is not None
    (_, false_positive), (false_negative, _) = counts.tolist()
    others, paraphrases = counts.sum(1).tolist()
    return (
        f"On {part}: accuracy {shown(eval_result.metrics['accuracy'])}. Of {others} pairs that are no paraphrases"
        f" {false_positive} ({_share(false_positive, others)}) were called paraphrases: false positives. Of"
        f" {paraphrases} paraphrases {false_negative} ({_share(false_negative, paraphrases)}) were missed: false"
        " negatives."
    )


def _felt(eval_result: EvalResult, part: str) -> str:
    counts = eval_result.confusion
    assert counts is not None
    summary = [
        f"{_share(counts[label, label], counts[label].sum())} of {counts[label].sum()} in class {name}"
        for label, name in enumerate(CLASS_NAMES["sentiment"])
    ]
    return f"On {part}: accuracy {shown(eval_result.metrics['accuracy'])}. Right: {', '.join(summary)}."


def _found(eval_result: EvalResult, part: str) -> str:
    summary = eval_result.metrics
    return f"On {part}: {summary['accuracy']:.1%} of hidden tokens found, perplexity {summary['perplexity']:.1f}."


WORDS: dict[str, Callable[[EvalResult, str], str]] = {
    "similarity": _similar,
    "count": _similar,
    "paraphrase": _alike,
    "sentiment": _felt,
    "mlm": _found,
}


def _share(count: Any, of: Any) -> str:
    return f"{count / of:.1%}" if of else "none"
