"""Scatter plots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new
from likewise.plotting.fonts import drawable, literal

DENSITY = 8.0
"""How much ink the points of a dense scatter share."""
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


def fitted_scatter(
    x: ArrayLike,
    y: ArrayLike,
    labels: tuple[str, str],
    line: tuple[float, float] | None,
    title: str = "",
    ax: Any = None,
) -> Any:
    """Points x (n,) against y (n,), the line where both are equal, and the given line of (slope, shift).

    The more points there are, the more transparent they are.

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


def line_text(slope: float, shift: float, name: str) -> str:
    """A line as it is read: ``0.60 x + 1.00``.

    >>> line_text(0.6, -1.0, "true"), line_text(-1e-9, -1e-9, "x")
    ('0.60 true - 1.00', '0.00 x + 0.00')
    """
    # Rounded first: what is nearly nothing has no sign.
    steep, above = round(slope, 2) + 0.0, round(shift, 2) + 0.0
    return f"{steep:.2f} {name} {'-' if above < 0 else '+'} {abs(above):.2f}"
