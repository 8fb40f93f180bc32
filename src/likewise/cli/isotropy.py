"""``likewise isotropy``: whether correcting the spread of a model's vectors helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    FileSettings,
    PoolingOptions,
    RunSettings,
    parse_numbers,
    with_settings,
)

if TYPE_CHECKING:
    from likewise.encoder import Encoder


@with_settings
def isotropy(
    file: Annotated[str, typer.Argument(help="A file of scored pairs, or a name such as stsb/test.")],
    output: Output,
    pooling_config: PoolingOptions,
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
    k: Annotated[str, typer.Option(help="Recall is measured among the first k texts.")] = "1,10",
    min_score: Annotated[
        float | None,
        typer.Option(help="Only pairs with at least this score are queries. Default: four fifths of the way up."),
    ] = None,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[str | None, typer.Option(help=POOLING_HELP)] = None,
) -> None:
    """Compare vectors before and after corrections: expected cosine, IsoScore, Spearman and recall, in one table.

    The corrections (mean removal, standardisation, all-but-the-top, whitening) are fitted on texts, never on scores: on
    FILE's own texts, unless --fit names others. For recall each right text is a
    query for its left one among all left texts.
    """
    from likewise.geometry.isotropy import IsotropyOptions, compare_isotropy, isotropy_task

    options = IsotropyOptions(None if dim is None else parse_numbers("--dim", dim), remove, parse_numbers("--k", k))

    def load(name: str) -> Encoder:
        return EncoderSettings(name, pooling).load(run, pooling_config)

    task = isotropy_task(how.dataset(file), fit, min_score)
    with progress_bar() as progress:
        found = compare_isotropy(task, model, options, load, progress)
    output.show(found, options=vars(options), reading=vars(pooling_config), run=vars(run))
