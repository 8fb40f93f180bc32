"""``likewise benchmark``: several models measured in the same ways, before and after a training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import GRAMMAR_HELP, RunSettings, with_settings


@with_settings
def benchmark(
    models: Annotated[list[str], typer.Argument(help="Models; folders of a table's rows are averaged over seeds.")],
    run: RunSettings,
    output: Output,
    pairs: Annotated[str, typer.Option(help="Pairs with scores, a file or a name.")] = "stsb/test",
    parts: Annotated[
        str, typer.Option(help="sts, space, layers, skipped, classes, lint; several with commas.")
    ] = "sts,space,layers",
    group_by: Annotated[
        str | None, typer.Option(help="A column such as genre; each of its values gets its own agreement.")
    ] = None,
    grammar: Annotated[str | None, typer.Option(help=GRAMMAR_HELP)] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=2)] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/test are looked up.")] = None,
) -> None:
    """Measure several models: agreement with people (by column and length), the space of their vectors, the geometry of
    every layer, the agreement without each layer, relevance by part of speech, and lint's findings.

    Measured parts stay in --out, so an interrupted benchmark continues there.
    """
    from likewise.data import Dataset
    from likewise.train.benchmark import BenchmarkData
    from likewise.train.benchmark import benchmark as measure

    data = BenchmarkData(Dataset(pairs, data_dir=data_dir, limit=limit), grammar, group_by)
    with progress_bar() as progress:
        found = measure(data, models, [part.strip() for part in parts.split(",")], output.out, run.load, progress)
    output.show(found)
