"""Two texts as two columns of units with lines between them, as SVG: the stronger the pair, the wider the line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from likewise.plotting.colours import strength, strongest
from likewise.plotting.explained_pair import ExplainedPair
from likewise.plotting.text import shortened

ROW, WIDE, SIDE, THICK, LETTERS = 24, 560, 170, 9, 22
FAINTEST = 0.03
"""Lines of less than this share of the strongest say nothing and hide the others."""


def explained_lines(pair: ExplainedPair) -> str:
    """The lines of a pair, each with the places of its two units.

    >>> 'data-i="0" data-j="0"' in explained_lines(ExplainedPair(["a"], ["b"], [[0.5]], [0.1], [0.1], 0.1, 0.8))
    True
    """
    high = max(len(pair.left), len(pair.right)) * ROW + 8
    sides = [_heights(len(side), high) for side in (pair.left, pair.right)]
    names = [*_names(pair.left, sides[0], SIDE - 8, "end"), *_names(pair.right, sides[1], WIDE - SIDE + 8, "start")]
    parts = [*_lines(pair, *sides), *names]
    return (
        f'<svg class="lines" role="img" aria-label="Lines between the units of both texts" viewBox="0 0 {WIDE} {high}"'
        f' style="width:{WIDE}px">{"".join(parts)}</svg>'
    )


def _heights(count: int, high: int) -> list[float]:
    return [(high - count * ROW) / 2 + (index + 0.5) * ROW for index in range(count)]


def _lines(pair: ExplainedPair, left: Sequence[float], right: Sequence[float]) -> Iterator[str]:
    """The weakest first, so that the strongest lie above them."""
    scale, middle = strongest(pair.cells), WIDE / 2
    found = [(strength(value, scale), value, row, column) for (row, column), value in _cells(pair)]
    for share, value, row, column in sorted(found):
        if share < FAINTEST:
            continue
        start, end = left[row], right[column]
        yield (
            f'<path class="{"n" if value < 0 else "p"}" data-i="{row}" data-j="{column}" style="--s:{share:.3g}"'
            f' stroke-width="{1 + share * THICK:.3g}"'
            f' d="M{SIDE},{start:g} C{middle:g},{start:g} {middle:g},{end:g} {WIDE - SIDE},{end:g}"/>'
        )


def _cells(pair: ExplainedPair) -> Iterator[tuple[tuple[int, int], float]]:
    for row, line in enumerate(pair.cells):
        for column, value in enumerate(line):
            yield (row, column), float(value)


def _names(labels: Sequence[str], heights: Sequence[float], across: int, anchor: str) -> Iterator[str]:
    for label, height in zip(labels, heights, strict=True):
        index = f'transform="translate({across} {height:g})" text-anchor="{anchor}" dominant-baseline="central"'
        yield f"<text {index}>{escape(shortened(label, LETTERS))}</text>"
