"""Heat maps (signed, from zero, confusion matrices, two triangles in one), and lines between units of two texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.plotting.axes import axes_or_new, colour_map, drawable, literal
from likewise.plotting.terminal import BLUE, RED, WHITE, WHITE_INK_FROM, brief, strength, strongest

MOST_LABELS, MOST_NUMBERS, SHORT = 60, 12, 2
CELL, LARGEST, SMALLEST = 0.48, 11.0, 1.6  # The side of a cell and the bounds of the matrix, in inches
CELLS = {"interpolation": "nearest", "aspect": "equal"}
COUNT_CELL, CHARACTER = 0.72, 0.1  # The side of a cell with a count and a share, the width of a character; inches


def heatmap(values: ArrayLike, rows: Sequence[str], columns: Sequence[str], title: str = "", ax: Any = None) -> Any:
    """Cells (n, m) coloured symmetrically around 0, red above and blue below, under their literal labels."""
    cells = np.asarray(values, dtype=float).reshape(len(rows), len(columns))
    ax, scale = axes_or_new(ax, _size(rows, columns)), strongest(cells)
    image = ax.imshow(cells, cmap=colour_map(BLUE, WHITE, RED), vmin=-scale, vmax=scale, **CELLS)
    _frame(ax, rows, columns, title)
    _bar(ax, image)
    if max(cells.shape) <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(cells):
            _number(ax, (column, row), float(value), scale, 8)
    return ax


def framed(ax: Any, cells: ArrayLike) -> None:
    """Draw a frame around some cells of a heat map: (n, m), true for a frame."""
    from matplotlib.collections import PolyCollection

    squares = [_square(row, column) for row, column in zip(*np.nonzero(np.asarray(cells)), strict=True)]
    ax.add_collection(PolyCollection(squares, facecolors="none", edgecolors="#111111", linewidths=1.4))


def intensity_map(
    values: ArrayLike, rows: Sequence[str], columns: Sequence[str], title: str = "", ax: Any = None
) -> Any:
    """Cells (n, m) from 0, larger ones brighter, under their literal labels; grey for nan.

    >>> intensity_map([[0.5, 0.2]], ["1"], ["1", "2"]).images[0].get_clim()
    (0.0, 0.5)
    """
    from matplotlib import colormaps

    cells = np.asarray(values, dtype=float).reshape(len(rows), len(columns))
    ax = axes_or_new(ax, _size(rows, columns))
    bright = colormaps["cividis"].with_extremes(bad="#cccccc")
    image = ax.imshow(cells, cmap=bright, vmin=0.0, vmax=strongest(cells), **CELLS)
    _frame(ax, rows, columns, title)
    if max(map(len, columns)) <= SHORT:
        _upright(ax)
    _bar(ax, image)
    return ax


def confusion_matrix(counts: ArrayLike, classes: Sequence[str], title: str = "", ax: Any = None) -> Any:
    """Predicted classes (columns) by true class (rows), (k, k): counts, and shares of the row; empty rows are grey."""
    cells = np.asarray(counts, dtype=float).reshape(len(classes), len(classes))
    of = cells.sum(1, keepdims=True)
    shares = np.divide(cells, of, out=np.full_like(cells, np.nan), where=of > 0)
    longest = max(len(drawable(name)) for name in classes)
    ax = axes_or_new(ax, _size(classes, classes, cell=max(COUNT_CELL, CHARACTER * longest)))
    ax.imshow(shares, cmap=colour_map(WHITE, BLUE), vmin=0.0, vmax=1.0, **CELLS)
    _frame(ax, classes, classes, title)
    _upright(ax)
    # A frame, because most cells are nearly white.
    ax.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.8)
    for (row, column), share in np.ndenumerate(shares):
        count = f"{int(cells[row, column])}"
        ink = "white" if share > WHITE_INK_FROM else "#222222"
        shown = count if np.isnan(share) else f"{count}\n{share:.0%}"
        ax.text(column, row, shown, ha="center", va="center", color=ink, fontsize=9)
    ax.set_ylabel("true")
    ax.set_xlabel("predicted")
    ax.xaxis.set_label_position("top")
    return ax


def split_heatmap(
    upper: ArrayLike, lower: ArrayLike, labels: Sequence[str], titles: tuple[str, str], ax: Any = None
) -> Any:
    """Two symmetric tables (k, k) in one: ``upper`` above the diagonal, ``lower`` below it, both on split cells."""
    from matplotlib.collections import PolyCollection

    above, below = (np.asarray(each, dtype=float) for each in (upper, lower))
    ax = axes_or_new(ax, _size(labels, labels, cell=1.25 * CELL))
    count, scale = len(labels), strongest(above, below)
    cells = [(row, column) for row in range(count) for column in range(count) if row != column]
    outlines = [_square(row, column) for row, column in cells]
    found = [(above if row < column else below)[row, column] for row, column in cells]
    middles: list[tuple[float, float]] = [(column, row) for row, column in cells]
    for index in range(count):
        start, right, end, left = _square(index, index)
        outlines += [[start, right, end], [start, end, left]]
        found += [above[index, index], below[index, index]]
        middles += [(index + 0.2, index - 0.22), (index - 0.2, index + 0.24)]
    polygons = PolyCollection(
        outlines, array=np.array(found), cmap=colour_map(BLUE, WHITE, RED), edgecolors="white", linewidths=0.8
    )
    polygons.set_clim(-scale, scale)
    ax.set_aspect("equal")
    _bar(ax, ax.add_collection(polygons))
    _frame(ax, labels, labels, "")
    _sides(ax, titles)
    if count <= MOST_NUMBERS:
        sizes = [8] * len(cells) + [6] * (2 * count)
        for middle, value, size in zip(middles, found, sizes, strict=True):
            _number(ax, middle, float(value), scale, size)
    return ax


def _size(rows: Sequence[str], columns: Sequence[str], cell: float = CELL) -> tuple[float, float]:
    """The size of a figure, which grows with the matrix up to a bound."""
    cell = min(cell, LARGEST / max(len(rows), len(columns)))
    left, above = (0.085 * max(len(drawable(label)) for label in labels) for labels in (rows, columns))
    inner = [max(SMALLEST, cell * len(labels)) for labels in (columns, rows)]
    return inner[0] + left + 1.2, inner[1] + above + 0.7


def _frame(ax: Any, rows: Sequence[str], columns: Sequence[str], title: str) -> None:
    for axis, labels, which in ((ax.yaxis, rows, "y"), (ax.xaxis, columns, "x")):
        every = math.ceil(len(labels) / MOST_LABELS)
        indices = range(0, len(labels), every)
        size = 9 if len(labels) <= 30 else 6.5
        axis.set_ticks(indices, [drawable(labels[index]) for index in indices], fontsize=size, **literal())
        ax.tick_params(which, length=0 if every == 1 else 2, color="#888888")
    ax.xaxis.tick_top()
    flat = len(columns) > 30
    for label in ax.get_xticklabels():
        # Anchored at its start, so that a slanted label begins above its column.
        index = {"ha": "center", "va": "bottom"} if flat else {"ha": "left", "va": "center", "rotation_mode": "anchor"}
        label.set(rotation=90 if flat else 55, **index)
    ax.set_xlim(-0.5, len(columns) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.spines[:].set_visible(False)
    ax.set_title(drawable(title, 90), fontsize=10, **literal())


def _upright(ax: Any) -> None:
    """Set column labels upright."""
    ax.tick_params("x", labelrotation=0)
    for label in ax.get_xticklabels():
        label.set(ha="center", va="bottom")


def _bar(ax: Any, coloured: Any) -> None:
    bar = ax.figure.colorbar(coloured, ax=ax, shrink=0.7, aspect=18, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=2, color="#888888")


def _number(ax: Any, index: tuple[float, float], value: float, scale: float, size: float) -> None:
    ink = "white" if strength(value, scale) > WHITE_INK_FROM else "#222222"
    ax.text(*index, brief(value, scale), ha="center", va="center", color=ink, fontsize=size)


def _square(row: int, column: int) -> list[tuple[float, float]]:
    return [(column + across, row + down) for across, down in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))]


def _sides(ax: Any, titles: tuple[str, str]) -> None:
    """The names of the two tables, each next to its triangle."""
    upper, lower = (drawable(title, 60) for title in titles)
    around = {"fontsize": 8, "color": "#555555", **literal()}
    ax.annotate(f"◥ {upper}", (1, 0), (0, -6), "axes fraction", "offset points", ha="right", va="top", **around)
    ax.annotate(f"◣ {lower}", (0, 0), (0, -6), "axes fraction", "offset points", ha="left", va="top", **around)


MOST_UNITS = 40  # Longer columns show only units with a line
LINE, BETWEEN, NAME_CHARACTER, TALLEST = 0.27, 2.6, 0.088, 14.0
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
    """Relevances (n, m) as lines from n units to m units: red above 0, blue below, as thick as they are strong."""
    cells = np.asarray(values, dtype=float).reshape(len(left), len(right))
    pairs = _pairs(cells, strongest_pairs)
    columns = [_column(labels, {pair[side] for pair in pairs}) for side, labels in enumerate((left, right))]
    rows = max(map(len, columns))
    label_width = 0.15 + NAME_CHARACTER * max(len(name) for column in columns for name, _ in column)
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
