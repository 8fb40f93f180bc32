"""The page and the files of a training run, beside the model that it made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from likewise.plotting.axes import save_figure
from likewise.plotting.html import Number, inline_png, inline_svg, page, paragraph, section, table
from likewise.plotting.text import printable, shortened
from likewise.results.folder import Table, versions, write_csv, write_document
from likewise.train import TaskConfig, TrainReport
from likewise.train.changes import PairChange
from likewise.train.config import SINGLE
from likewise.train.eval_result import EvalResult
from likewise.train.figures import figure_name, file_names, parts, training_figures
from likewise.train.table_report import table_markdown, write_table
from likewise.train.words_report import (
    LETTERS,
    done_words,
    measure_table,
    outcome_words,
    overlap_table,
    overlap_words,
    score_words,
    settings_table,
    shown,
    task_table,
)

__all__ = ["table_markdown", "write_table", "write_training"]

HEAVY = 120_000
"""Letters of a figure from which on it is shown as a picture, so that the page stays small."""
OWN_FIGURES = re.compile(r"(loss|score|(confusion|scatter)-(dev|test)-[a-z0-9_-]+)\.(png|svg)")
OWN_TABLES = re.compile(r"predictions-(dev|test)-[a-z0-9_-]+\.csv")
NOTES = {
    "loss": "Solid: the loss in training, each point the mean of the steps since the last one; dashed, with open"
    " squares: on dev, after each epoch. Dropout is on in training and off on dev, so dev may lie lower at first."
    " Each task has a scale of its own.",
    "score": "What the best epoch was chosen by, after each epoch.",
    "sentiment": "Classes run from 0, the most negative, to 4, the most positive. A row is a true class: how many of it"
    " were called what, and which share of the row that is.",
    "paraphrase": "Pairs are paraphrases or other ones. A row is what they are: how many of them were called what, and"
    " which share of the row that is.",
    "similarity": "A point is a pair, on the scale from 0 to 5; the denser its colour, the more pairs lie there.",
    "count": "A point is a pair, by its true number and the predicted one; the denser, the more pairs lie there.",
    "mlm": "Accuracy is the share of hidden tokens that were found, averaged over texts; perplexity is e to the loss.",
    "contrastive": "Judged by how well cosines of pairs follow the scores that people gave them. The loss on dev is the"
    " squared error of five times the cosine, and not comparable with that in training.",
    "changes": "The held-out pairs whose cosine moved the most, and the word pairs that moved it: what each adds to the"
    " cosine of the vectors before and after training. All word pairs and the bias sum to the cosine.",
}
ERRORS = {
    "sentiment": "1 - probability of the true class",
    "paraphrase": "distance of the probability from the truth",
    "similarity": "distance",
    "count": "distance",
    "mlm": "share of hidden tokens that were not found",
}


def write_training(
    report: TrainReport, metadata: Mapping[str, Any], folder: Path, changes: Sequence[PairChange] = ()
) -> Path:
    """Write all that a run shows into its folder: results.json, report.html, tables as csv, and figures.

    Figures and predictions of an earlier run that this one does not have are taken away; other files stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = {**metadata, "versions": versions()}
    changed = [change.to_dict() for change in changes]
    write_document({**report.to_dict(), "changes": changed, "run": run}, folder / "results.json")
    _clear(folder, OWN_TABLES)
    for name, found in _tables(report):
        write_csv(found, folder / f"{name}.csv")
    drawn = dict(_drawn(report, folder / "figures"))
    (folder / "report.html").write_text(_page(report, changes, metadata, drawn), encoding="utf-8")
    return folder


def _clear(folder: Path, own: re.Pattern[str]) -> None:
    for old in folder.iterdir():
        if own.fullmatch(old.name):
            old.unlink()


def _drawn(report: TrainReport, folder: Path) -> Iterator[tuple[str, str]]:
    """Write every figure; each as a piece of the page."""
    folder.mkdir(exist_ok=True)
    _clear(folder, OWN_FIGURES)
    for name, ax in training_figures(report):
        for ending in ("png", "svg"):
            save_figure(ax, folder / f"{name}.{ending}")
        # The colours of a matrix are its numbers; those of points may become fewer.
        drawn = inline_svg(ax, name.replace("-", " "), dots=name.startswith("scatter"))
        yield name, drawn if len(drawn) <= HEAVY else inline_png(ax, name.replace("-", " "))


# The page


def _page(
    report: TrainReport, changes: Sequence[PairChange], metadata: Mapping[str, Any], drawn: Mapping[str, str]
) -> str:
    summary = [
        paragraph(str(metadata.get("command", "")), note=True),
        section("How well it does", _scores(report)),
        section("What was trained on what", _done(report)),
        *(
            section(title, [paragraph(NOTES[name], note=True), f"<p>{drawn[name]}</p>\n"])
            for name, title in (("loss", "Losses"), ("score", "Scores"))
            if name in drawn
        ),
        *(section(f"Task: {task.name}", _task(report, task.name, drawn)) for task in report.config.tasks),
        *([section("What changed", _changes(changes))] if changes else []),
    ]
    return page(f"Training of {report.model}", summary)


def _scores(report: TrainReport) -> Iterator[str]:
    yield from map(paragraph, score_words(report))
    if parts(report):
        yield paragraph("Bold: what an epoch is judged by.", note=True)
        yield table(*measure_table(report))


def _done(report: TrainReport) -> Iterator[str]:
    yield from map(paragraph, done_words(report))
    yield _small(task_table(report))
    settings = settings_table(report.config)
    if settings[1]:
        yield paragraph("Settings that are not the default ones:")
        yield _small(settings)
    else:
        yield paragraph("All settings are the default ones.")
    if any(task.dev or task.test for task in report.config.tasks):
        yield paragraph(overlap_words(report))
    if report.overlaps:
        yield _small(overlap_table(report))


def _small(found: Table) -> str:
    """A table in small letters, with all columns in sight."""
    return f"<div style='font-size: .85rem'>{table(*found)}</div>\n"


def _task(report: TrainReport, task: str, drawn: Mapping[str, str]) -> Iterator[str]:
    found = {part: outcomes[task] for part, outcomes in parts(report).items() if task in outcomes}
    if not found:
        yield paragraph("It has neither dev nor test examples: nothing was measured.")
        return
    first = next(iter(found))
    kinds = dict.fromkeys(each.kind for each in (_config(report, task), found[first]))
    yield from (paragraph(NOTES[kind], note=True) for kind in kinds)
    for part, eval_result in found.items():
        yield paragraph(outcome_words(eval_result, part))
    file = file_names(report.examples)[task]
    names = [figure_name(eval_result, part, file) for part, eval_result in found.items()]
    yield _side_by_side(drawn[name] for name in names if name in drawn)
    for what, indices in zip(("Best", "Worst"), found[first].extremes(), strict=True):
        yield paragraph(f"{what} predictions on {first}, by {ERRORS[found[first].kind]}:")
        yield _small(_examples(found[first], indices))


def _config(report: TrainReport, task: str) -> TaskConfig:
    return next(each for each in report.config.tasks if each.name == task)


def _changes(changes: Sequence[PairChange]) -> Iterator[str]:
    yield paragraph(NOTES["changes"], note=True)
    for change in changes:
        left, right = (shortened(text, LETTERS) for text in change.example.texts)
        cosines = (change.comparison.first.similarity, change.comparison.second.similarity)
        yield paragraph(f"{left} | {right}: {cosines[0]:.3f} before, {cosines[1]:.3f} after")
        rows = [
            (row[0], row[1], *(Number(f"{each:+.3f}") for each in (row[2], row[3], row[3] - row[2])))
            for row in change.strongest()
        ]
        yield _small((("left word", "right word", "before", "after", "change"), rows))


def _side_by_side(figures: Iterable[str]) -> str:
    """Figures in one line where the page is wide enough."""
    cells = "".join(f"<div style='flex: 1 1 20rem'>{figure}</div>" for figure in figures)
    return f"<div style='display: flex; flex-wrap: wrap; gap: 1.5rem'>{cells}</div>\n"


def _examples(eval_result: EvalResult, indices: Sequence[int]) -> Table:
    """Chosen examples, their texts shortened."""
    truth, predicted, errors = eval_result.truth, eval_result.predicted, eval_result.errors
    rows = []
    for index in indices:
        one = eval_result.examples[index]
        numbers = [
            shown(each) if eval_result.numeric else f"{each:g}"
            for each in (float(truth[index]), float(predicted[index]))
        ]
        texts = [shortened(text, LETTERS) for text in one.texts]
        where = shortened(f"{one.file} {one.id}", 60)
        rows.append((*texts, *map(Number, numbers), Number(shown(float(errors[index]))), where))
    return (*_text_columns(eval_result), "true", "predicted", "error", "row"), rows


# Tables


def _tables(report: TrainReport) -> Iterator[tuple[str, Table]]:
    """Every table of the folder with its file's name."""
    yield "epochs", _epochs(report)
    files = file_names(report.examples)
    for part, outcomes in parts(report).items():
        for task, eval_result in outcomes.items():
            yield f"predictions-{part}-{files[task]}", _predictions(eval_result)


def _epochs(report: TrainReport) -> Table:
    """A row for each epoch: its losses and its dev measures."""
    rows: list[dict[str, Any]] = []
    for epoch in report.epochs:
        row = {"epoch": epoch["epoch"], "step": epoch["step"], "score": epoch["score"]}
        row["kept"] = int(epoch["epoch"] == report.best_epoch)
        row |= {f"train {task} loss": loss for task, loss in epoch["train"].items()}
        row |= {f"dev {task} {name}": each for task, found in epoch["dev"].items() for name, each in found.items()}
        rows.append(row)
    header = list(dict.fromkeys(name for row in rows for name in row)) or ["epoch", "step", "score", "kept"]
    return header, [[_known(row.get(name)) for name in header] for row in rows]


def _known(value: Any) -> Any:
    """Nothing in place of what is no number."""
    return "" if value is None or value != value else value


def _predictions(eval_result: EvalResult) -> Table:
    """A row for each example: its texts, the truth, what was predicted, and the scores that it was predicted from."""
    scores = {
        "paraphrase": ("probability",),
        "sentiment": tuple(f"probability_{label}" for label in range(eval_result.scores.shape[-1])),
    }.get(eval_result.kind, ("score",))
    numbers = eval_result.scores.reshape(-1, len(scores)).tolist()
    found = zip(eval_result.examples, eval_result.truth.tolist(), eval_result.predicted.tolist(), numbers, strict=True)
    rows = [
        (
            *map(printable, (one.id, one.file, *one.texts)),
            *(each if eval_result.numeric else int(each) for each in (truth, predicted)),
            *own,
        )
        for one, truth, predicted, own in found
    ]
    return ("id", "file", *_text_columns(eval_result), "truth", "predicted", *scores), rows


def _text_columns(eval_result: EvalResult) -> tuple[str, ...]:
    return ("text",) if eval_result.kind in SINGLE else ("left", "right")
