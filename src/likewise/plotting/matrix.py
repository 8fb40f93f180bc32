"""Matrices as SVG heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.colours import WHITE_INK_FROM, mixed, strength, strongest
from likewise.plotting.text import printable, shortened

CELL, LABEL_LETTERS = 46, 42


def matrix_svg(values: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Cells (n, m) coloured symmetrically around 0, red above and blue below, each with its number.

    >>> matrix_svg([[1.0]], ["<b>"], ["c"]).count("&lt;b&gt;") > 0
    True
    """
    cells = np.asarray(values, dtype=float)
    scale = strongest(cells)
    left, top = 8 * min(LABEL_LETTERS, max(map(len, rows))) + 12, 30
    width, height = left + CELL * len(columns) + 8, top + CELL * len(rows) + 8
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' role='img'"]
    parts.append(" font-family='system-ui, sans-serif' font-size='13' fill='currentColor'>\n")
    for index, name in enumerate(columns):
        middle = left + CELL * (index + 0.5)
        parts.append(f"<text x='{middle}' y='20' text-anchor='middle'>{index + 1}<title>{_safe(name)}</title></text>")
    for row, name in enumerate(rows):
        line = top + CELL * (row + 0.5) + 5
        label = _safe(f"{row + 1}  {shortened(name, LABEL_LETTERS)}")
        parts.append(f"<text x='{left - 10}' y='{line}' text-anchor='end'>{label}</text>\n")
        for column, other in enumerate(columns):
            hint = _safe(f"{name} / {other}: {cells[row, column]:.4f}")
            corner = (left + CELL * column, top + CELL * row)
            parts.append(_cell(float(cells[row, column]), scale, corner, hint))
    return "".join([*parts, "</svg>\n"])


def _safe(text: str) -> str:
    return escape(printable(text))


def _cell(value: float, scale: float, corner: tuple[int, int], hint: str) -> str:
    red, green, blue = mixed(value, scale)
    ink = "#fff" if strength(value, scale) > WHITE_INK_FROM else "#111"
    x, y = corner
    return (
        f"<g><title>{hint}</title><rect x='{x}' y='{y}' width='{CELL - 2}' height='{CELL - 2}' rx='3'"
        f" fill='rgb({red},{green},{blue})'/><text x='{x + CELL / 2 - 1}' y='{y + CELL / 2 + 4}'"
        f" text-anchor='middle' fill='{ink}'>{value:.2f}</text></g>\n"
    )
