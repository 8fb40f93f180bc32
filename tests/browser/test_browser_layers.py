"""The view of layers: curves as one types, and the geometry of a corpus."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import save_tiny

pytest_plugins = ("live_studio",)
pytestmark = pytest.mark.browser

DEEPER = "deeper"


@pytest.fixture(scope="module")
def studio(start_studio: Callable[..., Any], tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A studio with two models, one with a layer more."""
    deeper = save_tiny(tmp_path_factory.mktemp("models") / DEEPER, seed=1, num_hidden_layers=3)
    return start_studio(tiny_folder, "--model", str(deeper))


def rows(visit: Any, figure: str) -> list[list[str]]:
    _, table = visit.saved(visit.page.locator(f"[data-figure={figure}]").get_by_role("button", name="CSV"))
    return list(csv.reader(io.StringIO(table.decode())))


def test_words_and_sentences_are_followed(visit: Any) -> None:
    page = visit.open("layers")
    page.get_by_label("texts, one a line").fill("the cat sat on a mat\nthe cat ran to a man")
    page.wait_for_selector("[data-figure=layers-trajectories] canvas")
    assert page.get_by_text("Cosine of the sentences").is_visible()
    sentences = rows(visit, "layers-trajectories")
    page.get_by_label("words to follow").fill("cat")
    page.get_by_text("Cosine of the words").wait_for()
    words = rows(visit, "layers-trajectories")
    assert sentences[0][1] == "texts 1 and 2" and words[0][1].startswith("cat") and len(words) == len(sentences) >= 3
    page.reload()
    page.get_by_text("Cosine of the words").wait_for()


def test_an_unknown_word_is_said(visit: Any) -> None:
    page = visit.open("layers", texts="the cat sat\nthe dog sat", words="zebra")
    page.wait_for_selector("[role=alert]")
    assert "zebra" in page.locator("[role=alert]").first.inner_text()


def test_geometry_with_intervals_raw_and_corrected(visit: Any) -> None:
    page = visit.open("layers", contexts="3")
    page.get_by_role("button", name="Measure").click()
    page.wait_for_selector("[data-figure=layers-geometry] canvas")
    adjusted = rows(visit, "layers-geometry")
    page.get_by_label("raw, without").check()
    raw = rows(visit, "layers-geometry")
    assert adjusted[0] == raw[0] and adjusted[1:] != raw[1:] and raw[0][2].endswith("low")
    page.get_by_label("with corrections").check()
    assert len(rows(visit, "layers-geometry")[0]) == 1 + 3 * 5
    page.get_by_label("measure").select_option("isoscore")
    assert rows(visit, "layers-geometry")[1:] != raw[1:]
    assert page.locator("[data-figure^=layers-cka] .cell").count() > 0
    before = page.url
    page.reload()
    page.wait_for_selector("[data-figure=layers-geometry] canvas")
    assert page.url == before and page.get_by_label("measure").input_value() == "isoscore"


def test_models_of_different_depth_are_drawn_as_far_as_they_go(visit: Any) -> None:
    page = visit.open("layers", contexts="3", **{"geometry-models": f"{visit.studio.model},{DEEPER}"})
    page.get_by_role("button", name="Measure").click()
    page.wait_for_selector("[data-figure=layers-geometry] canvas")
    _, drawing = visit.saved(page.locator("[data-figure=layers-geometry]").get_by_role("button", name="SVG"))
    assert b"NaN" not in drawing and b"undefined" not in drawing
    *_, first, last = rows(visit, "layers-geometry")
    assert all(first) and last[1:4] == ["", "", ""] and all(last[4:]), "the last layer is the deeper model's alone"
