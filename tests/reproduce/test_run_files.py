"""The committed run files of docs/results: complete, without rows of public data or paths of a machine, and shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from likewise.data import Dataset
from likewise.reproduce.records import Record, records
from likewise.reproduce.studies import STUDIES
from likewise.reproduce.study import BUDGETS

DOCS = Path(__file__).parents[2] / "docs"
RUNS = DOCS / "results" / "runs"
LARGEST = 5 * 2**20  # bytes of all figures
WINDOW = 7  # so many words in a row are a quotation
CHINESE = re.compile(r"[\u4e00-\u9fff]{8,}")
BUILT_IN = ("sample/sentences", "sample/words")


def test_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    import results

    for file, text in results.pages().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run python docs/results.py"


def test_run_files_are_of_known_items_and_name_their_settings() -> None:
    items = {(study.name, item.name) for study in STUDIES for item in study.items}
    for one in records(RUNS):
        assert (one.study, one.item) in items
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", one.date) and one.command and one.key
        assert (RUNS / one.study / f"{one.stem}.json").exists()
        if not one.origin:
            assert one.budget in BUDGETS and one.versions["likewise"] and len(one.model_sha256) == 64
            assert one.seconds is not None and one.command.startswith(
                f"likewise reproduce {one.study} {one.item} --model "
            )
            assert one.verdicts or one.notes


def test_figures_are_there_and_small() -> None:
    named = {RUNS / one.study / figure.file for one in records(RUNS) for figure in one.figures.values()}
    assert named == set(RUNS.glob("*/*.svg"))
    assert sum(path.stat().st_size for path in named) < LARGEST


def test_no_path_of_a_machine() -> None:
    for path in RUNS.glob("*/*"):
        found = re.search(r"(?<![\w.])/(root|home|work|tmp|Users|mnt|opt|var)/|[A-Z]:\\\\", path.read_text("utf-8"))
        assert found is None, f"{path.name} shows {found}"


def texts_of(one: Record) -> Iterator[str]:
    """Everything that people read in a run file and its figures."""
    yield from one.notes
    for table in one.tables.values():
        yield from (str(cell) for row in table.rows for cell in row)
    for figure in one.figures.values():
        yield from re.findall(
            r"(?:<!-- | >|>)([^<>]{20,})(?: -->|<)", (RUNS / one.study / figure.file).read_text("utf-8")
        )


def windows(text: str) -> Iterator[str]:
    words = re.findall(r"\w+", text.lower())
    yield from (" ".join(words[start : start + WINDOW]) for start in range(len(words) - WINDOW + 1))


@pytest.mark.data
@pytest.mark.slow
def test_no_row_of_the_public_data(shared_data: Path) -> None:
    built_in = {window for name in BUILT_IN for row in Dataset(name).texts() for window in windows(row.text)}
    shown = {window for one in records(RUNS) for text in texts_of(one) for window in windows(text)} - built_in
    chinese = {run for one in records(RUNS) for text in texts_of(one) for run in CHINESE.findall(text)}
    rare = {max(window.split(), key=len) for window in shown}
    for name in sorted({file for study in STUDIES for item in study.items for file in (*item.data, *item.files("zh"))}):
        texts = list(Dataset(name, data_dir=shared_data).sentences())
        assert not [run for run in chinese if any(run in text for text in texts)]
        likely = (text for text in texts if not rare.isdisjoint(re.findall(r"\w+", text.lower())))
        assert not [window for text in likely for window in windows(text) if window in shown]
