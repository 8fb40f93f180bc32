"""``likewise lint``: pairs whose score rests on the wrong things."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import (
    GRAMMAR_HELP,
    EncoderSettings,
    FileSettings,
    PoolingOptions,
    RunSettings,
    with_settings,
)
from likewise.errors import UsageError


@with_settings
def lint(
    file: Annotated[str, typer.Argument(help="A file of pairs, scored or not, or a name such as stsb/test.")],
    encoder: EncoderSettings,
    output: Output,
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    grammar: Annotated[str | None, typer.Option(help=GRAMMAR_HELP)] = None,
    high: Annotated[float, typer.Option(help="A score is high from this quantile of the file's on.")] = 0.5,
    high_similarity: Annotated[float | None, typer.Option(help="A score is high from this similarity on.")] = None,
    special_share: Annotated[float, typer.Option(help="Most that special tokens and biases may carry.")] = 2 / 3,
    stop_share: Annotated[float, typer.Option(help="Most that stop words and punctuation may carry.")] = 0.5,
    negation_share: Annotated[float, typer.Option(help="What a negation must take off the score, as a share.")] = 0.1,
    match_share: Annotated[float, typer.Option(help="Most that equal words may carry.")] = 0.5,
    low_human: Annotated[float, typer.Option(help="A human score is low up to this part of the scale.")] = 1 / 3,
    limit: Annotated[int | None, typer.Option(help="Only the first pairs.", min=1)] = None,
    top: Annotated[int, typer.Option(help="Findings that are shown.", min=1)] = 10,
    export: Annotated[
        Path | None, typer.Option(help="A csv file for the pairs found too similar, to train on as hard negatives.")
    ] = None,
) -> None:
    """Find pairs whose score rests on the wrong things: special tokens, stop words, ignored negations, and more."""
    from likewise.grammar import Grammar
    from likewise.lint.lint import LintRules
    from likewise.lint.lint import lint as lint_pairs

    if export is not None and not export.resolve().parent.is_dir():
        raise UsageError(f"no folder {export.parent} to write {export.name} to; make it first")
    rules = LintRules(high, high_similarity, special_share, stop_share, negation_share, match_share, low_human)
    pairs = how.dataset(file, limit).pairs()
    language, model = Grammar.load(grammar), encoder.load(run, pooling_config)
    with progress_bar() as progress:
        found = lint_pairs(model, pairs, language, rules, file, progress)
    found = replace(found, skipped=pairs.skipped, shown=top)
    if export is not None:
        negatives = found.hard_negatives()
        negatives.to_csv(export)
        notice(f"wrote {export}: {len(negatives.rows)} hard negatives")
    output.show(
        found, file=file, limit=limit, grammar=language.name, model_hash=model.hash,
        reading=vars(model.pooling_config), run=vars(run),
    )  # fmt: skip
