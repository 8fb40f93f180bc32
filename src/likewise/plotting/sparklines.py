"""Sparklines: a curve as a line of letters, which needs neither colour nor figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
ROUNDING = 1e-6
"""A stretch below this is no curve but rounding."""


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """A bar for each value, from the lowest at ``low`` to the highest at ``high``; a blank for what is no number.

    >>> sparkline([0.0, 0.5, 1.0, float("nan")], 0.0, 1.0)
    '▁▅█ '
    """
    return "".join(_bar(value, low, high) for value in values)


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return " "
    share = (value - low) / (high - low) if high - low > ROUNDING else 0.5
    return BARS[min(len(BARS) - 1, max(0, int(share * len(BARS))))]
