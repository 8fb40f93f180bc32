"""``likewise studio``: the web application on this machine."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli.screen import notice
from likewise.cli.settings import GRAMMAR_HELP
from likewise.errors import MissingExtra


def studio(
    host: Annotated[str, typer.Option(help="The address to listen on; any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.")] = 8000,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model that may be chosen; give several.")
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="A file, or a name such as stsb/test, that may be chosen; give several.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="The folder of training runs, whose models may be chosen too.")] = Path(
        "runs"
    ),
    folder: Annotated[Path | None, typer.Option(help="Where uploads and results are kept.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where names such as stsb/test are looked up.")] = None,
    grammar: Annotated[str | None, typer.Option(help=GRAMMAR_HELP)] = None,
    token: Annotated[str, typer.Option(help="What visitors must know, in place of one that is made up.")] = "",
    threads: Annotated[int | None, typer.Option(help="Threads of the models; default: all cores.", min=1)] = None,
) -> None:
    """Serve the studio: look at pairs, search, layers, attention, corpora and training runs in a browser."""
    try:
        from likewise.server.app import create_app
        from likewise.server.serving import listening, serve
    except ImportError as error:
        raise MissingExtra(str(error.name or "fastapi"), "studio") from error
    from likewise.server.settings import StudioSettings
    from likewise.storage import user_cache

    asked = StudioSettings(
        host, port, token, folder or user_cache() / "studio", tuple(model or ("minilm",)), tuple(corpus or ()),
        runs, data_dir, grammar, threads,
    )  # fmt: skip
    here, settings = listening(asked)
    app = create_app(settings)
    notice(f"the studio is at {settings.address} (Ctrl-C ends it)")
    if browser:
        webbrowser.open(settings.address)
    serve(app, here)
