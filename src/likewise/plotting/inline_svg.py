"""Inline SVG: a figure inside a page, in the page's own ink on its own paper; or as a picture where it is too heavy."""

from __future__ import annotations

import base64
import io
import re
from html import escape
from typing import Any

from likewise.plotting.axes import settled
from likewise.plotting.text import printable

ADDRESSES = re.compile(r'<metadata>.*?</metadata>| xmlns(?::\w+)?="[^"]*"', re.DOTALL)
"""Names of formats that look like addresses; inside HTML nobody needs them."""
GRID = "#e5e5e5"
SPARE = re.compile(r"<!--.*?-->|(?<=>)\s+(?=<)", re.DOTALL)
"""What is never seen."""
LONG_NUMBERS = re.compile(r"\b[1-9]\d*\.\d{3,}")
"""Coordinates; what is below 1 may be a scale, which counts in full."""
IMAGES = re.compile(r'(?<=data:image/png;base64,)[^"]+')
PICTURE_COLOURS, PICTURE_DPI = 256, 80


def inline_svg(ax: Any, label: str, dots: bool = False) -> str:
    """The figure that an Axes belongs to as an ``svg`` element, described by ``label``, for dark and light pages.

    With ``dots`` what is rasterised becomes three times smaller, in as few colours as dots of a palette have.

    >>> from likewise.plotting.curves import curves
    >>> drawn = inline_svg(curves([0, 1], {"a": ([0, 1], None, None)}, ("x", "y")), "a < b")
    >>> drawn.startswith("<svg "), "http" in drawn, 'aria-label="a &lt; b"' in drawn
    (True, False, True)
    """
    import matplotlib

    drawn = io.StringIO()
    # Letters as outlines: the page looks the same where the fonts are missing.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "likewise"}):
        settled(ax).savefig(drawn, format="svg", transparent=True)
    svg = _short(ADDRESSES.sub("", drawn.getvalue().partition("<svg")[2]))
    if dots:
        svg = IMAGES.sub(_fewer_colours, svg)
    inked = svg.replace("#000000", "currentColor").replace(GRID, "var(--line)")
    said = f'role="img" aria-label="{escape(printable(label))}"'
    return f'<svg {said} fill="currentColor" style="max-width: 100%; height: auto"{inked}'


def inline_png(ax: Any, label: str) -> str:
    """The same as an ``img`` on white paper, for figures of so many panels that their outlines are heavier than dots.

    >>> from likewise.plotting.curves import curves
    >>> drawn = inline_png(curves([0, 1], {"a": ([0, 1], None, None)}, ("x", "y")), "a < b")
    >>> drawn.startswith('<img alt="a &lt; b"')
    True
    """
    drawn = io.BytesIO()
    settled(ax).savefig(drawn, format="png", dpi=PICTURE_DPI)
    said = f'alt="{escape(printable(label))}" style="max-width: 100%; height: auto"'
    return f'<img {said} src="data:image/png;base64,{_palette_png(drawn.getvalue())}">'


def _short(svg: str) -> str:
    """The same drawing in fewer letters, without the names of parts that nothing refers to: figures share them."""
    short = LONG_NUMBERS.sub(lambda number: f"{float(number[0]):.2f}", SPARE.sub("", svg))
    meant = set(re.findall(r"#([\w.-]+)", short))
    return re.sub(r' id="([^"]*)"', lambda name: name[0] if name[1] in meant else "", short)


def _fewer_colours(image: re.Match[str]) -> str:
    return _palette_png(base64.b64decode(image[0]))


def _palette_png(png: bytes) -> str:
    """A picture in few colours, as letters."""
    from PIL import Image

    small = io.BytesIO()
    # The one method that keeps what is transparent.
    picture = Image.open(io.BytesIO(png)).quantize(PICTURE_COLOURS, Image.Quantize.FASTOCTREE)
    picture.save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")
