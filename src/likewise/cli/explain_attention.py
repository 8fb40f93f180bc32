"""``likewise explain-attention``: why one token attends to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.screen import notice, screen_width, show_json, show_lines, show_table
from likewise.cli.settings import MODEL_HELP, Json, RunSettings, with_settings


@with_settings
def explain_attention(
    text: Annotated[str, typer.Argument(help="A text.")],
    query: Annotated[str, typer.Argument(help="The token that attends: its number from 0, or its text.")],
    key: Annotated[str, typer.Argument(help="The token that it attends to.")],
    run: RunSettings,
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)] = "minilm",
    layer: Annotated[int, typer.Option(help="The layer, from 1.", min=1)] = 1,
    head: Annotated[int, typer.Option(help="The head, from 1.", min=1)] = 1,
    granularity: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    prompt: Annotated[str | None, typer.Option(help="Put before the text; default: the model's own.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a heat map: .png, .svg or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Explain a query-key score before the softmax as a sum over pairs of input tokens."""
    from likewise.explain.attention_score import explain_attention as explain_score
    from likewise.explain.attention_score import token_place
    from likewise.plotting.axes import check_format, save_figure
    from likewise.plotting.terminal import matrix_lines

    if plot is not None:
        check_format(plot)
    encoder = run.load(model)
    indices = [token_place(encoder, text, name, prompt) for name in (query, key)]
    found = explain_score(encoder, text, layer, head, indices[0], indices[1], granularity=granularity, prompt=prompt)
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(found.to_html(), encoding="utf-8")
        notice(f"written: {html}")
    if plot is not None:
        notice(f"written: {save_figure(found.plot(), plot)}")
    if as_json:
        return show_json(found.to_dict())
    typer.echo(f"{found.title}, attention {found.weight:.4f}  ({found.model})")
    show_lines(matrix_lines(*found.matrix, screen_width()))
    pairs = [(left.text, right.text, value) for left, right, value in found.strongest(8)]
    show_table(("query from", "key from", "relevance"), pairs, "strongest pairs")
    rows = [(name, *row.values()) for name, row in found.by_part.items()]
    show_table(("query part", *found.by_part), rows, "by part of the input embedding")
    show_table(("ledger", "score"), [*found.ledger.items(), ("score", found.score)])
