"""``likewise evaluate``: how well a model does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.evaluate_retrieval import retrieval
from likewise.cli.screen import notice, progress_bar, show_json, show_table
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    Json,
    PoolingOptions,
    RunSettings,
    with_settings,
)

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.evaluation.sts import StsResult

app = typer.Typer(help="Measure how well a model does.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Measure how well a model does."""


@app.command()
@with_settings
def sts(
    files: Annotated[list[str], typer.Argument(help="Files of scored pairs, or names such as stsb/test.")],
    pooling_config: PoolingOptions,
    run: RunSettings,
    how: FileSettings,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[list[str] | None, typer.Option(help=f"{POOLING_HELP} Repeat to compare.")] = None,
    mix: Annotated[
        str | None, typer.Option(help="Take the second texts from the same rows of this file (mixed languages).")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw human scores against cosines: .png, .svg or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Compare cosines with human similarity scores: Spearman, Pearson, squared error, with 95 % intervals."""
    from likewise.evaluation.sts import PairSource, compare_sts
    from likewise.plotting.axes import check_format, save_figure

    if plot is not None:
        check_format(plot)

    def load(name: str) -> Encoder:
        return EncoderSettings(name).load(run, pooling_config)

    source = PairSource(tuple(files), mix, how.columns(), how.data_dir, how.skip_bad)
    with progress_bar() as progress:
        table = compare_sts(source, model, pooling or [None], load, progress)
    if plot is not None:
        save_figure(table.plot(), plot)
    for result in table.results:
        if result.skipped or result.truncated:
            notice(f"{result.name}: bad rows skipped: {result.skipped}, texts cut at the limit: {result.truncated}")
    if as_json:
        return show_json(table.to_dict())
    show_table(HEADER, [_row(result) for result in table.results], "with bootstrap 95 % intervals")


app.command()(retrieval)


HEADER = ("data", "model", "pooling", "n", "Spearman", "Pearson", "scaled MSE")


def _row(result: StsResult) -> tuple[object, ...]:
    agreement = [f"{one.value:.4f}\n{one.low:.3f}-{one.high:.3f}" for one in result.agreement.values()]
    return result.name, result.model, result.pooling, result.n, *agreement
