"""Curves of shares: an axis by odds, and names that stay apart for any number of lines."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text

from likewise.plotting.axes import grid_of_axes, save_figure
from likewise.plotting.curves import _spread, curves, share_curves

KS = [1, 5, 10, 50]


def drawn(values: dict[str, list[float]], count: int = 1000) -> object:
    return share_curves(KS, {name: (line, None, None) for name, line in values.items()}, count, ("k", "recall"), "t$")


def test_zero_and_one_stand_at_the_edges() -> None:
    axes = drawn({"all": [0.5, 1, 1, 1], "none": [0, 0, 0, 0]})
    assert axes.lines[0].get_ydata().tolist() == [0.5, 0.9995, 0.9995, 0.9995]
    ticks = [label.get_text() for label in axes.get_yticklabels()]
    assert (ticks[0], ticks[-1]) == ("0", "1") and ticks == sorted(ticks, key=float)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "5", "10", "50"]


def test_ticks_lie_around_what_is_drawn() -> None:
    ticks = [label.get_text() for label in drawn({"a": [0.9, 0.95, 0.98, 0.99]}, 36000).get_yticklabels()]
    assert ticks == ["0.9", "0.95", "0.98", "0.99"]


def test_names_stand_where_lines_are_apart() -> None:
    apart_at_first = drawn({"a": [0.5, 1, 1, 1], "b": [0.9, 1, 1, 1], "c": [0.99, 1, 1, 1]})
    assert [text.get_ha() for text in apart_at_first.texts] == ["right"] * 3
    assert apart_at_first.yaxis.get_label_position() == "right"
    apart_at_last = drawn({"a": [0.1, 0.2, 0.3, 0.5], "b": [0.1, 0.2, 0.3, 0.9], "c": [0.1, 0.2, 0.3, 0.99]})
    assert [text.get_ha() for text in apart_at_last.texts] == ["left"] * 3


def test_bands_are_in_the_picture() -> None:
    axes = share_curves([1, 2], {"a": ([0.5, 0.6], [0.1, 0.2], [0.9, 0.95])}, 100, ("k", "recall"))
    low, high = axes.get_ylim()
    assert low < 0.1 and high > 0.95 and len(axes.collections) == 1


@pytest.mark.parametrize("count", [1, 9, 25])
def test_no_two_names_overlap(count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(count)
    axes = drawn({f"line {place}": np.sort(rng.uniform(0.9, 1, 4)).tolist() for place in range(count)})
    save_figure(axes, tmp_path / "a.png")
    # The letters alone, whose box has a rim: an annotation's own box holds its leader.
    boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 2 for below, above in pairwise(boxes))
    assert axes.figure.bbox.y0 <= min(box.y0 for box in boxes) and max(box.y1 for box in boxes) <= axes.figure.bbox.y1


def test_moved_names_have_leaders() -> None:
    together = {name: ([start, 1 + start / 1e6], None, None) for start, name in enumerate("abc")} | {
        "d": ([0, 0], None, None)
    }
    assert all(text.arrow_patch is not None for text in curves([0, 1], together, ("x", "y")).texts)
    apart = {name: ([0, end], None, None) for end, name in enumerate("ab")}
    assert all(text.arrow_patch is None for text in curves([0, 1], apart, ("x", "y")).texts)


def test_a_name_stands_at_the_end_of_its_line() -> None:
    """Not where the end would be on an axis from 0 to 1, whose limits were not yet asked for."""
    axes = curves([0, 1], {"a": ([900.0, 100.0], None, None)}, ("x", "y"))
    axes.figure.canvas.draw()
    [name] = axes.texts
    box, end = name.get_window_extent(), axes.transData.transform((1, 100.0))
    assert abs((box.y0 + box.y1) / 2 - end[1]) < box.height


@pytest.mark.parametrize("heights", [[0.98, 0.97, 0.5], [0.02, 0.01], [1.3, 1.2, 1.1], [0.5], []], ids=str)
def test_names_stay_within_the_axis(heights: list[float]) -> None:
    order = sorted(heights)
    spread = [order.index(height) * 0.1 + height for height in heights]
    placed = _spread(spread, 0.1, 0.0, 1.0)
    assert all(-1e-9 <= height <= 1 + 1e-9 for height in placed)
    assert np.argsort(placed).tolist() == np.argsort(heights).tolist()
    assert all(later - sooner > 0.1 - 1e-9 for sooner, later in pairwise(sorted(placed)))


def test_draws_into_the_given_axes() -> None:
    [axes] = grid_of_axes(1)
    assert share_curves([1, 2], {"a": ([0.5, 0.6], None, None)}, 10, ("x", "y"), ax=axes) is axes
