"""``likewise senses``: whether a model's layers separate the meanings of a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import MODEL_HELP, EncoderSettings, FileSettings, RunSettings, with_settings

if TYPE_CHECKING:
    from likewise.encoder import Encoder

FILE_HELP = "Words in context: columns sentence, word, word_index (blank-separated, from 0 on) and sense; file or name."


@with_settings
def senses(
    file: Annotated[str, typer.Argument(help=FILE_HELP)],
    output: Output,
    run: RunSettings,
    how: FileSettings,
    train: Annotated[
        str | None,
        typer.Option(help="Look the nearest up in this file. Default: among FILE's others, each left out in turn."),
    ] = None,
    nearest: Annotated[
        str, typer.Option(help="neighbour: the nearest occurrence's sense; centroid: the nearest mean of a sense.")
    ] = "neighbour",
    words: Annotated[str | None, typer.Option(help="Only these words, as apple,bank.")] = None,
    limit: Annotated[
        int | None, typer.Option(help="Only the first occurrences of each word, in each file.", min=1)
    ] = None,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
) -> None:
    """Compare a word's vectors by sense, layer by layer: cosines within and between senses, and nearest-sense accuracy.

    A word's vector is the mean of its tokens. Intervals are bootstrap 95 %: over words, over occurrences for accuracy.
    """
    from likewise.geometry.sense_study import compare_senses, sense_task

    def load(name: str) -> Encoder:
        return EncoderSettings(name).load(run)

    chosen = tuple(word.strip() for word in words.split(",")) if words else ()
    task = sense_task(how.dataset(file), train, chosen, limit)
    with progress_bar() as progress:
        found = compare_senses(task, model, nearest, load, progress)
    output.show(found, limit=limit, words=chosen, run=vars(run))
