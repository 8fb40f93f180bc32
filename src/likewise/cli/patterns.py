"""``likewise patterns``: what a model's similarities rest on, over a file of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    Json,
    PoolingOptions,
    RunSettings,
    with_settings,
)
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.lint.interactions import PosChange
    from likewise.lint.patterns import Patterns
    from likewise.lint.pos_study import PatternSource, PatternStudy

GRAMMAR_HELP = "A spaCy pipeline: an installed name or a folder. Default: $LIKEWISE_GRAMMAR, else the first installed."
STRONGEST = 15
"""Class pairs that the table on the screen shows."""


@with_settings
def patterns(
    file: Annotated[str, typer.Argument(help="A file of pairs, or a name such as stsb/test.")],
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
    bias: Annotated[str, typer.Option(help="separate: beside the classes; shared: dealt out to tokens.")] = "separate",
    out: Annotated[Path | None, typer.Option(help="A folder for tables and figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the class pairs: .png, .svg or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Relevance between parts of speech, the strongest words, errors by level, and what changes between settings."""
    from likewise.lint.pos_report import patterns_results
    from likewise.lint.pos_study import PatternOptions, study_patterns
    from likewise.plotting.axes import check_format, save_figure
    from likewise.results.folder import write_results

    for path in (plot, None if out is None else out / "figure.png"):
        if path is not None:
            check_format(path)
    options = PatternOptions(bias, top, row)
    source = _source(file, mix, [*(grammar or []), *([grammar_other] if grammar_other else [])], how, limit)

    hashes: dict[str, str] = {}

    def load(name: str) -> Encoder:
        encoder = EncoderSettings(name).load(run, pooling_config)
        hashes[name] = encoder.hash
        return encoder

    with progress_bar() as progress:
        study = study_patterns(source, model, pooling or [None], options, load, progress)
    if plot is not None:
        save_figure(study.plot(), plot)
    if study.skipped:
        notice(f"{file}: bad rows skipped: {study.skipped}")
    if out is not None:
        grammars = [one.name for one in (source.grammar, source.other_grammar) if one is not None]
        metadata: dict[str, Any] = {
            "command": "patterns",
            "file": file,
            "mix": mix,
            "limit": limit,
            "options": vars(options),
        }
        metadata |= {"grammar": grammars, "model_hash": hashes, "reading": vars(pooling_config), "run": vars(run)}
        notice(f"wrote {write_results(patterns_results(study, metadata), out)}")
    show_json(study.to_dict()) if as_json else _show(study)


def _source(file: str, mix: str | None, grammars: list[str], how: FileSettings, limit: int | None) -> PatternSource:
    from likewise.grammar import Grammar
    from likewise.lint.pos_study import PatternSource

    if len(grammars) > (1 if mix is None else 2):
        raise UsageError("give --grammar once, and --grammar-other once with --mix")
    if mix is not None and len(grammars) < 2:
        raise UsageError("--mix needs both languages' spaCy pipelines; give --grammar and --grammar-other")
    pairs = how.pairs(file, limit)
    loaded = [Grammar.load(name) for name in grammars] or [Grammar.load()]
    return PatternSource(pairs, loaded[0], mix, *loaded[1:])


def _show(study: PatternStudy) -> None:
    for one in study.settings:
        _show_setting(one)
    if study.change is not None:
        _show_change(study.change)
    if study.row is not None:
        metadata = [(name, found.similarity) for name, found in study.row.explanations.items()]
        show_table(("pair", "similarity"), metadata, f"row {study.row.row}; its heat maps are drawn with --out")


def _show_setting(one: Patterns) -> None:
    rows = sorted(one.classes.rows, key=lambda row: -max(row[5], -row[6]))[:STRONGEST]
    header = ("class", "class", "token pairs", "positive", "negative", "pos. average", "neg. average")
    cells = [(*row[:3], *row[5:7], *row[9:11]) for row in rows]
    show_table(header, cells, f"{one.name}, n = {one.n}\nrelevance between classes, scaled by the largest")
    for quarter, words in one.strongest.items():
        found = [(word.id, word.left, word.right, word.relevance, word.similarity) for word in words]
        title = f"strongest word pairs in the {quarter} quarter of predicted similarity"
        show_table(("pair", "left", "right", "relevance", "similarity"), found, title)
    if one.errors is not None:
        levels = [
            (level.name, level.n, f"{level.error.value:.3f}", f"{level.error.low:.3f}-{level.error.high:.3f}",
             level.human, level.predicted)
            for level in one.errors.levels
        ]  # fmt: skip
        columns = ("human score", "n", "squared error", "95 % interval", "mean human", "mean predicted")
        show_table(columns, levels, "squared error by level, predictions mapped by a least-squares line")
        farthest = [(row.id, row.human, row.predicted, row.left, row.right) for row in one.farthest]
        title = "where human and predicted score differ most (predicted mapped by the line)"
        show_table(("pair", "human", "predicted", "left", "right"), farthest, title)


def _show_change(change: PosChange) -> None:
    for sign in ("positive", "negative"):
        rows = [(one.first, one.second, one.before, one.after, one.change) for one in change.changed(sign)]
        show_table(("class", "class", *change.names, "change"), rows, f"interactions that change most, {sign}, summed")
