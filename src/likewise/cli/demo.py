"""``likewise demo``: a first look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.output import Output
from likewise.cli.settings import EncoderSettings, RunSettings, with_settings


@with_settings
def demo(
    encoder: EncoderSettings,
    run: RunSettings,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("out/demo.html"),
) -> None:
    """Look at a few texts through the bundled model and write a page about it."""
    from likewise.demo import demo as run_demo

    Output(html=out).show(run_demo(encoder.load(run)))
