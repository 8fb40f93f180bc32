"""The training behind the study of attention clusters: four poolings of a cross-encoder on STS-B, and their search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.encoder import Encoder
from likewise.metrics import Interval, bootstrap, bootstrap_draws, spearman
from likewise.reproduce.published import side_by_side
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Control, above
from likewise.results import Column, Table
from likewise.train.config import TrainConfig
from likewise.train.loop import CHECKPOINT
from likewise.train.multitask import evaluate
from likewise.train.results import EvalResult
from likewise.train.runs import RunContext, config_text, parse_plan, run_key, train_tasks
from likewise.train.saving import load_run
from likewise.train.tasks import Task, fixed_sample, read_tasks
from likewise.train.trials import TuneReport, TuneSettings
from likewise.train.tuning import tune

PRESET = "sts-cross-encoder"
POOLINGS = ("cls", "mean", "max", "bilstm")
SAMPLE_SEED = 1
FINISHED = "likewise.json"  # the file of a run that is finished, unless a checkpoint is next to it


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A trained model on disk, its predictions for the test pairs, and what it was trained on."""

    folder: Path
    test: EvalResult
    rows: int  # train pairs
    dropped: int  # train pairs that were left out, because they are in dev or test


def file_of(context: Context, part: str) -> str:
    """The file of a part of STS-B in the context's language."""
    return f"stsb/{part}" if context.language == "en" else f"mstsb/{context.language}_{part}"


def pooling_config(context: Context, pooling: str, seed: int = 1) -> TrainConfig:
    """The ready-made config of a pooling, with the context's model and data."""
    text = config_text(PRESET)
    for part in ("train", "dev", "test"):
        text = text.replace(f'"stsb/{part}"', f'"{file_of(context, part)}"')
    epochs = context.size(tiny=1, standard=2, full=3)
    plan = parse_plan(text, PRESET, model=context.model, epochs=epochs, seed=seed)
    return next(row.config for row in plan.rows if row.name == pooling)


@cache
def trained(context: Context, config: TrainConfig, rows: int | None) -> FinishedRun:
    """A finished run on ``rows`` random train pairs, None for all; an interrupted run continues."""
    [read], _ = read_tasks(config.tasks, context.data_dir)
    sizes = {
        "train": rows,
        "dev": context.size(tiny=12, quick=100, standard=500, full=None),
        "test": evaluated_rows(context),
    }
    parts = {role: tuple(fixed_sample(getattr(read, role), size, SAMPLE_SEED)) for role, size in sizes.items()}
    task = Task(read.config, **parts)
    folder = context.work / "runs" / run_key(context.encoder, [task], config)[:16]
    if not (folder / FINISHED).exists() or (folder / CHECKPOINT).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        config = replace(config, out=str(folder))
        train_tasks(deepcopy(context.encoder), [task], config, resume=True, progress=context.progress)
    test = evaluate(load_run(folder, threads=context.threads), task, task.test, context.progress)
    every = len(context.dataset(file_of(context, "train")).scored_pairs())
    return FinishedRun(folder, test, len(task.train), every - len(read.train))


def evaluated_rows(context: Context) -> int | None:
    """How many test pairs a run is measured on."""
    return context.size(tiny=24, quick=300, standard=None)


def train_rows(context: Context) -> int | None:
    """How many train pairs a run sees."""
    return context.size(tiny=24, quick=160, standard=None)


def fine_tuned(context: Context) -> FinishedRun:
    """The model of the study: CLS pooling of a pair that is read as one sequence, fine-tuned on STS-B."""
    return trained(context, pooling_config(context, "cls"), train_rows(context))


@cache
def tuned_encoder(context: Context) -> Encoder:
    """The fine-tuned encoder."""
    return Encoder.load(str(fine_tuned(context).folder), threads=context.threads)


def advantage(first: Sequence[FinishedRun], second: Sequence[FinishedRun]) -> Interval:
    """How much better the first runs follow the test scores than the second: Spearman's mean difference over seeds."""
    truth = first[0].test.truth

    def mean(of: Callable[[EvalResult], ArrayLike]) -> NDArray[np.float64]:
        ours, theirs = (np.mean([np.asarray(of(one.test)) for one in runs], axis=0) for runs in (first, second))
        return np.asarray(ours - theirs)

    draws = mean(lambda test: bootstrap_draws("spearman", test.predicted, truth))
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return Interval(float(mean(lambda test: spearman(test.predicted, truth))), float(low), float(high))


def pooling_table(context: Context) -> Finding:
    """Table 3: four poolings by Pearson, Spearman and squared error."""
    seeds, rows = range(1, context.seeds + 1), train_rows(context)
    found = {name: [trained(context, pooling_config(context, name, seed), rows) for seed in seeds] for name in POOLINGS}
    again = trained(context, pooling_config(context, "cls", context.seeds + 1), rows)
    others = {name: np.mean([one.test.metrics["spearman"] for one in found[name]]) for name in POOLINGS[1:]}
    rival = max(others, key=lambda name: float(others[name]))
    effect, luck = advantage(found["cls"], found[rival]), advantage(found["cls"][:1], [again])
    verdict = above(
        "The CLS vector of a fine-tuned model is better than mean pooling, max pooling and a BiLSTM.",
        f"Spearman of CLS minus that of the best other pooling, {rival}",
        effect,
        control=Control("CLS with another seed", luck, abs(luck.value) >= abs(effect.value)),
        seeds=context.seeds,
    )
    measured = {(name, measure): _cell(runs, measure) for name, runs in found.items() for measure in MEASURES}
    first = found["cls"][0]
    note = f"A pair is one sequence; {first.rows} train pairs, {len(first.test.examples)} test pairs."
    table = side_by_side(context.published.of("table-3").values(), measured, context.short, "Poolings", note)
    leak = f"Leak check: {first.dropped} train pairs that are also in dev or test were left out."
    return Finding({"poolings": table}, {}, (verdict,), (leak, NO_VALUES.format("table 3")))


MEASURES = ("pearson", "spearman", "mse")
NO_VALUES = "No source at hand states the values of {}."


def _cell(runs: Sequence[FinishedRun], measure: str) -> float | Interval:
    if len(runs) == 1 and measure != "mse":
        return bootstrap(measure, runs[0].test.predicted, runs[0].test.truth)
    return float(np.mean([one.test.metrics[measure] for one in runs]))


def search_table(context: Context) -> Finding:
    """Table 1: the search for hyperparameters, and whether what it finds is better on other pairs."""
    report = _search(context)
    rows, best = report.settings.train_rows, report.best_config()
    first = replace(report.config, **report.trials[0].parameters)
    ours, base = (trained(context, config, rows) for config in (best, first))
    again = trained(context, replace(first, seed=first.seed + 1), rows)
    luck = advantage([again], [base])
    verdict = above(
        "A search with Optuna finds better hyperparameters than the ones that it starts with.",
        "Spearman on test pairs with the best trial's values minus that with the first trial's",
        advantage([ours], [base]),
        control=Control("the first trial with another seed", luck, luck.low > 0),
    )
    drawn = {name: figure for name, figure in report.figures().items() if name == "history"}
    return Finding(_search_tables(report), drawn, (verdict,), (NO_VALUES.format("table 1"),))


def _search(context: Context) -> TuneReport:
    """The search on a sample of the train pairs; trials that are done are kept."""
    config = pooling_config(context, "cls")
    rows = context.size(tiny=16, quick=96, standard=1500, full=None)
    settings = TuneSettings(
        trials=context.size(tiny=2, quick=3, standard=8, full=20) or 20,
        train_rows=rows or len(context.dataset(file_of(context, "train")).scored_pairs()),
        dev_rows=context.size(tiny=12, quick=60, standard=500, full=None),
        epochs=(1, config.epochs),
    )
    run_context = RunContext(lambda model: Encoder.load(model, threads=context.threads), context.data_dir)
    folder = context.work / "search" / f"{context.budget}-{context.language}"
    return tune(run_context, config, settings, folder, context.progress)


def _search_tables(report: TuneReport) -> dict[str, Table]:
    """Every trial, and the best one's values; without times, which differ from run to run."""
    names = list(report.trials[0].parameters)
    settings = [Column(name, name, ".3g") for name in names]
    columns = [Column("trial"), Column("state"), Column("score", "dev Spearman", ".3f"), *settings]
    rows = [(one.number, one.state, one.value, *one.parameters.values()) for one in report.trials]
    return {"trials": Table.of(columns, rows, "Trials"), "best": report.tables()["best"]}
