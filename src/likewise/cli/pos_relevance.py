"""``likewise pos-relevance``: which parts of speech a model's similarities rest on, over a file of pairs."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import (
    GRAMMAR_HELP,
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    PoolingOptions,
    RunSettings,
    with_settings,
)
from likewise.errors import UsageError


@with_settings
def pos_relevance(
    file: Annotated[str, typer.Argument(help="A file of pairs, or a name such as stsb/test.")],
    output: Output,
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Twice to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[list[str] | None, typer.Option(help=f"{POOLING_HELP} Twice to compare.")] = None,
    grammar: Annotated[list[str] | None, typer.Option(help=f"{GRAMMAR_HELP} A second one is --mix's.")] = None,
    grammar_other: Annotated[str | None, typer.Option(help="The pipeline of the language of --mix.")] = None,
    mix: Annotated[
        str | None, typer.Option(help="Compare with pairs whose second texts come from the same rows of this file.")
    ] = None,
    row: Annotated[int | None, typer.Option(help="Also draw this row, from 1 on, word by word.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=1)] = None,
    top: Annotated[int, typer.Option(help="Word pairs and rows that are listed.", min=1)] = 10,
    bias: Annotated[str, typer.Option(help="separate: a row of their own; shared: dealt out to tokens.")] = "separate",
) -> None:
    """Relevance between parts of speech, the strongest words, errors by level, and what changes between settings."""
    from likewise.grammar import Grammar
    from likewise.lint.pos_study import PosInput, PosOptions, study_pos_relevance

    options = PosOptions(bias, top, row)
    names = [*(grammar or []), *([grammar_other] if grammar_other else [])]
    if len(names) > (1 if mix is None else 2):
        raise UsageError("give --grammar once, and --grammar-other once with --mix")
    if mix is not None and len(names) < 2:
        raise UsageError("--mix needs both languages' spaCy pipelines; give --grammar and --grammar-other")
    grammars = [Grammar.load(name) for name in names] or [Grammar.load()]
    given = PosInput(how.dataset(file, limit), grammars[0], mix, *grammars[1:])
    with progress_bar() as progress:
        found = study_pos_relevance(
            given, model, pooling or [None], options, lambda name: EncoderSettings(name).load(run, pooling_config),
            progress,
        )  # fmt: skip
    output.show(
        found, file=file, mix=mix, limit=limit, options=vars(options), grammar=[one.name for one in grammars],
        model_hash=found.hashes, reading=vars(pooling_config), run=vars(run),
    )  # fmt: skip
