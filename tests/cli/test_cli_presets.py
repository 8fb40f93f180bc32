"""Every ready-made config runs from end to end, on made-up files under the real names and a tiny model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from answers import one_document
from likewise.train.runs import parse_plan, presets
from training_files import sentence, write_rows

pytest_plugins = ("command_line",)

ROWS = 40
LABELS = ("entailment", "contradiction", "neutral")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the names that the configs use; no two hold the same text."""
    folder, rng = tmp_path_factory.mktemp("data"), random.Random(0)

    def text(file: str, number: int) -> str:
        return f"{sentence(rng)} {file.replace('/', ' ').replace('-', ' ')} {number}"

    def write(file: str, header: list[str], cells: Any) -> None:
        path = folder / f"{file}.csv"
        path.parent.mkdir(exist_ok=True)
        count = {"sentence": 1}.get(header[0], 2)
        rows = [[*(text(file, number) for _ in range(count)), *cells(number)] for number in range(ROWS)]
        write_rows(path, header, rows)

    pair = ["sentence1", "sentence2"]
    genres = ("main-captions", "main-news")
    for part in ("train", "dev", "test"):
        write(f"stsb/{part}", [*pair, "score", "genre"], lambda n: [n % 6, genres[n % 2]])
    for file in ("cs224n/sts-train", "cs224n/sts-dev"):
        write(file, [*pair, "score"], lambda n: [n % 6])
    write("sick/train", [*pair, "score"], lambda n: [1 + n % 5])
    for file in ("cs224n/quora-train-10pct", "quora/train", "cs224n/quora-dev"):
        write(file, [*pair, "score"], lambda n: [n % 2])
    for file in ("cs224n/sst-train", "cs224n/sst-dev"):
        write(file, ["sentence", "label"], lambda n: [n % 5])
    write("amazon/kindle_15k", ["sentence", "label"], lambda n: [1 + n % 5])
    for part in ("dev", "test"):
        rows = [
            [f"{sentence(rng)} {part} {number // 3}", f"{sentence(rng)} {number}", LABELS[number % 3]]
            for number in range(ROWS)
        ]
        for row in range(0, ROWS - 2, 3):
            rows[row + 1][0] = rows[row + 2][0] = rows[row][0]
        (folder / "snli").mkdir(exist_ok=True)
        write_rows(folder / "snli" / f"{part}.csv", [*pair, "label"], [list(row) for row in rows])
    # What lint has exported lies where the command is run.
    write("hard", [*pair, "score", "rule"], lambda n: [n % 6, "number"])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", presets())
def test_a_ready_made_config_runs(
    run_tiny: Any,
    data_dir: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    if "shared-nouns" in presets()[name]:
        monkeypatch.setenv("LIKEWISE_GRAMMAR", str(request.getfixturevalue("english_folder")))
    monkeypatch.chdir(data_dir)
    out = tmp_path / "run"
    answer = run_tiny(
        "train", name, "--data-dir", data_dir, "--out", out, "--epochs", 1, "--samples", 16, "--limit", 24,
        "--seed", 1, "--threads", 1, "--json",
    )  # fmt: skip
    found = one_document(answer)
    plan = parse_plan(presets()[name], seed=1)
    reports = found["rows"] if plan.table else [found]
    assert len(reports) == len(plan.rows)
    for report, row in zip(reports, plan.rows, strict=True):
        assert report["steps"] > 0 and set(report["dev"]) == {task.name for task in row.config.tasks if task.dev}
    assert (out / "index.html").exists()
