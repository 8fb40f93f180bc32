"""Fonts: what matplotlib can draw of a label, letter by letter and never as mathematics."""

from __future__ import annotations

import functools
from typing import Any

from likewise.plotting.text import one_line, shortened

# Tried in this order after matplotlib's own font, where the system has them; colour fonts cannot be drawn.
FALLBACKS = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Noto Sans Hebrew",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
    "Noto Emoji",
    "Symbola",
)
JOINERS = {0x200B, 0x200C, 0x200D, 0xFE0E, 0xFE0F}
MISSING = "\N{WHITE SQUARE}"


@functools.cache
def families() -> tuple[str, ...]:
    """The font families to draw labels with: matplotlib's own, then those of the system that cover more scripts."""
    from matplotlib import font_manager

    known = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACKS if name in known))


@functools.cache
def _letters() -> frozenset[int]:
    from matplotlib import font_manager, ft2font

    fonts = (ft2font.FT2Font(font_manager.findfont(name)) for name in families())
    return frozenset(code for font in fonts for code in font.get_charmap())


def drawable(text: str, characters: int = 28) -> str:
    """A label on one line, cut to ``letters``; a box stands for what no font has, so that no warning does.

    >>> drawable("a\\U000f0000b")
    'a□b'
    """
    line = shortened(one_line(text), characters) if text else ""
    kept = (letter for letter in line if ord(letter) not in JOINERS or ord(letter) in _letters())
    return "".join(letter if ord(letter) in _letters() else MISSING for letter in kept)


def literal() -> dict[str, Any]:
    """The keywords of a matplotlib text that keep ``$`` and ``_`` letters like all others."""
    return {"parse_math": False, "usetex": False, "fontfamily": list(families())}
