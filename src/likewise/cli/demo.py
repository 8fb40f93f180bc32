"""``likewise demo``: a first look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.screen import show_table
from likewise.cli.settings import EncoderSettings, RunSettings, with_settings


@with_settings
def demo(
    encoder: EncoderSettings,
    run: RunSettings,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("out/demo.html"),
) -> None:
    """Look at a few texts through the bundled model and write a page about it."""
    from likewise.demo import demo as run_demo
    from likewise.demo_report import write_demo

    result = run_demo(encoder.load(run))
    numbers = [str(index + 1) for index in range(len(result.texts))]
    rows = [
        (f"{index + 1} {text}", *map(float, row))
        for index, (text, row) in enumerate(zip(result.texts, result.similarity, strict=True))
    ]
    show_table(("how similar the model finds these", *numbers), rows)
    strongest = [(left.text, right.text, value) for left, right, value in result.explanation.strongest(6)]
    show_table(("1", "2", "adds to the cosine"), strongest, "why it finds the first two similar")
    show_table(("kind of pair", "pairs", "mean score 0-5", "mean cosine"), result.kinds)
    typer.echo(f"the whole of it: {write_demo(result, out)}")
