"""Dots: named rows, a dot per series with the ends of its interval, one panel per measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new
from likewise.plotting.colours import PALETTE
from likewise.plotting.fonts import drawable, literal

Dots = tuple[ArrayLike, ArrayLike | None, ArrayLike | None]
"""Values (n,), and the ends of their intervals or None."""
PANEL_INCHES, ROW_INCHES, ROOM, MARGIN = 2.5, 0.3, 1.2, 1.6
"""Widths and heights in inches: a panel, a row and each further series in it, title and axis, names of rows."""
STEP = 0.22
"""How far apart the series of a row are."""


def dot_panels(names: Sequence[str], panels: Mapping[str, Mapping[str, Dots]], title: str = "") -> Any:
    """A panel for each measure, beside one another, over the same named rows from top to bottom; returns the first.

    >>> panels = {"cosine": {"a": ([0.1, 0.0], None, None)}, "recall": {"a": ([0.8, 0.7], [0.7, 0.6], [1, 1])}}
    >>> [label.get_text() for label in dot_panels(["none", "whitening"], panels).get_yticklabels()]
    ['none', 'whitening']
    """
    series = list(next(iter(panels.values())))
    size = (MARGIN + PANEL_INCHES * len(panels), ROOM + ROW_INCHES * len(names) * _spread(series))
    figure = axes_or_new(None, size).figure
    figure.clear()
    axes: list[Any] = []
    for index, (label, drawn) in enumerate(panels.items()):
        axes.append(figure.add_subplot(1, len(panels), index + 1, sharey=axes[0] if axes else None))
        _dots(axes[-1], len(names), drawn)
        axes[-1].set_xlabel(drawable(label, 40), **literal())
        axes[-1].tick_params(axis="y", length=0, labelleft=index == 0)
    axes[0].set_yticks(range(len(names)), [drawable(name, 40) for name in names], **literal())
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle(drawable(title, 40 * len(panels)), fontsize=10, **literal())
    if len(series) > 1:
        shown = [drawable(name, 40) for name in series]
        figure.legend(axes[0].lines, shown, loc="outside lower center", ncols=len(shown), fontsize=9, frameon=False)
    return axes[0]


def _spread(series: Sequence[str]) -> float:
    """How many times as high a row must be for its series."""
    return 1 + STEP * (len(series) - 1)


def _dots(ax: Any, rows: int, drawn: Mapping[str, Dots]) -> None:
    for index, (values, low, high) in enumerate(drawn.values()):
        at = np.arange(rows) + STEP * (index - (len(drawn) - 1) / 2)
        colour = PALETTE[index % len(PALETTE)]
        ax.plot(np.asarray(values, dtype=float), at, "o", color=colour, markersize=5)
        if low is not None and high is not None:
            ax.hlines(at, np.asarray(low, dtype=float), np.asarray(high, dtype=float), color=colour, linewidth=1.4)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.grid(axis="both", color="#e5e5e5", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.margins(x=0.12)
