"""``likewise similarity``: cosines between texts."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.output import Output
from likewise.cli.settings import EncoderSettings, PoolingOptions, RunSettings, with_settings
from likewise.errors import UsageError


@with_settings
def similarity(
    texts: Annotated[list[str], typer.Argument(help="Two texts or more; the first is compared with each other one.")],
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    output: Output,
    matrix: Annotated[bool, typer.Option("--matrix", help="Compare every text with every other.")] = False,
) -> None:
    """Show how similar the model finds a text and others."""
    if len(texts) < 2:
        raise UsageError("give at least two texts to compare")
    from likewise.encoder.inspection import text_similarities

    output.show(text_similarities(encoder.load(run, pooling_config), texts, matrix), run=vars(run))
