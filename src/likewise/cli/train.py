"""``likewise train``: fine-tune an encoder as a config says, or every row of a table of runs."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.output import Output
from likewise.cli.screen import notice, progress_bar
from likewise.cli.settings import RunSettings, with_settings
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.train.runs import Plan, RunContext


@dataclass(frozen=True)
class RunOutput(Output):
    """The options of a result in the folder of a run."""

    out: Annotated[Path | None, typer.Option(help="The run's folder, in place of the config's.")] = None


@with_settings
def train(
    run: RunSettings,
    output: RunOutput,
    config: Annotated[str, typer.Argument(help="A TOML file, or a ready-made config by name (see --list).")] = "",
    list_: Annotated[bool, typer.Option("--list", help="List the ready-made configs and exit.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the config's TOML and exit, to change it.")] = False,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model to start from.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    epochs: Annotated[int | None, typer.Option(help="In place of the config's.")] = None,
    samples: Annotated[int | None, typer.Option(help="Examples of each task in an epoch.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of each file, for a quick try.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Train on rows that are also in dev or test files.")
    ] = False,
    processes: Annotated[int, typer.Option(help="Processes that share the texts of each step.", min=1)] = 1,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep the model of each row of a table.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/train are looked up.")] = None,
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
        return typer.echo(text, nl=False)
    from likewise.train.processes import launched, started_here
    from likewise.train.tasks import Limits

    out = None if output.out is None else str(output.out)
    run_plan = parse_plan(text, config, out=out, model=model, seed=seed, epochs=epochs, samples=samples)
    if not run_plan.out:
        raise UsageError('no folder to write to; give --out, or out = "runs/..." in the config')
    if processes > 1 and started_here():
        raise typer.Exit(launched(processes, sys.argv[1:]))
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
