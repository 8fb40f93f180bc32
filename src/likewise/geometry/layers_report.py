"""The page of trajectories: the sentences, the curves and their numbers, in one file that needs no network."""

from __future__ import annotations

from pathlib import Path

from likewise.geometry.trajectories import TrajectoryTable
from likewise.plotting.html import inline_svg, page, paragraph, section, table

LAYERS = "Cosines, layer by layer. Layer 0 is the embedding output: word, position and type, normed."
WORDS = "The same word is close to 1 there: of it, only the position differs between sentences."


def write_layers(found: TrajectoryTable, path: Path, look_for: str = "") -> Path:
    """Write the page; ``look_for`` says what an example shows."""
    first = found.results[0]
    figure = inline_svg(found.plot(sentences=False), f"cosine by layer: {first.title}")
    parts = [paragraph(look_for)] if look_for else []
    parts += [table(("", "sentence"), zip(first.names, first.texts, strict=True))]
    parts += [f"<p>{figure}</p>\n", paragraph(f"{LAYERS} {WORDS}" if first.indices else LAYERS, note=True)]
    parts += [section(one.model, [one._repr_html_()]) for one in found.results]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(f"Layers: {first.title}", parts), encoding="utf-8")
    return path
