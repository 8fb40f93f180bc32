"""Box plots of groups, and dot plots of named rows with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new
from likewise.plotting.scatter import INK
from likewise.plotting.style import PALETTE, drawable, literal

GROUP_INCHES, AXIS_INCHES, HEIGHT = 0.4, 1.4, 3.2
"""The width of a box with its gap, the width of the axis, the height of a figure."""
NAME_CHARACTERS, CHARACTER_INCHES, NAME_SIZE = 16, 0.07, 8
LINE = {"color": "black", "linewidth": 0.8}
"""Whiskers and medians; a page draws black in its text colour."""
Dots = tuple[ArrayLike, ArrayLike | None, ArrayLike | None]
"""Values (n,), and the ends of their intervals or None."""
PANEL_INCHES, ROW_INCHES, TITLE_INCHES, MARGIN = 2.5, 0.3, 1.2, 1.6
"""The width of a panel, the height of a row, the height of title and axis, the width of row names."""
STEP = 0.22
"""The distance between the series of a row."""


def box_plots(
    groups: Sequence[ArrayLike],
    names: Sequence[str],
    labels: tuple[str, str],
    title: str = "",
    ax: Any = None,
    colours: Sequence[str] = (INK,),
) -> Any:
    """A box for each named group of values: quartiles and median, whiskers up to 1.5 box lengths, dots beyond.

    Values that are not finite are dropped; an empty group keeps its position. Colours repeat.

    >>> axes = box_plots([[1, 2, 3, 9], [], [2, float("nan")]], ["a", "b", "$c$"], ("group", "value"))
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['a', 'b', '$c$']
    """
    ax = axes_or_new(ax, (AXIS_INCHES + GROUP_INCHES * max(4, len(groups)), HEIGHT))
    values = [np.asarray(group, dtype=float) for group in groups]
    if values:
        _boxes(ax, [each[np.isfinite(each)] for each in values], colours)
    _group_names(ax, names)
    ax.set_xlim(-0.6, len(values) - 0.4)
    ax.set_xlabel(drawable(labels[0], 60), **literal())
    ax.set_ylabel(drawable(labels[1], 60), **literal())
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    ax.tick_params("y", labelsize=NAME_SIZE)
    ax.tick_params("x", bottom=False)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e5e5e5", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def _boxes(ax: Any, values: Sequence[Any], colours: Sequence[str]) -> None:
    # Rasterised, and below all boxes: then the dots of all groups are one picture in an SVG.
    dots = {"marker": ".", "markersize": 4.5, "alpha": 0.7, "markeredgewidth": 0, "rasterized": True, "zorder": 1.5}
    drawn = ax.boxplot(
        values, positions=range(len(values)), widths=0.65, patch_artist=True, showcaps=False,
        boxprops={"linewidth": 0.8}, whiskerprops=LINE, medianprops=LINE | {"linewidth": 1.8}, flierprops=dots,
    )  # fmt: skip
    for index, (box, outliers) in enumerate(zip(drawn["boxes"], drawn["fliers"], strict=True)):
        colour = colours[index % len(colours)]
        box.set(facecolor=(colour, 0.6), edgecolor=colour)
        outliers.set(markerfacecolor=colour)


def _group_names(ax: Any, names: Sequence[str]) -> None:
    """The names below the boxes, slanted where they would overlap."""
    shown = [drawable(name, NAME_CHARACTERS) for name in names]
    each = ax.get_position().width * ax.figure.get_size_inches()[0] / max(1, len(shown))
    slanted = CHARACTER_INCHES * (0.2 + max(map(len, shown), default=0)) > each
    how = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    ax.set_xticks(range(len(shown)), shown, fontsize=NAME_SIZE, **how, **literal())


def dot_panels(names: Sequence[str], panels: Mapping[str, Mapping[str, Dots]], title: str = "") -> Any:
    """One panel per measure, side by side, with the same named rows; returns the first Axes.

    >>> panels = {"cosine": {"a": ([0.1, 0.0], None, None)}, "recall": {"a": ([0.8, 0.7], [0.7, 0.6], [1, 1])}}
    >>> [label.get_text() for label in dot_panels(["none", "whitening"], panels).get_yticklabels()]
    ['none', 'whitening']
    """
    series = list(next(iter(panels.values())))
    size = (MARGIN + PANEL_INCHES * len(panels), TITLE_INCHES + ROW_INCHES * len(names) * _spread(series))
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
    """The height of a row with several series, relative to a row with one."""
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
