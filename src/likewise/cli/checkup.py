"""``likewise checkup``: several models measured in the same ways, before and after a training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import GRAMMAR_HELP, Json, RunSettings, with_settings

if TYPE_CHECKING:
    from likewise.train.benchmark import Checkup


@with_settings
def checkup(
    models: Annotated[list[str], typer.Argument(help="Models; folders of a table's rows are summed up over seeds.")],
    run: RunSettings,
    pairs: Annotated[str, typer.Option(help="Pairs with scores, a file or a name.")] = "stsb/test",
    parts: Annotated[
        str, typer.Option(help="sts, space, layers, skipped, classes, lint; several with commas.")
    ] = "sts,space,layers",
    group_by: Annotated[
        str | None, typer.Option(help="A column by whose values scores are told apart, as genre.")
    ] = None,
    grammar: Annotated[str | None, typer.Option(help=GRAMMAR_HELP)] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=2)] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for page, tables and figures; it goes on there.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/test are looked up.")] = None,
    as_json: Json = False,
) -> None:
    """Measure what models know and rest on: agreement with people (by column and length), the space of their vectors,
    the geometry of every layer, each layer left out, parts of speech, and lint's findings.
    """
    from likewise.plotting.axes import check_format
    from likewise.train.benchmark import checkup as examine
    from likewise.train.benchmark_parts import CheckupSource
    from likewise.train.benchmark_report import write_checkup

    if out is not None:
        check_format(out / "figure.png")
    source = CheckupSource(pairs, data_dir=data_dir, grammar=grammar, group_by=group_by, limit=limit)
    began = time.time()
    with progress_bar() as progress:
        found = examine(source, models, [part.strip() for part in parts.split(",")], out, run.load, progress)
    if out is not None:
        notice(f"wrote {write_checkup(found, run_facts(began), out)}")
    show_json(found.to_dict()) if as_json else _show(found)


def _show(found: Checkup) -> None:
    from likewise.train.benchmark_parts import FIRST_LAYER

    for part in found.parts:
        header, rows = found.table(part)
        if rows:
            show_table(header, [[str(cell) for cell in row] for row in rows], f"{part}, {found.data}, n = {found.n}")
        for measure, lines in found.curves(part).items():
            depth = max(map(len, lines.values()))
            first = FIRST_LAYER.get(part, 0)
            shown = [
                [name, *("" if each is None else f"{each.mean:.3f}" for each in line)] for name, line in lines.items()
            ]
            shown = [row + [""] * (depth + 1 - len(row)) for row in shown]
            show_table(["model", *map(str, range(first, first + depth))], shown, f"{measure}, by layer")
