"""Self-contained HTML pages: sections, tables, inline figures, matrices and hits; every text is escaped."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.axes import settled
from likewise.plotting.terminal import (
    WHITE_INK_FROM,
    DrawnHit,
    marked_words,
    mixed,
    printable,
    shortened,
    signed,
    strength,
    strongest,
)

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --soft: #9da7b3; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3, h4 { font-size: 1rem; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; }
table { border-collapse: collapse; } .wide { overflow-x: auto; margin-bottom: 1.2rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td { white-space: pre-line; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: pre; }
p.note { color: var(--soft); } code { font-size: .9em; }
"""


@dataclass(frozen=True)
class Number:
    """A table cell with a formatted number, which may have several lines; bold if marked."""

    text: str
    marked: bool = False


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document from pieces of HTML.

    >>> "<title>a &lt; b</title>" in page("a < b", [])
    True
    """
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{safe(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{safe(title)}</h1>\n{''.join(parts)}</body></html>\n"
    )


def section(heading: str, parts: Iterable[str], level: int = 2) -> str:
    """A heading and its content."""
    return f"<h{level}>{safe(heading)}</h{level}>\n{''.join(parts)}"


def paragraph(text: str, note: bool = False) -> str:
    """A paragraph of plain text."""
    return f"<p{' class=note' if note else ''}>{safe(text)}</p>\n"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers are right-aligned, floats have three decimals."""
    head = "".join(f"<th>{safe(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"


def _cell(value: object) -> str:
    if isinstance(value, Number):
        shown = safe(value.text)
        return f"<td class=number>{f'<b>{shown}</b>' if value.marked else shown}</td>"
    if isinstance(value, float):
        return f"<td class=number>{value:.3f}</td>"
    if isinstance(value, int):
        return f"<td class=number>{value}</td>"
    return f"<td>{safe(str(value))}</td>"


def safe(text: str) -> str:
    """A text for HTML, without control characters; character by character, so that spans stay valid."""
    return escape(printable(text))


ADDRESSES = re.compile(r'<metadata>.*?</metadata>| xmlns(?::\w+)?="[^"]*"', re.DOTALL)
"""Format names that look like web addresses; HTML does not need them."""
GRID = "#e5e5e5"
SPARE = re.compile(r"<!--.*?-->|(?<=>)\s+(?=<)", re.DOTALL)  # Comments and white space between tags
LONG_NUMBERS = re.compile(r"\b[1-9]\d*\.\d{3,}")  # Coordinates. Numbers below 1 may be scales and keep their digits.
IMAGES = re.compile(r'(?<=data:image/png;base64,)[^"]+')
PICTURE_COLOURS, PICTURE_DPI = 256, 80
HEAVY = 320_000  # Figures with longer SVGs are shown as PNG, so that pages stay small
CELL, LABEL_CHARACTERS = 46, 42


def inline_figure(ax: Any, label: str) -> str:
    """The figure of an Axes for a page: an ``svg`` with compressed dots, or an ``img`` if that is too long."""
    # The colours of a heat map are its numbers and stay exact.
    drawn = inline_svg(ax, label, dots=not any(one.images for one in ax.figure.axes))
    return drawn if len(drawn) <= HEAVY else inline_png(ax, label)


def inline_svg(ax: Any, label: str, dots: bool = False) -> str:
    """The figure of an Axes as an ``svg`` element, described by ``label``, for dark and light pages.

    ``dots``: rasterised parts are stored in few colours, which takes a third of the space.
    """
    import matplotlib

    drawn = io.StringIO()
    # Text as outlines: the page looks the same where fonts are missing.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "likewise"}):
        settled(ax).savefig(drawn, format="svg", transparent=True)
    svg = _short(ADDRESSES.sub("", drawn.getvalue().partition("<svg")[2]))
    if dots:
        svg = IMAGES.sub(_fewer_colours, svg)
    inked = svg.replace("#000000", "currentColor").replace(GRID, "var(--line)")
    said = f'role="img" aria-label="{safe(label)}"'
    return f'<svg {said} fill="currentColor" style="max-width: 100%; height: auto"{inked}'


def inline_png(ax: Any, label: str) -> str:
    """The same as an ``img`` on white, for figures with so many panels that outlines need more space than pixels.

    >>> from likewise.plotting.curves import curves
    >>> drawn = inline_png(curves([0, 1], {"a": ([0, 1], None, None)}, ("x", "y")), "a < b")
    >>> drawn.startswith('<img alt="a &lt; b"')
    True
    """
    drawn = io.BytesIO()
    settled(ax).savefig(drawn, format="png", dpi=PICTURE_DPI)
    said = f'alt="{safe(label)}" style="max-width: 100%; height: auto"'
    return f'<img {said} src="data:image/png;base64,{_palette_png(drawn.getvalue())}">'


def _short(svg: str) -> str:
    """The same drawing in fewer characters, without ids that nothing refers to: figures share them."""
    short = LONG_NUMBERS.sub(lambda number: f"{float(number[0]):.2f}", SPARE.sub("", svg))
    meant = set(re.findall(r"#([\w.-]+)", short))
    return re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in meant else "", short)


def _fewer_colours(image: re.Match[str]) -> str:
    return _palette_png(base64.b64decode(image[0]))


def _palette_png(png: bytes) -> str:
    """A PNG in few colours, in base64."""
    from PIL import Image

    small = io.BytesIO()
    # The one method that keeps transparency.
    picture = Image.open(io.BytesIO(png)).quantize(PICTURE_COLOURS, Image.Quantize.FASTOCTREE)
    picture.save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")


def matrix_svg(values: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Cells (n, m) coloured symmetrically around 0, red above and blue below, each with its number."""
    cells = np.asarray(values, dtype=float)
    scale = strongest(cells)
    left, top = 8 * min(LABEL_CHARACTERS, max(map(len, rows))) + 12, 30
    width, height = left + CELL * len(columns) + 8, top + CELL * len(rows) + 8
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' role='img'"]
    parts.append(" font-family='system-ui, sans-serif' font-size='13' fill='currentColor'>\n")
    for index, name in enumerate(columns):
        middle = left + CELL * (index + 0.5)
        parts.append(f"<text x='{middle}' y='20' text-anchor='middle'>{index + 1}<title>{safe(name)}</title></text>")
    for row, name in enumerate(rows):
        line = top + CELL * (row + 0.5) + 5
        label = safe(f"{row + 1}  {shortened(name, LABEL_CHARACTERS)}")
        parts.append(f"<text x='{left - 10}' y='{line}' text-anchor='end'>{label}</text>\n")
        for column, other in enumerate(columns):
            hint = safe(f"{name} / {other}: {cells[row, column]:.4f}")
            corner = (left + CELL * column, top + CELL * row)
            parts.append(_matrix_cell(float(cells[row, column]), scale, corner, hint))
    return "".join([*parts, "</svg>\n"])


def _matrix_cell(value: float, scale: float, corner: tuple[int, int], hint: str) -> str:
    red, green, blue = mixed(value, scale)
    ink = "#fff" if strength(value, scale) > WHITE_INK_FROM else "#111"
    x, y = corner
    return (
        f"<g><title>{hint}</title><rect x='{x}' y='{y}' width='{CELL - 2}' height='{CELL - 2}' rx='3'"
        f" fill='rgb({red},{green},{blue})'/><text x='{x + CELL / 2 - 1}' y='{y + CELL / 2 + 4}'"
        f" text-anchor='middle' fill='{ink}'>{value:.2f}</text></g>\n"
    )


HITS_STYLE = """
.likewise-hits { list-style: none; padding: 0; margin: 0; counter-reset: none; }
.likewise-hits > li { border-top: 1px solid var(--line, #d0d7de); padding: .8rem 0; display: grid;
  grid-template-columns: 7rem 1fr; gap: .2rem 1rem; }
.likewise-hits .score { font-variant-numeric: tabular-nums; font-weight: 600; }
.likewise-hits .id, .likewise-hits .why { opacity: .8; font-size: .88em; overflow-wrap: anywhere; }
.likewise-hits p { margin: 0 0 .3rem; overflow-wrap: anywhere; }
.likewise-hits mark { color: inherit; border-radius: .2em; padding: 0 .1em; background: none; }
/* Two thirds at most, so that the ink has a contrast of 4.5 on every colour, on light and dark paper. */
.likewise-hits mark.p { background: rgb(178 24 43 / calc(.66 * var(--s))); }
.likewise-hits mark.n { background: rgb(33 102 172 / calc(.66 * var(--s))); }
.likewise-hits i { font-style: normal; font-variant-numeric: tabular-nums; }
"""


def hits_fragment(query: str, ranker: str, hits: Sequence[DrawnHit]) -> str:
    """A list of hits; all share one colour scale."""
    scale = strongest([share for hit in hits for *_, share in hit.words])
    items = "".join(_item(index, hit, scale) for index, hit in enumerate(hits, start=1))
    note = f"{safe(ranker)}."
    if any(hit.words for hit in hits):
        note += " Red words raise the score, blue ones lower it; hover for the share."
    return (
        f"<div><style>{HITS_STYLE}</style><p><b dir=auto>{safe(query)}</b> <span class=why>{note}</span></p>"
        f"<ol class=likewise-hits>{items}</ol></div>\n"
    )


def marked(text: str, words: Sequence[tuple[int, int, float]], scale: float) -> str:
    """A text, escaped, with its words (start, end, share) coloured."""
    parts = []
    for piece, share in marked_words(text, words):
        size = strength(share or 0.0, scale)
        kind = "n" if (share or 0.0) < 0 else "p"
        mark = "" if share is None else f'<mark class="{kind}" style="--s:{size:.3g}" title="{share:+.4f}">'
        parts.append(f"{mark}{safe(piece)}{'</mark>' if mark else ''}")
    return "".join(parts)


def _item(index: int, hit: DrawnHit, scale: float) -> str:
    pairs = ", ".join(f"{safe(left)} × {safe(right)} <i>{signed(value)}</i>" for left, right, value in hit.pairs)
    above, sums = (
        ", ".join(f"{safe(name)} <i>{signed(value)}</i>" for name, value in terms)
        for terms in (hit.margin_terms, hit.sums)
    )
    margin = f"{hit.side} {safe(hit.above)} by <i>{abs(round(hit.margin, 4)):.4f}</i>: {above}" if above else ""
    notes = (*map(safe, hit.notes), f"{safe(hit.sums_name)}: {sums}" if sums else "", pairs, margin)
    why = "".join(f"<p class=why>{note}</p>" for note in notes if note)
    text = "".join(marked(piece, words, scale) for piece, words in hit.pieces)
    place = f"<br><span class=id>{safe(hit.location)}</span>" if hit.location else ""
    meaning = f"<p class=why>({safe(hit.meaning)})</p>" if hit.meaning else ""
    return (
        f"<li><div><span class=score>{hit.rank or index}. {hit.shown_score}</span><br>"
        f"<span class=id>{safe(hit.id)}</span>{place}</div>"
        f"<div>{meaning}<p dir=auto>{text}</p>{why}</div></li>\n"
    )
