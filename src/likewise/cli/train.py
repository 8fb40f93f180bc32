"""``likewise train``, ``predict`` and ``tune``: fine-tune an encoder, predict with it, search hyperparameters."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, echo

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import FileSettings, RunSettings, command
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.train import TrainConfig
    from likewise.train.runs import Plan, RunContext


@dataclass(frozen=True)
class RunOutput(Output):
    """The options of a result in the folder of a run."""

    out: Annotated[Path | None, Option(help="The run's folder, in place of the config's.")] = None


@command
def train(
    run: RunSettings,
    output: RunOutput,
    config: Annotated[str, Argument(help="A TOML file, or a ready-made config by name (see --list).")] = "",
    list_: Annotated[bool, Option("--list", help="List the ready-made configs and exit.")] = False,
    show: Annotated[bool, Option("--show", help="Print the config's TOML and exit, to change it.")] = False,
    model: Annotated[str | None, Option("--model", "-m", help="The model to start from.")] = None,
    seed: Annotated[int | None, Option(help="Of everything random.")] = None,
    epochs: Annotated[int | None, Option(help="In place of the config's.")] = None,
    samples: Annotated[int | None, Option(help="Examples of each task in an epoch.")] = None,
    limit: Annotated[int | None, Option(help="Only the first rows of each file, for a quick try.")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue an interrupted run.")] = False,
    allow_overlap: Annotated[
        bool, Option("--allow-overlap", help="Train on rows that are also in dev or test files.")
    ] = False,
    processes: Annotated[int, Option(help="Processes that share the texts of each step.", min=1)] = 1,
    keep_models: Annotated[bool, Option("--keep-models", help="Keep the model of each row of a table.")] = False,
    data_dir: Annotated[Path | None, Option(help="Where names such as stsb/train are looked up.")] = None,
) -> None:
    """Fine-tune an encoder: similarity, sentiment and paraphrase, one task or several at once.

    The folder gets the model (which sentence-transformers opens), its heads, a card, run.json and index.html.
    Processes that accelerate launch or torchrun has started work together as with --processes.
    """
    from likewise.train.runs import PresetList, RunContext, config_text, parse_plan

    if list_:
        return output.show(PresetList())
    if not config:
        raise UsageError("give a TOML file, or a ready-made config by name; see: likewise train --list")
    text = config_text(config)
    if show and output.as_json:
        raise UsageError("--show prints TOML, not JSON; leave out --json")
    if show:
        return echo(text, nl=False)
    from likewise.train.processes import launched, started_here
    from likewise.train.tasks import Limits

    out = None if output.out is None else str(output.out)
    run_plan = parse_plan(text, config, out=out, model=model, seed=seed, epochs=epochs, samples=samples)
    if not run_plan.out:
        raise UsageError('no folder to write to; give --out, or out = "runs/..." in the config')
    if processes > 1 and started_here():
        raise Exit(launched(processes, sys.argv[1:]))
    output = replace(output, out=Path(run_plan.out))
    run_context = RunContext(run.load, data_dir, Limits(limit, allow_overlap), resume)
    if run_plan.table:
        _train_table(run_context, run_plan, keep_models, output)
    else:
        _train(run_context, run_plan, output)


def _train(run_context: RunContext, run_plan: Plan, output: Output) -> None:
    from likewise.train.processes import Processes
    from likewise.train.report import training_changes

    with ExitStack() as run:
        with progress_bar() as progress:
            report = run.enter_context(run_context.run(run_plan.single, progress))
            if not Processes.joined(cpu=True).first:
                return
            report = replace(report, changes=training_changes(run_context.load, report, progress))
        output.show(report)


def _train_table(run_context: RunContext, run_plan: Plan, keep_models: bool, output: Output) -> None:
    from likewise.train.processes import Processes
    from likewise.train.runs_table import train_table, training_table

    with progress_bar() as progress:
        rows = train_table(run_context, run_plan.rows, Path(run_plan.out), keep_models, progress)
    if not Processes.joined(cpu=True).first:
        return
    for folder in [] if not keep_models else [Path(run_plan.out) / row.slug for row in run_plan.rows]:
        if not (folder / "likewise.json").exists():
            notice(f"{folder} was finished without its model; delete it, and the row is trained again")
    output.show(training_table(rows))


@command
def predict(
    folder: Annotated[Path, Argument(help="The folder of a trained model: the out of likewise train.")],
    file: Annotated[str, Argument(help="A file of texts (sentiment) or pairs, or a name such as stsb/test.")],
    run: RunSettings,
    output: Output,
    how: FileSettings,
    task: Annotated[str, Option(help="sentiment, paraphrase or similarity; needed if there are several.")] = "",
    limit: Annotated[int | None, Option(help="Only the first rows.", min=1)] = None,
) -> None:
    """Predict a file's rows with the heads of a trained model."""
    from likewise.train.saving import load_run, predict_file

    saved = load_run(folder, device=run.device, threads=run.threads, dtype=run.dtype, backend=run.backend)
    with progress_bar() as progress:
        found = predict_file(saved, how.dataset(file, limit), task, progress)
    output.show(found)


@dataclass(frozen=True)
class StudyOutput(Output):
    """The options of a result in the folder of a study."""

    out: Annotated[Path, Option(help="The study's folder; a stopped study continues in it.")]


@command
def tune(
    config: Annotated[str, Argument(help="A TOML file, or a ready-made config (see: likewise train --list).")],
    run: RunSettings,
    output: StudyOutput,
    trials: Annotated[int, Option(help="Total trials; raise it to continue a study.")] = 8,
    train_rows: Annotated[int, Option(help="Train examples of each task in a trial.")] = 1500,
    dev_rows: Annotated[int | None, Option(help="Dev examples of each task in a trial. Default: all.")] = None,
    max_epochs: Annotated[int, Option(min=1, help="Most epochs of a trial.")] = 4,
    pruner: Annotated[str, Option(help="How hopeless trials end early: median, hyperband, none.")] = "median",
    seed: Annotated[int, Option(help="Of the search; a training uses the config's.")] = 1,
    model: Annotated[str | None, Option("--model", "-m", help="The model, in place of the config's.")] = None,
    data_dir: Annotated[Path | None, Option(help="Where names such as stsb/train are looked up.")] = None,
    allow_overlap: Annotated[
        bool, Option("--allow-overlap", help="Train on rows that are also in dev or test files.")
    ] = False,
) -> None:
    """Search learning rates, batch, epochs, dropout and weight decay with Optuna, measured on the dev files.

    Each trial trains on the same part of the data; the first has the config's own values. No trial sees a test file.
    The folder gets best.toml (for likewise train), trials.csv, run.json, index.html, figures and the study.
    """
    from likewise.train.runs import RunContext
    from likewise.train.tasks import Limits
    from likewise.train.trials import TuneSettings
    from likewise.train.tuning import check_optuna
    from likewise.train.tuning import tune as search

    check_optuna()
    settings = TuneSettings(
        trials=trials, train_rows=train_rows, dev_rows=dev_rows, seed=seed, pruner=pruner, epochs=(1, max_epochs)
    )
    run_context = RunContext(run.load, data_dir, Limits(allow_overlap=allow_overlap))
    with progress_bar() as progress:
        report = search(run_context, _config(config, model), settings, output.out, progress)
    output.show(report)
    if report.best is not None and not output.as_json:
        echo(f"next: likewise train {output.out}/best.toml")


def _config(name: str, model: str | None) -> TrainConfig:
    from likewise.train.runs import config_text, parse_plan

    run_plan = parse_plan(config_text(name), name, model=model)
    if run_plan.table:
        raise UsageError(f"{name} is a table of runs; leave its [[row]] tables out to tune one of them")
    return run_plan.single
