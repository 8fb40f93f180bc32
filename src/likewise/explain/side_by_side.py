"""Side by side: several explanations of one row, such as the same pair in two languages and mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.encoder import Encoder
from likewise.explain.explanation import Explanation
from likewise.explain.pairs import explain_many
from likewise.plotting.axes import axes_or_new
from likewise.plotting.heatmap import heatmap
from likewise.plotting.html import paragraph

CELL, EDGE, SMALLEST, LARGEST, TITLE = 0.42, 2.3, 3.6, 9.0, 0.6
"""Inches: a cell's side, the room for labels, the bounds of a panel, and the room for its title."""


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Explanations of one row by their names, e.g. en-en, de-de and en-de."""

    row: int
    explanations: Mapping[str, Explanation]

    def to_dict(self) -> dict[str, Any]:
        """The row's number and every ledger under its name."""
        return {"row": self.row} | {"maps": {name: one.to_dict() for name, one in self.explanations.items()}}

    def plot(self) -> Any:
        """A heat map each, in one row; returns the first Axes."""
        count = len(self.explanations)
        longest = max(max(one.relevance.shape) for one in self.explanations.values())
        side = min(LARGEST, max(SMALLEST, CELL * longest + EDGE))
        panels = row_of_axes(count, (side, side + TITLE))
        for ax, (name, one) in zip(panels, self.explanations.items(), strict=True):
            title = f"{name}: {one.similarity:.3f}"
            heatmap(one.relevance, one.left.labels, one.right.labels, title, ax)
        return panels[0]

    def _repr_html_(self) -> str:
        return "".join(
            paragraph(f"row {self.row}, {name}") + one._repr_html_() for name, one in self.explanations.items()
        )


def row_of_axes(count: int, size: tuple[float, float]) -> Sequence[Any]:
    """``count`` Axes of ``size`` inches beside each other in one figure."""
    figure = axes_or_new(None, (size[0] * count, size[1])).figure
    figure.clear()
    return [figure.add_subplot(1, count, index + 1) for index in range(count)]


def side_by_side(
    encoder: Encoder, texts: Mapping[str, tuple[str, str]], row: int, granularity: str = "word", bias: str = "separate"
) -> SideBySide:
    """Explain one row's named pairs of texts.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> found = side_by_side(encoder, {"en-en": ("A cat.", "A dog."), "en-de": ("A cat.", "Ein Hund.")}, 1)
    >>> list(found.explanations)
    ['en-en', 'en-de']
    """
    found = explain_many(encoder, list(texts.values()), granularity=granularity, bias=bias, reference="none")
    return SideBySide(row, dict(zip(texts, found, strict=True)))
