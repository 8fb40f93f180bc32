"""``likewise predict``: the predictions of a trained model's head for texts or pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import FileSettings, RunSettings, with_settings


@with_settings
def predict(
    folder: Annotated[Path, typer.Argument(help="The folder of a trained model: the out of likewise train.")],
    file: Annotated[str, typer.Argument(help="A file of texts (sentiment) or pairs, or a name such as stsb/test.")],
    run: RunSettings,
    output: Output,
    how: FileSettings,
    task: Annotated[str, typer.Option(help="sentiment, paraphrase or similarity; needed if there are several.")] = "",
    limit: Annotated[int | None, typer.Option(help="Only the first rows.", min=1)] = None,
) -> None:
    """Predict a file's rows with the heads of a trained model."""
    from likewise.train.saving import load_run, predict_file

    saved = load_run(folder, device=run.device, threads=run.threads, dtype=run.dtype, backend=run.backend)
    with progress_bar() as progress:
        found = predict_file(saved, how.dataset(file, limit), task, progress)
    output.show(found)
