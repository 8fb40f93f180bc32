"""Distributions of scores as histograms, and reliability diagrams of probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import axes_or_new, drawable, frame, group_colour, legend, literal

SIZE = (6.4, 3.8)
BINS = 60
Marks = Mapping[str, tuple[float, float, float]]  # The name of a line, its position and the ends of its band


def histograms(samples: Mapping[str, ArrayLike], marks: Marks, labels: tuple[str, str], ax: Any = None) -> Any:
    """Densities of samples, each (n,): the first filled, the others as outlines; small samples have wider bins.

    ``marks`` are dashed vertical lines, such as quantiles, with pale bands for their intervals.
    """
    ax = axes_or_new(ax, SIZE)
    arrays = {name: np.asarray(values, dtype=float) for name, values in samples.items()}
    every = np.concatenate(list(arrays.values()))
    ends = (float(every.min()), float(every.max()))
    drawn = []
    for position, values in enumerate(arrays.values()):
        bins = int(np.clip(2 * len(values) ** 0.5, 8, BINS))
        look = {"histtype": "stepfilled", "alpha": 0.35} if position == 0 else {"histtype": "step", "linewidth": 1.6}
        drawn.append(ax.hist(values, bins=bins, range=ends, density=True, color=group_colour(position), **look)[2][0])
    for number, (name, (score, low, high)) in enumerate(marks.items()):
        ax.axvspan(low, high, color="#999999", alpha=0.25, linewidth=0)
        ax.axvline(score, color="#555555", linewidth=1, linestyle="--")
        # Neighbouring names stand at different heights.
        height = 0.97 - 0.075 * (number % 4)
        at = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 8, "va": "top"}
        ax.annotate(drawable(name, 30), (score, height), (3, 0), **at, **literal())
    if len(arrays) > 1:
        legend(ax, drawn, [drawable(name, 40) for name in arrays], fontsize=9, loc="center left",
               bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    frame(ax, labels, "")
    return ax


def histogram(
    values: ArrayLike, limits: tuple[float, float], labels: tuple[str, str], title: str = "", ax: Any = None
) -> Any:
    """How many of the values (n,) lie in each of 20 bins between the limits; a line marks the mean.

    >>> len(histogram([0.1, 0.9], (0.0, 1.0), ("share", "queries")).patches)
    20
    """
    ax, numbers = axes_or_new(ax), np.asarray(values, dtype=float)
    ax.hist(numbers, bins=20, range=limits, color=group_colour(0), alpha=0.8, rwidth=0.92)
    ax.axvline(float(numbers.mean()), color="black", linewidth=1.2, linestyle="--")
    ax.set_xlim(limits)
    ax.yaxis.get_major_locator().set_params(integer=True)
    frame(ax, labels, title, "y")
    return ax


def reliability_diagram(
    predicted: ArrayLike, observed: Sequence[tuple[float, float, float]], labels: tuple[str, str], note: str = "",
    ax: Any = None,
) -> Any:  # fmt: skip
    """Mean predictions (b,) against observed shares (value, low, high) of bins; exact probabilities lie on the line."""
    ax = axes_or_new(ax, (4.4, 4.2))
    across = np.asarray(predicted, dtype=float)
    values, low, high = np.asarray(observed, dtype=float).T
    ax.plot([0, 1], [0, 1], color="#999999", linewidth=1, linestyle="--", zorder=0)
    reach = np.clip([values - low, high - values], 0, None)
    ax.errorbar(across, values, yerr=reach, fmt="o", markersize=4, color=group_colour(0), elinewidth=1, capsize=2)
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.03, 1.03)
    ax.set_aspect("equal")
    ax.text(0.04, 0.96, note, transform=ax.transAxes, va="top", fontsize=9, **literal())
    frame(ax, labels, "")
    return ax
