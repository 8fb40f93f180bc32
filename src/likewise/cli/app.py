"""The ``likewise`` command: every subcommand in one place. Nothing heavy is imported until a command runs."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from likewise import __version__
from likewise.cli import (
    attention,
    attribute,
    benchmark,
    convert,
    demo,
    encode,
    evaluate,
    explain,
    explain_attention,
    faithfulness,
    fit_postprocessing,
    geometry,
    index,
    inspect,
    isotropy,
    layers,
    lint,
    models,
    pos_relevance,
    predict,
    search,
    senses,
    similarity,
    studio,
    synthetic,
    train,
    tune,
)
from likewise.cli.output import notice
from likewise.errors import Cancelled, LikewiseError

app = typer.Typer(
    help="A microscope for text similarity: embed, search, explain and improve BERT-like encoders.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS: dict[str, Callable[..., None]] = {
    "attention": attention.attention,
    "attribute": attribute.attribute,
    "benchmark": benchmark.benchmark,
    "convert": convert.convert,
    "demo": demo.demo,
    "encode": encode.encode,
    "explain": explain.explain,
    "explain-attention": explain_attention.explain_attention,
    "faithfulness": faithfulness.faithfulness,
    "fit-postprocessing": fit_postprocessing.fit_postprocessing,
    "geometry": geometry.geometry,
    "index": index.index,
    "inspect": inspect.inspect,
    "isotropy": isotropy.isotropy,
    "layers": layers.layers,
    "lint": lint.lint,
    "models": models.models,
    "pos-relevance": pos_relevance.pos_relevance,
    "predict": predict.predict,
    "search": search.search,
    "senses": senses.senses,
    "similarity": similarity.similarity,
    "studio": studio.studio,
    "synthetic": synthetic.synthetic,
    "train": train.train,
    "tune": tune.tune,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(evaluate.app, name="evaluate")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"likewise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that stand before any command."""


def main() -> None:
    """Run the command line: a mistake that the user can mend becomes one line on stderr and exit code 2."""
    # At exit the collector would walk through all of torch once more, for nothing: a fifth of a short command.
    atexit.register(gc.freeze)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("likewise: %(message)s"))
    log = logging.getLogger("likewise")
    log.handlers, log.propagate = [handler], False
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot show a letter shows a stand-in; nothing is lost for that.
            stream.reconfigure(errors="replace")
    try:
        app(prog_name="likewise")
    except Cancelled:
        sys.exit(130)
    except LikewiseError as error:
        notice(str(error))
        sys.exit(2)
    except OSError as error:
        # A file that cannot be read or written; the operating system says why.
        where = "" if error.filename is None else f"{error.filename}: "
        notice(f"{where}{error.strerror or error}; give another path or make room")
        sys.exit(2)
