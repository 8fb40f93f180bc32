"""Curves: lines over a common axis, each named at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.drawing.axes import axes_or_new
from likewise.drawing.colours import PALETTE
from likewise.drawing.fonts import drawable, literal

Series = tuple[ArrayLike, ArrayLike | None, ArrayLike | None]
STYLES = ("-", "--", ":")
LETTER_HEIGHT = 0.055
"""How far apart two names must stand, as a share of the axis's height."""


def curves(x: ArrayLike, series: Mapping[str, Series], labels: tuple[str, str], title: str = "", ax: Any = None) -> Any:
    """Lines of (values, low, high), each (n,), over x (n,); low and high bound a band or are None.

    >>> axes = curves([0, 1], {"mean": ([1, 2], [0, 1], [2, 3]), "max": ([2, 4], None, None)}, ("layer", "value"))
    >>> len(axes.lines), len(axes.collections)
    (2, 1)
    """
    ax = axes_or_new(ax, (5.4, 3.6))
    across = np.asarray(x, dtype=float)
    for place, (values, low, high) in enumerate(series.values()):
        style = STYLES[place // len(PALETTE) % len(STYLES)]
        heights = np.asarray(values, dtype=float)
        if low is not None and high is not None:
            bounds = (np.asarray(low, dtype=float), np.asarray(high, dtype=float))
            ax.fill_between(across, *bounds, color=_colour(place), alpha=0.15, linewidth=0)
        marker = "o" if len(across) <= 30 else None
        ax.plot(across, heights, style, color=_colour(place), linewidth=1.8, marker=marker, markersize=3)
    _end_names(ax, list(series))
    ax.set_xlabel(drawable(labels[0], 60), **literal())
    ax.set_ylabel(drawable(labels[1], 60), **literal())
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e5e5e5", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def _colour(place: int) -> str:
    return PALETTE[place % len(PALETTE)]


def _end_names(ax: Any, names: Sequence[str]) -> None:
    """A line's name at its last point, moved where it would cover another: no legend to look up."""
    points = [_last(line) for line in ax.lines[-len(names) :]] if names else []
    low, high = ax.get_ylim()
    heights = [point[1] for point in points]
    if len(points) > 2 and max(heights) - min(heights) < (high - low) * LETTER_HEIGHT:
        # All end in one point, where names could not tell them apart.
        ax.legend(ax.lines[-len(names) :], [drawable(name, 40) for name in names], fontsize=9, frameon=False)
        return
    spread = _spread(heights, (high - low) * LETTER_HEIGHT)
    end = max((point[0] for point in points), default=0.0)
    for place, (name, height) in enumerate(zip(names, spread, strict=True)):
        ax.annotate(
            drawable(name, 40),
            (end, height),
            (8, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=_colour(place),
            annotation_clip=False,
            **literal(),
        )


def _last(line: Any) -> tuple[float, float]:
    """The last point of a line that is a number."""
    points: NDArray[np.float64] = np.column_stack([line.get_xdata(), line.get_ydata()])
    finite = points[np.isfinite(points).all(1)]
    return (float(finite[-1, 0]), float(finite[-1, 1])) if len(finite) else (0.0, 0.0)


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """Heights in the same order at least ``gap`` apart, moved from below and then centred on where they were."""
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed = dict.fromkeys(order, 0.0)
    groups: list[list[int]] = []
    for which in order:
        groups.append([which])
        while (
            len(groups) > 1
            and _middle(heights, groups[-1]) - _middle(heights, groups[-2])
            < gap * (len(groups[-1]) + len(groups[-2])) / 2
        ):
            groups[-2:] = [groups[-2] + groups[-1]]
    for group in groups:
        for rank, which in enumerate(group):
            placed[which] = _middle(heights, group) + (rank - (len(group) - 1) / 2) * gap
    return [placed[which] for which in range(len(heights))]


def _middle(heights: Sequence[float], group: Sequence[int]) -> float:
    return sum(heights[which] for which in group) / len(group)
