"""``likewise similarity``: cosines between texts."""

from __future__ import annotations

from typing import Annotated

import typer

from likewise.cli.screen import show_json, show_table
from likewise.cli.settings import EncoderSettings, Json, PoolingOptions, RunSettings, with_settings
from likewise.errors import UsageError


@with_settings
def similarity(
    texts: Annotated[list[str], typer.Argument(help="Two texts or more; the first is compared with each other one.")],
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    matrix: Annotated[bool, typer.Option("--matrix", help="Compare every text with every other.")] = False,
    as_json: Json = False,
) -> None:
    """Show how similar the model finds a text and others."""
    if len(texts) < 2:
        raise UsageError("give at least two texts to compare")
    model = encoder.load(run, pooling_config)
    left, right = (texts, texts) if matrix else (texts[:1], texts[1:])
    scores = model.similarity(left, right).tolist()
    if as_json:
        metadata = {"model": model.name, "pooling": model.pooling_config.pooling}
        return show_json(metadata | {"left": left, "right": right, "similarity": scores})
    if matrix:
        numbers = [str(index + 1) for index in range(len(right))]
        rows = [(f"{index + 1} {text}", *row) for index, (text, row) in enumerate(zip(left, scores, strict=True))]
        return show_table(("", *numbers), rows)
    show_table(("cosine", left[0]), [(score, text) for score, text in zip(scores[0], right, strict=True)])
