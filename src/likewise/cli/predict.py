"""``likewise predict``: what a trained model's head says of texts or pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import FileSettings, Json, RunSettings, with_settings


@with_settings
def predict(
    folder: Annotated[Path, typer.Argument(help="The folder of a trained model: the out of likewise train.")],
    file: Annotated[str, typer.Argument(help="A file of texts (sentiment) or pairs, or a name such as stsb/test.")],
    run: RunSettings,
    how: FileSettings,
    task: Annotated[
        str, typer.Option(help="sentiment, paraphrase or similarity; needed where there are several.")
    ] = "",
    limit: Annotated[int | None, typer.Option(help="Only the first rows.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Judge a file's rows with the heads of a trained model."""
    from likewise.train.predicting import Unjudged, predict_file
    from likewise.train.saving import load_run

    source = Unjudged(file, how.columns(), how.data_dir, how.skip_bad, limit)
    saved = load_run(folder, device=run.device, threads=run.threads, dtype=run.dtype, backend=run.backend)
    with progress_bar() as progress:
        found = predict_file(saved, source, task, progress)
    if found.skipped.count:
        notice(f"{file}: {found.skipped}")
    if as_json:
        show_json(found.to_dict())
        return
    rows = [(row["id"], row["predicted"], " | ".join(row["texts"])) for row in found.to_dict()["predictions"]]
    show_table(("id", found.prediction.task, "texts"), rows)
