"""``likewise tune``: its folder, its JSON, a best config that trains, and its error lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal
from likewise.train import parse_config
from tuning_files import config_text

pytest_plugins = ("command_line",)
pytest.importorskip("optuna", reason="Optuna is not installed (extra: train)")
QUICK = ("--trials", 2, "--train-rows", 20, "--threads", 1)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(config_text(tmp_path, Path("no such model"), more=f"out = '{tmp_path / 'run'}'"))
    return path


@pytest.mark.slow
def test_folder_and_best_config(run: Any, run_tiny: Any, config: Path, tmp_path: Path) -> None:
    out = tmp_path / "a ü#?"
    answer = run_tiny("tune", config, "--out", out, *QUICK, "--dev-rows", 10)
    assert answer.code == 0 and f"wrote {out}" in answer.err
    assert "similarity spearman on dev" in answer.out and "best: trial" in answer.out
    names = {"study.db", "best.toml", "trials.csv", "best.csv", "run.json", "index.html"}
    figures = {f"{name}.{ending}" for name in ("history", "slice", "parallel", "epochs") for ending in ("png", "svg")}
    assert {path.name for path in out.iterdir()} - {".lock"} == names | figures
    best = parse_config((out / "best.toml").read_text(encoding="utf-8"))
    assert best.out == str(tmp_path / "run") and best.model.endswith("tiny")
    trained = one_document(run("train", out / "best.toml", "--threads", 1, "--json"))
    assert trained["config"]["learning_rate"] == best.learning_rate
    assert (tmp_path / "run" / "likewise.json").exists()


@pytest.mark.slow
def test_json_goes_on_with_more_trials(
    run_tiny: Any, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likewise.train.trials._plots", lambda report: {})  # They take longer than the trials.
    first = one_document(run_tiny("tune", config, "--out", tmp_path / "o", *QUICK, "--pruner", "none", "--json"))
    options = (*QUICK, "--pruner", "none", "--trials", 3, "--json")
    more = one_document(run_tiny("tune", config, "--out", tmp_path / "o", *options))
    assert more["trials"][:2] == first["trials"] and len(more["trials"]) == 3
    assert more["best"]["value"] == max(one["value"] for one in more["trials"])
    said = refusal(run_tiny("tune", config, "--out", tmp_path / "o", *QUICK, "--seed", 2))
    assert "holds a study with other seed, pruner; give it what it had, or another out" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--pruner", "best"), "unknown pruner 'best'; choose from median, hyperband, none"),
        (("--trials", 0), "trials is a whole number from 1 on"),
        (("--train-rows", 1), "train-rows is a whole number from 2 on"),
    ],
)
def test_mistakes_are_told_in_a_line(
    run_tiny: Any, config: Path, tmp_path: Path, options: tuple[object, ...], said: str
) -> None:
    assert said in refusal(run_tiny("tune", config, "--out", tmp_path / "o", *options))
    assert not (tmp_path / "o").exists()


def test_config_must_be_one_run(run_tiny: Any, config: Path, tmp_path: Path) -> None:
    assert "is no TOML file that can be read" in refusal(run_tiny("tune", "nowhere.toml", "--out", tmp_path / "o"))
    config.write_text(config.read_text() + "[[row]]\nname = 'one'\n")
    assert "is a table of runs; leave its [[row]]" in refusal(run_tiny("tune", config, "--out", tmp_path / "o"))


def test_missing_optuna_names_the_extra(
    run_tiny: Any, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    said = refusal(run_tiny("tune", config, "--out", tmp_path / "o"))
    assert 'optuna is not installed; run: pip install "likewise[train]"' in said
