"""Figures: new ones, grids, files, and what is said where matplotlib is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from likewise.errors import MissingExtra, UsageError
from likewise.plotting.axes import axes_or_new, grid_of_axes, save_figure
from likewise.plotting.scatter import scatter_with_line


def test_given_axes_are_used() -> None:
    [axes] = grid_of_axes(1)
    assert axes_or_new(axes) is axes
    assert axes_or_new().figure is not axes.figure


@pytest.mark.parametrize(("count", "shape"), [(1, (1, 1)), (2, (1, 2)), (4, (2, 2)), (5, (2, 3)), (7, (3, 3))])
def test_grid_is_nearly_square(count: int, shape: tuple[int, int]) -> None:
    panels = grid_of_axes(count)
    assert len(panels) == count
    assert {panel.figure for panel in panels} == {panels[0].figure}
    assert panels[0].get_gridspec().get_geometry() == shape


def test_figures_belong_to_no_window() -> None:
    grid_of_axes(2)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.PNG", "new/folder/a.svg"])
def test_saved_figure(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert save_figure(scatter_with_line([0, 1, 2], [1, 2, 4], ("x", "y")), path) == path
    if path.suffix == ".svg":
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
    else:
        assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 3000


@pytest.mark.parametrize("name", ["a.jpg", "a", "png"])
def test_unknown_ending(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"end it with \.png, \.svg, \.pdf"):
        save_figure(axes_or_new(), tmp_path / "new" / name)
    assert not (tmp_path / "new").exists()


def test_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r'pip install "likewise\[plots\]"'):
        scatter_with_line([0, 1], [0, 1], ("x", "y"))


class TestScatter:
    def test_points_line_and_labels(self) -> None:
        axes = scatter_with_line([0, 1, 2, 3], [1, 3, 5, 7], ("across", "up"), "title")
        assert axes.collections[0].get_offsets().tolist() == [[0, 1], [1, 3], [2, 5], [3, 7]]
        assert axes.lines[0].get_xdata().tolist() == [0, 3]
        assert axes.lines[0].get_ydata().tolist() == pytest.approx([1, 7])
        assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("across", "up", "title")

    def test_draws_into_the_given_axes(self) -> None:
        [axes] = grid_of_axes(1)
        assert scatter_with_line([0, 1], [0, 1], ("x", "y"), ax=axes) is axes

    @pytest.mark.parametrize("x", [[2.0, 2.0], [1.0], []], ids=str)
    def test_no_line_where_there_is_no_slope(self, x: list[float]) -> None:
        assert not scatter_with_line(x, x, ("x", "y")).lines
