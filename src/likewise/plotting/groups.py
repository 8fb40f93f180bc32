"""Groups of points in the plane: clusters told apart, or some points lit up among all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new
from likewise.plotting.colours import PALETTE
from likewise.plotting.curves import MARKERS
from likewise.plotting.fonts import drawable, literal

NOISE = -1
"""The label of a point in no group."""
PALE = "#999999"
"""Of points that are not looked at; seen on light and on dark paper."""
MOST_NAMED = 24
"""Groups that a legend has room for."""
SIZES = {"o": 9, "s": 8, "^": 11}
"""Of markers that look equally large."""


def group_colour(label: int) -> str:
    """The colour of a group; from the eighth on its marker tells it from an earlier one.

    >>> group_colour(0) == group_colour(7), group_colour(0) == group_colour(1)
    (True, False)
    """
    return PALETTE[label % len(PALETTE)]


def grouped_scatter(
    points: ArrayLike, labels: ArrayLike, names: Mapping[int, str] | None = None, title: str = "", ax: Any = None
) -> Any:
    """Points (n, 2) in the colour and the marker of their group, labels (n,) from 0 on; noise, -1, as grey crosses.

    Beside them stand the groups' names, or else their labels, and their sizes.

    >>> axes = grouped_scatter([[0, 0], [0, 1], [5, 5]], [0, 0, -1])
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['0: 2', 'noise: 1']
    """
    ax = axes_or_new(ax)
    indices, marks = np.asarray(points, dtype=float).reshape(-1, 2), np.asarray(labels, dtype=int)
    shown = []
    for label in sorted(set(marks.tolist()), key=lambda label: (label == NOISE, label)):
        own = indices[marks == label]
        name = "noise" if label == NOISE else (names or {}).get(label, str(label))
        shown.append((f"{drawable(name, 20)}: {len(own)}", _group(ax, own, label)))
    _frame(ax, title)
    if len(shown) <= MOST_NAMED:
        _legend(ax, shown, {"loc": "upper left", "bbox_to_anchor": (1.0, 1.03)})
    return ax


def highlighted_scatter(
    points: ArrayLike, marks: Sequence[ArrayLike], names: Sequence[str], title: str = "", ax: Any = None
) -> Any:
    """All points (n, 2) pale, and each mark's points (n,) of True and False in a colour of its own on top of them.

    Below stand the marks' names and how many points each has.

    >>> axes = highlighted_scatter([[0, 0], [0, 1], [5, 5]], [[True, False, True]], ["length 9-15"])
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['length 9-15, n = 2']
    """
    ax = axes_or_new(ax)
    indices = np.asarray(points, dtype=float).reshape(-1, 2)
    ax.scatter(*indices.T, s=7, color=PALE, alpha=0.35, linewidths=0, rasterized=True)
    shown = []
    for index, (name, mark) in enumerate(zip(names, marks, strict=True)):
        own = indices[np.asarray(mark, dtype=bool)]
        shown.append((f"{drawable(name, 30)}, n = {len(own)}", _group(ax, own, index)))
    _frame(ax, title)
    _legend(ax, shown, {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1)})
    return ax


def _group(ax: Any, indices: Any, label: int) -> Any:
    # Rasterised: thousands of vector points make an SVG too heavy for a browser.
    if label == NOISE:
        return ax.scatter(*indices.T, s=6, color=PALE, marker="x", linewidths=0.6, rasterized=True)
    marker = MARKERS[label // len(PALETTE) % len(MARKERS)]
    look = {"color": group_colour(label), "marker": marker, "linewidths": 0}
    return ax.scatter(*indices.T, s=SIZES[marker], alpha=0.7, rasterized=True, **look)


def _frame(ax: Any, title: str) -> None:
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    ax.tick_params(labelsize=7)
    ax.locator_params(nbins=5)
    ax.spines[["top", "right"]].set_visible(False)


def _legend(ax: Any, shown: Sequence[tuple[str, Any]], where: Mapping[str, Any]) -> None:
    """Names beside what is drawn of them."""
    if not shown:
        return
    # Without words of their own, which matplotlib would read as mathematics before they are made literal.
    legend = ax.legend(
        [drawn for _, drawn in shown], [""] * len(shown), fontsize=7, frameon=False, handletextpad=0.1,
        labelspacing=0.25, borderpad=0.2, markerscale=1.7, **where,
    )  # fmt: skip
    for text, (name, _) in zip(legend.get_texts(), shown, strict=True):
        text.set(text=name, **literal())
