"""``likewise train``: fine-tune an encoder as a config says, or every row of a table of runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import Json, RunSettings, with_settings
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.train import TrainReport
    from likewise.train.rows import Plan
    from likewise.train.running import RunContext, TableRow


@with_settings
def train(
    run: RunSettings,
    config: Annotated[str, typer.Argument(help="A TOML file, or a ready-made config by name (see --list).")] = "",
    list_: Annotated[bool, typer.Option("--list", help="Show the ready-made configs and exit.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the config's TOML and exit, to change it.")] = False,
    out: Annotated[str | None, typer.Option(help="The run's folder, in place of the config's.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="The model to start from.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all that is drawn at random.")] = None,
    epochs: Annotated[int | None, typer.Option(help="In place of the config's.")] = None,
    samples: Annotated[int | None, typer.Option(help="Examples of each task in an epoch.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first rows of each file, for a quick try.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Train on rows that dev or test files hold too.")
    ] = False,
    processes: Annotated[int, typer.Option(help="Processes that share each step's texts out.", min=1)] = 1,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep the model of each row of a table.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/train are looked up.")] = None,
    as_json: Json = False,
) -> None:
    """Fine-tune an encoder: similarity, sentiment and paraphrase, one task or several at once.

    The folder gets the model (which sentence-transformers opens), its heads, a card, results.json and report.html.
    Processes that accelerate launch or torchrun has started work together in the same way as --processes.
    """
    if list_:
        _list(as_json)
        return
    if not config:
        raise UsageError("give a TOML file, or a ready-made config by name; see: likewise train --list")
    from likewise.train.presets import config_text

    text = config_text(config)
    if show and as_json:
        raise UsageError("--show prints TOML, not JSON; leave out --json")
    if show:
        typer.echo(text, nl=False)
        return
    from likewise.train.processes import launched, started_here
    from likewise.train.rows import parse_plan
    from likewise.train.running import RunContext
    from likewise.train.tasks import Limits

    plan = parse_plan(text, config, out=out, model=model, seed=seed, epochs=epochs, samples=samples)
    if not plan.out:
        raise UsageError('no folder to write to; give --out, or out = "runs/..." in the config')
    if processes > 1 and started_here():
        raise typer.Exit(launched(processes, sys.argv[1:]))
    run_context = RunContext(run.load, data_dir, Limits(limit, allow_overlap), resume)
    if plan.table:
        _run_table(run_context, plan, keep_models, as_json)
    else:
        _run(run_context, plan, as_json)


def _list(as_json: bool) -> None:
    from likewise.train.presets import described, presets

    found = [{"name": name, "about": described(text)} for name, text in presets().items()]
    if as_json:
        show_json({"configs": found})
    else:
        show_table(("config", "about"), [tuple(each.values()) for each in found])


def _run(run_context: RunContext, plan: Plan, as_json: bool) -> None:
    from likewise.plotting.axes import check_format
    from likewise.train.changes import training_changes
    from likewise.train.page import write_training
    from likewise.train.processes import Processes

    check_format(Path(plan.out) / "figure.png")
    began = time.time()
    with progress_bar() as progress:
        report = run_context.train(plan.single, progress)
        if not Processes.joined(cpu=True).first:
            return
        changes = training_changes(run_context, report, progress)
    for overlap in report.overlaps:
        notice(overlap.words)
    notice(f"wrote {write_training(report, run_facts(began), Path(plan.out), changes)}")
    run_context.finish(plan.single)
    if as_json:
        show_json(report.to_dict() | {"changes": [change.to_dict() for change in changes]})
    else:
        _show(report)


def _show(report: TrainReport) -> None:
    from likewise.train.report import MEASURE_COLUMNS

    show_table(MEASURE_COLUMNS, report.measures, f"{report.model}, epoch {report.best_epoch}")
    if report.score is not None and len(report.dev) > 1:
        typer.echo(f"dev score {report.score:.4f} = {report.formula}")


def _run_table(run_context: RunContext, plan: Plan, keep_models: bool, as_json: bool) -> None:
    from likewise.train.page import write_table
    from likewise.train.processes import Processes
    from likewise.train.running import train_table

    began = time.time()
    with progress_bar() as progress:
        rows = train_table(run_context, plan.rows, Path(plan.out), keep_models, progress)
    if not Processes.joined(cpu=True).first:
        return
    for folder in [] if not keep_models else [Path(plan.out) / row.slug for row in plan.rows]:
        if not (folder / "likewise.json").exists():
            notice(f"{folder} was finished without its model; delete it, and the row is trained again")
    for words in dict.fromkeys(overlap["words"] for row in rows for overlap in row.report["overlaps"]):
        notice(words)
    notice(f"wrote {write_table(rows, run_facts(began), Path(plan.out))}")
    show_json({"rows": [_plain(row) for row in rows]}) if as_json else _show_rows(rows)


def _plain(row: TableRow) -> dict[str, Any]:
    return {"name": row.name, "seed": row.seed, "published": list(row.published), **row.report}


def _show_rows(rows: list[TableRow]) -> None:
    shown: list[tuple[object, ...]] = []
    for row in rows:
        dev = row.report["dev"]
        measures = ", ".join(f"{name} {part[_measure(row, name)]:.3f}" for name, part in dev.items())
        shown.append((row.name, row.seed, measures, row.report["score"], row.published[-1] if row.published else ""))
    show_table(("row", "seed", "dev", "score", "published"), shown)


def _measure(row: TableRow, task: str) -> str:
    return str(next(each["metric"] for each in row.report["config"]["task"] if each["name"] == task))
