"""Scatter plots: against a line, by group, or with highlighted points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new
from likewise.plotting.curves import MARKERS
from likewise.plotting.style import PALETTE, drawable, literal

DENSITY = 8.0
"""The total ink that the points of a dense scatter share."""
INK, LINE = "#4477aa", "#cc3311"  # safe for colour-blind readers


def scatter_with_line(x: ArrayLike, y: ArrayLike, labels: tuple[str, str], title: str = "", ax: Any = None) -> Any:
    """Points x (n,) against y (n,) with the least-squares line; ``labels`` name the two axes."""
    ax = axes_or_new(ax)
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    # Rasterised: thousands of vector points make an SVG too heavy.
    ax.scatter(across, up, s=9, alpha=0.35, color=INK, linewidths=0, rasterized=True)
    if len(across) > 1 and across.std() > 0:
        slope, shift = np.polyfit(across, up, 1)
        ends = np.array([across.min(), across.max()])
        ax.plot(ends, slope * ends + shift, color=LINE, linewidth=1.5)
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    ax.set_title(title, fontsize=10, **literal())
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def identity_scatter(
    x: ArrayLike, y: ArrayLike, labels: tuple[str, str], title: str = "", note: str = "", ax: Any = None
) -> Any:
    """Points x (n,) against y (n,) around the identity line; ``note`` is in the corner.

    >>> axes = identity_scatter([0.0, 1.0], [0.1, 0.9], ("predicted", "measured"), note="R² = 0.98")
    >>> axes.get_xlim() == axes.get_ylim()
    True
    """
    ax = axes_or_new(ax)
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    both = np.concatenate([across, up])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.05 * ((high - low) or 1.0)
    limits = (low - margin, high + margin)
    ax.plot(limits, limits, color="#999999", linewidth=1, linestyle="--", zorder=0)
    ax.scatter(across, up, s=14, alpha=0.5, color=INK, linewidths=0, rasterized=True)
    ax.set_xlim(limits)
    ax.set_ylim(limits)
    ax.set_aspect("equal")
    ax.text(0.04, 0.96, drawable(note, 60), transform=ax.transAxes, va="top", fontsize=9, **literal())
    ax.set_xlabel(drawable(labels[0], 60), **literal())
    ax.set_ylabel(drawable(labels[1], 60), **literal())
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def fitted_scatter(
    x: ArrayLike,
    y: ArrayLike,
    labels: tuple[str, str],
    line: tuple[float, float] | None,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Points x (n,) against y (n,), the identity line, and a line of (slope, shift); more points are more transparent.

    >>> axes = fitted_scatter([0.0, 5.0], [1.0, 4.0], ("true", "predicted"), (0.6, 1.0))
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['equal', 'fitted: 0.60 x + 1.00']
    """
    ax = identity_scatter(x, y, labels, title, ax=ax)
    shown = {"equal": ax.lines[-1]}
    across = np.asarray(x, dtype=float)
    ax.collections[-1].set_alpha(min(0.5, max(0.06, DENSITY / max(1, len(across)) ** 0.5)))
    if line is not None:
        ends = np.array([across.min(), across.max()])
        slope, shift = line
        [drawn] = ax.plot(ends, slope * ends + shift, color=LINE, linewidth=1.6)
        shown[f"fitted: {line_text(slope, shift, 'x')}"] = drawn
    ax.legend(list(shown.values()), list(shown), loc="lower right", fontsize=8, frameon=False)
    return ax


def line_text(slope: float, intercept: float, name: str) -> str:
    """A line as text: ``0.60 x + 1.00``.

    >>> line_text(0.6, -1.0, "true"), line_text(-1e-9, -1e-9, "x")
    ('0.60 true - 1.00', '0.00 x + 0.00')
    """
    # Rounded first, so that tiny numbers have no sign.
    steep, above = round(slope, 2) + 0.0, round(intercept, 2) + 0.0
    return f"{steep:.2f} {name} {'-' if above < 0 else '+'} {abs(above):.2f}"


NOISE = -1
"""The label of a point in no group."""
PALE = "#999999"
"""Background points; visible on light and dark pages."""
MOST_NAMED = 24
"""The most groups in a legend."""
SIZES = {"o": 9, "s": 8, "^": 11}
"""Marker sizes that look equal."""


def group_colour(label: int) -> str:
    """The colour of a group; colours repeat from the eighth on, markers then differ.

    >>> group_colour(0) == group_colour(7), group_colour(0) == group_colour(1)
    (True, False)
    """
    return PALETTE[label % len(PALETTE)]


def grouped_scatter(
    points: ArrayLike, labels: ArrayLike, names: Mapping[int, str] | None = None, title: str = "", ax: Any = None
) -> Any:
    """Points (n, 2) in the colour and the marker of their group, labels (n,) from 0; noise, -1, as grey crosses.

    The legend has the groups' names, or their labels, and their sizes.

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
    """All points (n, 2) pale, and on top the points of each boolean mark (n,) in its own colour.

    The legend below has the marks' names and sizes.

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
    # Rasterised: thousands of vector points make an SVG too heavy.
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
    """A legend with literal names."""
    if not shown:
        return
    # Empty labels first: matplotlib would parse real ones as mathematics before they become literal.
    legend = ax.legend(
        [drawn for _, drawn in shown], [""] * len(shown), fontsize=7, frameon=False, handletextpad=0.1,
        labelspacing=0.25, borderpad=0.2, markerscale=1.7, **where,
    )  # fmt: skip
    for text, (name, _) in zip(legend.get_texts(), shown, strict=True):
        text.set(text=name, **literal())
