"""``likewise layers``: at which layer words and sentences come together or part."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.screen import notice, progress_bar, screen_width, show_json, show_table
from likewise.cli.settings import (
    MODEL_HELP,
    POOLING_HELP,
    EncoderSettings,
    Json,
    RunSettings,
    refuse_given,
    with_settings,
)
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.encoder import Encoder
    from likewise.geometry.layers import Example
    from likewise.geometry.trajectories import Trajectories, TrajectoryTable

WORD_HELP = (
    "The word, or run of words, to follow: once for all sentences or once for each, in order. bank:2 is the 2nd."
)
LIST = "list"
COLUMN, MARGIN = 8, 4
"""How wide a column of numbers is, with the blanks around them, and the blanks around the names."""


@with_settings
def layers(
    context: typer.Context,
    run: RunSettings,
    texts: Annotated[list[str] | None, typer.Argument(help="Two sentences or more.", show_default=False)] = None,
    word: Annotated[list[str] | None, typer.Option(help=WORD_HELP)] = None,
    sentences: Annotated[bool, typer.Option("--sentences", help="Follow the sentences' pooled vectors.")] = False,
    example: Annotated[str | None, typer.Option(help="A ready example; list shows them.")] = None,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[str | None, typer.Option(help=POOLING_HELP)] = None,
    prompt: Annotated[str | None, typer.Option(help="Put before each sentence; default: the model's own.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves: .png, .svg or .pdf.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    as_json: Json = False,
) -> None:
    """Show how near a word's vectors in several sentences, or the sentences' own, are to one another at each layer."""
    from likewise.geometry.layers import Example, compare_layers
    from likewise.geometry.layers_report import write_layers
    from likewise.plotting.axes import check_format, save_figure

    if example == LIST:
        return _show_examples(as_json)
    if example is not None:
        refuse_given(context, ("texts", "word", "sentences"), "--example")
    asked = _ready(example) if example is not None else Example("", tuple(texts or ()), _words(texts, word, sentences))
    if asked.words and pooling is not None:
        raise UsageError("--pooling does not go with words, whose tokens are averaged; leave it out or say --sentences")
    if plot is not None:
        check_format(plot)

    def load(name: str) -> Encoder:
        return EncoderSettings(name, pooling).load(run)

    with progress_bar() as progress:
        found = compare_layers(asked.texts, asked.words, model, load, prompt, progress)
    if plot is not None:
        notice(f"wrote {save_figure(found.plot(), plot)}")
    if html is not None:
        notice(f"wrote {write_layers(found, html, asked.look_for)}")
    show_json(found.to_dict()) if as_json else _show(found, asked.look_for)


def _words(texts: list[str] | None, word: list[str] | None, sentences: bool) -> tuple[str, ...]:
    """The words to follow; none for whole sentences."""
    if not texts:
        raise UsageError(
            'give sentences: likewise layers --word bank "We will rob a bank." "We sat on the bank."; or --example bank'
        )
    if word and sentences:
        raise UsageError("--word does not go with --sentences; leave one of them out")
    if not word and not sentences:
        raise UsageError("say what to follow: --word WORD, or --sentences for whole sentences")
    return tuple(word or ())


def _ready(name: str) -> Example:
    from likewise.geometry.layers import example

    return example(name)


def _show_examples(as_json: bool) -> None:
    from likewise.geometry.layers import EXAMPLES

    if as_json:
        return show_json({"examples": {name: vars(one) for name, one in EXAMPLES.items()}})
    rows = [
        (name, ", ".join(one.words) or "(sentences)", "\n".join([one.look_for, *one.texts]))
        for name, one in sorted(EXAMPLES.items())
    ]
    show_table(("example", "words", "what to look for"), rows)


def _show(found: TrajectoryTable, look_for: str) -> None:
    first = found.results[0]
    if look_for:
        typer.echo(look_for)
    show_table(("", "sentence"), list(zip(first.names, first.texts, strict=True)))
    for one in found.results:
        _show_numbers(one)
        _show_curves(one)


def _show_numbers(found: Trajectories) -> None:
    """Pairs by layers, in as many tables as the screen needs."""
    longest = max(len(name) for name, _ in found.rows)
    fitting = max(1, (screen_width() - longest - MARGIN) // COLUMN)
    for start in range(0, len(found.layers), fitting):
        some = slice(start, start + fitting)
        rows = [(name, *(f"{value:5.3f}" for value in cosine[some])) for name, cosine in found.rows]
        title = f"{found.model}: {found.title}, cosine by layer" if start == 0 else ""
        show_table(("pair", *found.header[1:][some]), rows, title)


def _show_curves(found: Trajectories) -> None:
    from likewise.plotting.terminal import BARS, sparkline

    values = [value for _, cosine in found.rows for value in cosine if isfinite(value)] or [0.0]
    low, high = min(values), max(values)
    rows = [
        (name, sparkline(cosine, low, high), f"{cosine[0]:.3f}", f"{cosine[pair.lowest]:.3f}", pair.lowest,
         f"{cosine[-1]:.3f}")
        for (name, cosine), pair in zip(found.rows, found.pairs, strict=True)
    ]  # fmt: skip
    scale = f"{BARS[0]} {low:.2f} to {BARS[-1]} {high:.2f}"
    show_table(("pair", scale, "layer 0", "lowest", "at layer", "last"), rows)
