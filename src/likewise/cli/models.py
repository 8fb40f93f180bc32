"""``likewise models``: which models load here, and which have short names."""

from __future__ import annotations

import typer

from likewise.cli.screen import show_json, show_table
from likewise.cli.settings import Json


def models(as_json: Json = False) -> None:
    """List the models that load here without a network, and the short names of others."""
    from likewise.encoder.catalogue import SHORT_NAMES, available

    if as_json:
        return show_json({"available": available(), "short_names": SHORT_NAMES})
    typer.echo(f"available here: {', '.join(available()) or 'none'}")
    show_table(("short name", "hub id"), list(SHORT_NAMES.items()))
