"""Commands ``models``, ``convert``, ``inspect``, ``similarity``, ``demo``, ``encode`` and ``fit-postprocessing``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, echo

from likewise.cli.output import Output, notice, progress_bar, show_json
from likewise.cli.settings import (
    TEXTS_HELP,
    CalibrationOf,
    EncoderSettings,
    FileSettings,
    Json,
    Label,
    ModelSettings,
    Prompt,
    RunSettings,
    TeamSettings,
    command,
)
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.encoder.stream import Layout


@command
def models(output: Output) -> None:
    """List the models that load here without a network, and published ones with their short names and sizes."""
    from likewise.encoder.weights import Catalogue

    output.show(Catalogue())


@command
def convert(
    folder: Annotated[Path, Argument(help="A model folder that holds pytorch_model.bin or model.onnx.")],
) -> None:
    """Turn a folder's pytorch_model.bin, or the weights of its model.onnx, into safetensors; no code in it is run."""
    from likewise.encoder.onnx_model import convert_folder

    for path in convert_folder(folder):
        echo(f"wrote {path}")


@command
def inspect(
    texts: Annotated[list[str], Argument(help="One text, or several to see a padded batch.")],
    encoder: EncoderSettings,
    run: RunSettings,
    output: Output,
    prompt: Prompt = None,
) -> None:
    """Show a text's tokens and ids, the special tokens, the model's sizes and the shapes of its outputs."""
    from likewise.encoder.inspection import inspect as inspect_texts

    output.show(inspect_texts(encoder.load(run), texts, prompt), run=vars(run))


@command
def similarity(
    texts: Annotated[list[str], Argument(help="Two texts or more; the first is compared with each other one.")],
    model: ModelSettings,
    output: Output,
    matrix: Annotated[bool, Option("--matrix", help="Compare every text with every other.")] = False,
    label: Label = None,
    calibration: CalibrationOf = None,
) -> None:
    """Show how similar the model finds a text and others."""
    if len(texts) < 2:
        raise UsageError("give at least two texts to compare")
    from likewise.encoder.inspection import text_similarities

    scoring = model.load_scoring(label)
    found = text_similarities(scoring, texts, matrix)
    if calibration is not None:
        from likewise.search.meanings import calibration_for, similarities_with_meaning

        found = similarities_with_meaning(found, calibration_for(calibration, scoring))
    output.show(found, run=vars(model.run))


@command
def demo(
    encoder: EncoderSettings,
    run: RunSettings,
    out: Annotated[Path, Option(help="The page to write.")] = Path("out/demo.html"),
) -> None:
    """Look at a few texts through the bundled model and write a page about it."""
    from likewise.demo import demo as run_demo

    Output(html=out).show(run_demo(encoder.load(run)))


@command
def encode(
    file: Annotated[str, Argument(help=TEXTS_HELP)],
    out: Annotated[str, Option(help="The folder for the vectors and manifest.json; with --format parquet also a URI.")],
    model: ModelSettings,
    files: FileSettings,
    team: TeamSettings,
    prompt: Prompt = None,
    layout: Annotated[
        str, Option("--format", help="npy: vectors.npy and ids.jsonl. parquet: files with the columns id and vector.")
    ] = "npy",
    as_json: Json = False,
) -> None:
    """Encode a file of any size; the same command again goes on where it stopped."""
    from likewise.encoder.stream import encode_file

    to = _layout(out, layout)
    with team.opened(model) as (settings, workers), progress_bar() as progress:
        dataset = files.dataset(file)
        done = encode_file(settings.load(), dataset, to, prompt=prompt, progress=progress, workers=workers)
    if done.skipped.count:
        notice(str(done.skipped))
    if as_json:
        return show_json(done.to_dict())
    echo(f"{done.manifest.rows} vectors of {done.manifest.dimension} dimensions in {out}")


def _layout(out: str, layout: str) -> Path | Layout:
    """Where the vectors go."""
    from likewise.data.remote import is_uri, path_of

    if layout not in ("npy", "parquet"):
        raise UsageError(f"unknown format {layout!r}; choose from npy, parquet")
    if layout == "parquet":
        from likewise.encoder.parquet_folder import ParquetFolder

        return ParquetFolder(path_of(out))
    if is_uri(out):
        raise UsageError("vectors.npy needs a folder on a disk; give --format parquet, or a path as --out")
    return Path(out)


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
