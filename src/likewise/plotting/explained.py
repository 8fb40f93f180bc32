"""Explained pairs: the arrays of a pair, and its HTML fragment, which needs no network."""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import UsageError
from likewise.plotting.terminal import WHITE_INK_FROM, brief, one_line, shortened, strength, strongest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExplainedPair:
    """Two texts of n and m units and the relevance of each pair of units for their similarity.

    >>> pair = ExplainedPair(["a", "b"], ["c"], [[0.5], [0.1]], [0.0, 0.1], [0.05], 0.15, 0.9)
    >>> [f"{name}: {value:.2f}" for name, value in pair.ledger().items()][0]
    'units × units: 0.60'
    """

    left: Sequence[str]
    """The labels of the left text's units (n)."""
    right: Sequence[str]
    """The labels of the right text's units (m)."""
    relevance: ArrayLike
    """What each pair of units adds to the similarity (n, m)."""
    bias_left: ArrayLike
    """What each left unit adds together with the right text's bias (n,)."""
    bias_right: ArrayLike
    """What each right unit adds together with the left text's bias (m,)."""
    bias_both: float
    """What the two biases add together."""
    similarity: float
    """The similarity that all of this adds up to."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Method, model, pooling."""
    units: str = "units"
    """What the units are called: tokens, words, sentences."""
    rest: str = "bias"
    """What the bias terms hold: bias, or reference."""

    def __post_init__(self) -> None:
        rows, columns = len(self.left), len(self.right)
        if not rows or not columns:
            raise UsageError("nothing to draw: a text without units; give at least one unit on each side")
        wanted = {"relevance": (rows, columns), "bias_left": (rows,), "bias_right": (columns,)}
        for name, shape in wanted.items():
            found = np.asarray(getattr(self, name), dtype=float)
            if found.shape != shape:
                raise UsageError(f"{name} has the shape {found.shape}; {rows} and {columns} labels need {shape}")
            object.__setattr__(self, name, found)

    @property
    def cells(self) -> Floats:
        """The relevance as an array (n, m)."""
        return np.asarray(self.relevance, dtype=float)

    @property
    def biases(self) -> tuple[Floats, Floats]:
        """The left units' bias (n,) and the right units' (m,)."""
        return np.asarray(self.bias_left, dtype=float), np.asarray(self.bias_right, dtype=float)

    def shares(self) -> tuple[Floats, Floats]:
        """What each left unit (n,) and each right unit (m,) adds to the similarity, its bias included."""
        left, right = self.biases
        return self.cells.sum(1) + left, self.cells.sum(0) + right

    def ledger(self) -> dict[str, float]:
        """The terms that sum to the similarity; the gap is the unexplained rest."""
        left, right = self.biases
        terms = {
            f"{self.units} × {self.units}": float(self.cells.sum()),
            f"left {self.units} × right {self.rest}": float(left.sum()),
            f"left {self.rest} × right {self.units}": float(right.sum()),
            f"{self.rest} × {self.rest}": float(self.bias_both),
        }
        return terms | {"gap": float(self.similarity) - sum(terms.values())}

    def strongest_pairs(self, count: int = 10) -> list[tuple[int, int, float]]:
        """The pairs of units (row, column, relevance) of the largest magnitude, strongest first."""
        sizes = np.nan_to_num(np.abs(self.cells)).ravel()
        order = np.argsort(-sizes, kind="stable")[:count]
        indices = (divmod(int(index), len(self.right)) for index in order)
        return [(row, column, float(self.cells[row, column])) for row, column in indices]

    def merged(self, left: int, right: int) -> ExplainedPair:
        """Merges each ``left`` and each ``right`` neighbouring units; their relevances are summed.

        >>> pair = ExplainedPair(["a", "b", "c"], ["d"], [[1], [2], [3]], [0, 0, 0], [0], 0, 6)
        >>> pair.merged(2, 1).left, pair.merged(2, 1).cells.tolist()
        (['a b', 'c'], [[3.0], [3.0]])
        """
        rows, columns = list(range(0, len(self.left), left)), list(range(0, len(self.right), right))
        bias_left, bias_right = self.biases
        return replace(
            self,
            left=[" ".join(self.left[start : start + left]) for start in rows],
            right=[" ".join(self.right[start : start + right]) for start in columns],
            relevance=np.add.reduceat(np.add.reduceat(self.cells, rows, 0), columns, 1),
            bias_left=np.add.reduceat(bias_left, rows),
            bias_right=np.add.reduceat(bias_right, columns),
        )


# Two bytes a cell, so that 65,536 cells are 175 KB of base64 and a fragment stays below 300 KB.
MAX_CELLS, MAX_UNITS, MAX_LABEL_BYTES = 65_536, 512, 40_000
TABLE_CELLS, NUMBERED_UNITS, NUMBERED_COLUMNS = 1_600, 40, 14
CUTS = (2_000, 800, 400, 200, 100, 60, 40, 24, 12)
LEVELS = 32_767
ROW, WIDE, SIDE, THICK, NAME_CHARACTERS = 24, 560, 170, 9, 22
FAINTEST = 0.03
"""Lines below this share of the strongest are not drawn."""


def explained_fragment(pair: ExplainedPair) -> str:
    """The two texts, their matrix, lines, the strongest pairs and the ledger; hovering links them.

    Matrices above 65,536 cells are shown with neighbouring units merged, and the fragment says so.

    >>> pair = ExplainedPair(["<em>"], ["c"], [[0.5]], [0.1], [0.1], 0.1, 0.8)
    >>> "&lt;em&gt;" in explained_fragment(pair), "<em>" in explained_fragment(pair)
    (True, False)
    """
    steps = _steps(len(pair.left), len(pair.right))
    merged = pair.merged(*steps)
    characters = _label_length([*merged.left, *merged.right])
    left, right = ([shortened(one_line(label), characters) for label in side] for side in (merged.left, merged.right))
    bias_left, bias_right = merged.biases
    data = {
        "relevance": _encoded(merged.cells),
        "bias": _encoded(np.concatenate([bias_left, bias_right, [merged.bias_both]])),
        "shares": _encoded(np.concatenate(merged.shares())),
    }
    data["rest"] = escape(pair.rest)
    attributes = "".join(f' data-{name}="{value}"' for name, value in data.items())
    shown = replace(merged, left=left, right=right)
    parts = [
        f'<div class="likewise-explained"{attributes}><style>{_asset("explained.css")}</style>\n',
        f'<div class="head"><p class="score"><b>{pair.similarity:.4f}</b> similarity</p>{_metadata(pair)}</div>\n',
        *_notes(pair, steps, characters),
        _texts(shown),
        f'<p class="readout" role="status">Point at one of the {escape(pair.units)} to see what it pairs with.</p>\n',
        f'<div class="panels"><section class="matrix"><h4>Matrix</h4>{_matrix(shown)}{_legend(shown)}</section>\n',
        f'<div class="lists">{_drawn_lines(shown)}<section><h4>Ledger</h4>{_ledger(pair)}</section>\n',
        f"<section><h4>Strongest pairs</h4>{_pairs(pair, steps)}</section></div></div>\n",
        f"<script>{_asset('explained.js')}</script></div>\n",
    ]
    return "".join(parts)


@functools.cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _steps(rows: int, columns: int) -> tuple[int, int]:
    """How many neighbouring units to merge on each side, the longer side first."""
    steps, sizes = [1, 1], [rows, columns]
    while max(sizes) > MAX_UNITS or sizes[0] * sizes[1] > MAX_CELLS:
        side = 0 if sizes[0] >= sizes[1] else 1
        steps[side] += 1
        sizes[side] = math.ceil((rows, columns)[side] / steps[side])
    return steps[0], steps[1]


def _label_length(labels: Sequence[str]) -> int:
    """The length of labels at which all of them fit their budget."""
    for characters in CUTS:
        if sum(len(_safe(label, characters).encode()) for label in labels) <= MAX_LABEL_BYTES:
            return characters
    return CUTS[-1]


def _safe(text: str, characters: int = CUTS[0]) -> str:
    return escape(shortened(one_line(text), characters))


def _encoded(values: ArrayLike) -> str:
    """A scale and 16-bit levels in base64; the lowest level stands for nan."""
    numbers = np.asarray(values, dtype=float).ravel()
    scale = strongest(numbers)
    levels = np.where(np.isfinite(numbers), np.round(np.nan_to_num(numbers) / scale * LEVELS), -LEVELS - 1)
    return f"{scale:.9g};{base64.b64encode(levels.astype('<i2').tobytes()).decode()}"


def signed(value: float) -> str:
    """A number with its sign and four decimals, in scientific notation where it is tiny.

    >>> signed(0.25), signed(-3e-7), signed(0.0)
    ('+0.2500', '-3.0e-07', '+0.0000')
    """
    return f"{value:+.1e}" if 0 < abs(value) < 5e-5 else f"{value:+.4f}"


def _paint(value: float, scale: float) -> str:
    """The attributes that colour an element by a value."""
    share = strength(value, scale)
    names = (_sign(value) or "p") + (" x" if share > WHITE_INK_FROM else "")
    return f'class="{names}" style="--s:{share:.3g}"'


def _sign(value: float) -> str:
    return "n" if value < 0 else "p" if value > 0 else ""


def _metadata(pair: ExplainedPair) -> str:
    items = "".join(
        f"<div><dt>{_safe(k, 60)}</dt><dd>{_safe(str(v), 200)}</dd></div>" for k, v in pair.metadata.items()
    )
    return f"<dl>{items}</dl>"


def _notes(pair: ExplainedPair, steps: tuple[int, int], characters: int) -> Iterable[str]:
    rows, columns = len(pair.left), len(pair.right)
    if steps != (1, 1):
        yield (
            f'<p class="note">{rows} × {columns} {escape(pair.units)} are too many to show one by one: neighbouring'
            f" ones are taken together, {steps[0]} on the left and {steps[1]} on the right. What is shown of them are"
            " exact sums; the ledger and the strongest pairs are of single ones.</p>\n"
        )
    if any(len(one_line(label)) > characters for label in [*pair.left, *pair.right]):
        yield f'<p class="note">Longer {escape(pair.units)} are cut to {characters} letters.</p>\n'


def _texts(pair: ExplainedPair) -> str:
    sides, shares = (pair.left, pair.right), pair.shares()
    scale = strongest(*shares)
    numbered = max(map(len, sides)) <= NUMBERED_UNITS
    runs = (_run(side, share, scale, numbered) for side, share in zip(sides, shares, strict=True))
    return "".join(
        f'<div class="text" role="group" aria-label="{name} text" dir="auto">{run}</div>\n'
        for name, run in zip(("Left", "Right"), runs, strict=True)
    )


def _run(labels: Sequence[str], shares: Iterable[float], scale: float, numbered: bool) -> str:
    """The units of one text. Only the first is a tab stop; arrow keys reach the others."""
    spans = []
    for label, share in zip(labels, shares, strict=True):
        number = f"<small>{share:+.3f}</small>" if numbered else ""
        spans.append(f"<span {_paint(share, scale)}>{escape(label)}{number}</span>")
    spans[0] = spans[0].replace("<span ", '<span tabindex="0" ', 1)
    return " ".join(spans)


def _matrix(pair: ExplainedPair) -> str:
    """A table for short texts, which needs no script; a canvas that the script fills for long ones."""
    rows, columns = pair.cells.shape
    if rows * columns > TABLE_CELLS:
        return (
            f'<canvas role="img" aria-label="Heat map of {rows} by {columns} pairs"></canvas>'
            "<noscript>The matrix of a long text needs JavaScript.</noscript>"
        )
    numbered = max(rows, columns) <= NUMBERED_COLUMNS
    scale, (bias_left, bias_right) = strongest(pair.cells), pair.biases
    apart = strongest(bias_left, bias_right)
    heads = "".join(f"<th><span>{escape(shortened(label, 24))}</span></th>" for label in pair.right)
    lines = [
        f"<tr>{_head(label)}{_cells(row, scale, numbered)}" for label, row in zip(pair.left, pair.cells, strict=True)
    ]
    lines = [f"{line}{_cells([bias], apart, numbered)}</tr>" for line, bias in zip(lines, bias_left, strict=True)]
    both = f"<td>{brief(pair.bias_both, 1.0) if numbered else ''}</td>"
    kind = "map" + " numbered" * numbered + " short" * (numbered and max(map(len, pair.right)) <= 7)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr><td></td>{heads}'
        f"<th><span>{escape(pair.rest)}</span></th></tr></thead><tbody>{''.join(lines)}</tbody>"
        f"<tfoot><tr><th>{escape(pair.rest)}</th>{_cells(bias_right, apart, numbered)}{both}</tr></tfoot></table></div>"
    )


def _head(label: str) -> str:
    return f'<th scope="row" dir="auto">{escape(shortened(label, 32))}</th>'


def _cells(values: Iterable[float], scale: float, numbered: bool) -> str:
    return "".join(f"<td {_paint(each, scale)}>{brief(each, scale) if numbered else ''}</td>" for each in values)


def _legend(pair: ExplainedPair) -> str:
    """The end of each colour scale. Biases have their own, because strong ones would blanch all pairs."""
    drawn = {"pairs": [pair.cells], pair.rest: pair.biases, "texts": pair.shares()}
    scales = {name: strongest(*values) for name, values in drawn.items() if any(np.any(each) for each in values)}
    bars = "".join(
        f"<span>{name} <i>-{scale:.3g}</i><b></b><i>+{scale:.3g}</i></span>" for name, scale in scales.items()
    )
    return f'<p class="legend">{bars}</p>'


def _drawn_lines(pair: ExplainedPair) -> str:
    """Lines between the units, if there are few enough of them."""
    if max(len(pair.left), len(pair.right)) > NUMBERED_UNITS:
        return ""
    return f"<section><h4>Lines</h4>{explained_lines(pair)}</section>\n"


def _ledger(pair: ExplainedPair) -> str:
    """A waterfall: each bar begins where the one before it ended; the last is the sum."""
    terms = pair.ledger()
    numbers = [*map(signed, terms.values()), f"{pair.similarity:.4f}"]
    ends = [0.0, *accumulate(terms.values())]
    low, high = min(0.0, *ends), max(0.0, *ends)
    wide = (high - low) or 1.0
    spans = [*pairwise(ends), (0.0, pair.similarity)]
    rows = []
    for name, number, (start, end) in zip([*terms, "similarity"], numbers, spans, strict=True):
        left, width = (min(start, end) - low) / wide * 100, abs(end - start) / wide * 100
        rows.append(
            f'<tr><th scope="row">{escape(name)}</th><td class="track"><i class="{_sign(end - start)}"'
            f' style="left:{left:.2f}%;width:{width:.2f}%"></i></td><td class="number">{number}</td></tr>'
        )
    zero = -low / wide * 100
    return f'<table class="ledger" style="--zero:{zero:.2f}%"><tbody>{"".join(rows)}</tbody></table>'


def _pairs(pair: ExplainedPair, steps: tuple[int, int]) -> str:
    found = pair.strongest_pairs()
    scale = strongest([value for *_, value in found])
    items = "".join(
        f'<li data-i="{row // steps[0]}" data-j="{column // steps[1]}"><span><bdi>{_safe(pair.left[row], 60)}</bdi> ×'
        f" <bdi>{_safe(pair.right[column], 60)}</bdi></span><i {_paint(value, scale)}></i><b>{signed(value)}</b></li>"
        for row, column, value in found
    )
    return f'<ol class="pairs">{items}</ol>'


def explained_lines(pair: ExplainedPair) -> str:
    """Two columns of units as SVG, with a line for each pair; the stronger the pair, the wider the line.

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
    """Weakest first, so that strong lines are on top."""
    scale, middle = strongest(pair.cells), WIDE / 2
    found = [(strength(float(value), scale), float(value), *index) for index, value in np.ndenumerate(pair.cells)]
    for share, value, row, column in sorted(found):
        if share < FAINTEST:
            continue
        start, end = left[row], right[column]
        yield (
            f'<path class="{"n" if value < 0 else "p"}" data-i="{row}" data-j="{column}" style="--s:{share:.3g}"'
            f' stroke-width="{1 + share * THICK:.3g}"'
            f' d="M{SIDE},{start:g} C{middle:g},{start:g} {middle:g},{end:g} {WIDE - SIDE},{end:g}"/>'
        )


def _names(labels: Sequence[str], heights: Sequence[float], across: int, anchor: str) -> Iterator[str]:
    for label, height in zip(labels, heights, strict=True):
        index = f'transform="translate({across} {height:g})" text-anchor="{anchor}" dominant-baseline="central"'
        yield f"<text {index}>{escape(shortened(label, NAME_CHARACTERS))}</text>"
