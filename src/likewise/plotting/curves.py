"""Line plots over a common axis, each line labelled at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.plotting.axes import PALETTE, axes_or_new, drawable, frame, grid_of_axes, group_colour, legend, literal

Series = tuple[ArrayLike, ArrayLike | None, ArrayLike | None]
Panel = tuple[ArrayLike, Mapping[str, Series]]  # The x values, and the lines over them
Points = tuple[ArrayLike, ArrayLike]  # x and y, both (n,)
STYLES = ("-", "--", ":")
MARKERS = ("o", "s", "^")
LINE_INCHES = 0.155  # The least distance of two names
MOST_DOTS = 60  # Lines with more points have no dots
TICKS = 20  # The most ticks of an axis of odds
HEIGHT, TITLE_INCHES = 3.6, 0.9  # The height of a figure, and of its title and axis
WIDTH, CHARACTER_INCHES, NOTE_SIZE = 5.4, 0.066, 8
"""The width of a panel and of a character of the notes below, and the font size of notes."""
SHARES = (0.0001, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999)  # Ticks of shares


def curves(
    x: ArrayLike,
    series: Mapping[str, Series],
    labels: tuple[str, str],
    title: str = "",
    ax: Any = None,
    whole: bool = False,
) -> Any:
    """Lines of (values, low, high), each (n,), over x (n,); low and high bound a band or are None.

    A new figure is high enough for the lines' names. ``whole``: the x axis has whole numbers only.
    """
    ax = axes_or_new(ax, _size(len(series)))
    _lines(ax, np.asarray(x, dtype=float), series)
    _names(ax, list(series), labels, title)
    if whole:
        ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


def curve_panels(
    panels: Sequence[tuple[str, Panel]], labels: tuple[str, str], notes: Sequence[str] = ()
) -> Sequence[Any]:
    """Titled panels of curves over whole numbers, with the same range on both axes, and notes below.

    >>> shallow, deep = ([0, 1], {"a": ([0.5, 1], None, None)}), ([0, 1, 2], {"a": ([1, 0.8, 0], None, None)})
    >>> left, right = curve_panels([("shallow", shallow), ("deep", deep)], ("layer", "cosine"))
    >>> left.get_xlim() == right.get_xlim() and left.get_ylim() == right.get_ylim()
    True
    """
    most = max(len(series) for _, (_, series) in panels)
    axes = grid_of_axes(len(panels), _size(most))
    across = _limits([x for _, (x, _) in panels])
    up = _limits([end for _, (_, series) in panels for ends in series.values() for end in ends if end is not None])
    for ax, (title, (x, series)) in zip(axes, panels, strict=True):
        # Before the lines, because their names are placed by the final limits.
        ax.set_xlim(across)
        ax.set_ylim(up)
        curves(x, series, labels, title, ax, whole=True)
    _notes_below(axes[0].figure, notes)
    return axes


def _limits(values: Sequence[ArrayLike]) -> tuple[float, float]:
    """The smallest and the largest number, with a margin."""
    every = np.concatenate([np.ravel(np.asarray(each, dtype=float)) for each in values])
    low, high = float(np.nanmin(every)), float(np.nanmax(every))
    beyond = 0.05 * (high - low) or 0.05
    return low - beyond, high + beyond


def _notes_below(figure: Any, notes: Sequence[str]) -> None:
    """Text lines below the panels, which keep their height."""
    if not notes:
        return
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + LINE_INCHES * (len(notes) + 1))
    lines = [drawable(note, int(width / CHARACTER_INCHES)) for note in notes]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=NOTE_SIZE, **literal())


def loss_curves(
    train: Mapping[str, Points],
    dev: Mapping[str, Points],
    labels: tuple[str, str],
    title: str = "",
    best: float | None = None,
    ax: Any = None,
) -> Any:
    """Each task's losses (x, loss), both (n,): solid with dots in training, dashed with open squares on dev.

    Each task has one colour; tasks without finite losses are dropped. A dotted line marks ``best``.
    """
    ax, tasks = axes_or_new(ax, _size(len(train) + len(dev))), list(dict.fromkeys([*train, *dev]))
    if best is not None:
        best_line(ax, best)
    names = []
    for part, losses in (("train", train), ("dev", dev)):
        for task, (across, up) in losses.items():
            if not np.isfinite(np.asarray(up, dtype=float)).any():
                continue
            few = len(np.asarray(across)) <= MOST_DOTS
            look = {"linestyle": "-", "marker": "o" if few else None, "markersize": 2.5, "linewidth": 1.2}
            if part == "dev":
                look = {"linestyle": "--", "marker": "s", "markersize": 5, "markerfacecolor": "none", "linewidth": 1.8}
            ax.plot(across, up, color=group_colour(tasks.index(task)), **look)
            names.append(part if len(tasks) == 1 else f"{task}, {part}")
    _names(ax, names, labels, title)
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


def best_line(ax: Any, position: float) -> Any:
    """A vertical dotted line behind all others that marks the best position."""
    return ax.axvline(position, color="#999999", linewidth=1.2, linestyle=":", zorder=0)


def share_curves(
    x: ArrayLike, series: Mapping[str, Series], count: int, labels: tuple[str, str], title: str = "", ax: Any = None
) -> Any:
    """Lines of shares of ``count`` cases, from 0 to 1, over a logarithmic x > 0.

    Shares are on a logit scale, so that 0.99 and 0.999 are as far apart as 0.9 and 0.99. Names are at the end of
    the lines where these are most distinct.
    """
    ax, across, edge = axes_or_new(ax, _size(len(series))), np.asarray(x, dtype=float), 0.5 / max(count, 1)
    # Shares of 0 and 1 have no odds; they are drawn half a case away.
    inside = {
        name: [None if end is None else np.clip(end, edge, 1 - edge) for end in ends] for name, ends in series.items()
    }
    _lines(ax, across, inside)
    ax.set_xscale("log")
    ax.set_xticks(across, [f"{tick:g}" for tick in across])
    ax.set_xticks([], minor=True)
    _odds_axis(ax, [end for ends in inside.values() for end in ends if end is not None], edge)
    starts, ends = (_slots(ax, [_finite(line)[position] for line in ax.lines[-len(series) :]]) for position in (0, -1))
    if starts > ends:
        ax.yaxis.tick_right()
        ax.yaxis.set_label_position("right")
    _names(ax, list(series), labels, title, at_start=starts > ends)
    return ax


def _size(count: int) -> tuple[float, float]:
    """The size of a panel with room for the names of its lines."""
    return WIDTH, max(HEIGHT, TITLE_INCHES + 1.1 * LINE_INCHES * count)


def _lines(ax: Any, across: NDArray[np.float64], series: Mapping[str, Sequence[ArrayLike | None]]) -> None:
    for position, (values, low, high) in enumerate(series.values()):
        style = STYLES[position // len(PALETTE) % len(STYLES)]
        heights = np.asarray(values, dtype=float)
        if low is not None and high is not None:
            bounds = (np.asarray(low, dtype=float), np.asarray(high, dtype=float))
            ax.fill_between(across, *bounds, color=group_colour(position), alpha=0.15, linewidth=0)
        marker = MARKERS[position // len(PALETTE) % len(MARKERS)] if len(across) <= 30 else None
        ax.plot(across, heights, style, color=group_colour(position), linewidth=1.8, marker=marker, markersize=3)


def _odds_axis(ax: Any, drawn: Sequence[ArrayLike], edge: float) -> None:
    """A logit axis with named ticks; the edges stand for 0 and 1."""
    ax.set_yscale("logit")
    low, high = (float(find(np.asarray(drawn, dtype=float))) for find in (np.nanmin, np.nanmax))
    names = {edge: "0", 1 - edge: "1"} | {tick: f"{tick:g}" for tick in SHARES if 1.5 * edge < tick < 1 - 1.5 * edge}
    around = _odds(np.array([low, high])) + np.array([-0.35, 0.35])
    shown = {tick: name for tick, name in sorted(names.items()) if around[0] <= _odds(tick) <= around[1]}
    ticks: list[float] = []
    for tick in shown:
        # Over many powers of ten, names would overlap.
        if not ticks or _odds(tick) - _odds(ticks[-1]) > (around[1] - around[0]) / TICKS:
            ticks.append(tick)
    ticks[-1] = max(shown)  # the end always has a name
    ax.set_yticks(ticks, [shown[tick] for tick in ticks])
    ax.set_yticks([], minor=True)
    ax.set_ylim(*(1 / (1 + np.exp(-around))))


def _odds(share: Any) -> Any:
    return np.log(share / (1 - share))


def _names(ax: Any, names: Sequence[str], labels: tuple[str, str], title: str, at_start: bool = False) -> None:
    """Axis labels, and each line's name next to its last point, or its first."""
    _end_names(ax, names, at_start)
    frame(ax, labels, title, "y")
    if at_start:
        ax.spines["right"].set_visible(True)
        ax.spines["left"].set_visible(False)


def _end_names(ax: Any, names: Sequence[str], at_start: bool) -> None:
    """A line's name at its end, moved where it would cover another, in place of a legend."""
    lines = ax.lines[-len(names) :] if names else []
    points = [_finite(line)[0 if at_start else -1] for line in lines]
    heights = [_up(ax, point[1]) for point in points]
    gap = _gap(ax)
    if len(points) > 2 and max(heights) - min(heights) < gap:
        # All lines end in one point: a legend tells them apart.
        return legend(ax, lines, [drawable(name, 40) for name in names], fontsize=9)
    placed = _spread(heights, gap, 0.0, 1.0)
    aside = any(abs(one - other) > gap / 2 for one, other in zip(placed, heights, strict=True))
    end = (min if at_start else max)((point[0] for point in points), default=0.0)
    for position, name in enumerate(names):
        how = (lines[position].get_color(), aside, at_start)
        _name(ax, drawable(name, 40), (end, points[position][1]), placed[position], how)


def _name(ax: Any, name: str, point: tuple[float, float], height: float, how: tuple[str, bool, bool]) -> None:
    """A name in its line's colour next to its end, at ``height``; names aside have thin leaders."""
    from matplotlib.transforms import blended_transform_factory, offset_copy

    colour, aside, at_start = how
    side = -1 if at_start else 1
    transform = blended_transform_factory(ax.transData, ax.transAxes)
    leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 3}
    arrow = leader | {"relpos": (1 if at_start else 0, 0.5)} if aside else None
    coordinates = offset_copy(transform, ax.figure, x=side * (22 if aside else 8), y=0, units="points")
    look = {"ha": "right" if at_start else "left", "va": "center", "fontsize": 9, "color": colour, **literal()}
    ax.annotate(
        name, point, (point[0], height), textcoords=coordinates, annotation_clip=False, arrowprops=arrow, **look
    )


def _gap(ax: Any) -> float:
    """The least distance of names, as a share of the axis's height."""
    return float(LINE_INCHES / (ax.figure.get_size_inches()[1] * ax.get_position().height))


def _up(ax: Any, height: float) -> float:
    """The height of a value on the axis, from 0 to 1."""
    ax.get_ylim()  # updates the limits, which are lazy
    return float((ax.transScale + ax.transLimits).transform((1, height))[1])


def _slots(ax: Any, points: Sequence[Any]) -> int:
    """How many names fit at these points without overlap."""
    return len({round(_up(ax, point[1]) / _gap(ax)) for point in points})


def _finite(line: Any) -> list[tuple[float, float]]:
    """The finite points of a line, at least one."""
    points: NDArray[np.float64] = np.column_stack([line.get_xdata(), line.get_ydata()])
    finite = points[np.isfinite(points).all(1)]
    return [(float(across), float(up)) for across, up in finite] or [(0.0, 0.0)]


def _spread(heights: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf) -> list[float]:
    """Heights in the same order, at least ``gap`` apart, each cluster centred on where it was.

    They stay between ``low`` and ``high`` as far as they fit.
    """
    from scipy.optimize import isotonic_regression

    if not heights:
        return []
    order, steps = np.argsort(heights, kind="stable"), gap * np.arange(len(heights))
    # Less their steps, sorted heights only have to rise.
    rising = isotonic_regression(np.asarray(heights, dtype=float)[order] - steps).x
    placed = np.empty(len(heights))
    placed[order] = np.clip(rising, low, max(low, high - steps[-1])) + steps
    return [float(height) for height in placed]
