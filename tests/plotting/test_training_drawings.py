"""Confusion matrices, loss curves, and points with both lines."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from likewise.metrics import fitted_line
from likewise.plotting.axes import grid_of_axes, save_figure
from likewise.plotting.curves import loss_curves
from likewise.plotting.heatmap import confusion_matrix
from likewise.plotting.html import Number, table
from likewise.plotting.scatter import fitted_scatter


class TestConfusion:
    def test_counts_and_shares_of_rows(self) -> None:
        axes = confusion_matrix([[6, 2], [0, 5]], ["$a_", "b"], "t_$")
        assert [text.get_text() for text in axes.texts] == ["6\n75%", "2\n25%", "0\n0%", "5\n100%"]
        assert axes.images[0].get_array().tolist() == [[0.75, 0.25], [0, 1]] and axes.images[0].get_clim() == (0, 1)
        assert [label.get_text() for label in axes.get_yticklabels()] == ["$a_", "b"]
        assert (axes.get_ylabel(), axes.get_xlabel(), axes.get_title()) == ("true", "predicted", "t_$")

    def test_letters_are_read_on_every_cell(self) -> None:
        """At least 3.5 times as bright or as dark as what they stand on, as large letters want it."""
        for share in range(0, 101, 4):
            axes = confusion_matrix([[share, 100 - share], [0, 1]], ["a", "b"])
            paper = axes.images[0].cmap(share / 100)[:3]
            ink = (1.0, 1.0, 1.0) if axes.texts[0].get_color() == "white" else (0x22 / 255,) * 3
            light, dark = sorted((luminance(paper), luminance(ink)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3.5, share

    def test_a_class_without_examples_has_no_shares(self, tmp_path: Path) -> None:
        axes = confusion_matrix([[0, 0], [1, 1]], ["a", "b"])
        assert [text.get_text() for text in axes.texts] == ["0", "0", "1\n50%", "1\n50%"]
        save_figure(axes, tmp_path / "a.png")

    def test_draws_into_the_given_axes(self) -> None:
        [axes] = grid_of_axes(1)
        assert confusion_matrix([[1]], ["a"], ax=axes) is axes


def luminance(colour: tuple[float, ...]) -> float:
    """As the WCAG has it."""
    parts = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


class TestLosses:
    TRAIN: ClassVar = {"a": ([0.5, 1, 1.5, 2], [4, 3, 2, 1]), "b_$": ([1, 2], [9, 8])}
    DEV: ClassVar = {"a": ([1, 2], [3.5, 2.5]), "b_$": ([1, 2], [7, 6])}

    def test_parts_differ_without_colour(self) -> None:
        axes = loss_curves(self.TRAIN, self.DEV, ("epoch", "loss"), "t_$")
        train, dev = axes.lines[:2], axes.lines[2:]
        assert [line.get_linestyle() for line in train] == ["-", "-"]
        assert [line.get_linestyle() for line in dev] == ["--", "--"]
        assert {line.get_marker() for line in train}.isdisjoint({line.get_marker() for line in dev})
        assert dev[0].get_ydata().tolist() == [3.5, 2.5] and train[0].get_xdata().tolist() == [0.5, 1, 1.5, 2]

    def test_a_task_has_one_colour_and_names_say_both(self) -> None:
        axes = loss_curves(self.TRAIN, self.DEV, ("epoch", "loss"))
        colours = [line.get_color() for line in axes.lines]
        assert colours[:2] == colours[2:] and len(set(colours)) == 2
        assert [text.get_text() for text in axes.texts] == ["a, train", "b_$, train", "a, dev", "b_$, dev"]
        assert [text.get_color() for text in axes.texts] == colours

    def test_the_best_is_marked(self) -> None:
        axes = loss_curves(self.TRAIN, {}, ("epoch", "loss"), best=2)
        assert axes.lines[0].get_linestyle() == ":" and list(axes.lines[0].get_xdata()) == [2, 2]

    def test_one_task_needs_no_name(self) -> None:
        axes = loss_curves({"a": self.TRAIN["a"]}, {"a": self.DEV["a"]}, ("epoch", "loss"))
        assert [text.get_text() for text in axes.texts] == ["train", "dev"]

    def test_many_points_are_a_line(self) -> None:
        many = np.arange(200.0)
        assert loss_curves({"a": (many, many)}, {}, ("epoch", "loss")).lines[0].get_marker() == "None"

    def test_single_points_and_gaps(self, tmp_path: Path) -> None:
        axes = loss_curves({"a": ([1], [0.5])}, {"a": ([1], [np.nan])}, ("epoch", "loss"), best=1)
        assert [text.get_text() for text in axes.texts] == ["train"]
        save_figure(axes, tmp_path / "a.png")

    def test_draws_into_the_given_axes(self) -> None:
        [axes] = grid_of_axes(1)
        assert loss_curves(self.TRAIN, self.DEV, ("x", "y"), ax=axes) is axes


class TestFittedScatter:
    def test_both_lines_and_their_names(self) -> None:
        axes = fitted_scatter([0, 2, 4], [1, 2, 3], ("true", "predicted"), (0.5, 1.0), "t")
        equal, fitted = axes.lines
        assert list(equal.get_xdata()) == list(equal.get_ydata())
        assert fitted.get_xdata().tolist() == [0, 4] and fitted.get_ydata().tolist() == [1, 3]
        assert equal.get_linestyle() != fitted.get_linestyle()
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["equal", "fitted: 0.50 x + 1.00"]

    def test_dense_points_are_transparent(self) -> None:
        few, many = (
            fitted_scatter(np.arange(n), np.arange(n), ("x", "y"), None).collections[0].get_alpha() for n in (9, 5000)
        )
        assert 0.05 < many < 0.2 < few <= 0.5

    def test_no_line_where_none_is_given(self) -> None:
        axes = fitted_scatter([1, 1], [1, 2], ("x", "y"), None)
        assert len(axes.lines) == 1 and len(axes.get_legend().get_texts()) == 1

    def test_draws_into_the_given_axes(self) -> None:
        [axes] = grid_of_axes(1)
        assert fitted_scatter([0, 1], [0, 1], ("x", "y"), (1, 0), ax=axes) is axes


@pytest.mark.parametrize("seed", range(3))
def test_fitted_line_is_least_squares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=50)
    y = 3 * x + rng.normal(size=50)
    assert fitted_line(x, y) == pytest.approx(np.polyfit(x, y, 1))
    assert fitted_line([2.0, 2.0], [1.0, 3.0]) is None


def test_marked_numbers_of_tables() -> None:
    made = table(["a", "b"], [[Number("0.5\n± <"), Number("1", True)]])
    assert "<td class=number>0.5\n± &lt;</td><td class=number><b>1</b></td>" in made
