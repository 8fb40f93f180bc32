"""Groups of points: every group told apart, noise drawn as noise, highlights on top of all."""

from __future__ import annotations

import base64
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from PIL import Image

from likewise.plotting.axes import save_figure
from likewise.plotting.html import IMAGES, inline_svg
from likewise.plotting.scatter import PALE, grouped_scatter, highlighted_scatter

POINTS = np.random.default_rng(0).normal(size=(60, 2))


def look(drawn: Any) -> tuple[Any, ...]:
    """The colour and the marker of drawn points."""
    return (*drawn.get_facecolor()[0].tolist(), drawn.get_paths()[0].vertices.tobytes())


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_each_group_is_drawn_where_its_points_are() -> None:
    labels = np.arange(60) % 3
    axes = grouped_scatter(POINTS, labels, title="layer 1")
    assert len(axes.collections) == 3 and axes.get_title() == "layer 1"
    for label, drawn in enumerate(axes.collections):
        assert np.array_equal(drawn.get_offsets(), POINTS[labels == label])


def test_noise_is_grey_crosses_on_no_one_s_colour() -> None:
    labels = np.where(np.arange(60) < 5, -1, np.arange(60) % 7)
    axes = grouped_scatter(POINTS, labels)
    *groups, noise = axes.collections
    assert np.array_equal(noise.get_offsets(), POINTS[:5])
    assert look(noise) not in {look(group) for group in groups}
    assert noise.get_edgecolor()[0].tolist() == list(to_rgba(PALE))
    assert not noise.get_paths()[0].codes.tolist().count(79), "a cross has no closed outline"
    assert legend(axes)[-1] == "noise: 5"


def test_twenty_one_groups_look_different() -> None:
    axes = grouped_scatter(POINTS, np.arange(60) % 21)
    assert len({look(drawn) for drawn in axes.collections}) == 21


def test_sizes_and_names_stand_beside() -> None:
    axes = grouped_scatter(POINTS, np.arange(60) % 2, {0: "$short$"})
    assert legend(axes) == ["$short$: 30", "1: 30"]
    assert not any(text.get_parse_math() for text in axes.get_legend().get_texts())


def test_groups_of_one_name_keep_their_entries() -> None:
    axes = grouped_scatter(POINTS, np.arange(60) % 2, {0: "same", 1: "same"})
    assert legend(axes) == ["same: 30", "same: 30"]


def test_too_many_groups_have_no_legend() -> None:
    assert grouped_scatter(POINTS, np.arange(60) % 30).get_legend() is None


def test_marks_lie_on_top_of_all_points() -> None:
    marks = [np.arange(60) < 10, np.arange(60) > 57, np.zeros(60, bool)]
    axes = highlighted_scatter(POINTS, marks, ["low", "high", "none"], "layer 2")
    every, low, high, none = axes.collections
    assert len(every.get_offsets()) == 60 and len(none.get_offsets()) == 0
    assert np.array_equal(low.get_offsets(), POINTS[:10]) and np.array_equal(high.get_offsets(), POINTS[58:])
    assert len({look(drawn)[:3] for drawn in (every, low, high)}) == 3
    assert legend(axes) == ["low, n = 10", "high, n = 2", "none, n = 0"]


def test_everything_is_rasterised() -> None:
    for axes in (
        grouped_scatter(POINTS, np.arange(60) % 4 - 1),
        highlighted_scatter(POINTS, [POINTS[:, 0] > 0], ["a"]),
    ):
        assert all(drawn.get_rasterized() for drawn in axes.collections)


def test_a_page_holds_dots_in_fewer_colours() -> None:
    axes = grouped_scatter(POINTS, np.arange(60) % 9)
    axes.figure.set_layout_engine("none")  # else the second drawing may lie a little beside the first
    full, small = inline_svg(axes, "a"), inline_svg(axes, "a", dots=True)
    assert len(small) < len(full)
    one, other = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(IMAGES.findall(svg)[0]))).convert("RGBA"), dtype=float)
        for svg in (full, small)
    )
    assert one.shape == other.shape
    seen = one[..., 3] > 0
    assert (other[~seen][:, 3] == 0).all(), "what is empty stays empty"
    assert np.abs(one[seen] - other[seen]).mean() < 8, "and colours stay the same to the eye"


def test_a_drawing_has_no_spare_names() -> None:
    svg = inline_svg(grouped_scatter(POINTS, np.arange(60) % 9), "a")
    names = {part.partition('"')[0] for part in svg.split(' id="')[1:]}
    assert names and all(f"#{name}" in svg for name in names)
    assert "scale(0.015625)" in svg, "letters keep their size"


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_any_text_can_be_drawn(ending: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_figure(grouped_scatter(POINTS, np.zeros(60), {0: "$x_\ud800"}, "a\n$_"), tmp_path / f"a.{ending}")
        save_figure(highlighted_scatter(POINTS, [POINTS[:, 0] > 0], ["$x_\n"], "$_"), tmp_path / f"b.{ending}")
        save_figure(grouped_scatter(np.zeros((0, 2)), []), tmp_path / f"c.{ending}")
