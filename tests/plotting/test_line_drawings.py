"""Bipartite graphs, curves and scatter plots around the identity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from likewise.plotting.axes import grid_of_axes, save_figure
from likewise.plotting.curves import _spread, curves
from likewise.plotting.heatmap import bipartite
from likewise.plotting.scatter import identity_scatter


def names(axes: object) -> list[str]:
    return [text.get_text() for text in axes.texts]


class TestBipartite:
    VALUES = np.array([[0.5, -0.4, 0.0], [0.1, 0.0, np.nan]])

    def test_lines_run_between_their_units(self) -> None:
        axes = bipartite(self.VALUES, ["a_$", "b"], ["c", "d", "e"], "t$")
        [lines] = axes.collections
        assert len(lines.get_segments()) == 3
        assert names(axes) == ["a_$", "b", "c", "d", "e"] and axes.get_title() == "t$"
        heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
        strongest = lines.get_segments()[-1]
        assert (strongest[0][1], strongest[-1][1]) == (heights["a_$"], heights["c"])

    def test_sign_and_strength_are_drawn(self) -> None:
        [lines] = bipartite(self.VALUES, ["a", "b"], ["c", "d", "e"]).collections
        (faint, blue, red), widths = lines.get_colors(), list(lines.get_linewidths())
        assert red[0] > red[2] and faint[0] > faint[2] and blue[2] > blue[0]
        assert red[3] > blue[3] > faint[3] and widths == sorted(widths) and widths[0] < widths[2]

    def test_only_the_strongest(self) -> None:
        values = np.random.default_rng(0).normal(size=(10, 10))
        axes = bipartite(values, ["a"] * 10, ["b"] * 10, strongest_pairs=7)
        assert len(axes.collections[0].get_segments()) == 7
        assert len(bipartite(values, ["a"] * 10, ["b"] * 10).collections[0].get_segments()) == 40

    def test_long_texts_show_who_takes_part(self, tmp_path: Path) -> None:
        values = np.zeros((512, 512))
        values[100, 7] = values[101, 300] = 1.0
        labels = [f"t{place}" for place in range(512)]
        axes = bipartite(values, labels, labels)
        left, right = (
            ["⋮ 100 more", "t100", "t101", "⋮ 410 more"],
            ["⋮ 7 more", "t7", "⋮ 292 more", "t300", "⋮ 211 more"],
        )
        assert names(axes) == left + right
        save_figure(axes, tmp_path / "a.png")

    def test_height_is_bounded(self) -> None:
        labels = [f"t{place}" for place in range(512)]
        values = np.random.default_rng(0).normal(size=(512, 512))
        axes = bipartite(values, labels, labels)
        assert axes.figure.get_size_inches()[1] <= 14
        assert len(axes.collections[0].get_segments()) == 40
        assert all(text.get_fontsize() >= 5 for text in axes.texts)

    def test_nothing_to_link(self) -> None:
        axes = bipartite([[0.0]], ["a"], ["b"])
        assert len(axes.collections[0].get_segments()) == 0 and names(axes) == ["a", "b"]

    def test_draws_into_the_given_axes(self) -> None:
        [axes] = grid_of_axes(1)
        assert bipartite([[1.0]], ["a"], ["b"], ax=axes) is axes


class TestCurves:
    def test_lines_bands_and_names(self) -> None:
        series = {"$mean_1": ([1, 2, 3], [0, 1, 2], [2, 3, 4]), "max": ([4, 5, 6], None, None)}
        axes = curves([0, 1, 2], series, ("layer_1", "$"), "t_$")
        assert [line.get_ydata().tolist() for line in axes.lines] == [[1, 2, 3], [4, 5, 6]]
        [band] = axes.collections
        assert band.get_datalim(axes.transData).intervaly.tolist() == [0, 4]
        assert names(axes) == ["$mean_1", "max"]
        assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("layer_1", "$", "t_$")

    def test_a_name_has_the_colour_of_its_line(self) -> None:
        axes = curves([0, 1], {str(place): ([place, place], None, None) for place in range(9)}, ("x", "y"))
        assert [text.get_color() for text in axes.texts] == [line.get_color() for line in axes.lines]
        styles = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
        assert len(styles) == 9

    def test_names_stand_at_the_last_number(self) -> None:
        axes = curves([0, 1, 2], {"a": ([1, 2, np.nan], None, None), "b": ([5, 6, 7], None, None)}, ("x", "y"))
        assert [text.xy for text in axes.texts] == [(2.0, 2.0), (2.0, 7.0)]

    @pytest.mark.parametrize("heights", [[1, 1, 1], [3, 1, 2], [0, 0.05, 5], [5], []], ids=str)
    def test_spread_names_keep_order_and_distance(self, heights: list[float]) -> None:
        spread = _spread(heights, 0.5)
        assert all(
            later - sooner >= 0.5 - 1e-9 for sooner, later in zip(sorted(spread), sorted(spread)[1:], strict=False)
        )
        assert np.argsort(spread, kind="stable").tolist() == np.argsort(heights, kind="stable").tolist()
        assert sum(spread) == pytest.approx(sum(heights))

    def test_no_series(self) -> None:
        assert not curves([0, 1], {}, ("x", "y")).texts


class TestIdentity:
    def test_line_of_equality_and_note(self) -> None:
        axes = identity_scatter([0, 1, 2], [0, 3, 1], ("a_b", "$c"), "t", "R² = 0.9")
        assert axes.collections[0].get_offsets().tolist() == [[0, 0], [1, 3], [2, 1]]
        [line] = axes.lines
        assert list(line.get_xdata()) == list(line.get_ydata()) == list(axes.get_xlim()) == list(axes.get_ylim())
        assert axes.get_xlim()[0] < 0 and axes.get_xlim()[1] > 3
        assert names(axes) == ["R² = 0.9"] and (axes.get_xlabel(), axes.get_ylabel()) == ("a_b", "$c")

    @pytest.mark.parametrize("x", [[], [1.0], [np.nan, 2.0]], ids=str)
    def test_few_points(self, x: list[float], tmp_path: Path) -> None:
        save_figure(identity_scatter(x, x, ("x", "y")), tmp_path / "a.png")


def test_lines_that_end_together_get_a_legend() -> None:
    together = curves([0, 1], {name: ([start, 0], None, None) for start, name in enumerate("abc")}, ("x", "y"))
    assert [text.get_text() for text in together.get_legend().get_texts()] == ["a", "b", "c"]
    apart = curves([0, 1], {name: ([0, end], None, None) for end, name in enumerate("abc")}, ("x", "y"))
    assert apart.get_legend() is None
