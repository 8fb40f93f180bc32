"""Box plots: how a value is spread in each of some groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new
from likewise.plotting.fonts import drawable, literal
from likewise.plotting.scatter import INK

GROUP_INCHES, ROOM, HEIGHT = 0.4, 1.4, 3.2
"""The width of a box and its gap, what the axis takes beside them, the height of a figure."""
NAME_LETTERS, LETTER_INCHES, NAME_SIZE = 16, 0.07, 8
LINE = {"color": "black", "linewidth": 0.8}
"""Of whiskers and medians; a page draws black in its own ink."""


def box_plots(
    groups: Sequence[ArrayLike],
    names: Sequence[str],
    labels: tuple[str, str],
    title: str = "",
    ax: Any = None,
    colours: Sequence[str] = (INK,),
) -> Any:
    """A box for each named group of values: quartiles and median, whiskers of 1.5 times the box, dots beyond them.

    What is no number is left out; an empty group keeps its place. Colours begin anew where there are fewer than groups.

    >>> axes = box_plots([[1, 2, 3, 9], [], [2, float("nan")]], ["a", "b", "$c$"], ("group", "value"))
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['a', 'b', '$c$']
    """
    ax = axes_or_new(ax, (ROOM + GROUP_INCHES * max(4, len(groups)), HEIGHT))
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
    """The names below the boxes, slanted where they would run into each other."""
    shown = [drawable(name, NAME_LETTERS) for name in names]
    each = ax.get_position().width * ax.figure.get_size_inches()[0] / max(1, len(shown))
    slanted = LETTER_INCHES * (0.2 + max(map(len, shown), default=0)) > each
    how = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if slanted else {}
    ax.set_xticks(range(len(shown)), shown, fontsize=NAME_SIZE, **how, **literal())
