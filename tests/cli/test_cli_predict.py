"""``likewise predict``: a saved folder says what the run itself said, for every kind of task, and its error lines."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import save_file

from answers import one_document, refusal
from likewise.encoder import Encoder
from likewise.train import TrainReport, parse_config, read_tasks, train_tasks
from training_files import task_text, three_kinds

pytest_plugins = ("command_line",)
QUICK = "epochs = 2\nbatch = 8\nlearning_rate = 1e-3\nlstm = 6\nhidden = 12\n"
KINDS = ("similarity", "paraphrase", "sentiment")
CLOSE = 1e-5


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_kinds(tmp_path_factory.mktemp("files"))


def trained(out: Path, model: Path, text: str) -> TrainReport:
    """A run with a folder, and its report, which has the predictions of every dev row."""
    config = parse_config(f"model = '{model}'\nout = '{out}'\n{QUICK}{text}")
    return train_tasks(Encoder.load(config.model, device="cpu"), read_tasks(config.tasks)[0], config)


@pytest.fixture(scope="module")
def multitask(tmp_path_factory: pytest.TempPathFactory, files: Path, tiny_folder: Path) -> tuple[Path, TrainReport]:
    """One folder with a head of each kind; the sentiment task has a name of its own."""
    tasks = (
        task_text(files, "similarity", "head = 'linear'")
        + task_text(files, "paraphrase", "head = 'feed-forward'")
        + task_text(files, "sentiment", "name = 'stars'")
    )
    out = tmp_path_factory.mktemp("runs") / "multi ü#"
    return out, trained(out, tiny_folder, tasks)


@pytest.fixture
def damaged(multitask: tuple[Path, TrainReport], tmp_path: Path) -> Path:
    """A copy of the folder, to be spoilt."""
    return Path(shutil.copytree(multitask[0], tmp_path / "damaged"))


# What it says


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_says_what_the_run_said(
    run: Any, multitask: tuple[Path, TrainReport], files: Path, kind: str
) -> None:
    folder, report = multitask
    file = files / f"{kind}-dev.csv"
    found = one_document(run("predict", folder, file, "--task", kind, "--threads", 1, "--json"))
    name = "stars" if kind == "sentiment" else kind
    expected = report.dev[name]
    assert (found["task"], found["kind"], found["n"], found["skipped"]) == (name, kind, 24, 0)
    rows = found["predictions"]
    assert [tuple(row["texts"]) for row in rows] == [one.texts for one in expected.examples]
    assert [row["id"] for row in rows] == [one.id for one in expected.examples]
    scores = np.array([row["scores"] for row in rows]).reshape(expected.scores.shape)
    assert np.abs(scores - expected.scores).max() < CLOSE
    assert np.abs(np.array([row["predicted"] for row in rows]) - expected.predicted).max() < CLOSE
    if kind != "similarity":
        assert all(type(row["predicted"]) is int for row in rows)


def test_a_table_and_a_limit(run: Any, multitask: tuple[Path, TrainReport], files: Path) -> None:
    order = ("predict", multitask[0], files / "sentiment-dev.csv", "--task", "stars", "--threads", 1)
    shown = run(*order, "--limit", 3)
    first = [one.texts[0] for one in multitask[1].dev["stars"].examples[:4]]
    assert shown.code == 0 and "stars" in shown.out and all(text.strip() in shown.out for text in first[:3])
    assert shown.err == "" and one_document(run(*order, "--limit", 3, "--json"))["n"] == 3


def test_rows_need_no_truth_and_columns_can_be_named(
    run: Any, multitask: tuple[Path, TrainReport], tmp_path: Path
) -> None:
    file = tmp_path / "new.csv"
    file.write_text("key,one,other\nx7,the cat runs,a dog sleeps\nx8,,a dog sleeps\n")
    columns = ("--left-column", "one", "--right-column", "other", "--id-column", "key")
    answer = run("predict", multitask[0], file, "--task", "paraphrase", *columns, "--skip-bad", "--json")
    found = one_document(answer)
    assert [row["id"] for row in found["predictions"]] == ["x7"] and found["skipped"] == 1
    assert "new.csv" in answer.err and answer.err.count("\n") == 1
    refused = refusal(run("predict", multitask[0], file, "--task", "paraphrase", *columns))
    assert "line 3" in refused and "empty" in refused


VARIANTS = {
    "cosine": ("", "mean"),
    "cross-encoder": ("pairs = 'cross-encoder'\npooling = 'cls'", "cls"),
    "bilstm": ("pooling = 'bilstm'", "bilstm"),
    "qkv": ("pooling = 'qkv'", "qkv"),
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_folder_of_the_command_line_is_the_trained_model(
    run: Any, run_tiny: Any, files: Path, tmp_path: Path, variant: str
) -> None:
    more, pooling = VARIANTS[variant]
    config, out = tmp_path / "config.toml", tmp_path / "run"
    config.write_text(QUICK + task_text(files, more=more))
    summary = run_tiny("train", config, "--out", out, "--threads", 1)
    assert summary.code == 0, summary.err
    found = one_document(run("predict", out, files / "similarity-dev.csv", "--threads", 1, "--json"))
    said = {row["id"]: row["predicted"] for row in found["predictions"]}
    shown = json.loads((out / "run.json").read_text(encoding="utf-8"))["results"]["dev"]["similarity"]
    for one in (*shown["best"], *shown["worst"]):
        assert said[one["id"]] == pytest.approx(one["predicted"], abs=CLOSE)
    with (out / "predictions-dev-similarity.csv").open(encoding="utf-8", newline="") as file:
        assert {row["id"]: pytest.approx(float(row["predicted"]), abs=CLOSE) for row in csv.DictReader(file)} == said
    assert Encoder.load(str(out), device="cpu").pooling_config.pooling == pooling
    explained = run("explain", "the cat runs", "a dog sleeps", "--model", out, "--threads", 1, "--json")
    if variant == "bilstm":
        assert "bilstm pooling cannot be explained" in refusal(explained)
    else:
        assert one_document(explained)


@pytest.mark.slow
@pytest.mark.parametrize(
    "poolings",
    [
        pytest.param(("cls", "", ""), id="the model's own beside another"),
        pytest.param(("mean", "qkv", "cls"), id="a learned one that is not the first"),
        pytest.param(("qkv", "bilstm", "mean"), id="two learned ones"),
    ],
)
def test_every_task_keeps_its_pooling(
    run: Any, files: Path, tiny_folder: Path, tmp_path: Path, poolings: tuple[str, ...]
) -> None:
    lines = [f"pooling = '{name}'" if name else "" for name in poolings]
    tasks = "".join(task_text(files, kind, line) for kind, line in zip(KINDS, lines, strict=True))
    report = trained(tmp_path / "run", tiny_folder, tasks)
    for kind in KINDS:
        order = ("predict", tmp_path / "run", files / f"{kind}-dev.csv", "--task", kind, "--threads", 1, "--json")
        scores = np.array([row["scores"] for row in one_document(run(*order))["predictions"]])
        expected = report.dev[kind].scores
        assert np.abs(scores.reshape(expected.shape) - expected).max() < CLOSE, kind


# Mistakes


@pytest.mark.parametrize(
    ("file", "task", "said"),
    [
        ("similarity-dev.csv", (), "choose one of this model's tasks, similarity, paraphrase, stars; got ''"),
        ("similarity-dev.csv", ("--task", "mood"), "similarity, paraphrase, stars; got 'mood'"),
        ("similarity-dev.csv", ("--task", "stars"), "no column for the text; its columns are 'sentence1'"),
        ("sentiment-dev.csv", ("--task", "similarity"), "no column for the left text; its columns are 'sentence'"),
        ("nowhere.csv", ("--task", "similarity"), "nowhere.csv"),
    ],
    ids=["no task", "unknown task", "pairs for sentiment", "texts for similarity", "no file"],
)
def test_mistakes_are_told_in_one_line(
    run: Any,
    multitask: tuple[Path, TrainReport],
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    task: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(files)  # Long paths are shortened in messages.
    assert said in refusal(run("predict", multitask[0], file, *task))


def test_a_file_without_rows_is_told_in_a_line(run: Any, multitask: tuple[Path, TrainReport], tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.touch()
    assert "is empty" in refusal(run("predict", multitask[0], file, "--task", "similarity"))
    file.write_text("sentence1,sentence2\n,\n")
    said = refusal(run("predict", multitask[0], file, "--task", "similarity", "--skip-bad"))
    assert "no row can be used; skipped 1 bad row" in said


def test_other_folders_are_told_in_a_line(run: Any, files: Path, tiny_folder: Path, tmp_path: Path) -> None:
    for folder in (tiny_folder, tmp_path, tmp_path / "nowhere", files / "similarity-dev.csv"):
        said = refusal(run("predict", folder, files / "similarity-dev.csv"))
        assert f"{folder} is no folder of a trained model with heads; give the out of: likewise train" in said


@pytest.mark.parametrize("spoilt", ["junk", "nothing", "another run's", "half"])
def test_damaged_heads_are_told_in_a_line(run: Any, damaged: Path, files: Path, spoilt: str) -> None:
    import torch

    path = damaged / "head.safetensors"
    whole = path.read_bytes()
    path.unlink()
    if spoilt == "another run's":
        save_file({"heads.similarity.line.weight": torch.zeros(3, 3)}, path)
    elif spoilt != "nothing":
        path.write_bytes(b"junk" if spoilt == "junk" else whole[: len(whole) // 2])
    said = refusal(run("predict", damaged, files / "similarity-dev.csv", "--task", "similarity"))
    assert str(path) in said and "train again" in said


DAMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "no training": ({"train": None}, "does not say how the model was trained; train again"),
    "no task": ({"train": {"task": []}}, "no task"),
    "unknown setting": ({"train": {"epoch": 1}}, "unknown setting epoch"),
    "another format": ({"format": 99}, "format 99"),
    "unknown pooling": (
        {"poolings": dict.fromkeys(("similarity", "paraphrase", "stars"), "median")},
        "unknown pooling 'median'; choose from cls",
    ),
    "no table of poolings": ({"poolings": 3}, "does not say how the model was trained; train again"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_settings_are_told_in_a_line(run: Any, damaged: Path, files: Path, damage: str) -> None:
    changes, said = DAMAGES[damage]
    path = damaged / "likewise.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))
    assert said in refusal(run("predict", damaged, files / "similarity-dev.csv", "--task", "similarity"))
    path.write_text("{")
    said = refusal(run("predict", damaged, files / "similarity-dev.csv", "--task", "similarity"))
    assert "is no folder of a trained model" in said


def test_a_task_without_its_pooling_is_told_in_a_line(run: Any, damaged: Path, files: Path) -> None:
    path = damaged / "likewise.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"poolings": {}}))
    said = refusal(run("predict", damaged, files / "similarity-dev.csv", "--task", "similarity"))
    assert "train again" in said


def test_an_unknown_backend_is_refused(run: Any, multitask: tuple[Path, TrainReport], files: Path) -> None:
    file = files / "similarity-dev.csv"
    assert "quantum" in refusal(run("predict", multitask[0], file, "--task", "similarity", "--backend", "quantum"))


def test_limit_of_none_is_a_usage_error(run: Any, multitask: tuple[Path, TrainReport], files: Path) -> None:
    answer = run("predict", multitask[0], files / "similarity-dev.csv", "--task", "similarity", "--limit", 0)
    assert answer.code == 2 and "--limit" in answer.err and "Traceback" not in answer.err
