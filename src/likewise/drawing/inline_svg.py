"""Inline SVG: a figure inside a page, in the page's own ink on its own paper."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from likewise.drawing.text import printable

ADDRESSES = re.compile(r'<metadata>.*?</metadata>| xmlns(?::\w+)?="[^"]*"', re.DOTALL)
"""Names of formats that look like addresses; inside HTML nobody needs them."""
GRID = "#e5e5e5"


def inline_svg(ax: Any, label: str) -> str:
    """The figure that an Axes belongs to as an ``svg`` element, described by ``label``, for dark and light pages.

    >>> from likewise.drawing.curves import curves
    >>> drawn = inline_svg(curves([0, 1], {"a": ([0, 1], None, None)}, ("x", "y")), "a < b")
    >>> drawn.startswith("<svg "), "http" in drawn, 'aria-label="a &lt; b"' in drawn
    (True, False, True)
    """
    import matplotlib

    drawn = io.StringIO()
    # Letters as outlines: the page looks the same where the fonts are missing.
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "likewise"}):
        ax.figure.savefig(drawn, format="svg", transparent=True)
    svg = ADDRESSES.sub("", drawn.getvalue().partition("<svg")[2])
    inked = svg.replace("#000000", "currentColor").replace(GRID, "var(--line)")
    said = f'role="img" aria-label="{escape(printable(label))}"'
    return f'<svg {said} fill="currentColor" style="max-width: 100%; height: auto"{inked}'
