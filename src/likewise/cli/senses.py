"""``likewise senses``: whether a model's layers tell the meanings of a word apart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.run_facts import run_facts
from likewise.cli.screen import notice, progress_bar, show_json, show_table, with_interval
from likewise.cli.settings import MODEL_HELP, EncoderSettings, FileSettings, Json, RunSettings, with_settings

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.geometry.sense_study import SenseStudy, SenseTable

FILE_HELP = "Words in context: columns sentence, word, word_index (blank-separated, from 0 on) and sense; file or name."


@with_settings
def senses(
    file: Annotated[str, typer.Argument(help=FILE_HELP)],
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
    plot: Annotated[Path | None, typer.Option(help="Draw cosines and accuracy by layer: .png, .svg or .pdf.")] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for run.json, tables, the figure and a page.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a word's vectors by sense, layer by layer: cosines within and between senses, and nearest-sense accuracy.

    A word's vector is the mean of its tokens. Intervals are bootstrap 95 %: over words, over occurrences for accuracy.
    """
    from likewise.geometry.sense_study import SenseSource, compare_senses
    from likewise.geometry.senses_report import write_senses
    from likewise.plotting.axes import check_format, save_figure

    for path in (plot, None if out is None else out / "senses.png"):
        if path is not None:
            check_format(path)

    def load(name: str) -> Encoder:
        return EncoderSettings(name).load(run)

    began = time.time()
    wanted = tuple(word.strip() for word in words.split(",")) if words else ()
    task = SenseSource(file, train, wanted, limit, how.columns(), how.data_dir, how.skip_bad).read()
    with progress_bar() as progress:
        found = compare_senses(task, model, nearest, load, progress)
    _tell(found)
    if plot is not None:
        notice(f"wrote {save_figure(found.plot(), plot)}")
    if out is not None:
        metadata = run_facts(began) | {"limit": limit, "words": wanted, "run": vars(run)}
        notice(f"wrote {write_senses(found, metadata, out)}")
    show_json(found.to_dict()) if as_json else _show(found)


def _tell(found: SenseTable) -> None:
    first = found.results[0]
    if first.skipped:
        notice(f"{first.data}: bad rows skipped: {first.skipped}")
    if first.repeated:
        notice(f"{first.data}: left out, since their text has the word already: {first.repeated}")
    if first.misspelt:
        notice(
            f"{first.data}: words whose index leads to another word: {first.misspelt}; does word_index count from 0?"
        )
    for one in found.results:
        if one.cut or one.geometry.unanswered:
            summary = f"words cut at the limit: {one.cut}, without another to compare with: {one.geometry.unanswered}"
            notice(f"{one.model}: left out: {summary}")


def _show(found: SenseTable) -> None:
    for one in found.results:
        _show_model(one)


def _show_model(one: SenseStudy) -> None:
    from likewise.geometry.sense_study import LAYER_HEADER, WORD_HEADER

    geometry = one.geometry
    rows = [(number, *map(with_interval, layer.intervals.values())) for number, layer in enumerate(geometry.layers)]
    title = f"{one.model} on {one.data}, n = {geometry.n}, with bootstrap 95 % intervals\n{one.way}"
    show_table(LAYER_HEADER, rows, title)
    show_table(WORD_HEADER, [*one.word_rows, _total(one)], f"words at layer {geometry.best.layer}, the best by macro")


def _total(one: SenseStudy) -> tuple[object, ...]:
    """What the words come to: shares over all occurrences, and cosines averaged over words."""
    found, best = one.geometry, one.geometry.best
    counts = ("all", found.n, sum(word.senses for word in found.words))
    return (*counts, found.baseline.value, best.accuracy.value, best.within.value, best.between.value)
