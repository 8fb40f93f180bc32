"""``likewise evaluate``: how well a model does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.evaluate_retrieval import retrieval
from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    PoolingOptions,
    RunSettings,
    with_settings,
)

if TYPE_CHECKING:
    from likewise.encoder import Encoder

app = typer.Typer(help="Measure how well a model does.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Measure how well a model does."""


@app.command()
@with_settings
def sts(
    files: Annotated[list[str], typer.Argument(help="Files of scored pairs, or names such as stsb/test.")],
    output: Output,
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[list[str] | None, typer.Option(help=f"{POOLING_HELP} Repeat to compare.")] = None,
    mix: Annotated[
        str | None, typer.Option(help="Take the second texts from the same rows of this file (mixed languages).")
    ] = None,
) -> None:
    """Compare cosines with human similarity scores: Spearman, Pearson, squared error, with 95 % intervals."""
    from likewise.evaluation.sts import compare_sts

    def load(name: str) -> Encoder:
        return EncoderSettings(name).load(run, pooling_config)

    datasets = [how.dataset(file) for file in files]
    with progress_bar() as progress:
        found = compare_sts(datasets, model, pooling or [None], mix, load, progress)
    output.show(found, reading=vars(pooling_config), run=vars(run))


app.command()(retrieval)
