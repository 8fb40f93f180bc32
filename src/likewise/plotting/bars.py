"""Horizontal bars: what each unit of a text adds to a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new, drawable, literal
from likewise.plotting.terminal import BLUE, RED

ROW, LEAST = 0.26, 2.0  # Inches: the height of a bar, and of the smallest figure
MOST_BARS = 40


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
    ax.set_xlabel("share of the score")
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    ax.spines[["top", "right"]].set_visible(False)
    return ax
