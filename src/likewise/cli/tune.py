"""``likewise tune``: search the hyperparameters of a training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import Json, RunSettings, with_settings
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.train import TrainConfig
    from likewise.train.tuning import TuneReport


@with_settings
def tune(
    config: Annotated[str, typer.Argument(help="A TOML file, or a ready-made config (see: likewise train --list).")],
    run: RunSettings,
    out: Annotated[Path, typer.Option(help="The study's folder; one that stopped goes on in it.")],
    trials: Annotated[int, typer.Option(help="Trainings in all; more of them go on with a study.")] = 8,
    train_rows: Annotated[int, typer.Option(help="Examples of each task that a trial learns from.")] = 1500,
    dev_rows: Annotated[
        int | None, typer.Option(help="Dev examples of each task that judge a trial. Default: all.")
    ] = None,
    max_epochs: Annotated[int, typer.Option(min=1, help="Most epochs of a trial.")] = 4,
    pruner: Annotated[str, typer.Option(help="What ends hopeless trials early: median, hyperband, none.")] = "median",
    seed: Annotated[int, typer.Option(help="Of the search; a training's own is the config's.")] = 1,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model, in place of the config's.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/train are looked up.")] = None,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Train on rows that dev or test files hold too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Search learning rates, batch, epochs, dropout and weight decay with Optuna, judged on the dev files.

    Each trial trains on the same part of the data; the first has the config's own values. Test files are not looked
    at. The folder gets best.toml (for likewise train), trials.csv, results.json, report.html, figures and the study.
    """
    from likewise.plotting.axes import check_format
    from likewise.train.running import RunContext
    from likewise.train.tasks import Limits
    from likewise.train.tuning import TuneSettings, check_optuna
    from likewise.train.tuning import tune as search
    from likewise.train.tuning_report import write_tuning

    check_optuna()
    check_format(out / "figure.png")
    settings = TuneSettings(
        trials=trials, train_rows=train_rows, dev_rows=dev_rows, seed=seed, pruner=pruner, epochs=(1, max_epochs)
    )
    run_context = RunContext(run.load, data_dir, Limits(allow_overlap=allow_overlap))
    began, wanted = time.time(), _config(config, model)
    with progress_bar() as progress:
        report = search(run_context, wanted, settings, out, progress)
    for overlap in report.overlaps:
        notice(overlap.words)
    for name, (own, used) in report.moved.items():
        notice(f"{name} {own:g} of the config is outside of what is searched; the first trial has {used:g}")
    notice(f"wrote {write_tuning(report, run_facts(began), out)}")
    show_json(report.to_dict()) if as_json else _show(report, out)


def _config(name: str, model: str | None) -> TrainConfig:
    from likewise.train.presets import config_text
    from likewise.train.rows import parse_plan

    plan = parse_plan(config_text(name), name, model=model)
    if plan.table:
        raise UsageError(f"{name} is a table of runs; leave its [[row]] tables out to tune one of them")
    return plan.single


def _show(report: TuneReport, out: Path) -> None:
    show_table(*report.rows(), f"{report.config.model}: {report.measure} on dev")
    if report.best is None:
        typer.echo("no trial was completed; run more trials with another --seed, in another folder")
    else:
        typer.echo(f"best: trial {report.best.number}, {report.best.value:.4f}; next: likewise train {out}/best.toml")
