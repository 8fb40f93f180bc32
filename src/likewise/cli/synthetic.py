"""``likewise synthetic``: how well methods find the interactions of a model that counts shared nouns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import GRAMMAR_HELP, RunSettings, with_settings


@with_settings
def synthetic(
    model: Annotated[str, typer.Argument(help="A folder made by: likewise train synthetic.")],
    run: RunSettings,
    output: Output,
    pairs: Annotated[str, typer.Option(help="Pairs whose explanations are compared with the truth.")] = "stsb/test",
    train: Annotated[str | None, typer.Option(help="More pairs to measure the counting on.")] = None,
    grammar: Annotated[str | None, typer.Option(help=GRAMMAR_HELP)] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=2)] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/test are looked up.")] = None,
) -> None:
    """Compare explanations with the true interactions of a model that counts the nouns that two texts share."""
    from likewise.data import Dataset
    from likewise.grammar import Grammar
    from likewise.train.synthetic import synthetic_benchmark

    files = [pairs, *([train] if train else [])]
    data = {name: Dataset(name, data_dir=data_dir, limit=limit).pairs() for name in files}
    language = Grammar.load(grammar)
    with progress_bar() as progress:
        found = synthetic_benchmark(run.load(model), data, language, progress=progress)
    output.show(found)
