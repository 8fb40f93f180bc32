"""The view of attention: brushed ranges light samples up everywhere, clusterings side by side, a pair's maps."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

pytest_plugins = ("live_studio",)
pytestmark = pytest.mark.browser

ALGORITHMS = ("kmeans", "dbscan", "agglomerative", "spectral", "gaussian-mixture")


@pytest.fixture
def studied(visit: Any) -> Any:
    page = visit.open("attention")
    page.get_by_role("button", name="Read the attention maps").click()
    page.wait_for_selector("[data-clustering='no clustering'] canvas")
    return page


def drag(page: Any, variable: str, start: float, end: float) -> None:
    box = page.locator(f".brush[data-variable={variable}] .overlay").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + (start + end) / 2 * box["width"], y, steps=3)
    page.mouse.move(box["x"] + end * box["width"], y, steps=3)
    page.mouse.up()


def lit(visit: Any) -> list[list[int]]:
    _, data = visit.saved(visit.page.locator("[data-figure=attention-ranges]").get_by_role("button", name="JSON"))
    return [each["rows"] for each in json.loads(data)]


def pixels(page: Any) -> list[str]:
    return page.locator(".strip canvas").evaluate_all("all => all.map(each => each.toDataURL())")  # type: ignore[no-any-return]


def cluster(visit: Any, algorithm: str, **numbers: str) -> None:
    page = visit.page
    strips = page.locator(".clustering .strip").count()
    form = page.locator("[data-part=clusterings]")
    form.get_by_label("algorithm").select_option(algorithm)
    for label, value in numbers.items():
        form.get_by_label(label).fill(value)
        form.get_by_label(label).blur()
    form.get_by_role("button", name="Cluster").click()
    visit.until(lambda: page.locator(".clustering .strip").count() == strips + 1)


def test_brushes_light_samples_up_in_every_layer(visit: Any, studied: Any) -> None:
    page, before = studied, pixels(studied)
    drag(page, "similarity", 0.6, 0.95)
    visit.until(lambda: "ranges=" in page.url)
    [first] = lit(visit)
    assert 0 < len(first) < 60
    assert all(was != now for was, now in zip(before, pixels(page), strict=True)), "every layer shows it"
    page.get_by_role("button", name="Another range").click()
    low, high = (float(page.get_by_label(f"length {end}").get_attribute("placeholder")) for end in ("from", "to"))
    for end, value in (("from", low - 1), ("to", (low + high) / 2)):
        page.get_by_label(f"length {end}").fill(str(value))
        page.get_by_label(f"length {end}").blur()
    visit.until(lambda: page.url.count("length") == 1)
    both = lit(visit)
    assert both[0] == first and both[1], "several ranges at once, by brush and typed"
    now = pixels(page)
    page.reload()
    page.wait_for_selector("[data-clustering='no clustering'] canvas")
    assert lit(visit) == both and pixels(page) == now


def test_clusterings_side_by_side_with_tests_of_the_brush(visit: Any, studied: Any) -> None:
    page = studied
    cluster(visit, "kmeans", **{"K from": "2", "to": "3"})
    cluster(visit, "gaussian-mixture")
    assert page.locator(".clustering .cell-box small").first.inner_text().startswith("S ")
    page.locator(".clustering .cell-box button").first.click()
    page.wait_for_selector("[data-tested='60']")
    assert page.locator("[data-figure=attention-clusters] tbody tr").count() >= 2
    assert page.locator(".boxes").count() == 2, "of length and similarity; structure needs a grammar"
    marked = pixels(page)
    drag(page, "similarity", 0.5, 0.99)
    page.wait_for_selector("[data-tested]:not([data-tested='60'])")
    assert int(page.locator("[data-tested]").get_attribute("data-tested")) == len(lit(visit)[0])
    assert all(was != now for was, now in zip(marked, pixels(page), strict=True)), "in all layers and clusterings"
    name, drawing = visit.saved(page.locator("[data-figure=attention-layer-1]").get_by_role("button", name="SVG"))
    assert name.endswith(".svg") and drawing.count(b"<circle") >= 60
    _, table = visit.saved(page.locator("[data-clustering='no clustering']").get_by_role("button", name="CSV"))
    assert table.split()[0] == b"layer,row,x,y" and len(table.split()) == 1 + 2 * 60
    assert visit.is_wide_enough(), "wide tables scroll by themselves"
    before = page.locator(".clustering .strip").count()
    page.get_by_role("button", name="put").first.click()
    visit.until(lambda: page.locator(".clustering .strip").count() == before - 1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_runs_from_the_page(visit: Any, studied: Any, algorithm: str) -> None:
    cluster(visit, algorithm, **({} if algorithm == "dbscan" else {"to": "4"}))
    assert studied.locator(".clustering h3").inner_text().startswith(algorithm)


def test_all_five_stand_side_by_side(visit: Any, studied: Any) -> None:
    studied.locator("[data-part=clusterings]").get_by_label("algorithm").select_option("all")
    studied.get_by_role("button", name="Cluster").click()
    visit.until(lambda: studied.locator(".clustering .strip").count() == len(ALGORITHMS))
    titles = studied.locator(".clustering h3").all_inner_texts()
    assert [title.split(",")[0] for title in titles] == list(ALGORITHMS)
    assert studied.locator(".clustering .cell-box small", has_text="CH").count() == 2 * len(ALGORITHMS)


def test_a_click_finds_the_point_beneath_it(visit: Any, studied: Any) -> None:
    _, drawing = visit.saved(studied.locator("[data-figure=attention-layer-1]").get_by_role("button", name="SVG"))
    x, y = re.findall(rb'<circle cx="([0-9.]+)" cy="([0-9.]+)"', drawing)[7]
    studied.locator("[data-part=cell] canvas.scatter").click(position={"x": float(x), "y": float(y)})
    studied.wait_for_selector("[data-part=maps] .cell")
    assert "pair=" in studied.url


def test_a_point_shows_its_pair_and_maps(visit: Any, studied: Any) -> None:
    page = studied
    canvas = page.locator("[data-part=cell] canvas.scatter")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-part=maps] .cell")
    assert page.locator("[data-part=maps] h2").inner_text() == "Pair 0"
    one = page.locator("[data-part=maps] .heatmap").inner_html()
    page.locator("[data-part=maps]").get_by_label("head", exact=True).select_option("1")
    visit.until(lambda: page.locator("[data-part=maps] .heatmap").inner_html() != one)
    page.locator("[data-part=maps]").get_by_label("layer", exact=True).select_option("2")
    page.locator("[data-part=maps] h3", has_text="layer 2, head 1").wait_for()
    page.reload()
    page.wait_for_selector("[data-part=maps] .cell")
    assert page.locator("[data-part=maps]").get_by_label("head", exact=True).input_value() == "1"
