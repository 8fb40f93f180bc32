"""Heat maps: literal labels, symmetric colours, numbers where they fit, bounded figures."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from likewise.plotting.axes import drawable, grid_of_axes, save_figure
from likewise.plotting.heatmap import heatmap, split_heatmap


def texts(labels: list) -> list[str]:
    return [label.get_text() for label in labels]


def test_labels_are_literal(tmp_path: Path) -> None:
    rows, columns = ["$\\frac{$", "a_b"], ["^x^", "100%", "\\alpha"]
    axes = heatmap(np.eye(2, 3), rows, columns, "$broken_{")
    save_figure(axes, tmp_path / "a.png")
    assert texts(axes.get_yticklabels()) == rows
    assert texts(axes.get_xticklabels()) == columns
    assert axes.get_title() == "$broken_{"
    assert not any(label.get_parse_math() for label in [*axes.get_yticklabels(), *axes.get_xticklabels(), axes.title])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_no_letter_warns(tmp_path: Path, ending: str) -> None:
    labels = ["🔥", "火災", "שריפה", "حريق", "a\x1b[31m\nb", "\ud800", "👨‍👩‍👧", ""]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(heatmap(np.ones((8, 8)), labels, labels, "🔥"), tmp_path / f"a.{ending}")


def test_control_characters_are_replaced() -> None:
    assert drawable("a\x1bb\nc") == "a\ufffdb⏎c"
    assert drawable("x" * 99) == "x" * 27 + "…"
    assert drawable("") == ""


def test_colours_are_symmetric_around_zero() -> None:
    axes = heatmap([[3.0, -1.0, np.nan]], ["a"], ["b", "c", "d"])
    [image] = axes.images
    assert image.get_clim() == (-3.0, 3.0)
    red, blue, white = (image.cmap(image.norm(value)) for value in (3.0, -3.0, 0.0))
    assert red[0] > 0.6 > red[2] and blue[2] > 0.6 > blue[0]
    assert white[:3] == pytest.approx((1, 1, 1), abs=0.01)


@pytest.mark.parametrize(("shape", "numbers"), [((12, 12), 144), ((1, 1), 1), ((13, 2), 0), ((2, 60), 0)])
def test_numbers_stand_where_they_fit(shape: tuple[int, int], numbers: int) -> None:
    axes = heatmap(np.full(shape, -0.25), ["r"] * shape[0], ["c"] * shape[1])
    assert texts(axes.texts) == ["-0.25"] * numbers


def test_small_numbers_do_not_vanish() -> None:
    assert texts(heatmap([[0.0042, -1e-9]], ["a"], ["b", "c"]).texts) == ["0.0042", "0.0000"]


@pytest.mark.parametrize(("count", "every"), [(60, 1), (61, 2), (512, 9)])
def test_long_axes_show_every_kth_label(count: int, every: int) -> None:
    axes = heatmap(np.zeros((count, 2)), [f"t{place}" for place in range(count)], ["a", "b"])
    assert texts(axes.get_yticklabels()) == [f"t{place}" for place in range(0, count, every)]
    assert texts(axes.get_xticklabels()) == ["a", "b"]


def test_figure_grows_up_to_a_bound() -> None:
    sizes = [
        heatmap(np.zeros((count, count)), ["word"] * count, ["word"] * count).figure.get_size_inches()
        for count in (3, 10, 60, 512)
    ]
    assert sizes[0][1] < sizes[1][1] < sizes[2][1] < 14
    assert sizes[3].tolist() == pytest.approx(sizes[2].tolist())


def test_given_axes_keep_their_figure() -> None:
    first, _ = grid_of_axes(2)
    before = first.figure.get_size_inches().tolist()
    assert heatmap(np.zeros((50, 50)), ["a"] * 50, ["b"] * 50, ax=first) is first
    assert first.figure.get_size_inches().tolist() == before


class TestSplit:
    UPPER = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])

    def test_every_cell_has_its_half(self) -> None:
        axes = split_heatmap(self.UPPER, -self.UPPER, ["a_b", "$c", "d"], ("positive", "negative"))
        [polygons] = axes.collections
        corners = [len(path.vertices) - 1 for path in polygons.get_paths()]
        assert sorted(corners) == [3] * 6 + [4] * 6
        for path, value in zip(polygons.get_paths(), polygons.get_array(), strict=True):
            across, down = path.vertices[:-1].mean(0)
            sign, row, column = (1 if across > down else -1), round(down), round(across)
            assert value == sign * self.UPPER[row, column]
        assert polygons.get_clim() == (-6.0, 6.0)

    def test_labels_titles_and_numbers(self) -> None:
        axes = split_heatmap(self.UPPER, -self.UPPER, ["a_b", "$c", "d"], ("po$itive", "negative"))
        assert texts(axes.get_xticklabels()) == texts(axes.get_yticklabels()) == ["a_b", "$c", "d"]
        found = texts(axes.texts)
        assert "◥ po$itive" in found and "◣ negative" in found
        assert sum(text.replace(".", "").lstrip("-").isdigit() for text in found) == 12
        assert axes.get_title() == ""

    def test_many_classes_have_no_numbers(self) -> None:
        table = np.ones((13, 13))
        assert len(split_heatmap(table, table, ["x"] * 13, ("a", "b")).texts) == 2
