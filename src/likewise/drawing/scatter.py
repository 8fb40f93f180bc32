"""Scatter plots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.drawing.axes import axes_or_new
from likewise.drawing.fonts import drawable, literal

INK, LINE = "#4477aa", "#cc3311"  # safe for colour-blind readers


def scatter_with_line(x: ArrayLike, y: ArrayLike, labels: tuple[str, str], title: str = "", ax: Any = None) -> Any:
    """Points x (n,) against y (n,) with the least-squares line; ``labels`` name the two axes."""
    ax = axes_or_new(ax)
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    # Rasterised: thousands of vector points make an SVG too heavy for a browser.
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
    """Points x (n,) against y (n,) around the line where both are equal; ``note`` stands in the corner.

    >>> axes = identity_scatter([0.0, 1.0], [0.1, 0.9], ("predicted", "measured"), note="R² = 0.98")
    >>> axes.get_xlim() == axes.get_ylim()
    True
    """
    ax = axes_or_new(ax)
    across, up = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    both = np.concatenate([across, up])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    room = 0.05 * ((high - low) or 1.0)
    limits = (low - room, high + room)
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
