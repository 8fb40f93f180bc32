"""What a training changed: the right pairs are found, and their ledgers account for the change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.encoder.similarity import paired_similarity
from likewise.train import Source, Task, TaskConfig, TrainConfig, TrainReport, read_tasks, train_tasks
from likewise.train.examples import read_examples
from likewise.train.report import training_changes
from likewise.train.results import pair_changes
from likewise.train.runs import RunContext
from training_files import sentiment_file, similarity_file


def trained(folder: Path, model: Path, **settings: object) -> tuple[TrainReport, list[Task]]:
    similarity_file(folder / "train.csv", 40, 1)
    similarity_file(folder / "dev.csv", 20, 2)
    task = TaskConfig(
        "similarity", (Source(str(folder / "train.csv")),), (Source(str(folder / "dev.csv")),), **settings
    )  # type: ignore[arg-type]
    config = TrainConfig((task,), str(model), str(folder / "run"), epochs=1, learning_rate=1e-3, batch=8)
    tasks, _ = read_tasks(config.tasks)
    return train_tasks(Encoder.load(str(model), device="cpu"), tasks, config), tasks


@pytest.fixture
def run_context() -> RunContext:
    return RunContext(lambda name: Encoder.load(name, device="cpu"))


def test_pairs_that_moved_most_are_compared(tiny_folder: Path, tmp_path: Path, run_context: RunContext) -> None:
    report, tasks = trained(tmp_path, tiny_folder)
    found = training_changes(run_context.load, report)
    before, after = run_context.load(str(tiny_folder)), run_context.load(report.config.out)
    sides = [[example.texts[side] for example in tasks[0].dev] for side in (0, 1)]
    cosines = [paired_similarity(*map(encoder.encode, sides)) for encoder in (before, after)]
    moved = np.abs(cosines[1] - cosines[0])
    assert moved.max() > 1e-3
    moves = [abs(change.comparison.change) for change in found]
    assert moves == pytest.approx(sorted(moved, reverse=True)[: len(moves)], abs=1e-6)
    for change in found:
        assert change.comparison.first.metadata.model != change.comparison.second.metadata.model
        assert abs(change.comparison.gap) < 1e-5
        rows = change.strongest(count=10_000)
        assert sum(row[3] - row[2] for row in rows) == pytest.approx(change.comparison.change, abs=1e-5)
        sizes = [abs(row[3] - row[2]) for row in rows]
        assert sizes == sorted(sizes, reverse=True)
        assert change.to_dict()["truth"] == change.example.target


@pytest.mark.parametrize(
    "settings", [{"pooling": "bilstm"}, {"pairs": "cross-encoder"}], ids=["bilstm", "cross-encoder"]
)
def test_nothing_where_vectors_cannot_be_explained(
    settings: dict[str, str], tiny_folder: Path, tmp_path: Path, run_context: RunContext
) -> None:
    report, _ = trained(tmp_path, tiny_folder, **settings)
    assert training_changes(run_context.load, report) == ()


def test_nothing_without_pairs(tiny_folder: Path, tmp_path: Path, run_context: RunContext) -> None:
    source = Source(str(sentiment_file(tmp_path / "felt.csv", 20)))
    task = TaskConfig("sentiment", (source,), dev=(Source(str(sentiment_file(tmp_path / "dev.csv", 10, 5))),))
    config = TrainConfig((task,), str(tiny_folder), str(tmp_path / "run"), epochs=1)
    report = train_tasks(run_context.load(str(tiny_folder)), read_tasks([task])[0], config)
    assert training_changes(run_context.load, report) == ()


def test_an_unchanged_model_changes_nothing(tiny: Encoder, tmp_path: Path) -> None:
    pairs = read_examples(Source(str(similarity_file(tmp_path / "pairs.csv", 10))), "similarity", None)
    assert [change.comparison.change for change in pair_changes(tiny, replace(tiny), pairs, 2)] == [0, 0]
