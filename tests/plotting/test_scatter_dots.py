"""Panels of dots: rows, series, intervals and names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from likewise.plotting.axes import save_figure
from likewise.plotting.scatter import dot_panels

NAMES = ["none", "whitening, 64"]
PANELS: Any = {
    "baseline": {"one": ([0.8, 0.0], None, None), "two": ([0.1, float("nan")], None, None)},
    "Spearman": {"one": ([0.8, 0.7], [0.7, 0.6], [0.9, 0.8]), "two": ([0.6, 0.5], [0.5, 0.4], [0.7, 0.6])},
}


def test_a_panel_per_measure_over_common_rows() -> None:
    first, second = dot_panels(NAMES, PANELS, "stsb/test").figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == NAMES
    assert (first.get_xlabel(), second.get_xlabel()) == ("baseline", "Spearman")
    assert first.get_ylim() == second.get_ylim() == (1.5, -0.5), "the first row is on top"
    assert [len(axes.lines) for axes in (first, second)] == [2, 2]
    assert [len(axes.collections) for axes in (first, second)] == [0, 2], "only intervals are drawn"


def test_series_of_a_row_do_not_cover_each_other() -> None:
    one, two = dot_panels(NAMES, PANELS).figure.axes[1].lines
    assert (one.get_ydata() < two.get_ydata()).all() and abs(one.get_ydata() - two.get_ydata()).max() < 0.5


def test_only_several_series_need_a_legend() -> None:
    alone = {label: {"one": drawn["one"]} for label, drawn in PANELS.items()}
    assert not dot_panels(NAMES, alone).figure.legends
    assert [text.get_text() for text in dot_panels(NAMES, PANELS).figure.legends[0].get_texts()] == ["one", "two"]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_any_text_can_be_drawn(ending: str, tmp_path: Path) -> None:
    panels = {"$x_y": {"models/\U000f0000": ([1.0], None, None), "b\n": ([0.0], [0.0], [0.1])}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = save_figure(dot_panels(["<&$"], panels, "a_b$"), tmp_path / f"dots.{ending}")
    assert path.stat().st_size > 1000
