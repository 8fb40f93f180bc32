"""Colours: one diverging pair for signed values and one palette for series, safe for colour-blind readers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

BLUE, RED = (33, 102, 172), (178, 24, 43)  # below and above zero, as in ColorBrewer's RdBu
WHITE = (255, 255, 255)
WHITE_INK_FROM = 0.8
"""From this strength on, white letters have more contrast than black ones, on both colours."""

PALETTE = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")  # Paul Tol's bright scheme


def strongest(*values: ArrayLike) -> float:
    """The largest finite magnitude in any of the arrays, 1.0 where there is none: the end of a colour scale.

    >>> strongest([[0.5, -2.0]], [float("nan")])
    2.0
    """
    sizes = [np.abs(np.asarray(each, dtype=float)).ravel() for each in values]
    finite = [float(size[np.isfinite(size)].max(initial=0.0)) for size in sizes]
    return max(finite, default=0.0) or 1.0


def strength(value: float, scale: float) -> float:
    """How strongly a value is coloured, 0 to 1; what is no number has no colour.

    >>> strength(-0.2, 0.4)
    0.5
    """
    return 0.0 if math.isnan(value) else min(1.0, abs(value) / scale)


def mixed(value: float, scale: float) -> tuple[int, int, int]:
    """The colour of a value on white paper, red above zero and blue below: (red, green, blue) of 255.

    >>> mixed(1.0, 1.0) == RED, mixed(0.0, 1.0)
    (True, (255, 255, 255))
    """
    share = strength(value, scale)
    red, green, blue = (round(255 + (end - 255) * share) for end in (RED if value > 0 else BLUE))
    return red, green, blue


def diverging_map() -> Any:
    """The same colours as a matplotlib colour map: blue, white, red; grey for what is no number."""
    return _map((BLUE, WHITE, RED))


def rising_map() -> Any:
    """A colour map for shares, from white to blue; grey for what is no number."""
    return _map((WHITE, BLUE))


def _map(ends: Sequence[tuple[int, int, int]]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    parts = [tuple(part / 255 for part in end) for end in ends]
    return LinearSegmentedColormap.from_list("likewise", parts, N=511).with_extremes(bad="#cccccc")
