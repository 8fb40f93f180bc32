"""``likewise inspect``: what the model makes of a text."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.output import Output
from likewise.cli.settings import EncoderSettings, RunSettings, with_settings


@with_settings
def inspect(
    texts: Annotated[list[str], typer.Argument(help="One text, or several to see a padded batch.")],
    encoder: EncoderSettings,
    run: RunSettings,
    output: Output,
    prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None,
) -> None:
    """Show a text's tokens and ids, the special tokens, the model's sizes and the shapes of its outputs."""
    from likewise.encoder.inspection import inspect as inspect_texts

    output.show(inspect_texts(encoder.load(run), texts, prompt), run=vars(run))
