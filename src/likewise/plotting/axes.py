"""Axes: creating figures and saving them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.errors import MissingExtra, UsageError

FORMATS = (".png", ".svg", ".pdf")
SIZE = (4.2, 4.0)
"""The width and height of one panel, in inches."""


def axes_or_new(ax: Any = None, size: tuple[float, float] = SIZE) -> Any:
    """The given Axes, or those of a new figure of ``size`` inches, outside any window."""
    return grid_of_axes(1, size)[0] if ax is None else ax


def grid_of_axes(count: int, size: tuple[float, float] = SIZE, columns: int | None = None) -> Sequence[Any]:
    """``count`` Axes in one figure, in at most ``columns`` columns, or nearly square.

    >>> len(grid_of_axes(3))
    3
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots") from error
    columns = math.ceil(math.sqrt(count)) if columns is None else min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return [figure.add_subplot(rows, columns, index + 1) for index in range(count)]


def check_format(path: Path) -> None:
    """Rejects an unknown file ending, or a missing matplotlib, before long work."""
    grid_of_axes(1)
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"cannot draw to {path.name!r}; end it with {', '.join(FORMATS)}")


def save_figure(ax: Any, path: Path) -> Path:
    """Write the figure that an Axes belongs to; the ending chooses the format."""
    check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    settled(ax).savefig(path, dpi=150)
    return path


def settled(ax: Any) -> Any:
    """The figure of an Axes with its layout fixed, so that all file formats look the same.

    >>> ax = axes_or_new()
    >>> settled(ax) is settled(ax) is ax.figure
    True
    """
    figure = ax.figure
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine(None)
    return figure
