"""``likewise convert``: old pickled weights -> safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(folder: Annotated[Path, typer.Argument(help="A model folder that holds pytorch_model.bin.")]) -> None:
    """Turn a folder's pytorch_model.bin into safetensors; no code in it is ever run."""
    from likewise.encoder.weights import convert as turn

    for path in turn(folder):
        typer.echo(f"wrote {path}")
