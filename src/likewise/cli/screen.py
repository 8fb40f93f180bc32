"""The screen: JSON on stdout, progress and notices on stderr."""

from __future__ import annotations

import json
from typing import Any

import typer

from likewise.plotting.text import printable
from likewise.progress import progress_bar as progress_bar


def show_json(document: Any) -> None:
    """Print exactly one JSON document; numbers that JSON does not know become null."""
    from likewise.results.folder import finite

    typer.echo(json.dumps(finite(document), ensure_ascii=False))


def notice(message: str) -> None:
    """Print a line on stderr, where it cannot spoil a JSON document."""
    typer.echo(f"likewise: {printable(message)}", err=True)
