"""The view of a pair: typing, pointing, a second model, exports, reload, and texts that look like pages."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

pytest_plugins = ("live_studio",)
pytestmark = pytest.mark.browser

LEFT, RIGHT = "A cat sat on the mat.", "The mat is under a cat."
HOSTILE = "<img src=x onerror=alert(1)>"


def similarity(page: Any) -> float:
    return float(page.locator("[data-testid=similarity]").first.inner_text())


def test_the_studio_opens_on_a_finding(visit: Any) -> None:
    page = visit.open()
    page.wait_for_selector(".ledger")
    left, right = (page.get_by_label(f"{side} text").first.input_value() for side in ("left", "right"))
    assert left == "Fire in hospital kills 38" and right == "38 feared dead in hospital fire"
    assert re.fullmatch(r".+ × .+ \([+−]0\.\d+\) (adds|takes away) most\..*", page.locator(".finding").inner_text())
    page.locator(".note button").click()
    visit.until(lambda: page.get_by_label("left text").first.input_value() == "He did not buy the house.")
    page.get_by_label("left text").first.fill("")
    page.get_by_label("right text").first.fill("")
    page.get_by_text("Type two texts").wait_for()


def test_settings_are_folded_until_one_is_used(visit: Any) -> None:
    for settings, is_open in (({}, False), ({"method": "hxp"}, True)):
        visit.page.goto("about:blank")
        visit.page.goto(f"{visit.studio.address}#/pair?{urlencode({'left': LEFT, 'right': RIGHT, **settings})}")
        visit.page.wait_for_selector(".ledger")
        assert visit.page.get_by_label("method").is_visible() is is_open
        assert visit.page.get_by_label("granularity").is_visible()


def test_typing_explains_and_the_ledger_adds_up(visit: Any) -> None:
    page = visit.open()
    page.wait_for_selector(".finding")
    page.get_by_label("left text").first.fill(LEFT)
    page.get_by_label("right text").first.fill(RIGHT)
    page.wait_for_selector(".ledger")
    terms = page.locator(".ledger g[data-term]").evaluate_all(
        "all => all.map(each => [each.dataset.term, +each.dataset.value])"
    )
    *parts, (last, total) = terms
    assert last == "similarity" and abs(sum(value for _, value in parts) - total) < 1e-4
    assert similarity(page) == pytest.approx(total, abs=1e-4)
    assert "left=A+cat" in page.url


def test_the_address_keeps_up_with_fast_typing(visit: Any) -> None:
    page, text = visit.open(right="a"), "the quick brown fox jumps over " * 5
    page.get_by_label("left text").first.press_sequentially(text)
    page.wait_for_timeout(2_000)
    assert parse_qs(page.url.split("?")[1])["left"] == [text]


def test_reload_and_share_restore_the_view(visit: Any) -> None:
    page = visit.open(left=LEFT, right=RIGHT, granularity="token", bias="shared")
    page.wait_for_selector(".ledger")
    before, cells = similarity(page), page.locator(".heatmap .cell").count()
    page.reload()
    page.wait_for_selector(".ledger")
    assert similarity(page) == before and page.locator(".heatmap .cell").count() == cells
    assert page.get_by_label("granularity").input_value() == "token"
    page.get_by_role("link", name="layers").click()
    page.wait_for_selector("main[data-view=layers]")
    page.get_by_role("link", name="pair").click()
    page.wait_for_selector(".ledger")
    assert page.get_by_label("left text").first.input_value() == LEFT


def test_pointing_is_linked_and_the_keyboard_walks(visit: Any) -> None:
    page = visit.open(left=LEFT, right=RIGHT)
    page.wait_for_selector(".ledger")
    page.locator(".coloured span", has_text="cat").first.hover()
    page.locator(".readout bdi", has_text="cat").first.wait_for()
    assert page.locator(".lines .name.on").count() == 1
    page.locator(".heatmap .cell[data-row='1'][data-column='1']").hover()
    visit.until(lambda: page.locator(".coloured span.on").count() == 2)
    page.mouse.move(0, 0)
    page.locator(".heatmap").focus()
    for row in ("0", "1"):
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(f".heatmap .cell.on[data-row='{row}']")
    page.keyboard.press("Escape")
    visit.until(lambda: page.locator(".heatmap .cell.on").count() == 0)
    page.locator("[data-figure=pair-strongest] li").first.hover()
    visit.until(lambda: page.locator(".heatmap .cell.on").count() == 1)
    page.mouse.move(0, 0)
    page.locator(".coloured span").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".coloured span:nth-child(2):focus.on").count() == 1


def test_methods_levels_and_special_tokens(visit: Any) -> None:
    page = visit.open(left=LEFT, right=RIGHT)
    page.wait_for_selector(".ledger")
    whole = similarity(page)
    page.get_by_label("method").select_option("hxp")
    page.get_by_text("· hxp").wait_for()
    page.get_by_label("granularity").select_option("sentence")
    visit.until(lambda: page.locator(".heatmap .cell").count() < 20)
    page.get_by_label("special tokens").first.uncheck()
    visit.until(lambda: abs(similarity(page) - whole) > 1e-4)


def test_a_second_pooling_is_compared(visit: Any) -> None:
    page = visit.open(left=LEFT, right=RIGHT)
    page.get_by_label("compare with a second model").check()
    page.get_by_label("pooling").nth(1).select_option("max")
    page.wait_for_selector("[data-figure=pair-change] .cell")
    assert page.locator(".explained").count() == 2
    title = page.locator("[data-figure=pair-change] h3").inner_text()
    assert title.startswith("What changes") and "(max, last layer)" in title, "two poolings of one model are named"


def test_exports_are_whole(visit: Any) -> None:
    page = visit.open(left=LEFT, right=RIGHT)
    page.wait_for_selector(".ledger")
    figure = page.locator("[data-figure=pair-matrix]")
    name, drawing = visit.saved(figure.get_by_role("button", name="SVG"))
    assert name == "pair-matrix.svg" and drawing.count(b"<rect") == 1 + page.locator(".heatmap rect").count(), (
        "and a paper"
    )
    assert b"var(--" not in drawing
    _, pixels = visit.saved(figure.get_by_role("button", name="PNG"))
    assert pixels.startswith(b"\x89PNG") and len(pixels) > 2_000
    _, data = visit.saved(figure.get_by_role("button", name="JSON"))
    assert json.loads(data)["similarity"] == pytest.approx(similarity(page), abs=1e-4)
    _, table = visit.saved(figure.get_by_role("button", name="CSV"))
    lines = table.decode().strip().split("\r\n")
    values = [float(line.rsplit(",", 1)[1]) for line in lines[1:]]
    assert lines[0] == "left,right,relevance" and sum(values) == pytest.approx(similarity(page), abs=1e-3)


def test_examples_theme_and_shortcuts(visit: Any) -> None:
    page = visit.open()
    page.locator(".examples button").first.click()
    page.wait_for_selector(".ledger")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name=re.compile("turn (light|dark)")).click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.keyboard.press("Alt+3")
    page.wait_for_selector("main[data-view=layers]")


@pytest.mark.parametrize("second", ["off", "on"])
def test_a_narrow_window_has_no_sideways_scroll(visit: Any, second: str) -> None:
    page = visit.open(left=LEFT, right=RIGHT, second=second)
    visit.until(lambda: page.locator(".ledger").count() == (2 if second == "on" else 1))
    assert visit.is_wide_enough()
    for ledger in page.locator(".ledger").all():
        box, figure = ledger.bounding_box(), ledger.locator("xpath=ancestor::section").bounding_box()
        assert box["x"] + box["width"] <= figure["x"] + figure["width"]


def test_texts_that_look_like_pages_stay_texts(visit: Any) -> None:
    page = visit.open(left=HOSTILE, right=f"{HOSTILE} and more")
    page.wait_for_selector(".ledger")
    assert page.locator("main img").count() == 0
    assert "onerror" in page.locator(".coloured").first.inner_text()


def test_what_is_wrong_is_said_in_one_line(visit: Any) -> None:
    page = visit.open(left=LEFT, right="x" * 4_001)
    assert "4,000 characters" in page.locator("[role=alert]").first.inner_text()
    page.get_by_label("right text").first.fill(RIGHT)
    page.wait_for_selector(".ledger")
    page.get_by_label("layer").first.fill("90")
    page.get_by_label("layer").first.blur()
    page.wait_for_selector("[role=alert]")
    assert "layer" in page.locator("[role=alert]").first.inner_text()
