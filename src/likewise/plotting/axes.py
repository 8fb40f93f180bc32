"""Matplotlib figures: create, frame and save them; colours, and labels that are drawn literally."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.errors import MissingExtra, UsageError
from likewise.plotting.terminal import one_line, shortened

FORMATS = (".png", ".svg", ".pdf")
SIZE = (4.2, 4.0)  # The width and height of one panel, in inches


def axes_or_new(ax: Any = None, size: tuple[float, float] = SIZE) -> Any:
    """The given Axes, or those of a new figure of ``size`` inches, outside any window."""
    return grid_of_axes(1, size)[0] if ax is None else ax


def grid_of_axes(count: int, size: tuple[float, float] = SIZE, columns: int | None = None) -> Sequence[Any]:
    """``count`` Axes in one figure, in at most ``columns`` columns, or nearly square."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("matplotlib", "plots") from error
    columns = math.ceil(math.sqrt(count)) if columns is None else min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return [figure.add_subplot(rows, columns, index + 1) for index in range(count)]


def frame(ax: Any, labels: tuple[str, str] | None, title: str, grid: str | None = None) -> None:
    """A title, axis labels, no line above and on the right, and grid lines of an axis (x, y or both)."""
    if labels is not None:
        ax.set_xlabel(drawable(labels[0], 60), **literal())
        ax.set_ylabel(drawable(labels[1], 60), **literal())
    ax.set_title(drawable(title, 90), fontsize=10, **literal())
    ax.spines[["top", "right"]].set_visible(False)
    if grid is not None:
        ax.grid(axis=grid, color="#e5e5e5", linewidth=0.6)
        ax.set_axisbelow(True)


def legend(ax: Any, drawn: Sequence[Any], names: Sequence[str], **look: Any) -> None:
    """A legend with literal names."""
    # Empty labels first: matplotlib would parse real ones as mathematics before they become literal.
    shown = ax.legend(drawn, [""] * len(drawn), frameon=False, **look)
    for text, name in zip(shown.get_texts(), names, strict=True):
        text.set(text=name, **literal())


def check_format(path: Path) -> None:
    """Reject an unknown file ending, or a missing matplotlib, before long work."""
    grid_of_axes(1)
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"cannot draw to {path.name!r}; end it with {', '.join(FORMATS)}")


def save_figure(ax: Any, path: Path) -> Path:
    """Write the figure that an Axes belongs to; the ending chooses the format."""
    check_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    settled(ax).savefig(path, dpi=150)
    return path


def settled(ax: Any) -> Any:
    """The figure of an Axes with its layout fixed, so that all file formats look the same.

    >>> ax = axes_or_new()
    >>> settled(ax) is settled(ax) is ax.figure
    True
    """
    figure = ax.figure
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine(None)
    return figure


PALETTE = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")  # Paul Tol's bright scheme


def group_colour(label: int) -> str:
    """The colour of a group; colours repeat from the eighth on, markers then differ.

    >>> group_colour(0) == group_colour(7), group_colour(0) == group_colour(1)
    (True, False)
    """
    return PALETTE[label % len(PALETTE)]


def colour_map(*ends: tuple[int, int, int]) -> Any:
    """A matplotlib colour map from one colour to the next; grey for nan."""
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
    """A label on one line, cut to ``characters``; a box replaces characters that no font has."""
    line = shortened(one_line(text), characters) if text else ""
    kept = (character for character in line if ord(character) not in JOINERS or ord(character) in _characters())
    return "".join(character if ord(character) in _characters() else MISSING for character in kept)


def literal() -> dict[str, Any]:
    """The keywords of a matplotlib text that keep ``$`` and ``_`` literal."""
    return {"parse_math": False, "usetex": False, "fontfamily": list(families())}
