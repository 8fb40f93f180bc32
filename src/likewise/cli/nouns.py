"""``likewise nouns``: how well methods find the interactions of a model that counts shared nouns."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import GRAMMAR_HELP, Json, RunSettings, with_settings


@with_settings
def nouns(
    model: Annotated[str, typer.Argument(help="A folder that: likewise train nouns, has made.")],
    run: RunSettings,
    pairs: Annotated[str, typer.Option(help="Pairs whose explanations are compared with the truth.")] = "stsb/test",
    train: Annotated[str | None, typer.Option(help="Pairs on which counting is measured too.")] = None,
    grammar: Annotated[str | None, typer.Option(help=GRAMMAR_HELP)] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=2)] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for tables and the figure.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/test are looked up.")] = None,
    as_json: Json = False,
) -> None:
    """Compare explanations with the true interactions of a model that counts the nouns that two texts share."""
    from likewise.data.pair_files import PairFile
    from likewise.grammar import Grammar
    from likewise.plotting.axes import check_format
    from likewise.train.synthetic import noun_study
    from likewise.train.synthetic_report import write_nouns

    if out is not None:
        check_format(out / "figure.png")
    files = [pairs, *([train] if train else [])]
    data = {name: PairFile(name, data_dir=data_dir, limit=limit).read_checked() for name in files}
    language, began = Grammar.load(grammar), time.time()
    with progress_bar() as progress:
        found = noun_study(run.load(model), data, language, progress=progress)
    if out is not None:
        notice(f"wrote {write_nouns(found, run_facts(began), out)}")
    if as_json:
        show_json(found.to_dict())
        return
    pooling_mask = [
        (name, one.n, *(f"{each:.3f}" for each in (one.mse, one.pearson, one.spearman)))
        for name, one in found.counting.items()
    ]
    show_table(("data", "n", "mean squared error", "Pearson", "Spearman"), pooling_mask, "counting shared nouns")
    rows = [(name, *(f"{each:.3f}" for each in vars(one).values())) for name, one in found.agreement.items()]
    title = f"cosine with the truth, {found.compared} pairs that share a noun"
    show_table(("method", "ACS", "low", "high"), rows, title)
