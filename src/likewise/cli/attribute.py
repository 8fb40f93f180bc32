"""``likewise attribute``: which words move texts along a direction of the embedding space."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from likewise.cli.output import Output, notice, progress_bar
from likewise.cli.settings import (
    EncoderSettings,
    FileSettings,
    PoolingOptions,
    RunSettings,
    help_of,
    with_settings,
)
from likewise.errors import DataError, UsageError
from likewise.explain.settings import BIAS, REFERENCE

DIRECTION_HELP = (
    "A text; difference:A | B; centroid:FILE; axis:1, a principal axis of FILE's texts; or vector:FILE.npy. Repeat."
)


@with_settings
def attribute(
    file: Annotated[str, typer.Argument(help="A file of texts, or a name such as sample/sentences.")],
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    files: FileSettings,
    output: Output,
    direction: Annotated[list[str], typer.Option(help=DIRECTION_HELP)],
    granularity: Annotated[str, typer.Option(help="token, word or sentence.")] = "word",
    similarity: Annotated[str, typer.Option(help="dot, or cosine: divided by the text's length.")] = "dot",
    bias: Annotated[str, typer.Option(help=help_of(BIAS))] = "separate",
    reference: Annotated[str, typer.Option(help=help_of(REFERENCE))] = "filler",
    prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first texts.", min=1)] = None,
) -> None:
    """Attribute a text's score along a direction to its words: their shares and the bias sum to <vector, direction>.

    --out FILE.jsonl writes one text a line; an interrupted run goes on where it stopped.
    """
    from likewise.explain.attribution import attribute as attribute_texts
    from likewise.explain.attribution import parse_direction
    from likewise.explain.files import attribute_file, is_lines

    if output.plot is not None:
        raise UsageError("attributions have no figure; leave --plot out")
    out = output.out if output.out is not None and is_lines(output.out) else None
    if out is not None and (output.html is not None or output.as_json):
        raise UsageError("--out writes lines of JSON; leave --html and --json out")
    model = encoder.load(run, pooling_config)
    rows = files.dataset(file, limit).texts()
    if rows.skipped:
        notice(f"{file}: bad rows skipped: {rows.skipped}")
    if not rows:
        raise DataError(f"{file} holds no texts")
    directions = [parse_direction(model, one, [row.text for row in rows], files.dataset(file)) for one in direction]
    options: dict[str, Any] = {"granularity": granularity, "similarity": similarity, "prompt": prompt}
    options |= {"bias": bias, "reference": reference}
    with progress_bar() as progress:
        if out is not None:
            written = attribute_file(model, [(row.id, row.text) for row in rows], directions, out, options, progress)
            return notice(f"{written} attributions in {out}")
        found = attribute_texts(model, [row.text for row in rows], directions, progress=progress, **options)
    output.show(found, options=options, reading=vars(pooling_config), run=vars(run))
