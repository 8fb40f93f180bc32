"""The ``likewise`` command with all subcommands; heavy libraries are imported only when a command runs."""

from __future__ import annotations

import atexit
import gc
import io
import logging
import sys
from typing import Annotated

import typer

from likewise import __version__

# Each module adds its commands to the app.
from likewise.cli import (  # noqa: F401
    attention,
    benchmark,
    calibrate,
    compare_models,
    data,
    duplicates,
    evaluate,
    explain,
    geometry,
    lint,
    models,
    reproduce,
    search,
    studio,
    train,
)
from likewise.cli.output import notice
from likewise.cli.settings import app
from likewise.errors import Cancelled, LikewiseError

app.registered_commands.sort(key=lambda command: getattr(command.callback, "__name__", ""))


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
        reason = error.strerror or f"a file could not be read or written ({error})"
        notice(f"{where}{reason}; give another path or make room")
        sys.exit(2)
