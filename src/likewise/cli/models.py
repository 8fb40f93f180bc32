"""Models and single texts: ``likewise models``, ``convert``, ``inspect``, ``similarity`` and ``demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from likewise.cli.output import Output
from likewise.cli.settings import EncoderSettings, ModelSettings, Prompt, RunSettings, command
from likewise.errors import UsageError


@command
def models(output: Output) -> None:
    """List the models that load here without a network, and the short names of others."""
    from likewise.encoder.weights import Catalogue

    output.show(Catalogue())


@command
def convert(folder: Annotated[Path, Argument(help="A model folder that holds pytorch_model.bin.")]) -> None:
    """Turn a folder's pytorch_model.bin into safetensors; no code in it is ever run."""
    from likewise.encoder.weights import convert as turn

    for path in turn(folder):
        echo(f"wrote {path}")


@command
def inspect(
    texts: Annotated[list[str], Argument(help="One text, or several to see a padded batch.")],
    encoder: EncoderSettings,
    run: RunSettings,
    output: Output,
    prompt: Prompt = None,
) -> None:
    """Show a text's tokens and ids, the special tokens, the model's sizes and the shapes of its outputs."""
    from likewise.encoder.inspection import inspect as inspect_texts

    output.show(inspect_texts(encoder.load(run), texts, prompt), run=vars(run))


@command
def similarity(
    texts: Annotated[list[str], Argument(help="Two texts or more; the first is compared with each other one.")],
    model: ModelSettings,
    output: Output,
    matrix: Annotated[bool, Option("--matrix", help="Compare every text with every other.")] = False,
) -> None:
    """Show how similar the model finds a text and others."""
    if len(texts) < 2:
        raise UsageError("give at least two texts to compare")
    from likewise.encoder.inspection import text_similarities

    output.show(text_similarities(model.load(), texts, matrix), run=vars(model.run))


@command
def demo(
    encoder: EncoderSettings,
    run: RunSettings,
    out: Annotated[Path, Option(help="The page to write.")] = Path("out/demo.html"),
) -> None:
    """Look at a few texts through the bundled model and write a page about it."""
    from likewise.demo import demo as run_demo

    Output(html=out).show(run_demo(encoder.load(run)))
