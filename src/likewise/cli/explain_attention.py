"""``likewise explain-attention``: why one token attends to another."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.output import Output
from likewise.cli.settings import MODEL_HELP, RunSettings, with_settings


@with_settings
def explain_attention(
    text: Annotated[str, typer.Argument(help="A text.")],
    query: Annotated[str, typer.Argument(help="The token that attends: its number from 0, or its text.")],
    key: Annotated[str, typer.Argument(help="The token that it attends to.")],
    run: RunSettings,
    output: Output,
    model: Annotated[str, typer.Option("--model", "-m", help=MODEL_HELP)] = "minilm",
    layer: Annotated[int, typer.Option(help="The layer, from 1.", min=1)] = 1,
    head: Annotated[int, typer.Option(help="The head, from 1.", min=1)] = 1,
    granularity: Annotated[str, typer.Option(help="token, word or sentence.")] = "token",
    prompt: Annotated[str | None, typer.Option(help="Put before the text; default: the model's own.")] = None,
) -> None:
    """Explain a query-key score before the softmax as a sum over pairs of input tokens."""
    from likewise.explain.attention_score import explain_attention as explain_score
    from likewise.explain.attention_score import token_index

    encoder = run.load(model)
    i, j = (token_index(encoder, text, name, prompt) for name in (query, key))
    output.show(explain_score(encoder, text, layer, head, i, j, granularity, prompt), run=vars(run))
