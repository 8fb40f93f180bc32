"""Highlights: ranges of a variable that a scatter plot lights up, in some layers."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import UsageError

VARIABLES = ("similarity", "length", "structure")
STUDY_DEPTH = 12
"""Layers of the model whose layers the published figures name."""
NUMBER = r"-?\d+(?:\.\d+)?"
RANGE = re.compile(rf"({NUMBER})(?:-({NUMBER})?)?")


@dataclass(frozen=True)
class Highlight:
    """Ranges of one variable, ends included, each in a colour of its own.

    >>> Highlight("length", ((9, 15), (20, 22))).names
    ('length 9-15', 'length 20-22')
    """

    variable: str
    ranges: tuple[tuple[float, float], ...]
    layers: tuple[int, ...] = ()
    """Layers of a model of 12 that are drawn; none: all layers are."""

    def __post_init__(self) -> None:
        if self.variable not in VARIABLES:
            raise UsageError(f"unknown variable {self.variable!r}; choose from {', '.join(VARIABLES)}")
        if not self.ranges:
            raise UsageError(f"no range of {self.variable} to highlight; give one as {self.variable}:1-2")
        for low, high in self.ranges:
            if not low <= high:
                raise UsageError(f"the range {low:g}-{high:g} of {self.variable} is empty; put the smaller end first")

    @classmethod
    def parse(cls, text: str) -> Highlight:
        """Read ``length:9-15,20-22`` or ``similarity:0,5`` or ``structure:0.95-``, where a missing end is infinity.

        >>> Highlight.parse("structure:0.95-").ranges
        ((0.95, inf),)
        """
        variable, _, ranges = text.partition(":")
        found = [RANGE.fullmatch(part.strip()) for part in ranges.split(",")]
        if not ranges or None in found:
            raise UsageError(f"cannot read the highlight {text!r}; write it as length:9-15,20-22 or structure:0.95-")
        return cls(variable.strip(), tuple(_ends(match) for match in found if match))

    @property
    def names(self) -> tuple[str, ...]:
        """Each range in words."""
        return tuple(f"{self.variable} {_range_name(*ends)}" for ends in self.ranges)

    def marks(self, values: ArrayLike) -> list[NDArray[np.bool_]]:
        """For each range which of the values (n,) lie in it."""
        numbers = np.asarray(values, dtype=float)
        return [(numbers >= low) & (numbers <= high) for low, high in self.ranges]

    def layers_of(self, depth: int) -> list[int]:
        """The layers to draw, from 1 on, of a model of ``depth``; a shallower one's at the same relative depth.

        >>> Highlight("similarity", ((0, 0),), layers=(2, 7, 10, 12)).layers_of(6)
        [1, 4, 5, 6]
        """
        if not self.layers:
            return list(range(1, depth + 1))
        share = min(1.0, depth / STUDY_DEPTH)
        return sorted({max(1, int(layer * share + 0.5)) for layer in self.layers})


def _ends(found: re.Match[str]) -> tuple[float, float]:
    low, high = float(found[1]), found[2]
    if high is not None:
        return low, float(high)
    return low, float("inf") if found[0].endswith("-") else low


def _range_name(low: float, high: float) -> str:
    if low == high:
        return f"{low:g}"
    return f">= {low:g}" if high == float("inf") else f"{low:g}-{high:g}"


STUDY_HIGHLIGHTS = (
    Highlight("similarity", ((0, 0), (5, 5)), (2, 7, 10, 12)),
    Highlight("length", ((9, 15), (20, 22), (60, 81)), (1, 4, 8, 12)),
    Highlight("structure", ((0.95, float("inf")),), (2, 3, 8, 12)),
)
"""What the published figures show."""
