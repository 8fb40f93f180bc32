"""The view of training: a run started from the page, its curves and scatters, and both models side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from likewise.sample import SAMPLES
from training_reports import made_report

pytest_plugins = ("live_studio",)
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def studio(start_studio: Callable[..., Any], tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A studio with two files of scored pairs that have nothing in common."""
    folder = tmp_path_factory.mktemp("pairs")
    head, *rows = SAMPLES["sample/pairs"].read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "learn.csv").write_text(head + "".join(rows[:40]), encoding="utf-8")
    (folder / "judge.csv").write_text(head + "".join(rows[40:]), encoding="utf-8")
    return start_studio(tiny_folder, "--corpus", str(folder / "learn.csv"), "--corpus", str(folder / "judge.csv"))


def test_a_run_is_trained_shown_and_compared(visit: Any) -> None:
    page = visit.open("training")
    page.get_by_text("No run yet").wait_for()
    page.get_by_text("Train a model on scored pairs").click()
    page.get_by_label("name of the run").fill("my-run")
    page.get_by_label("train on").select_option("learn.csv")
    page.get_by_label("evaluate on").select_option("judge.csv")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector("[data-run=my-run]")
    page.wait_for_selector("[data-figure=training-loss] canvas")
    page.wait_for_selector("[data-figure=training-dev] canvas")
    page.locator("canvas.scatter").focus()
    page.keyboard.press("ArrowRight")
    page.locator("[data-figure^=training-scatter] .readout", has_text="→").wait_for()
    _, data = visit.saved(page.locator("[data-figure^=training-scatter]").get_by_role("button", name="JSON"))
    assert len(json.loads(data)) == 20
    page.get_by_role("link", name="both models side by side").first.click()
    page.wait_for_selector("main[data-view=pair] [data-figure=pair-change]")
    assert page.get_by_label("second model", exact=True).input_value() == "runs/my-run"


def test_the_same_name_is_refused(visit: Any) -> None:
    page = visit.open("training", name="my-run", train="learn.csv", dev="judge.csv", epochs="1")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector("[role=alert]")
    assert "another name" in page.locator("[role=alert]").first.inner_text()


@pytest.fixture
def three_tasks(studio: Any, tiny_folder: Path) -> str:
    """A run that learnt three tasks, as the command leaves it."""
    folder = studio.runs / "three-tasks"
    if not folder.exists():
        shutil.copytree(tiny_folder, folder)
        (folder / "likewise.json").write_text("{}")
        made_report().save(folder, {"command": "likewise train"})
    return folder.name


def test_confusions_scatters_and_curves_are_taken_along(visit: Any, three_tasks: str) -> None:
    page = visit.open("training", run=three_tasks)
    page.wait_for_selector("[data-figure=training-loss] canvas")
    confusion = page.locator("[data-figure=training-confusion-dev-sentiment]")
    assert confusion.locator(".cell").count() == 25
    assert page.locator("[data-figure=training-confusion-test-paraphrase] .cell").count() == 4
    _, counts = visit.saved(confusion.get_by_role("button", name="JSON"))
    assert sum(map(sum, json.loads(counts))) == 60
    name, drawing = visit.saved(confusion.get_by_role("button", name="SVG"))
    assert name == "training-confusion-dev-sentiment.svg" and drawing.count(b"<rect") > 25
    _, picture = visit.saved(page.locator("[data-figure=training-dev]").get_by_role("button", name="PNG"))
    assert picture.startswith(b"\x89PNG")
    assert visit.is_wide_enough()


def test_tables_next_to_the_runs_are_exported_as_they_are(visit: Any, studio: Any) -> None:
    folder = studio.runs / "table"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<p>", encoding="utf-8")
    (folder / "table.csv").write_text("row,change\nmean,-0.25\n=A1,+1e-3\n", encoding="utf-8")
    page = visit.open("training", report="table")
    _, table = visit.saved(page.locator("[data-figure=training-report-table]").get_by_role("button", name="CSV"))
    assert table.split() == [b"row,change", b"mean,-0.25", b"'=A1,+1e-3"], "numbers stay numbers, formulas do not"


def test_a_chosen_point_is_in_the_address(visit: Any, three_tasks: str) -> None:
    page = visit.open("training", run=three_tasks)
    figure = page.locator("[data-figure=training-scatter-test-similarity]")
    figure.locator("canvas.scatter").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    figure.locator(".readout", has_text="2: ").wait_for()
    summary = figure.locator(".readout").inner_text()
    page.reload()
    figure.locator(".readout", has_text="2: ").wait_for()
    assert figure.locator(".readout").inner_text() == summary
    assert "Click a point" in page.locator("[data-figure=training-scatter-dev-similarity] .readout").inner_text()
