"""Style: colours that are safe for colour-blind readers, and labels that matplotlib draws literally."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from likewise.plotting.text import one_line, shortened

BLUE, RED = (33, 102, 172), (178, 24, 43)  # below and above zero, as in ColorBrewer's RdBu
WHITE = (255, 255, 255)
WHITE_INK_FROM = 0.8
"""From this strength on, white text has more contrast than black text, on both colours."""

PALETTE = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")  # Paul Tol's bright scheme


def strongest(*values: ArrayLike) -> float:
    """The largest finite magnitude in the arrays, or 1.0: the end of a colour scale.

    >>> strongest([[0.5, -2.0]], [float("nan")])
    2.0
    """
    sizes = [np.abs(np.asarray(each, dtype=float)).ravel() for each in values]
    finite = [float(size[np.isfinite(size)].max(initial=0.0)) for size in sizes]
    return max(finite, default=0.0) or 1.0


def strength(value: float, scale: float) -> float:
    """The colour strength of a value, 0 to 1; 0 for nan.

    >>> strength(-0.2, 0.4)
    0.5
    """
    return 0.0 if math.isnan(value) else min(1.0, abs(value) / scale)


def mixed(value: float, scale: float) -> tuple[int, int, int]:
    """The colour of a value on white, red above zero and blue below: (red, green, blue) of 255.

    >>> mixed(1.0, 1.0) == RED, mixed(0.0, 1.0)
    (True, (255, 255, 255))
    """
    share = strength(value, scale)
    red, green, blue = (round(255 + (end - 255) * share) for end in (RED if value > 0 else BLUE))
    return red, green, blue


def diverging_map() -> Any:
    """The same colours as a matplotlib colour map: blue, white, red; grey for nan."""
    return _map((BLUE, WHITE, RED))


def rising_map() -> Any:
    """A colour map for shares, from white to blue; grey for nan."""
    return _map((WHITE, BLUE))


def _map(ends: Sequence[tuple[int, int, int]]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    parts = [tuple(part / 255 for part in end) for end in ends]
    return LinearSegmentedColormap.from_list("likewise", parts, N=511).with_extremes(bad="#cccccc")


# Tried in this order after matplotlib's own font, where the system has them; colour fonts cannot be drawn.
FALLBACKS = (
    "Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Source Han Sans", "WenQuanYi Zen Hei",
    "Hiragino Sans", "PingFang SC", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "Noto Sans Hebrew",
    "Noto Sans Arabic", "Noto Sans Devanagari", "Arial Unicode MS", "Noto Emoji", "Symbola",
)  # fmt: skip
JOINERS = {0x200B, 0x200C, 0x200D, 0xFE0E, 0xFE0F}
MISSING = "\N{WHITE SQUARE}"


@functools.cache
def families() -> tuple[str, ...]:
    """The font families of labels: matplotlib's own, then system fonts that cover more scripts."""
    from matplotlib import font_manager

    known = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(name for name in FALLBACKS if name in known))


@functools.cache
def _characters() -> frozenset[int]:
    from matplotlib import font_manager, ft2font

    fonts = (ft2font.FT2Font(font_manager.findfont(name)) for name in families())
    return frozenset(code for font in fonts for code in font.get_charmap())


def drawable(text: str, characters: int = 28) -> str:
    """A label on one line, cut to ``characters``; a box replaces characters that no font has.

    >>> drawable("a\\U000f0000b")
    'a□b'
    """
    line = shortened(one_line(text), characters) if text else ""
    kept = (character for character in line if ord(character) not in JOINERS or ord(character) in _characters())
    return "".join(character if ord(character) in _characters() else MISSING for character in kept)


def literal() -> dict[str, Any]:
    """The keywords of a matplotlib text that keep ``$`` and ``_`` literal."""
    return {"parse_math": False, "usetex": False, "fontfamily": list(families())}
