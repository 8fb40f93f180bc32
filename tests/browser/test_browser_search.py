"""The view of a search: uploads good and bad, an index with progress, hits, baselines, recall, a cancelled job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("live_studio",)
pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"


def built(page: Any) -> None:
    page.get_by_role("button", name="Build the index").click()
    page.get_by_placeholder("What do you look for?").wait_for()


def test_search_and_the_classic_rankers(visit: Any) -> None:
    page = visit.open("search", corpus="sample/sentences")
    page.get_by_text("Press Build the index").wait_for()
    built(page)
    page.get_by_placeholder("What do you look for?").fill("a noise like a helicopter")
    page.wait_for_selector("[data-figure=search-hits] li")
    page.wait_for_selector("[data-figure=search-bm25] li")
    page.wait_for_selector("[data-figure=search-tfidf] li")
    assert "helicopter" in page.locator("[data-figure=search-bm25] li").first.inner_text()
    assert page.locator("[data-figure=search-hits] li").count() == 10
    assert "above the next by" in page.locator("[data-figure=search-hits] li").first.inner_text()
    _, data = visit.saved(page.locator("[data-figure=search-hits]").get_by_role("button", name="JSON"))
    assert len(json.loads(data)["hits"]) == 10
    name, drawing = visit.saved(page.locator("[data-figure=search-hits]").get_by_role("button", name="SVG"))
    assert name == "search-hits.svg" and drawing.count(b"<rect") > 10 and b"10.  " in drawing
    assert page.locator("[data-note=changed]").count() == 0
    page.get_by_label("pooling").select_option("cls")
    page.locator("[data-note=changed]").wait_for()
    page.get_by_label("pooling").select_option("")
    page.locator("[data-note=changed]").wait_for(state="detached")
    assert visit.is_wide_enough()
    first = page.locator("[data-figure=search-hits] li").first.get_attribute("data-hit")
    page.reload()
    page.wait_for_selector("[data-figure=search-hits] li")
    assert page.locator("[data-figure=search-hits] li").first.get_attribute("data-hit") == first
    page.locator("[data-figure=search-hits] li a").first.click()
    page.wait_for_selector("main[data-view=pair] .ledger")


def test_an_uploaded_corpus_is_searched_and_its_texts_stay_texts(visit: Any, tmp_path: Path) -> None:
    file = tmp_path / "my texts.csv"
    file.write_text(f'text\n"{HOSTILE}"\nA cat sat.\nBread is baked.\n', encoding="utf-8")
    page = visit.open("search")
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_label("corpus").locator("option", has_text="my texts.csv (3 texts)").wait_for(state="attached")
    built(page)
    page.get_by_placeholder("What do you look for?").fill(HOSTILE)
    page.wait_for_selector("[data-figure=search-hits] li")
    assert page.locator("main img").count() == 0
    assert "onerror" in page.locator("[data-figure=search-hits]").inner_text()
    page.get_by_role("button", name="Remove").click()
    visit.until(lambda: page.locator("option", has_text="my texts").count() == 0)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("picture.png", b"\x89PNG", "ends with"),
        ("empty.csv", b"", "empty"),
        ("bad.jsonl", b'{"text": "a"}\n{"text": \n', "bad.jsonl"),
        ("bytes.csv", b"text\n\xff\xfe\x00broken", "bytes.csv"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(visit: Any, tmp_path: Path, name: str, content: bytes, said: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    page = visit.open("search")
    page.locator("input[type=file]").set_input_files(file)
    alert = page.locator("[role=alert]").first
    alert.wait_for()
    assert said in alert.inner_text() and "\n" not in alert.inner_text().strip()
    assert str(tmp_path) not in alert.inner_text()


def test_a_job_can_be_cancelled_and_forgotten(visit: Any, tmp_path: Path) -> None:
    file = tmp_path / "many.txt"
    file.write_text(
        "\n".join(f"a man and a cat sat on mat number {place}" for place in range(40_000)), encoding="utf-8"
    )
    page = visit.open("search")
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_label("corpus").locator("option", has_text="many.txt").wait_for(state="attached")
    page.get_by_role("button", name="Build the index").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("was cancelled").wait_for()
    page.get_by_role("button", name="Build the index").click()
    page.locator(".job[data-state=running], .job[data-state=waiting]").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("was cancelled").wait_for()
    page.get_by_role("button", name="Jobs").click()
    page.wait_for_selector(".drawer:focus-within")
    page.keyboard.press("Escape")
    page.locator("button:focus", has_text="Jobs").wait_for()
    assert page.locator(".drawer").count() == 0
    page.keyboard.press("Enter")
    row = page.locator(".drawer li", has_text="cancelled").first
    row.wait_for()
    count = page.locator(".drawer li").count()
    row.get_by_role("button", name="Forget").click()
    visit.until(lambda: page.locator(".drawer li").count() == count - 1)
    polled = [url for url in visit.requests if url.endswith("/api/jobs")]
    assert polled == [], "jobs come by events alone"


def test_recall_of_a_corpus_of_pairs(visit: Any) -> None:
    page = visit.open("search", corpus="sample/pairs")
    page.get_by_role("button", name="Measure recall").click()
    page.wait_for_selector("[data-figure=search-recall] canvas")
    assert page.locator("[data-figure=search-recall] tbody tr").count() >= 3
    name, drawing = visit.saved(page.locator("[data-figure=search-recall]").get_by_role("button", name="SVG"))
    assert name == "search-recall.svg" and b"BM25" in drawing.upper()
