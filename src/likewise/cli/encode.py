"""``likewise encode``: a file of texts -> vectors on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.output import notice, progress_bar, show_json
from likewise.cli.settings import EncoderSettings, FileSettings, Json, PoolingOptions, RunSettings, with_settings


@with_settings
def encode(
    file: Annotated[
        str, typer.Argument(help="A csv, tsv, jsonl or txt file (.gz too), or a name such as sample/sentences.")
    ],
    out: Annotated[Path, typer.Option(help="The folder for vectors.npy, ids.jsonl and manifest.json.")],
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    files: FileSettings,
    prompt: Annotated[str | None, typer.Option(help="Put before each text; default: the model's own.")] = None,
    as_json: Json = False,
) -> None:
    """Encode a file of any size; the same command again goes on where it stopped."""
    from likewise.encoder.stream import encode_file

    model = encoder.load(run, pooling_config)
    with progress_bar() as progress:
        done = encode_file(model, files.dataset(file), out, prompt=prompt, progress=progress)
    if done.skipped.count:
        notice(str(done.skipped))
    if as_json:
        return show_json(done.to_dict())
    typer.echo(f"{done.manifest.rows} vectors of {done.manifest.dimension} dimensions in {out}")
