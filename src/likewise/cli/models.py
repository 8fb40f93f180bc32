"""``likewise models``: which models load here, and which have short names."""

from __future__ import annotations

from likewise.cli.output import Output
from likewise.cli.settings import with_settings


@with_settings
def models(output: Output) -> None:
    """List the models that load here without a network, and the short names of others."""
    from likewise.encoder.weights import Catalogue

    output.show(Catalogue())
