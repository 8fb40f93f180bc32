"""Formats of texts, numbers and colours; matrices, texts and hits as terminal lines, readable without colour."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.style import Style
from rich.text import Text

BREAKS = dict.fromkeys((10, 0x2028, 0x2029), "\N{RETURN SYMBOL}") | {9: "\N{RIGHTWARDS ARROW TO BAR}"}
CONTROLS = (*range(9), *range(11, 32), *range(127, 160))
# Direction controls would reverse the text around a label; lone surrogates cannot be written to a file.
DIRECTIONS, SURROGATES = (*range(0x202A, 0x202F), *range(0x2066, 0x206A)), range(0xD800, 0xE000)
UNPRINTABLE = dict.fromkeys((*CONTROLS, *DIRECTIONS, *SURROGATES), "\N{REPLACEMENT CHARACTER}")


def printable(text: str) -> str:
    """A text without control characters, which could control a terminal and which XML forbids.

    >>> printable("\\x1b[31mred")
    '\\ufffd[31mred'
    """
    return text.translate(UNPRINTABLE)


def one_line(text: str) -> str:
    """A label on one line: control characters replaced, line breaks and blanks made visible.

    >>> one_line("a\\nb"), one_line(" ")
    ('a⏎b', '␣')
    """
    line = printable(text).translate(BREAKS)
    return line if line.strip() else "\N{OPEN BOX}" * max(1, len(line))


def shortened(text: str, characters: int) -> str:
    """At most ``characters`` characters of a text; an ellipsis marks a cut."""
    return text if len(text) <= characters else text[: max(0, characters - 1)] + "…"


def marked_words(text: str, words: Sequence[tuple[int, int, float]]) -> Iterator[tuple[str, float | None]]:
    """A text in pieces: words (start, end, share) with their share, the pieces between them with None.

    >>> list(marked_words("a cat", [(2, 5, 0.4)]))
    [('a ', None), ('cat', 0.4), ('', None)]
    """
    done = 0
    for start, end, share in sorted(words):
        if done <= start < end:  # of several tokens of one character, the first has the colour
            yield text[done:start], None
            yield text[start:end], share
            done = end
    yield text[done:], None


def brief(value: float, scale: float, sign: str = "-") -> str:
    """A number with as few decimals as ``scale``, the largest magnitude, needs; ``sign`` "+" shows plus signs.

    >>> brief(0.123, 0.5), brief(0.00123, 0.005), brief(-1e-9, 1.0)
    ('0.12', '0.0012', '0.00')
    """
    decimals = 2 if scale >= 0.1 else 3 if scale >= 0.01 else 4
    return f"{round(value, decimals) + 0.0:{sign}.{decimals}f}"


def unique_labels(paths: Sequence[str]) -> list[str]:
    """Short names of models: as many last path parts as make them unique; equal ones are numbered.

    >>> unique_labels(["models/e5", "minilm"]), unique_labels(["/runs/a/e5", "/runs/b/e5"]), unique_labels(["e5", "e5"])
    (['e5', 'minilm'], ['a/e5', 'b/e5'], ['e5', 'e5 (2)'])
    """
    deepest = max((len(PurePath(path).parts) for path in paths), default=1)
    short = (["/".join(PurePath(path).parts[-depth:]) or path for path in paths] for depth in range(1, deepest))
    names = next((found for found in short if len(set(found)) == len(set(paths))), list(paths))
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        seen[name] += 1
        names[index] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names


BLUE, RED = (33, 102, 172), (178, 24, 43)  # below and above zero, as in ColorBrewer's RdBu
WHITE = (255, 255, 255)
WHITE_INK_FROM = 0.8  # From this strength on, white text has more contrast than black text, on both colours


def strongest(*values: ArrayLike) -> float:
    """The largest finite magnitude in the arrays, or 1.0: the end of a colour scale."""
    sizes = [np.abs(np.asarray(each, dtype=float)).ravel() for each in values]
    finite = [float(size[np.isfinite(size)].max(initial=0.0)) for size in sizes]
    return max(finite, default=0.0) or 1.0


def strength(value: float, scale: float) -> float:
    """The colour strength of a value, 0 to 1; 0 for nan."""
    return 0.0 if math.isnan(value) else min(1.0, abs(value) / scale)


def mixed(value: float, scale: float) -> tuple[int, int, int]:
    """The colour of a value on white, red above zero and blue below: (red, green, blue) of 255."""
    share = strength(value, scale)
    red, green, blue = (round(255 + (end - 255) * share) for end in (RED if value > 0 else BLUE))
    return red, green, blue


MOST_ROWS = 40
NARROW, USUAL, WIDEST_CELL, WIDEST_NAME = 4, 7, 12, 24
MARK = "\N{LEFT-TO-RIGHT MARK}"
FAINTEST = 0.06  # Weaker values keep the terminal's background


@dataclass(frozen=True)
class _Layout:
    """The shown rows and columns, their widths, and the unit of printed numbers."""

    rows: list[int]
    columns: list[int]
    name: int
    cell: int
    scale: float
    step: float | None

    def number(self, value: float) -> str:
        """A value as cell text: decimals, or whole steps where cells are narrow."""
        if math.isnan(value):
            return "nan"
        if self.step is None:
            return "·" if abs(value) < 0.0005 else f"{value:+.3f}"
        return f"{round(value / self.step):+d}" if round(value / self.step) else "·"


def matrix_lines(values: ArrayLike, rows: Sequence[str], columns: Sequence[str], width: int = 80) -> list[Text]:
    """A signed matrix (n, m) as lines of at most ``width`` columns; the last line tells how many rows and columns,
    the weakest ones, are hidden.
    """
    cells = np.asarray(values, dtype=float).reshape(len(rows), len(columns))
    names = [one_line(name) for name in columns]
    layout = _layout(cells, [one_line(name) for name in rows], names, max(6, width))
    shown = [names[index] for index in layout.columns]
    numbered = any(cell_len(name) > layout.cell - 1 for name in shown)
    heads = [str(index + 1) for index in range(len(shown))] if numbered else shown
    lines = [Text(" " * layout.name + "".join(_right(head, layout.cell) for head in heads))]
    lines += [_row(layout, one_line(rows[row]), cells[row]) for row in layout.rows]
    notes = [f"{index + 1} {_isolated(name)}" for index, name in enumerate(shown)] if numbered else []
    lines += _wrapped(notes, width)
    lines += [line for note in _notes(layout, cells.shape) for line in _wrapped(note.split(" "), width, " ")]
    for line in lines:
        line.truncate(width, overflow="crop")
    return lines


def unit_line(labels: Sequence[str], shares: ArrayLike) -> Text:
    """A text of n units, each coloured by its share (n,) of a score and followed by that number."""
    amounts = [float(share) for share in np.asarray(shares, dtype=float)]
    scale = strongest(amounts)
    line = Text()
    for index, (label, share) in enumerate(zip(labels, amounts, strict=True)):
        line.append("  " if index else "")
        line.append(_isolated(one_line(label)), _style(share, scale))
        line.append(f" {brief(share, scale, '+')}", Style(dim=True))
    return line


def coloured_text(text: str, words: Sequence[tuple[int, int, float]], scale: float) -> Text:
    """A text on one line, its words (start, end, share) coloured on a scale that other texts may share."""
    line = Text()
    for piece, share in marked_words(text, words):
        line.append(_flat(piece), None if share is None else _style(share, scale))
    return line


def _flat(text: str) -> str:
    """A text on one line that keeps the blanks at its ends, unlike a label."""
    return printable(text).translate(dict.fromkeys((9, 10, 0x2028, 0x2029), " "))


def _layout(cells: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], width: int) -> _Layout:
    sizes = np.nan_to_num(np.abs(cells))
    name = min(max(map(cell_len, rows)), WIDEST_NAME, width // 3)
    left = width - name
    cell = min(max(USUAL, 1 + max(map(cell_len, columns))), WIDEST_CELL, left // len(columns))
    scale = strongest(cells)
    step = None if cell >= USUAL and 0.02 <= scale < 10 else _step(scale)
    cell = min(max(NARROW, cell), left)
    chosen = _strongest_indices(sizes.sum(1), MOST_ROWS), _strongest_indices(sizes.sum(0), max(1, left // cell))
    return _Layout(*chosen, name, cell, scale, step)


def _step(scale: float) -> float:
    """The unit at which the strongest value has two digits."""
    step = float(10.0 ** (math.floor(math.log10(scale)) - 1))
    return step if round(scale / step) < 100 else 10 * step


def _strongest_indices(sizes: NDArray[np.float64], count: int) -> list[int]:
    """The indices of the largest sizes, in ascending order."""
    return sorted(int(index) for index in np.argsort(-sizes, kind="stable")[:count])


def _row(layout: _Layout, name: str, values: NDArray[np.float64]) -> Text:
    line = Text(_isolated(_left(name, layout.name)))
    for index in layout.columns:
        value = float(values[index])
        line.append(" ")
        line.append(_right(layout.number(value), layout.cell - 1), _style(value, layout.scale))
    return line


def _style(value: float, scale: float) -> Style:
    share = strength(value, scale)
    if share < FAINTEST:
        return Style.null()
    ink = "#ffffff" if share > WHITE_INK_FROM else "#000000"
    red, green, blue = mixed(value, scale)
    return Style(color=ink, bgcolor=f"#{red:02x}{green:02x}{blue:02x}")


def _isolated(text: str) -> str:
    """Isolate right-to-left text, because a terminal would reverse the numbers next to it."""
    turned = any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text)
    return f"{MARK}\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}{MARK}" if turned else text


def _left(text: str, width: int) -> str:
    """A text of exactly ``width`` terminal columns; wide characters count twice."""
    return set_cell_size(text if cell_len(text) <= width else _cut(text, width - 1) + "…", width)


def _right(text: str, width: int) -> str:
    return " " * max(0, width - cell_len(text)) + _cut(text, width)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else (chop_cells(text, width) or [""])[0] if width > 1 else ""


def _wrapped(notes: Sequence[str], width: int, between: str = "  ") -> list[Text]:
    """Short texts, wrapped into dim lines."""
    lines: list[str] = []
    for note in (_left(note, width).rstrip() for note in notes):
        if lines and cell_len(lines[-1] + between + note) <= width:
            lines[-1] += between + note
        else:
            lines.append(note)
    return [Text(line, Style(dim=True)) for line in lines]


def _notes(layout: _Layout, shape: tuple[int, ...]) -> list[str]:
    hidden = [
        f"{count - len(kept)} of {count} {kind}"
        for kind, count, kept in (("rows", shape[0], layout.rows), ("columns", shape[1], layout.columns))
        if count > len(kept)
    ]
    notes = [f"1 stands for {layout.step:.6g}."] if layout.step is not None else []
    return notes + ([f"{' and '.join(hidden)} hidden: the weakest."] if hidden else [])


BARS = "▁▂▃▄▅▆▇█"
ROUNDING = 1e-6  # Smaller ranges are rounding


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """A bar for each value between ``low`` and ``high``; a blank for nan.

    >>> sparkline([0.0, 0.5, 1.0, float("nan")], 0.0, 1.0)
    '▁▅█ '
    """
    return "".join(_bar(value, low, high) for value in values)


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return " "
    share = (value - low) / (high - low) if high - low > ROUNDING else 0.5
    return BARS[min(len(BARS) - 1, max(0, int(share * len(BARS))))]


@dataclass(frozen=True)
class DrawnHit:
    """A hit: words as (start, end, share), strongest pairs, the margin over the next hit and its terms."""

    id: str
    score: float
    text: str
    words: Sequence[tuple[int, int, float]] = ()
    pairs: Sequence[tuple[str, str, float]] = ()
    margin: float = 0.0  # over the next hit
    margin_terms: Sequence[tuple[str, float]] = ()
    sums: Sequence[tuple[str, float]] = ()  # the terms of the score, such as its words and the reference
    sums_name: str = "score"  # what they sum to, such as a logit
    spans: Sequence[tuple[int, int]] | None = None  # the shown parts of the text; None is all of it
    location: str = ""  # such as the passage of a document
    notes: Sequence[str] = ()  # further lines, such as what each stage of a search did
    rank: int = 0  # 0 is the position in the list
    above: str = "the next"  # which hit the margin is over
    meaning: str = ""  # what the score means in its corpus

    @property
    def side(self) -> str:
        """Whether it is above or below the next; below if another model put the hits into order."""
        return "below" if round(self.margin, 4) < 0 else "above"

    @property
    def shown_score(self) -> str:
        """The score as terminals and pages print it."""
        return f"{self.score:.4f}"

    @property
    def pieces(self) -> list[tuple[str, list[tuple[int, int, float]]]]:
        """The shown parts of the text with their words; pieces of one ellipsis stand for what is left out."""
        found: list[tuple[str, list[tuple[int, int, float]]]] = []
        done = 0
        for start, end in [(0, len(self.text))] if self.spans is None else self.spans:
            if self.text[done:start].strip():
                found.append(("… " if not done else " … ", []))
            words = [(max(first, start) - start, min(last, end) - start, share) for first, last, share in self.words
                     if first < end and start < last]  # fmt: skip
            found.append((self.text[start:end], words))
            done = end
        return [*found, (" …", [])] if self.text[done:].strip() else found


def signed(value: float) -> str:
    """With its sign; zero has a plus."""
    return f"{round(value, 3) + 0.0:+.3f}"


def hits_lines(query: str, ranker: str, hits: Sequence[DrawnHit]) -> list[Text]:
    """A list of hits for a terminal; all share one colour scale."""
    scale = strongest([share for hit in hits for *_, share in hit.words])
    lines = [Text(f"{one_line(query)}  ({one_line(ranker)})", Style(bold=True))]
    for index, hit in enumerate(hits, start=1):
        place = f"{one_line(hit.id)} ({one_line(hit.location)})" if hit.location else one_line(hit.id)
        meaning = f" ({hit.meaning})" if hit.meaning else ""
        head = Text(f"{hit.rank or index:2d}  {hit.shown_score}{meaning}  {place}  ")
        for piece, words in hit.pieces:
            head.append_text(coloured_text(piece, words, scale))
        lines.append(head)
        pairs = ", ".join(f"{one_line(left)} × {one_line(right)} {signed(value)}" for left, right, value in hit.pairs)
        above = ", ".join(f"{one_line(name)} {signed(value)}" for name, value in hit.margin_terms)
        sums = ", ".join(f"{one_line(name)} {signed(value)}" for name, value in hit.sums)
        margin = f"{hit.side} {one_line(hit.above)} by {abs(round(hit.margin, 4)):.4f}"
        notes = {hit.sums_name: sums, "pairs": pairs, margin: above}
        shown = [f"{name}: {note}" for name, note in notes.items() if note]
        lines += [Text(f"      {note}", Style(dim=True)) for note in [*map(one_line, hit.notes), *shown]]
    return lines if hits else [*lines, Text("no hits")]
