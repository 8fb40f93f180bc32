"""``likewise attribute``: which words move texts along a direction of the embedding space."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from likewise.cli.screen import notice, progress_bar, show_json, show_lines
from likewise.cli.settings import (
    BIAS_HELP,
    REFERENCE_HELP,
    EncoderSettings,
    FileSettings,
    Json,
    PoolingOptions,
    RunSettings,
    with_settings,
)
from likewise.errors import DataError, UsageError

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.explain.directions import Direction

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
    direction: Annotated[list[str], typer.Option(help=DIRECTION_HELP)],
    granularity: Annotated[str, typer.Option(help="token, word or sentence.")] = "word",
    similarity: Annotated[str, typer.Option(help="dot, or cosine: divided by the text's length.")] = "dot",
    bias: Annotated[str | None, typer.Option(help=BIAS_HELP)] = None,
    reference: Annotated[str | None, typer.Option(help=REFERENCE_HELP)] = None,
    prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first texts.", min=1)] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="A .jsonl file, one text a line; an interrupted run goes on where it stopped.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Attribute a text's place along a direction to its words: their shares and the bias sum to <vector, direction>."""
    from likewise.explain.attribution import attribute as attribute_texts
    from likewise.explain.files import attribute_file
    from likewise.plotting.hits import hits_lines

    if out is not None and (html is not None or as_json):
        raise UsageError("--out writes lines of JSON; leave --html and --json out")
    model = encoder.load(run, pooling_config)
    rows = _rows(files, file, limit)
    texts = [text for _, text in rows]
    directions = [_direction(model, spec, texts, files) for spec in direction]
    options: dict[str, Any] = {"granularity": granularity, "similarity": similarity}
    given = {"bias": bias, "reference": reference, "prompt": prompt}
    options |= {name: value for name, value in given.items() if value is not None}
    with progress_bar() as progress:
        if out is not None:
            written = attribute_file(model, rows, directions, out, options, progress)
            return notice(f"{written} attributions in {out}")
        found = attribute_texts(model, texts, directions, progress=progress, **options)
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(found.to_html(), encoding="utf-8")
        notice(f"written: {html}")
    if as_json:
        return show_json(found.to_dict())
    for index, name in enumerate(found.directions):
        show_lines(hits_lines(name, f"{found.metadata.model}, {found.metadata.similarity}", found.drawn(index)))


def _rows(files: FileSettings, file: str, limit: int | None = None) -> list[tuple[str, str]]:
    """Ids and texts of a file; skipped rows are counted."""
    from likewise.data import SkippedRows

    skipped = SkippedRows()
    rows = list(islice(files.texts(file).read(skipped), limit))
    if skipped.count:
        notice(str(skipped))
    if not rows:
        raise DataError(f"{file} holds no texts")
    return rows


def _direction(model: Encoder, spec: str, texts: list[str], files: FileSettings) -> list[Direction]:
    """Read ``--direction``."""
    from likewise.explain import directions as made

    kind, _, rest = spec.partition(":")
    if kind == "difference":
        sides = [side.strip() for side in rest.split("|")]
        if len(sides) != 2 or not all(sides):
            raise UsageError(f"a difference is two texts as difference:A | B, not {rest!r}")
        return [made.difference_direction(model, *sides)]
    if kind == "centroid":
        return [made.centroid_direction(model, [text for _, text in _rows(files, rest)], f"centroid of {rest}")]
    if kind == "axis":
        if not rest.isdigit():
            raise UsageError(f"axis takes a number from 1 on, as axis:1, not {rest!r}")
        return [made.axis_direction(model, texts, int(rest))]
    if kind == "vector":
        return made.as_directions(model, made.read_vectors(Path(rest)))
    return [made.text_direction(model, spec)]
