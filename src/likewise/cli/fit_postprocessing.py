"""``likewise fit-postprocessing``: post-processing fitted on a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.output import notice, progress_bar
from likewise.cli.settings import EncoderSettings, FileSettings, PoolingOptions, RunSettings, with_settings


@with_settings
def fit_postprocessing(
    file: Annotated[str, typer.Argument(help="The texts to fit on: a file or a name.")],
    out: Annotated[Path, typer.Option(help="The file to write, such as whitening.safetensors.")],
    encoder: EncoderSettings,
    pooling_config: PoolingOptions,
    run: RunSettings,
    files: FileSettings,
    kind: Annotated[
        str, typer.Option(help="whitening, all-but-the-top, standardisation or mean-removal.")
    ] = "whitening",
    dim: Annotated[
        int | None, typer.Option(help="Whitening: dimensions to keep; all-but-the-top: directions to remove.")
    ] = None,
) -> None:
    """Fit a post-processing of vectors on a corpus, to be used with --post."""
    from likewise.data import SkippedRows
    from likewise.encoder.stream import fit_on_file

    model = encoder.load(run, pooling_config)
    skipped = SkippedRows()
    with progress_bar() as progress:
        fitted = fit_on_file(model, files.dataset(file), kind, dim, progress, skipped)
    if skipped.count:
        notice(str(skipped))
    out.parent.mkdir(parents=True, exist_ok=True)
    fitted.save(out)
    typer.echo(f"{fitted.kind}, {fitted.matrix.shape[0]} -> {fitted.matrix.shape[1]} dimensions, in {out}")
