"""``likewise lint`` and ``pos-relevance``: pairs with suspicious scores, and relevance by part of speech."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import (
    GRAMMAR_HELP,
    MINILM,
    MODEL_HELP,
    POOLING_HELP,
    FileSettings,
    FirstPairs,
    GrammarName,
    Label,
    ModelSettings,
    PoolingOptions,
    RunSettings,
    TeamSettings,
    command,
)
from likewise.errors import UsageError


@command
def lint(
    file: Annotated[str, Argument(help="A file of pairs, scored or not, or a name such as stsb/test.")],
    output: Output,
    model: ModelSettings,
    team: TeamSettings,
    how: FileSettings,
    grammar: GrammarName = None,
    high: Annotated[float, Option(help="A score is high from this quantile of the file's on.")] = 0.5,
    high_similarity: Annotated[float | None, Option(help="A score is high from this similarity on.")] = None,
    special_share: Annotated[float, Option(help="Most that special tokens and biases may carry.")] = 2 / 3,
    stop_share: Annotated[float, Option(help="Most that stop words and punctuation may carry.")] = 0.5,
    negation_share: Annotated[float, Option(help="What a negation must take off the score, as a share.")] = 0.1,
    match_share: Annotated[float, Option(help="Most that equal words may carry.")] = 0.5,
    low_human: Annotated[float, Option(help="A human score is low up to this part of the scale.")] = 1 / 3,
    limit: FirstPairs = None,
    top: Annotated[int, Option(help="Findings that are shown.", min=1)] = 10,
    export: Annotated[
        Path | None, Option(help="A csv file for the pairs found too similar, to train on as hard negatives.")
    ] = None,
    label: Label = None,
) -> None:
    """Find pairs whose score rests on the wrong things: special tokens, stop words, ignored negations, and more."""
    from likewise.grammar import Grammar
    from likewise.lint.lint import LintRules
    from likewise.lint.lint import lint as lint_pairs

    if export is not None and not export.resolve().parent.is_dir():
        raise UsageError(f"no folder {export.parent} to write {export.name} to; make it first")
    rules = LintRules(high, high_similarity, special_share, stop_share, negation_share, match_share, low_human)
    pairs = how.dataset(file, limit).pairs()
    language = Grammar.load(grammar)
    with team.working(model) as working, progress_bar() as progress:
        scoring = working.load_scoring(label)
        found = lint_pairs(scoring, pairs, language, rules, file, progress)
    found = replace(found, skipped=pairs.skipped, shown=top)
    if export is not None:
        negatives = found.hard_negatives()
        negatives.to_csv(export)
        notice(f"wrote {export}: {len(negatives.rows)} hard negatives")
    output.show(
        found, file=file, limit=limit, grammar=language.name, model_hash=scoring.hash,
        reading=vars(getattr(scoring, "pooling_config", model.pooling_config)), run=vars(model.run),
    )  # fmt: skip


@command
def pos_relevance(
    file: Annotated[str, Argument(help="A file of pairs, or a name such as stsb/test.")],
    output: Output,
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    model: Annotated[list[str], Option("--model", "-m", help=f"{MODEL_HELP} Twice to compare.")] = MINILM,
    pooling: Annotated[list[str] | None, Option(help=f"{POOLING_HELP} Twice to compare.")] = None,
    grammar: Annotated[list[str] | None, Option(help=f"{GRAMMAR_HELP} A second one is --mix's.")] = None,
    grammar_other: Annotated[str | None, Option(help="The pipeline of the language of --mix.")] = None,
    mix: Annotated[
        str | None, Option(help="Compare with pairs whose second texts come from the same rows of this file.")
    ] = None,
    row: Annotated[int | None, Option(help="Also draw this row, from 1 on, word by word.")] = None,
    limit: FirstPairs = None,
    top: Annotated[int, Option(help="Word pairs and rows that are listed.", min=1)] = 10,
    bias: Annotated[str, Option(help="separate: a row of their own; shared: dealt out to tokens.")] = "separate",
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
        found = study_pos_relevance(given, model, pooling or [None], options, run.loader(pooling_config), progress)
    output.show(
        found, file=file, mix=mix, limit=limit, options=vars(options), grammar=[one.name for one in grammars],
        model_hash=found.hashes, reading=vars(pooling_config), run=vars(run),
    )  # fmt: skip
