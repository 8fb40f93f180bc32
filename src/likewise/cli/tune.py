"""``likewise tune``: search the hyperparameters of a training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.output import Output
from likewise.cli.screen import progress_bar
from likewise.cli.settings import RunSettings, with_settings
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.train import TrainConfig


@dataclass(frozen=True)
class StudyOutput(Output):
    """The options of a result in the folder of a study."""

    out: Annotated[Path, typer.Option(help="The study's folder; a stopped study continues in it.")]


@with_settings
def tune(
    config: Annotated[str, typer.Argument(help="A TOML file, or a ready-made config (see: likewise train --list).")],
    run: RunSettings,
    output: StudyOutput,
    trials: Annotated[int, typer.Option(help="Total trials; raise it to continue a study.")] = 8,
    train_rows: Annotated[int, typer.Option(help="Train examples of each task in a trial.")] = 1500,
    dev_rows: Annotated[int | None, typer.Option(help="Dev examples of each task in a trial. Default: all.")] = None,
    max_epochs: Annotated[int, typer.Option(min=1, help="Most epochs of a trial.")] = 4,
    pruner: Annotated[str, typer.Option(help="How hopeless trials end early: median, hyperband, none.")] = "median",
    seed: Annotated[int, typer.Option(help="Of the search; a training uses the config's.")] = 1,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model, in place of the config's.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/train are looked up.")] = None,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Train on rows that are also in dev or test files.")
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
        typer.echo(f"next: likewise train {output.out}/best.toml")


def _config(name: str, model: str | None) -> TrainConfig:
    from likewise.train.runs import config_text, parse_plan

    run_plan = parse_plan(config_text(name), name, model=model)
    if run_plan.table:
        raise UsageError(f"{name} is a table of runs; leave its [[row]] tables out to tune one of them")
    return run_plan.single
