"""The view of a corpus: parts of speech by two settings, and lint findings that lead to their pair."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from likewise.lint.pos_relevance import QUARTERS

pytest_plugins = ("live_studio",)
pytestmark = [pytest.mark.browser, pytest.mark.data]


@pytest.fixture(scope="module")
def studio(start_studio: Callable[..., Any], tiny_folder: Path, shared_models: Path) -> Any:
    """A studio with a grammar, over a file whose texts look like pages."""
    return start_studio(tiny_folder, "--grammar", str(shared_models / "en_ud"))


def test_parts_of_speech_of_two_settings(visit: Any) -> None:
    page = visit.open("corpus")
    page.get_by_label("compare with a second setting").check()
    page.get_by_label("pooling").nth(1).select_option("max")
    page.get_by_role("button", name="Analyse").click()
    page.wait_for_selector("[data-figure=corpus-2-classes] .cell")
    assert page.locator("[data-figure=corpus-change] tbody tr").count() > 0
    classes = page.locator("[data-figure=corpus-1-classes] .heatmap .name").all_text_contents()
    assert "NOUN" in classes and "VERB" in classes
    captions = page.locator("[data-figure=corpus-2-strongest] caption").all_text_contents()
    assert captions == [f"{quarter} quarter" for quarter in QUARTERS]
    name, table = visit.saved(page.locator("[data-figure=corpus-1-strongest]").get_by_role("button", name="CSV"))
    assert name == "corpus-1-strongest.csv" and {line.split(",")[0] for line in table.decode().split()} >= set(QUARTERS)
    summed = page.locator("[data-figure=corpus-1-classes] .heatmap").inner_html()
    page.get_by_label("counted").select_option("averaged")
    visit.until(lambda: page.locator("[data-figure=corpus-1-classes] .heatmap").inner_html() != summed)
    page.reload()
    page.wait_for_selector("[data-figure=corpus-2-classes] .cell")
    assert page.get_by_label("counted").input_value() == "averaged"
    assert visit.is_wide_enough()


def test_lint_findings_lead_to_their_pair(visit: Any) -> None:
    page = visit.open("corpus")
    page.get_by_role("button", name="Look for suspicious pairs").click()
    page.wait_for_selector("[data-figure=corpus-lint] tbody tr")
    findings = page.locator("[data-figure=corpus-lint] table").nth(1).locator("tbody tr")
    whole = findings.count()
    assert whole > 0
    counts = (
        page.locator("[data-figure=corpus-lint] table").first.locator("tbody tr td:nth-child(3)").all_text_contents()
    )
    assert sum(map(int, counts)) == whole and len(counts) > 1
    page.locator("[data-figure=corpus-lint] .chip").first.click()
    visit.until(lambda: findings.count() == int(counts[0]))
    page.locator("[data-figure=corpus-lint] .chip").first.click()
    visit.until(lambda: findings.count() == whole)
    name, table = visit.saved(page.locator("[data-figure=corpus-lint]").get_by_role("button", name="CSV"))
    assert name == "corpus-lint.csv" and len(table.decode().strip().split("\r\n")) == whole + 1
    findings.locator("a").first.click()
    page.wait_for_selector("main[data-view=pair] .ledger")


def test_a_hostile_corpus_stays_text(visit: Any, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    file = tmp_path / "hostile.csv"
    lines = "".join(f'"{hostile} {place} not","{hostile} {place + 1}",{place % 5}\n' for place in range(12))
    file.write_text(f"sentence1,sentence2,score\n{lines}", encoding="utf-8")
    page = visit.open("corpus")
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_label("corpus").locator("option", has_text="hostile.csv").wait_for(state="attached")
    page.get_by_role("button", name="Analyse").click()
    page.wait_for_selector("[data-figure=corpus-1-classes] .cell")
    page.get_by_role("button", name="Look for suspicious pairs").click()
    page.wait_for_selector("[data-figure=corpus-lint]")
    assert page.locator("main img").count() == 0
    assert "onerror" in page.locator("main").inner_text()
