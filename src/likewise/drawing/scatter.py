"""Scatter plots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.drawing.axes import axes_or_new

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
    ax.set_title(title, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
