"""``likewise layers``: at which layer words and sentences come together or part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from likewise.cli.output import Output, progress_bar
from likewise.cli.settings import MODEL_HELP, POOLING_HELP, EncoderSettings, RunSettings, refuse_given, with_settings
from likewise.errors import UsageError

if TYPE_CHECKING:
    from likewise.encoder import Encoder

WORD_HELP = (
    "The word, or run of words, to follow: once for all sentences or once for each, in order. bank:2 is the 2nd."
)
LIST = "list"


@with_settings
def layers(
    context: typer.Context,
    output: Output,
    run: RunSettings,
    texts: Annotated[list[str] | None, typer.Argument(help="Two sentences or more.", show_default=False)] = None,
    word: Annotated[list[str] | None, typer.Option(help=WORD_HELP)] = None,
    sentences: Annotated[bool, typer.Option("--sentences", help="Follow the sentences' pooled vectors.")] = False,
    example: Annotated[str | None, typer.Option(help="A ready example; list shows them.")] = None,
    model: Annotated[list[str], typer.Option("--model", "-m", help=f"{MODEL_HELP} Repeat to compare.")] = ["minilm"],  # noqa: B006
    pooling: Annotated[str | None, typer.Option(help=POOLING_HELP)] = None,
    prompt: Annotated[str | None, typer.Option(help="Put before each sentence; default: the model's own.")] = None,
) -> None:
    """Show the cosine of a word's vectors in several sentences, or of the sentences' own vectors, at each layer."""
    from likewise.geometry import trajectories

    if example == LIST:
        return output.show(trajectories.ExampleList())
    if example is not None:
        refuse_given(context, ("texts", "word", "sentences"), "--example")
        chosen = trajectories.example(example)
    else:
        chosen = trajectories.Example("", tuple(texts or ()), _words(texts, word, sentences))
    if chosen.words and pooling is not None:
        raise UsageError("--pooling does not go with words, whose tokens are averaged; leave it out or say --sentences")

    def load(name: str) -> Encoder:
        return EncoderSettings(name, pooling).load(run)

    with progress_bar() as progress:
        found = trajectories.compare_layers(chosen, model, load, prompt, progress)
    output.show(found, prompt=prompt, run=vars(run))


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
