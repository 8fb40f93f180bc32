"""Scatter plots, box plots of groups, dot plots of named rows with intervals, and bars of named rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import PALETTE, axes_or_new, drawable, frame, group_colour, legend, literal
from likewise.plotting.curves import MARKERS
from likewise.plotting.terminal import BLUE, RED

DENSITY = 8.0  # The total ink that the points of a dense scatter share
ROW, LEAST = 0.26, 2.0  # Inches: the height of a bar, and of the smallest figure with bars
MOST_BARS = 40
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
    frame(ax, labels, "")
    ax.set_title(title, fontsize=10, **literal())  # it may have two lines
    return ax


def identity_scatter(
    x: ArrayLike, y: ArrayLike, labels: tuple[str, str], title: str = "", note: str = "", ax: Any = None
) -> Any:
    """Points x (n,) against y (n,) around the identity line; ``note`` is in the corner."""
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
    frame(ax, labels, title)
    return ax


def fitted_scatter(
    x: ArrayLike,
    y: ArrayLike,
    labels: tuple[str, str],
    line: tuple[float, float] | None,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Points x (n,) against y (n,), the identity line, and a line of (slope, shift); many points are transparent."""
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


NOISE = -1  # The label of a point in no group
PALE = "#999999"  # Background points; visible on light and dark pages
MOST_NAMED = 24  # The most groups in a legend
SIZES = {"o": 9, "s": 8, "^": 11}  # Marker sizes that look equal


def grouped_scatter(
    points: ArrayLike, labels: ArrayLike, names: Mapping[int, str] | None = None, title: str = "", ax: Any = None
) -> Any:
    """Points (n, 2) in the colour and the marker of their group, labels (n,) from 0; noise, -1, as grey crosses.

    The legend has the groups' names, or their labels, and their sizes.
    """
    ax = axes_or_new(ax)
    indices, marks = np.asarray(points, dtype=float).reshape(-1, 2), np.asarray(labels, dtype=int)
    shown = []
    for label in sorted(set(marks.tolist()), key=lambda label: (label == NOISE, label)):
        own = indices[marks == label]
        name = "noise" if label == NOISE else (names or {}).get(label, str(label))
        shown.append((f"{drawable(name, 20)}: {len(own)}", _group(ax, own, label)))
    _finish(ax, title, shown if len(shown) <= MOST_NAMED else [], loc="upper left", bbox_to_anchor=(1.0, 1.03))
    return ax


def highlighted_scatter(
    points: ArrayLike, marks: Sequence[ArrayLike], names: Sequence[str], title: str = "", ax: Any = None
) -> Any:
    """All points (n, 2) pale, and on top the points of each boolean mark (n,) in its own colour.

    The legend below has the marks' names and sizes.
    """
    ax = axes_or_new(ax)
    indices = np.asarray(points, dtype=float).reshape(-1, 2)
    ax.scatter(*indices.T, s=7, color=PALE, alpha=0.35, linewidths=0, rasterized=True)
    shown = []
    for index, (name, mark) in enumerate(zip(names, marks, strict=True)):
        own = indices[np.asarray(mark, dtype=bool)]
        shown.append((f"{drawable(name, 30)}, n = {len(own)}", _group(ax, own, index)))
    _finish(ax, title, shown, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    return ax


def _group(ax: Any, indices: Any, label: int) -> Any:
    # Rasterised: thousands of vector points make an SVG too heavy.
    if label == NOISE:
        return ax.scatter(*indices.T, s=6, color=PALE, marker="x", linewidths=0.6, rasterized=True)
    marker = MARKERS[label // len(PALETTE) % len(MARKERS)]
    look = {"color": group_colour(label), "marker": marker, "linewidths": 0}
    return ax.scatter(*indices.T, s=SIZES[marker], alpha=0.7, rasterized=True, **look)


def _finish(ax: Any, title: str, shown: Sequence[tuple[str, Any]], **where: Any) -> None:
    """The frame of points in the plane, and the legend of those that are named."""
    frame(ax, None, title)
    ax.tick_params(labelsize=7)
    ax.locator_params(nbins=5)
    if shown:
        names, drawn = zip(*shown, strict=True)
        small = {"fontsize": 7, "handletextpad": 0.1, "labelspacing": 0.25, "borderpad": 0.2, "markerscale": 1.7}
        legend(ax, drawn, names, **small, **where)


GROUP_INCHES, AXIS_INCHES, HEIGHT = 0.4, 1.4, 3.2  # Widths of a box with its gap and of the axis, height of a figure
NAME_CHARACTERS, CHARACTER_INCHES, NAME_SIZE = 16, 0.07, 8
WHISKER = {"color": "black", "linewidth": 0.8}  # Whiskers and medians; a page draws black in its text colour
Dots = tuple[ArrayLike, ArrayLike | None, ArrayLike | None]  # Values (n,), and the ends of their intervals or None
PANEL_INCHES, ROW_INCHES, TITLE_INCHES, MARGIN = 2.5, 0.3, 1.2, 1.6
"""The width of a panel, the height of a row, the height of title and axis, the width of row names."""
STEP = 0.22  # The distance between the series of a row


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
    """
    ax = axes_or_new(ax, (AXIS_INCHES + GROUP_INCHES * max(4, len(groups)), HEIGHT))
    values = [np.asarray(group, dtype=float) for group in groups]
    if values:
        _boxes(ax, [each[np.isfinite(each)] for each in values], colours)
    _group_names(ax, names)
    ax.set_xlim(-0.6, len(values) - 0.4)
    frame(ax, labels, title, "y")
    ax.tick_params("y", labelsize=NAME_SIZE)
    ax.tick_params("x", bottom=False)
    return ax


def _boxes(ax: Any, values: Sequence[Any], colours: Sequence[str]) -> None:
    # Rasterised, and below all boxes: then the dots of all groups are one picture in an SVG.
    dots = {"marker": ".", "markersize": 4.5, "alpha": 0.7, "markeredgewidth": 0, "rasterized": True, "zorder": 1.5}
    drawn = ax.boxplot(
        values, positions=range(len(values)), widths=0.65, patch_artist=True, showcaps=False,
        boxprops={"linewidth": 0.8}, whiskerprops=WHISKER, medianprops=WHISKER | {"linewidth": 1.8}, flierprops=dots,
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


def histogram(
    values: ArrayLike, limits: tuple[float, float], labels: tuple[str, str], title: str = "", ax: Any = None
) -> Any:
    """How many of the values (n,) lie in each of 20 bins between the limits; a line marks the mean.

    >>> len(histogram([0.1, 0.9], (0.0, 1.0), ("share", "queries")).patches)
    20
    """
    ax, numbers = axes_or_new(ax), np.asarray(values, dtype=float)
    ax.hist(numbers, bins=20, range=limits, color=PALETTE[0], alpha=0.8, rwidth=0.92)
    ax.axvline(float(numbers.mean()), color="black", linewidth=1.2, linestyle="--")
    ax.set_xlim(limits)
    ax.yaxis.get_major_locator().set_params(integer=True)
    frame(ax, labels, title, "y")
    return ax


def dot_panels(names: Sequence[str], panels: Mapping[str, Mapping[str, Dots]], title: str = "") -> Any:
    """One panel per measure, side by side, with the same named rows; returns the first Axes."""
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
    frame(ax, None, "", "both")
    ax.spines["left"].set_visible(False)
    ax.margins(x=0.12)


def share_bars(labels: Sequence[str], shares: ArrayLike, title: str = "", ax: Any = None) -> Any:
    """Labels (n) from top to bottom, each with a bar of its share (n,): red above zero, blue below.

    Of more than 40 units the largest are drawn, in the order of the text.
    """
    values = np.asarray(shares, dtype=float)
    chosen = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS])
    ax = axes_or_new(ax, (5.0, LEAST + ROW * len(chosen)))
    colours = [tuple(part / 255 for part in (RED if values[index] > 0 else BLUE)) for index in chosen]
    ax.barh(range(len(chosen)), values[chosen], color=colours, height=0.7)
    ax.set_yticks(range(len(chosen)), [drawable(labels[index], 20) for index in chosen], fontsize=8, **literal())
    ax.invert_yaxis()
    ax.axvline(0, color="#444444", linewidth=0.8)
    ax.set_xlabel("what each unit adds")
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    ax.spines[["top", "right"]].set_visible(False)
    return ax
