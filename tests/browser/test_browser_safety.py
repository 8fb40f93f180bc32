"""All views: no requests leave the studio, texts stay texts, and a narrow window is wide enough."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("live_studio",)
pytestmark = pytest.mark.browser

VIEWS = ("pair", "search", "layers", "attention", "corpus", "training")
HOSTILE = "<img src=x onerror=alert(1)>"


def test_no_request_leaves_the_server(visit: Any) -> None:
    for view in VIEWS:
        visit.open(view)
        visit.page.wait_for_load_state("networkidle")
    assert any(url.endswith("/api/training/runs") for url in visit.requests), "the last view was there too"
    assert [url for url in visit.requests if not url.startswith((visit.studio.address, "data:"))] == []


@pytest.mark.parametrize("view", VIEWS)
def test_1024_pixels_are_enough(visit: Any, view: str) -> None:
    visit.open(view)
    assert visit.is_wide_enough()


def test_on_every_address_the_token_opens_the_door(
    chromium: Any, start_studio: Callable[..., Any], tiny_folder: Path
) -> None:
    printed = start_studio(tiny_folder, "--host", "0.0.0.0").address
    invited = re.sub("//[^:]+:", "//127.0.0.1:", printed)  # by the name of this machine, which need not be found here
    home, knows, stranger = invited.split("?")[0], chromium.new_context(), chromium.new_context()
    page = knows.new_page()
    page.goto(f"{invited}#/pair?left=a+cat&right=a+dog")
    page.wait_for_selector(".heatmap")
    assert "token=" in invited and "token" not in page.url, "nobody shares it by mistake"
    page.goto(f"{home}#/search")
    page.get_by_role("button", name="Build the index").click()
    page.get_by_placeholder("What do you look for?").fill("volcano")
    page.wait_for_selector("[data-figure=search-hits] li")

    page = stranger.new_page()
    assert page.goto(home).status == 401
    assert "a token is needed" in page.inner_text("body")
    for context in (knows, stranger):
        context.close()


def upload(visit: Any, file: Path, first: int) -> None:
    rows = "".join(
        f'"{HOSTILE} cat {place}","{HOSTILE} a man {place}",{place % 5}\n' for place in range(first, first + 16)
    )
    file.write_text(f"sentence1,sentence2,score\n{rows}", encoding="utf-8")
    visit.page.locator("input[type=file]").first.set_input_files(file)
    visit.page.locator("option", has_text=file.name).first.wait_for(state="attached")


def shown_as_text(page: Any) -> bool:
    return page.locator("main img").count() == 0 and "onerror" in page.locator("main").inner_text()


def test_texts_that_look_like_pages_stay_texts_everywhere(visit: Any, tmp_path: Path) -> None:
    page = visit.open("search")
    upload(visit, tmp_path / f"{HOSTILE.replace('/', '')}.csv", 100)
    upload(visit, tmp_path / "learn.csv", 0)
    page.get_by_role("button", name="Build the index").click()
    page.get_by_placeholder("What do you look for?").fill(HOSTILE)
    page.wait_for_selector("[data-figure=search-hits] li")
    assert shown_as_text(page)

    visit.open("layers", texts=f"{HOSTILE} cat\n{HOSTILE} cat", words=HOSTILE)
    page.wait_for_selector("[data-figure=layers-trajectories] canvas")
    assert shown_as_text(page)

    visit.open("attention")
    page.get_by_label("corpus").select_option(label="learn.csv (16 pairs)")
    page.get_by_role("button", name="Read the attention maps").click()
    page.locator("[data-part=cell] canvas.scatter").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-part=maps] .cell")
    assert shown_as_text(page)

    visit.open("training", name="hostile", epochs="1")
    for label, name in (("train on", "learn.csv"), ("evaluate on", "img src")):
        choice = page.get_by_label(label)
        choice.select_option(choice.locator("option", has_text=name).first.get_attribute("value"))
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector("[data-run=hostile] [data-figure^=training-best]")
    assert shown_as_text(page)
