"""Training runs of the study "Multitask BERT": rows of its table, controls and ablations, each trained once.

A finished row is a folder of its report and a file of its predictions on dev; items share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.progress import Progress
from likewise.reproduce.controls import untrained
from likewise.reproduce.study import Context
from likewise.storage import atomic_write
from likewise.train.config import TaskConfig, TrainConfig
from likewise.train.report import TrainReport
from likewise.train.results import EvalResult
from likewise.train.runs import Row, RunContext, config_text, open_run, parse_plan
from likewise.train.runs_table import TableRow, train_table
from likewise.train.tasks import Overlap, Task, fixed_sample, read_tasks

BEST = "mean, SW+WL"  # the study's best row
FROZEN, LINEAR = "linear heads, frozen", "linear heads, fine-tuned"
TWICE = "mean, twice the similarity pairs"
FROZEN_BEST = "mean, SW+WL, frozen"
NO_JACCARD, UPPER, IN_PROPORTION, SMART = "no Jaccard", "only the upper half trained", "in proportion", "SMART"
AGAIN = "the best row with another seed"
OTHER_SEED = 100  # added to a seed for the control that nothing but the seed differs
BEST_SETTINGS = """
every_task = { pooling = "mean" }
shared_head = true
task.sentiment = { weight = 0.5 }
task.paraphrase = { weight = 0.25 }
task.similarity = { weight = 0.25 }
"""
ADDED_ROWS = f"""
[[row]]
name = "{TWICE}"
every_task = {{ pooling = "mean" }}
task.similarity = {{ batch = 32 }}

[[row]]
name = "{FROZEN_BEST}"
freeze = "all"
{BEST_SETTINGS}
[[row]]
name = "{NO_JACCARD}"
{BEST_SETTINGS.replace("0.25 }", '0.25, features = ["difference"] }')}
[[row]]
name = "{UPPER}"
freeze = "lower"
{BEST_SETTINGS}
[[row]]
name = "{SMART}"
smart = 1.0
{BEST_SETTINGS}
[[row]]
name = "{IN_PROPORTION}"
every_task = {{ pooling = "mean" }}
shared_head = true
task.sentiment = {{ weight = 0.5, batch = 5 }}
task.paraphrase = {{ weight = 0.25, batch = 39 }}
task.similarity = {{ weight = 0.25, batch = 4 }}
"""
"""Controls that the study lacks, and ablations of its best row. The batches in proportion have the ratio of the train
files, 65,590 to 8,544 to 6,040 rows, and as many examples in all as 16 of each task."""


Reports = dict[str, list[TrainReport]]  # by the name of the row, one of each seed


@dataclass(frozen=True)
class Size:
    """How much a budget trains and measures, of each task."""

    samples: int  # examples in an epoch
    epochs: int
    dev: int | None  # examples that measure the chosen epoch
    selection: int  # examples of those that choose it


SIZES = {
    "tiny": Size(8, 1, 16, 8),
    "quick": Size(128, 1, 200, 50),
    "standard": Size(512, 2, 1500, 200),
    "full": Size(4096, 25, None, 2000),
}


def size_note(context: Context) -> str:
    """How much was trained, in one sentence."""
    size = SIZES[context.budget]
    dev = "all of dev" if size.dev is None else f"at most {size.dev:,} dev examples of each task"
    return (
        f"{size.epochs} epoch{'s' if size.epochs > 1 else ''} of {size.samples:,} examples of each task, measured on"
        f" {dev}; the study has 25 epochs of 4,096 and all of dev. Stricter than the rule of verdicts: where rows are"
        " not yet better than by a constant prediction, the verdict is too small to tell, whatever the interval."
    )


def amount(context: Context) -> str:
    """How much was trained, in a few words for verdicts."""
    size = SIZES[context.budget]
    return f"after {size.samples * size.epochs:,} examples of each task"


def all_rows(context: Context) -> dict[str, list[Row]]:
    """Every row by name, with each seed."""
    if context.language != "en":
        raise UsageError("the course's sentiments, paraphrases and similarities are English; use --language en")
    size, found = SIZES[context.budget], dict[str, list[Row]]()
    text = config_text("multitask-grid") + ADDED_ROWS
    changes = {"epochs": size.epochs, "samples": size.samples, "selection": size.selection, "model": context.model}
    for seed in range(1, context.seeds + 1):
        for row in parse_plan(text, "multitask-grid", seed=seed, **changes).rows:
            found.setdefault(row.name, []).append(row)
    return found


def trained(context: Context, names: Sequence[str]) -> Reports:
    """The reports of rows by name, one of each seed; rows without a finished run are trained."""
    rows = all_rows(context)
    chosen = [row for name in names for row in rows[name]]
    reports = _trained(context, chosen, "rows", lambda _: deepcopy(context.encoder))
    return {name: [reports[row.slug] for row in rows[name]] for name in names}


def other_seed(context: Context) -> Reports:
    """The best row with other seeds: what differs without any cause."""
    best = all_rows(context)[BEST]
    rows = [replace(row, config=replace(row.config, seed=row.config.seed + OTHER_SEED)) for row in best]
    return {AGAIN: list(_trained(context, rows, "rows", lambda _: deepcopy(context.encoder)).values())}


def random_weights(context: Context) -> list[TrainReport]:
    """Linear heads over a frozen encoder with random weights."""
    rows = all_rows(context)[FROZEN]
    return list(_trained(context, rows, "random", lambda _: untrained(context.encoder)).values())


def best_folder(context: Context) -> Path:
    """The model of the best row, with its heads."""
    trained(context, [BEST])
    return _folder(context, "rows") / all_rows(context)[BEST][0].slug


def _folder(context: Context, kind: str) -> Path:
    return context.work / f"{context.budget}-{kind}"


def _trained(
    context: Context, rows: Sequence[Row], kind: str, load: Callable[[str], Encoder]
) -> dict[str, TrainReport]:
    """The report of each row by its slug; only the model that predicts the test sets stays."""
    folder, found = _folder(context, kind), dict[str, TrainReport]()
    folder.mkdir(parents=True, exist_ok=True)
    runs = KeptPredictions(load, context.data_dir, dev=SIZES[context.budget].dev)
    kept = [row for row in rows if row.name == BEST and row.config.seed == 1]
    for group, keep in ((kept, True), ([row for row in rows if row not in kept], False)):
        for row, done in zip(group, train_table(runs, group, folder, keep, context.progress), strict=True):
            found[row.slug] = _report(context, row, done, folder)
    return {row.slug: found[row.slug] for row in rows}


# Runs whose predictions stay


@dataclass(frozen=True)
class KeptPredictions(RunContext):
    """Runs that read each set of files once, measure on a part of dev, and keep the predictions next to the folder."""

    dev: int | None = None

    @contextmanager
    def run(self, config: TrainConfig, progress: Progress | None = None) -> Iterator[TrainReport]:
        """Train, and write the predictions before the run counts as finished."""
        tasks, overlaps = tasks_of(config, self.data_dir, self.dev)
        options: dict[str, Any] = {"resume": self.resume, "overlaps": overlaps, "progress": progress}
        with open_run(self.load(config.model), tasks, config, **options) as report:
            scores = {name: result.scores for name, result in report.dev.items()}
            atomic_write(_predictions(Path(config.out)), lambda draft: _write_scores(draft, scores))
            yield report


def _predictions(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.npz"


def _write_scores(path: Path, scores: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez(file, **scores)


def tasks_of(config: TrainConfig, data_dir: Path | None, dev: int | None) -> tuple[list[Task], tuple[Overlap, ...]]:
    """The tasks of a run, with a fixed part of dev."""
    files = tuple(TaskConfig(task.kind, task.train, task.dev) for task in config.tasks)
    tasks, overlaps = _read(files, data_dir)
    cut = [
        replace(task, config=own, dev=tuple(fixed_sample(task.dev, dev, 0)))
        for task, own in zip(tasks, config.tasks, strict=True)
    ]
    return cut, overlaps


@lru_cache(maxsize=2)
def _read(files: tuple[TaskConfig, ...], data_dir: Path | None) -> tuple[tuple[Task, ...], tuple[Overlap, ...]]:
    tasks, overlaps = read_tasks(files, data_dir)
    return tuple(tasks), tuple(overlaps)


def _report(context: Context, row: Row, found: TableRow, folder: Path) -> TrainReport:
    """The report of a finished row, with its predictions."""
    stored = found.report
    tasks, overlaps = tasks_of(row.config, context.data_dir, SIZES[context.budget].dev)
    path = _predictions(folder / row.slug)
    with np.load(path) as scores:
        if any(len(scores[task.name]) != len(task.dev) for task in tasks):
            raise UsageError(f"{path} is of other dev examples; delete {folder}, and its rows are trained again")
        dev = {
            task.name: EvalResult(
                task.name, task.config.kind, task.config.metric, task.dev, scores[task.name],
                stored["dev"][task.name]["loss"],
            )
            for task in tasks
        }  # fmt: skip
    same = {name: stored[name] for name in ("model", "model_sha256", "weights", "examples", "truncated")}
    same |= {name: stored[name] for name in ("best_epoch", "steps", "seconds")}
    return TrainReport(
        row.config, overlaps=overlaps, epochs=tuple(stored["epochs"]), curve=tuple(stored["curve"]), dev=dev, test={},
        **same,
    )  # fmt: skip
