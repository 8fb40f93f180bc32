"""The folder and the page of a search: exact numbers, a config that is read back, figures where there are trials."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from likewise.train import TrainConfig, parse_config
from likewise.train.trials import FIGURES, TuneReport, TuneSettings, TuneTrial

optuna = pytest.importorskip("optuna", reason="Optuna is not installed (extra: train)")
matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: plots)")
SPACE = {
    "learning_rate": optuna.distributions.FloatDistribution(1e-6, 1e-3, log=True),
    "batch": optuna.distributions.CategoricalDistribution((16, 32)),
    "epochs": optuna.distributions.IntDistribution(1, 4),
}


def report(states: str, importances: dict[str, float]) -> TuneReport:
    """Trials by their states' first letters: complete, pruned, failed."""
    study, trials = optuna.create_study(direction="maximize"), []
    for place, state in enumerate(states):
        values = {"learning_rate": 1e-6 * 3**place, "batch": (16, 32)[place % 2], "epochs": 2}
        scores = () if state == "f" else (0.1 * place, 0.1 * place + 0.05)[: 2 if state == "c" else 1]
        made = optuna.create_trial(
            params=values, distributions=SPACE, value=scores[-1] if state == "c" else None,
            intermediate_values=dict(enumerate(scores, start=1)),
            state=optuna.trial.TrialState.COMPLETE if state == "c" else optuna.trial.TrialState.PRUNED,
        )  # fmt: skip
        study.add_trial(made)
        name = {"c": "complete", "p": "pruned", "f": "failed"}[state]
        error = "the loss is <nan>; lower learning_rate" if state == "f" else ""
        trials.append(TuneTrial(place, values, scores[-1] if scores else None, name, scores, 1.5, error))
    return TuneReport(
        config(), TuneSettings(trials=len(states)), "0" * 64, {"similarity": {"train": 40, "dev": 24}}, (),
        {"batch": (8, 16)}, 1, tuple(trials), importances, study,
    )  # fmt: skip


def config() -> TrainConfig:
    return parse_config("model = 'a<b'\nbatch = 8\n[[task]]\nkind = 'similarity'\ntrain = 'x'\ndev = 'y'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    style = dict(matplotlib.rcParams)
    found = report("cccpfc", {"learning_rate": 0.6, "batch": 0.3, "epochs": 0.1})
    written = found.save(tmp_path_factory.mktemp("t") / "new", {"command": "likewise tune"})
    assert dict(matplotlib.rcParams) == style, "Optuna's style stays with its figures"
    assert not matplotlib.pyplot.get_fignums()
    return written


@pytest.mark.slow
def test_everything_is_written(folder: Path) -> None:
    files = {path.name for path in folder.iterdir()} - {".lock"}
    figures = {f"{name}.{ending}" for name in FIGURES for ending in ("png", "svg")}
    assert files == {"run.json", "best.toml", "trials.csv", "best.csv", "index.html"} | figures
    document = json.loads((folder / "run.json").read_text())["results"]
    assert document["best"]["number"] == 5 and len(document["trials"]) == 6
    assert document["trials"][4]["value"] is None and document["trials"][4]["state"] == "failed"


def test_best_config_and_trials_are_read_back(folder: Path) -> None:
    text = (folder / "best.toml").read_text()
    assert text.startswith("# The best that likewise tune found on 40 examples: trial 5 of 6, similarity spearman 0.55")
    assert parse_config(text) == replace(config(), learning_rate=1e-6 * 3**5, batch=32, epochs=2)
    with (folder / "trials.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["learning_rate"]) for row in rows] == [1e-6 * 3**place for place in range(6)]
    assert rows[4]["score"] == "" and float(rows[5]["score"]) == 0.55


def test_page_tells_it_without_a_network(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert page.count("<img ") == len(FIGURES) and "http" not in page
    assert (
        "Tuning: a&lt;b" in page
        and "the loss is &lt;nan&gt;" in page
        and "batch 8 of the config is outside of what is searched; the first trial has 16" in page
    )
    assert "4 complete, 1 pruned, 1 failed" in page and "has 0.0500; the best has 0.5500" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("states", "names"), [("f", set()), ("p", {"epochs"}), ("c", {"history", "epochs"}), ("cc", set(FIGURES))]
)
def test_few_trials_have_fewer_figures(states: str, names: set[str], tmp_path: Path) -> None:
    found = report(states, {})
    for old in ("history.png", "mine.png"):
        (tmp_path / old).write_text("old")
    found.save(tmp_path)
    drawn: set[Any] = {path.stem for path in tmp_path.iterdir() if path.suffix in (".png", ".svg")}
    assert drawn == (names - {"importances"}) | {"mine"}
    assert (tmp_path / "best.toml").exists() == ("c" in states)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert ("No trial was completed" in page) == ("c" not in states)
