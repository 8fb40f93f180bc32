"""``likewise isotropy``: whether correcting the spread of a model's vectors helps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table, with_interval
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    Json,
    ReadingSettings,
    RunSettings,
    parse_numbers,
    with_settings,
)

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.geometry.isotropy import IsotropyTable


@with_settings
def isotropy(
    file: Annotated[str, typer.Argument(help="A file of scored pairs, or a name such as stsb/test.")],
    reading: ReadingSettings,
    run: RunSettings,
    how: FileSettings,
    fit: Annotated[
        str | None,
        typer.Option(help="Fit the corrections on this file of pairs or texts. Default: on FILE's own texts."),
    ] = None,
    dim: Annotated[
        str | None,
        typer.Option(help="Dimensions that whitening cuts to. Default: 64,128,256, as far as there are more."),
    ] = None,
    remove: Annotated[
        int | None, typer.Option(help="Directions that all-but-the-top removes. Default: a hundredth.", min=0)
    ] = None,
    k: Annotated[str, typer.Option(help="Where recall is taken: among the first k texts.")] = "1,10",
    min_score: Annotated[
        float | None,
        typer.Option(help="Only pairs with at least this score ask. Default: four fifths of the way up FILE's scores."),
    ] = None,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[str | None, typer.Option(help=POOLING_HELP)] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw baseline, Spearman and recall by setting: .png, .svg or .pdf.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for run.json, the table, the figure and a page.")] = None,
    as_json: Json = False,
) -> None:
    """Compare vectors before and after corrections: expected cosine, IsoScore, Spearman and recall, in one table.

    The corrections (mean removal, standardisation, all-but-the-top, whitening) are fitted on texts, never on scores: on
    FILE's own texts, unless --fit names others. For recall each right text asks for its left one among all left texts.
    """
    from likewise.geometry.isotropy import IsotropyOptions, IsotropySource, compare_isotropy
    from likewise.geometry.isotropy_report import write_isotropy
    from likewise.plotting.axes import check_format, save_figure

    for path in (plot, None if out is None else out / "isotropy.png"):
        if path is not None:
            check_format(path)
    options = IsotropyOptions(None if dim is None else parse_numbers("--dim", dim), remove, parse_numbers("--k", k))

    def load(name: str) -> Encoder:
        return EncoderSettings(name, pooling).load(run, reading)

    began = time.time()
    task = IsotropySource(file, fit, min_score, how.columns(), how.data_dir, how.skip_bad).read()
    with progress_bar() as progress:
        found = compare_isotropy(task, model, options, load, progress)
    for one in found.results:
        if one.metadata["skipped"] or one.metadata["truncated"]:
            summary = (
                f"bad rows skipped: {one.metadata['skipped']}, texts cut at the limit: {one.metadata['truncated']}"
            )
            notice(f"{one.data}: {summary}")
        if one.caution:
            notice(f"{one.model}: {one.caution}")
    if plot is not None:
        notice(f"wrote {save_figure(found.plot(), plot)}")
    if out is not None:
        metadata = run_facts(began) | {"options": vars(options), "reading": vars(reading), "run": vars(run)}
        notice(f"wrote {write_isotropy(found, metadata, out)}")
    show_json(found.to_dict()) if as_json else _show(found)


def _show(found: IsotropyTable) -> None:
    for one in found.results:
        rows = [[with_interval(cell) for cell in setting.cells] for setting in one.settings]
        show_table(one.header, rows, f"{one.model}: {one.note}; with bootstrap 95 % intervals")
