"""Tuning: trials, the same after a kill as without one; pruning, failures, refusals, and the config as TOML."""

from __future__ import annotations

import json
import math
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError, MissingExtra, TrainingError, UsageError
from likewise.train import TrainConfig, parse_config, tuning
from likewise.train.runs import RunContext, parse_plan, presets
from likewise.train.trials import TuneReport, TuneSettings
from likewise.train.tuning import tune
from tuning_files import config_text, pairs

optuna = pytest.importorskip("optuna", reason="Optuna is not installed (extra: train)")
QUICK = TuneSettings(trials=3, train_rows=24, epochs=(1, 2))


def run_context() -> RunContext:
    return RunContext(lambda name: Encoder.load(name, device="cpu"))


@pytest.fixture(autouse=True)
def _quick_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies that need not outlive a power cut."""

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made = known(*arguments, **options)
        made.execute("PRAGMA synchronous = OFF")
        return made

    known = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", connect)


@pytest.fixture
def config(tmp_path: Path, tiny_folder: Path) -> TrainConfig:
    return parse_config(config_text(tmp_path, tiny_folder))


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[TrainConfig]:
    """Training without training: the score is how near the learning rate is to 1e-5, and grows with the epochs."""
    seen: list[TrainConfig] = []

    def train(encoder: Any, tasks: Any, config: TrainConfig, *, progress: Any, on_epoch: Any) -> Any:
        seen.append(config)
        for epoch in range(1, config.epochs + 1):
            if progress is not None:
                progress(epoch, config.epochs, f"steps, epoch {epoch}")
            score = 0.1 * epoch - abs(math.log10(config.learning_rate) + 5)
            on_epoch(epoch, score)
        return type("Report", (), {"score": score})

    monkeypatch.setattr(tuning, "train_tasks", train)
    return seen


def summary(report: TuneReport) -> list[tuple[Any, ...]]:
    """All of the trials but the time they took."""
    return [(one.number, dict(one.parameters), one.value, one.state, one.scores) for one in report.trials]


@pytest.mark.slow
def test_trials_are_real_trainings(config: TrainConfig, tmp_path: Path) -> None:
    config = replace(config, out=str(tmp_path / "run"))
    report = tune(run_context(), config, QUICK, tmp_path / "study")
    assert [one.number for one in report.trials] == [0, 1, 2]
    assert report.trials[0].parameters == {
        "learning_rate": 1e-4, "batch": 16, "epochs": 2, "dropout": 0.1, "weight_decay": 0.01
    }  # fmt: skip
    assert report.examples == {"similarity": {"train": 24, "dev": 24}} and report.measure == "similarity spearman"
    assert all(one.state == "complete" and one.value == max(one.scores) and one.seconds > 0 for one in report.trials)
    assert report.best is not None and report.best.value == max(one.value or 0 for one in report.trials)
    assert report.importances == {} and not (tmp_path / "run").exists()
    assert {path.name for path in (tmp_path / "study").iterdir()} <= {"study.db", ".lock"}
    json.dumps(report.to_dict(), allow_nan=False)
    # The first trial is what the config's own training gives.
    with run_context().run(replace(config, out="")) as direct:
        pass
    again = tune(run_context(), config, replace(QUICK, trials=1, train_rows=99), tmp_path / "whole")
    assert again.trials[0].value == direct.score


@pytest.mark.slow
def test_search_is_the_same_with_its_seed(config: TrainConfig, tmp_path: Path, scored: list[TrainConfig]) -> None:
    settings = TuneSettings(trials=12)
    first, second = (tune(run_context(), config, settings, tmp_path / name) for name in "ab")
    other = tune(run_context(), config, replace(settings, seed=2), tmp_path / "c")
    assert summary(first) == summary(second) and summary(first)[1:] != summary(other)[1:]
    assert len({tuple(one.parameters.values()) for one in first.trials}) == 12, "no trial is drawn twice"
    assert sum(first.importances.values()) == pytest.approx(1) and first.importances == second.importances
    for one in first.trials:
        assert 1e-6 <= one.parameters["learning_rate"] <= 2e-4 and one.parameters["batch"] in (16, 32, 64)
        assert 1 <= one.parameters["epochs"] <= 4 and 0 <= one.parameters["dropout"] <= 0.3


@pytest.mark.slow
def test_pruning_ends_trials_below_the_median(config: TrainConfig, tmp_path: Path, scored: list[TrainConfig]) -> None:
    pruned = tune(run_context(), config, TuneSettings(trials=14), tmp_path / "median").trials
    ended = [one for one in pruned if one.state == "pruned"]
    assert ended and all(one.epochs < one.parameters["epochs"] and one.value == one.scores[-1] for one in ended)
    assert all(one.number >= tuning.STARTUP for one in ended)
    none = tune(run_context(), config, TuneSettings(trials=14, pruner="none"), tmp_path / "none").trials
    assert all(one.state == "complete" for one in none)
    hyperband = tune(run_context(), config, TuneSettings(trials=14, pruner="hyperband"), tmp_path / "hyperband").trials
    assert len(hyperband) == 14


def stopping(trial: int) -> Any:
    """A progress callable that stops the work within a trial."""
    current = 0

    def progress(done: int, total: int | None, note: str) -> None:
        nonlocal current
        if note == "trials":
            current = done
        elif current == trial:
            raise Cancelled

    return progress


@pytest.mark.slow
def test_cancelled_study_goes_on(config: TrainConfig, tmp_path: Path, scored: list[TrainConfig]) -> None:
    settings = TuneSettings(trials=7)
    whole = tune(run_context(), config, settings, tmp_path / "whole")
    for trial in (0, 2):
        with pytest.raises(Cancelled):
            tune(run_context(), config, settings, tmp_path / "cut", stopping(trial))
    scored.clear()
    report = tune(run_context(), config, settings, tmp_path / "cut")
    assert summary(report) == summary(whole) and report.interrupted == 2
    assert len(scored) == 5, "finished trials are not done again"
    scored.clear()
    assert summary(tune(run_context(), config, settings, tmp_path / "cut")) == summary(whole) and not scored
    more = tune(run_context(), config, replace(settings, trials=9), tmp_path / "cut")
    assert summary(more)[:7] == summary(whole) and len(more.trials) == 9


@pytest.mark.slow
def test_real_study_goes_on_after_a_cancel(config: TrainConfig, tmp_path: Path) -> None:
    settings = replace(QUICK, trials=4)
    with pytest.raises(Cancelled):
        tune(run_context(), config, settings, tmp_path / "cut", stopping(2))
    resumed = tune(run_context(), config, settings, tmp_path / "cut")
    assert (
        summary(resumed) == summary(tune(run_context(), config, settings, tmp_path / "whole"))
        and resumed.interrupted == 1
    )


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    yield lambda name: optuna.load_study(study_name=tuning.NAME, storage=f"sqlite:///{tmp_path / name / 'study.db'}")


def test_running_trials_in_the_file_are_done_again(
    config: TrainConfig, tmp_path: Path, scored: list[TrainConfig], opened: Any
) -> None:
    settings = TuneSettings(trials=4)
    whole = tune(run_context(), config, settings, tmp_path / "whole")
    tune(run_context(), config, replace(settings, trials=2), tmp_path / "killed")
    study = opened("killed")
    third = dict(whole.trials[2].parameters)
    space = study.trials[0].distributions
    study.enqueue_trial(third)
    assert study.ask(space).params == third
    study.ask()  # One more, killed before it had a value.
    report = tune(run_context(), config, settings, tmp_path / "killed")
    assert summary(report) == summary(whole) and report.interrupted == 2
    assert [one.state.name for one in opened("killed").trials] == ["COMPLETE"] * 2 + ["FAIL"] * 2 + ["COMPLETE"] * 2


def test_trial_without_a_loss_fails_and_the_study_goes_on(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from likewise.train.heads import LOSSES

    known = LOSSES["scaled-mse"]
    monkeypatch.setitem(LOSSES, "scaled-mse", lambda said, wanted: known(said, wanted) * float("nan"))
    broken = tune(run_context(), config, replace(QUICK, trials=1), tmp_path / "study")
    assert [(one.state, one.value, one.epochs) for one in broken.trials] == [("failed", None, 0)]
    assert "loss of similarity is nan" in broken.trials[0].error and broken.best is None
    with pytest.raises(TrainingError, match="no trial was completed; lower"):
        broken.best_config()
    monkeypatch.undo()
    report = tune(run_context(), config, QUICK, tmp_path / "study")
    assert [one.state for one in report.trials] == ["failed", "complete", "complete"]
    assert report.best in report.trials[1:] and report.interrupted == 0


def test_other_settings_or_data_are_refused(config: TrainConfig, tmp_path: Path, scored: list[TrainConfig]) -> None:
    folder = tmp_path / "study"
    tune(run_context(), config, QUICK, folder)
    with pytest.raises(UsageError, match=r"study with other pruner, dropout; give it what it had, or another out"):
        tune(run_context(), config, replace(QUICK, pruner="none", dropout=(0.0, 0.1)), folder)
    with pytest.raises(UsageError, match=r"study with other clip of the config; "):
        tune(run_context(), replace(config, clip=2.0), QUICK, folder)
    tune(run_context(), replace(config, out="elsewhere"), QUICK, folder)
    pairs(tmp_path / "dev.csv", 24, 9)
    with pytest.raises(UsageError, match="study with other data or weights of the model; "):
        tune(run_context(), config, QUICK, folder)
    (folder / "study.db").write_text("no database" * 99)
    with pytest.raises(DataError, match=r"study\.db is no study that can be read; delete it"):
        tune(run_context(), config, QUICK, folder)


def test_only_what_matters_is_searched(tmp_path: Path, tiny_folder: Path, tiny: Encoder) -> None:
    config = parse_config(config_text(tmp_path, tiny_folder))
    always = {"batch", "epochs", "weight_decay"}
    changed = {
        "cosine": (config, {"learning_rate", "dropout"}),
        "head": (_with_task(config, head="linear"), {"learning_rate", "dropout", "head_learning_rate"}),
        "qkv": (_with_task(config, pooling="qkv"), {"learning_rate", "dropout", "head_learning_rate"}),
        "bilstm": (
            replace(_with_task(config, pooling="bilstm"), freeze="all"), {"head_learning_rate", "lstm"}
        ),
    }  # fmt: skip
    for name, (one, also) in changed.items():
        assert set(tuning._searched(one, tiny)) == always | also, name


def _with_task(config: TrainConfig, **changes: Any) -> TrainConfig:
    return replace(config, tasks=(replace(config.tasks[0], **changes),))


def test_config_outside_of_the_ranges_is_moved_in(
    config: TrainConfig, tmp_path: Path, scored: list[TrainConfig]
) -> None:
    config = replace(config, batch=8, epochs=25, dropout=0.5, samples=4000, selection=10)
    report = tune(run_context(), config, replace(QUICK, trials=1), tmp_path / "study")
    assert report.moved == {"batch": (8, 16), "epochs": (25, 2), "dropout": (0.5, 0.3)}
    assert (scored[0].batch, scored[0].epochs, scored[0].dropout) == (16, 2, 0.3)
    assert (scored[0].samples, scored[0].selection, scored[0].out) == (24, None, "")
    assert report.examples["similarity"]["dev"] == 10
    assert (report.best_config().samples, report.best_config().selection) == (4000, 10)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pruner": "best"}, "unknown pruner 'best'; choose from median, hyperband, none"),
        ({"trials": 0}, "trials is a whole number from 1 on, got 0"),
        ({"train_rows": 1}, "train-rows is a whole number from 2 on, got 1"),
        ({"dev_rows": 1}, "dev-rows is a whole number from 2 on, got 1"),
        ({"seed": 2**32}, "seed is at most"),
        ({"batch": (16, 16)}, "batch takes different whole numbers"),
        ({"learning_rate": (0.0, 0.1)}, "its lowest is above 0"),
        ({"dropout": (0.5, 0.1)}, "dropout takes a range"),
        ({"epochs": (1, 2.5)}, "epochs takes whole numbers"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match="(?s).*" + said.replace("(", r"\(")):
        TuneSettings(**changes)


def test_dev_files_and_optuna_are_needed(config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="tuning needs dev examples"):
        tune(run_context(), _with_task(config, dev=()), QUICK, tmp_path / "study")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"likewise\[train\]"):
        tune(run_context(), config, QUICK, tmp_path / "study")
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("name", presets())
def test_ready_made_configs_are_written_and_read_back(name: str) -> None:
    for row in parse_plan(presets()[name]).rows:
        assert parse_config(row.config.to_toml("a comment\nof two lines")) == row.config


def test_strange_config_is_written_and_read_back() -> None:
    config = parse_config(
        r"""
        model = "a \"b\" \\ c\u007f\n\t😀 = # [x]"
        freeze = [0, 2]
        dropout = 0
        learning_rate = 1e-05
        pcgrad = true
        patience = 3
        [[task]]
        kind = "paraphrase"
        features = ["product", "cosine"]
        weight = 0.1
        train = [{source = "it's.csv", scale = [1, 5], left = "a b", right = "ü", label = "\"l\""}, "stsb/train"]
        [[task]]
        kind = "sentiment"
        train = {source = "x", text = "t"}
        dev = {source = "y", where = {"my column" = "a.b", "c.d" = "e"}, scores = [1, 2]}
        """
    )
    assert parse_config(config.to_toml()) == config
    assert tomllib.loads(config.to_toml())["task"][1]["dev"][0]["where"] == {"my column": "a.b", "c.d": "e"}
