"""``likewise encode`` and ``fit-postprocessing``: a file of texts -> vectors, or a correction of vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from likewise.cli.output import notice, progress_bar, show_json
from likewise.cli.settings import TEXTS_HELP, FileSettings, Json, ModelSettings, Prompt, command


@command
def encode(
    file: Annotated[str, Argument(help=TEXTS_HELP)],
    out: Annotated[Path, Option(help="The folder for vectors.npy, ids.jsonl and manifest.json.")],
    model: ModelSettings,
    files: FileSettings,
    prompt: Prompt = None,
    as_json: Json = False,
) -> None:
    """Encode a file of any size; the same command again goes on where it stopped."""
    from likewise.encoder.stream import encode_file

    encoder = model.load()
    with progress_bar() as progress:
        done = encode_file(encoder, files.dataset(file), out, prompt=prompt, progress=progress)
    if done.skipped.count:
        notice(str(done.skipped))
    if as_json:
        return show_json(done.to_dict())
    echo(f"{done.manifest.rows} vectors of {done.manifest.dimension} dimensions in {out}")


@command
def fit_postprocessing(
    file: Annotated[str, Argument(help="The texts to fit on: a file or a name.")],
    out: Annotated[Path, Option(help="The file to write, such as whitening.safetensors.")],
    model: ModelSettings,
    files: FileSettings,
    kind: Annotated[str, Option(help="whitening, all-but-the-top, standardisation or mean-removal.")] = "whitening",
    dim: Annotated[
        int | None, Option(help="Whitening: dimensions to keep; all-but-the-top: directions to remove.")
    ] = None,
) -> None:
    """Fit a post-processing of vectors on a corpus, to be used with --post."""
    from likewise.data import SkippedRows
    from likewise.encoder.stream import fit_on_file

    encoder, skipped = model.load(), SkippedRows()
    with progress_bar() as progress:
        fitted = fit_on_file(encoder, files.dataset(file), kind, dim, progress, skipped)
    if skipped.count:
        notice(str(skipped))
    out.parent.mkdir(parents=True, exist_ok=True)
    fitted.save(out)
    echo(f"{fitted.kind}, {fitted.matrix.shape[0]} -> {fitted.matrix.shape[1]} dimensions, in {out}")
