"""Bipartite graphs: two columns of units and lines between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.plotting.axes import axes_or_new
from likewise.plotting.style import BLUE, RED, drawable, literal, strength, strongest

MOST_UNITS = 40
"""Longer columns show only units with a line."""
LINE, BETWEEN, CHARACTER, TALLEST = 0.27, 2.6, 0.088, 14.0
"""A row, the gap between the columns, a character, and the largest height, in inches."""
FAINTEST, THICKEST = 0.15, 4.5
STEPS = 24

Slot = tuple[str, int | None]


def bipartite(
    values: ArrayLike,
    left: Sequence[str],
    right: Sequence[str],
    title: str = "",
    ax: Any = None,
    strongest_pairs: int = 40,
) -> Any:
    """Relevances (n, m) as lines from n units to m units: red above 0, blue below, as thick as they are strong.

    >>> axes = bipartite([[0.5, -0.2], [0.0, 0.1]], ["a", "b"], ["c", "d"])
    >>> len(axes.collections[0].get_segments())
    3
    """
    cells = np.asarray(values, dtype=float).reshape(len(left), len(right))
    pairs = _pairs(cells, strongest_pairs)
    columns = [_column(labels, {pair[side] for pair in pairs}) for side, labels in enumerate((left, right))]
    rows = max(map(len, columns))
    label_width = 0.15 + CHARACTER * max(len(name) for column in columns for name, _ in column)
    ax = axes_or_new(ax, (2 * label_width + BETWEEN, min(TALLEST, max(1.6, LINE * rows + 0.6))))
    edge = label_width / (2 * label_width + BETWEEN)
    heights = [_heights(column, rows) for column in columns]
    ends = [(heights[0][row], heights[1][column]) for row, column in pairs]
    _lines(ax, ends, [float(cells[pair]) for pair in pairs], edge)
    for side, column in enumerate(columns):
        _names(ax, column, side, (edge, rows))
    ax.set_xlim(0, 1)
    ax.set_ylim(rows - 0.4, -0.6)
    ax.axis("off")
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    return ax


def _pairs(cells: NDArray[np.float64], count: int) -> list[tuple[int, int]]:
    """The strongest cells of a matrix, weakest first, so that strong lines are on top."""
    sizes = np.nan_to_num(np.abs(cells)).ravel()
    order = np.argsort(-sizes, kind="stable")[:count]
    return [divmod(int(index), cells.shape[1]) for index in order[::-1] if sizes[index] > 0]


def _column(labels: Sequence[str], connected: set[int]) -> list[Slot]:
    """The rows of a column: each label with its index, or a count of hidden ones without an index."""
    if len(labels) <= MOST_UNITS:
        return [(drawable(label), index) for index, label in enumerate(labels)]
    slots: list[Slot] = []
    for hidden, group in groupby(range(len(labels)), lambda index: index not in connected):
        indices = list(group)
        units: list[Slot] = [(drawable(labels[index]), index) for index in indices]
        slots += [(f"⋮ {len(indices)} more", None)] if hidden and len(indices) > 1 else units
    return slots


def _heights(column: Sequence[Slot], rows: int) -> dict[int, float]:
    """The height of each unit by its index; the shorter column is centred."""
    first = (rows - len(column)) / 2
    return {index: first + row for row, (_, index) in enumerate(column) if index is not None}


def _lines(ax: Any, ends: Sequence[tuple[float, float]], values: Sequence[float], edge: float) -> None:
    from matplotlib.collections import LineCollection

    across, scale = np.linspace(0, 1, STEPS), strongest(values)
    eased = across**2 * (3 - 2 * across)  # level at both ends, so that lines stay distinct there
    paths = [np.column_stack([edge + (1 - 2 * edge) * across, start + (end - start) * eased]) for start, end in ends]
    shares = [strength(value, scale) for value in values]
    colours = [
        (*(part / 255 for part in (RED if value > 0 else BLUE)), FAINTEST + (0.9 - FAINTEST) * share)
        for value, share in zip(values, shares, strict=True)
    ]
    widths = [0.5 + (THICKEST - 0.5) * share for share in shares]
    ax.add_collection(LineCollection(paths, colors=colours, linewidths=widths, capstyle="round"))


def _names(ax: Any, column: Sequence[Slot], side: int, size: tuple[float, int]) -> None:
    edge, rows = size
    font = min(10.0, 0.62 * 72 * TALLEST / rows)
    first = (rows - len(column)) / 2
    for row, (name, index) in enumerate(column):
        ink, small = ("#222222", font) if index is not None else ("#888888", 0.8 * font)
        x, align = ((edge - 0.02, "right"), (1 - edge + 0.02, "left"))[side]
        ax.text(x, first + row, name, ha=align, va="center", fontsize=small, color=ink, **literal())
