"""``likewise lint``: pairs whose score rests on the wrong things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.patterns import GRAMMAR_HELP
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import EncoderSettings, FileSettings, Json, PoolingOptions, RunSettings, with_settings
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.lint.lint import LintReport


@with_settings
def lint(
    file: Annotated[str, typer.Argument(help="A file of pairs, scored or not, or a name such as stsb/test.")],
    encoder: EncoderSettings,
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
    out: Annotated[Path | None, typer.Option(help="A folder for tables and a figure.")] = None,
    export: Annotated[
        Path | None, typer.Option(help="A csv file for the pairs found too similar, to train on as hard negatives.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find pairs whose score rests on the wrong things: special tokens, stop words, ignored negations, and more."""
    from likewise.grammar import Grammar
    from likewise.lint.files import lint_pairs
    from likewise.lint.report import hard_negatives, lint_results
    from likewise.lint.rules import LintRules
    from likewise.plotting.axes import check_format
    from likewise.results.folder import write_csv, write_results

    if out is not None:
        check_format(out / "rules.png")
    if export is not None and not export.resolve().parent.is_dir():
        raise UsageError(f"no folder {export.parent} to write {export.name} to; make it first")
    rules = LintRules(high, high_similarity, special_share, stop_share, negation_share, match_share, low_human)
    pairs, skipped = how.pairs(file, limit).read()
    language, model = Grammar.load(grammar), encoder.load(run, pooling_config)
    with progress_bar() as progress:
        report = lint_pairs(model, pairs, language, rules, file, progress)
    if skipped:
        notice(f"{file}: bad rows skipped: {skipped}")
    if out is not None:
        metadata: dict[str, Any] = {"command": "lint", "file": file, "limit": limit, "grammar": language.name}
        metadata |= {"model_hash": model.hash, "reading": vars(model.pooling_config), "run": vars(run)}
        notice(f"wrote {write_results(lint_results(report, metadata), out)}")
    if export is not None:
        negatives = hard_negatives(report)
        write_csv(negatives, export)
        notice(f"wrote {export}: {len(negatives[1])} hard negatives")
    show_json(report.to_dict() | {"skipped": skipped}) if as_json else _show(report, top)


def _show(report: LintReport, top: int) -> None:
    from likewise.lint.rules import DESCRIPTIONS

    rows = [
        (one.rule, DESCRIPTIONS[one.rule], one.count, one.candidates, f"{one.share.value:.1%}",
         f"{one.share.low:.1%}-{one.share.high:.1%}")
        for one in report.counts
    ]  # fmt: skip
    title = f"{report.data}, {report.model}, {report.pooling}, n = {report.n}; high is from {report.high:.3f} on"
    show_table(("rule", "the score", "count", "candidates", "share", "95 % interval"), rows, title)
    worst = [
        (f"{one.severity:.2f}", one.rule, one.id, "" if one.human is None else f"{one.human:g}",
         f"{one.evidence}\n{one.left}\n{one.right}")
        for one in report.findings[:top]
    ]  # fmt: skip
    title = f"the worst of {len(report.findings)} findings"
    show_table(("severity", "rule", "pair", "human", "evidence"), worst, title)
