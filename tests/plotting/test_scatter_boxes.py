"""Box plots: groups, what is no number, names that fit."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from likewise.plotting.axes import grid_of_axes, save_figure
from likewise.plotting.scatter import box_plots


def test_a_box_stands_for_the_quartiles_of_its_group() -> None:
    axes = box_plots([[0, 1, 2, 3, 4], [10, 20, 30, 40, 50]], ["a", "b"], ("group", "value"), "title")
    first, second = (patch.get_path().vertices[:, 1] for patch in axes.patches)
    assert (first.min(), first.max(), second.min(), second.max()) == (1, 3, 20, 40)
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("group", "value", "title")


def test_what_is_no_number_is_left_out() -> None:
    known, holed = [1.0, 2.0, 9.0], [1.0, np.nan, 2.0, np.inf, 9.0]
    boxes = [box_plots([values], ["a"], ("", "")).patches[0].get_path().vertices for values in (known, holed)]
    assert np.array_equal(*boxes)


@pytest.mark.parametrize("groups", [[], [[]], [[], []], [[np.nan]], [[1.0], []]])
def test_empty_groups_keep_their_place(groups: list[list[float]], tmp_path: Path) -> None:
    names = [str(place) for place in range(len(groups))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = box_plots(groups, names, ("", ""))
        save_figure(axes, tmp_path / "boxes.png")
    assert [label.get_text() for label in axes.get_xticklabels()] == names


def test_only_outliers_are_rasterised() -> None:
    axes = box_plots([[*range(20), 500], [*range(20), 900]], ["a", "b"], ("", ""))
    dots = [line for line in axes.lines if line.get_rasterized()]
    assert [line.get_ydata().tolist() for line in dots] == [[500], [900]]


def test_groups_have_their_colours_in_turn() -> None:
    axes = box_plots([[1, 2]] * 3, list("abc"), ("", ""), colours=["#112233", "#445566"])
    edges = [patch.get_edgecolor() for patch in axes.patches]
    assert edges[0] == edges[2] != edges[1]


def test_names_are_slanted_only_where_they_would_touch() -> None:
    def slants(names: list[str]) -> set[float]:
        axes = box_plots([[1, 2]] * len(names), names, ("", ""), ax=grid_of_axes(1, (3.5, 2.8))[0])
        return {label.get_rotation() for label in axes.get_xticklabels()}

    assert slants([str(place) for place in range(12)]) == {0.0}
    assert slants([f"cluster {place}" for place in range(12)]) == {40.0}


def test_names_do_not_touch() -> None:
    axes = box_plots([[1, 2]] * 15, [str(place) for place in range(15)], ("", ""))
    axes.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_any_text_can_be_drawn(ending: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = box_plots([[1, 2], [3]], ["$x_", "a\n\U000f0000"], ("$", "a_b"), "<&$\ud800")
        assert save_figure(axes, tmp_path / f"boxes.{ending}").stat().st_size > 1000
