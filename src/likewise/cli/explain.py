"""``likewise explain``: why two texts are similar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.screen import notice, progress_bar, screen_width, show_json, show_lines, show_table
from likewise.cli.settings import (
    EncoderSettings,
    ExplainSettings,
    FileSettings,
    Json,
    PoolingOptions,
    RunSettings,
    with_settings,
)
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.data.pair_files import PairFile
    from likewise.encoder import Encoder
    from likewise.explain import Comparison, Contrast, Explanation


SINGLE = ("--left-span or --right-span", "--top", "--shares-only")
"""Options of one explained pair."""

STRONGEST = 12


@with_settings
def explain(
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    how: ExplainSettings,
    run: RunSettings,
    files: FileSettings,
    left: Annotated[str | None, typer.Argument(help="A text.")] = None,
    right: Annotated[str | None, typer.Argument(help="The text that it is similar to.")] = None,
    pairs: Annotated[
        str | None, typer.Option(help="Explain every pair of this file, or of a name such as stsb/test; needs --out.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --pairs: a .jsonl file, one explanation a line.")] = None,
    against: Annotated[
        str | None, typer.Option(help="A third text: which words put the right text above (or below) it?")
    ] = None,
    other_model: Annotated[str | None, typer.Option(help="Explain by this model too, and show the difference.")] = None,
    other_pooling: Annotated[str | None, typer.Option(help="The same with another pooling.")] = None,
    left_span: Annotated[list[str] | None, typer.Option(help="A group of characters as 0:12; repeat.")] = None,
    right_span: Annotated[list[str] | None, typer.Option(help="The same in the right text.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw heat map and lines: .png, .svg or .pdf.")] = None,
    top: Annotated[
        int | None,
        typer.Option(help="Show the strongest units of each text, all others as (rest): for long texts.", min=1),
    ] = None,
    shares_only: Annotated[
        bool, typer.Option("--shares-only", help="What each unit makes of the score, without pairs: for long texts.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain why the model finds two texts similar: which words with which, and what the biases add."""
    spans = _spans(left_span, right_span)
    given = {
        "--html": html, "--plot": plot, "--json": as_json, "--left-span or --right-span": spans, "a text": left,
        "--against": against, "--other-model or --other-pooling": other_model or other_pooling,
        "--shares-only": shares_only, "--top": top,
    }  # fmt: skip
    if pairs is not None:
        _refuse(given, "--pairs", tuple(name for name in given if name != "--top"))
        if out is None:
            raise UsageError("--pairs needs --out FILE.jsonl, where the explanations go")
        return _explain_file(encoder.load(run, pooling_config), files.pairs(pairs), out, how.options() | {"top": top})
    if left is None or right is None:
        raise UsageError('give two texts: likewise explain "A fire." "It burns."; or a file with --pairs and --out')
    if out is not None:
        raise UsageError("--out goes with --pairs; write one explanation with --html, --plot or --json")
    if against is not None:
        _refuse(given, "--against", ("--html", "--plot", *SINGLE, "--other-model or --other-pooling"))
    elif other_model is not None or other_pooling is not None:
        _refuse(given, "--other-model and --other-pooling", ("--html", *SINGLE))
    if shares_only:
        _refuse(given, "--shares-only", ("--html", "--plot", "--top"))
    if plot is not None:
        from likewise.plotting.axes import check_format

        check_format(plot)
    model = encoder.load(run, pooling_config)
    if against is not None:
        return _show_contrast(model, (left, right, against), how, as_json)
    if other_model is not None or other_pooling is not None:
        second = EncoderSettings(other_model or encoder.model, other_pooling or encoder.pooling)
        return _show_comparison((model, second.load(run, pooling_config)), (left, right), how, plot, as_json)
    options = how.options() | spans
    if shares_only:
        return _show_shares(model, (left, right), options, as_json)
    _show_pair(model, (left, right), options | {"top": top}, (html, plot), as_json)


def _refuse(given: dict[str, Any], option: str, names: tuple[str, ...]) -> None:
    """Reject options that have no effect."""
    for name in names:
        if given[name]:
            raise UsageError(f"{name} does not go with {option}; leave one of them out")


def _show_pair(
    model: Encoder,
    texts: tuple[str, str],
    options: dict[str, Any],
    targets: tuple[Path | None, Path | None],
    as_json: bool,
) -> None:
    from likewise.explain import explain as explain_pair

    html, plot = targets
    found = explain_pair(model, *texts, **options)
    if html is not None:
        notice(f"written: {found.save_html(html)}")
    if plot is not None:
        from likewise.plotting.axes import save_figure

        notice(f"written: {save_figure(found.plot_both(), plot)}")
    if as_json:
        return show_json(found.to_dict())
    _show(found)


def _show_shares(model: Encoder, texts: tuple[str, str], options: dict[str, Any], as_json: bool) -> None:
    from likewise.explain import explain as explain_pair
    from likewise.plotting.terminal import unit_line

    found = explain_pair(model, *texts, shares_only=True, **options)
    if as_json:
        return show_json(found.to_dict())
    metadata = found.metadata
    typer.echo(
        f"{metadata.similarity} {found.similarity:.4f}  ({metadata.method}, {metadata.model}, {metadata.pooling})"
    )
    sides = ((found.left, found.left_shares, found.left_bias), (found.right, found.right_shares, found.right_bias))
    for side, shares, bias in sides:
        show_lines([unit_line(side.labels, shares)])
        rows = sorted(zip(side.labels, shares.tolist(), strict=True), key=lambda row: -abs(row[1]))[:STRONGEST]
        rest = [(f"({metadata.rest})", bias)] if bias else []
        show_table(("unit", "share"), [*rows, ("all units", float(shares.sum())), *rest])


def _show(explanation: Explanation) -> None:
    """The texts by their shares, the matrix, the strongest pairs and the ledger."""
    from likewise.plotting.terminal import matrix_lines, unit_line

    metadata = explanation.metadata
    typer.echo(
        f"{metadata.similarity} {explanation.similarity:.4f}  ({metadata.method}, {metadata.model}, {metadata.pooling})"
    )
    for side, shares in ((explanation.left, explanation.left_shares), (explanation.right, explanation.right_shares)):
        show_lines([unit_line(side.labels, shares)])
    show_lines(matrix_lines(*explanation.matrix, screen_width()))
    strongest = [(left.text, right.text, value) for left, right, value in explanation.strongest(8)]
    show_table(("left", "right", "relevance"), strongest, "strongest pairs")
    parts = [(name, value) for name, value in explanation.ledger.items() if value or name in ("units", "gap")]
    show_table(("ledger", metadata.similarity), [*parts, ("similarity", explanation.similarity)])
    for side in (explanation.left, explanation.right):
        if side.parts:
            rows = zip(side.labels, *(part.tolist() for part in side.parts.values()), strict=True)
            show_table(("unit", *side.parts), list(rows), "shares by part of the input embedding")


def _show_contrast(model: Encoder, texts: tuple[str, str, str], how: ExplainSettings, as_json: bool) -> None:
    from likewise.explain import contrast

    prompts: dict[str, Any] = {"query_prompt": how.left_prompt, "document_prompt": how.right_prompt}
    found: Contrast = contrast(model, texts[0], texts[1], texts[2], **_bilrp_options(how), **prompts)
    if as_json:
        return show_json(found.to_dict())
    rows = [(unit.text, share) for unit, share in sorted(found.query, key=lambda item: -abs(item[1]))]
    for name, one in (("right text", found.better), ("--against", found.worse)):
        shares = zip(one.right.labels, one.right_shares.tolist(), strict=True)
        own = sorted(shares, key=lambda item: -abs(item[1]))[:8]
        show_table((f"{name}: its strongest units", "share"), own)
    scores = f"{found.better.similarity:.4f} against {found.worse.similarity:.4f}, {found.difference:+.4f}, by:"
    show_table(
        (scores, "difference"), [*rows, (f"({found.better.metadata.rest})", found.query_bias), ("(gap)", found.gap)]
    )


def _show_comparison(
    models: tuple[Encoder, Encoder], texts: tuple[str, str], how: ExplainSettings, plot: Path | None, as_json: bool
) -> None:
    from likewise.explain import compare
    from likewise.plotting.axes import save_figure
    from likewise.plotting.terminal import matrix_lines

    prompts: dict[str, Any] = {"left_prompt": how.left_prompt, "right_prompt": how.right_prompt}
    found: Comparison = compare(models[0], models[1], texts[0], texts[1], **_bilrp_options(how), **prompts)
    if plot is not None:
        notice(f"written: {save_figure(found.plot(), plot)}")
    if as_json:
        return show_json(found.to_dict())
    first, second = found.first, found.second
    for one in (first, second):
        typer.echo(f"{one.metadata.similarity} {one.similarity:.4f}  ({one.metadata.model}, {one.metadata.pooling})")
    typer.echo(f"second minus first: {found.change:+.4f}, of which unexplained {found.gap:.1e}")
    show_lines(matrix_lines(found.difference, *found.labels, screen_width()))


def _bilrp_options(how: ExplainSettings) -> dict[str, Any]:
    """What an exact difference takes: bilrp with all rules, by word unless told otherwise."""
    if how.method != "bilrp" or how.rules != "all" or how.split:
        raise UsageError("differences are exact only by plain bilrp; leave --method, --rules and --split out")
    options = how.options()
    names = ("similarity", "bias", "reference", "memory", *(["fold_special"] if how.fold_special else []))
    return {name: options[name] for name in names if name in options} | {"granularity": how.granularity or "word"}


def _explain_file(model: Encoder, source: PairFile, out: Path, options: dict[str, Any]) -> None:
    from likewise.explain.files import explain_file

    with progress_bar() as progress:
        written = explain_file(model, source, out, options, progress)
    notice(f"{written} explanations in {out}")


def _spans(left: list[str] | None, right: list[str] | None) -> dict[str, Any]:
    """``by`` for explain, where the user gave spans."""
    if not left and not right:
        return {}
    return {"granularity": ([_span(text) for text in left or []], [_span(text) for text in right or []])}


def _span(text: str) -> tuple[int, int]:
    try:
        start, end = (int(part) for part in text.split(":"))
    except ValueError as error:
        raise UsageError(f"a span is two character places such as 0:12, not {text!r}") from error
    return start, end
