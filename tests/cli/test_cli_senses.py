"""``likewise senses``: tables, JSON, figure and folder."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("command_line",)

HEADER = "sentence,sense,word,word_index"
ROWS = [
    "we rob a bank,money,bank,3", "the bank lends,money,bank,1", "sit on the bank,shore,bank,3",
    "a bank of mud,shore,bank,1", "the crane sings,bird,crane,1", "a crane lifts it,machine,crane,1",
    "one crane can fly,bird,crane,1",
]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "test.csv", tmp_path / "train.csv"
    paths[0].write_text("\n".join([HEADER, *ROWS, ""]))
    paths[1].write_text("\n".join([HEADER, *(row.replace("the ", "that ") for row in ROWS), ""]))
    return paths


def test_json(run_tiny: Any, files: tuple[Path, Path], tiny_folder: Path) -> None:
    answer = run_tiny("senses", files[0], "--json")
    assert answer.code == 0 and answer.out.count("\n") == 1
    found = json.loads(answer.out)
    assert (found["model"], found["n"], found["train"]) == (str(tiny_folder), 7, None)
    assert [layer["layer"] for layer in found["layers"]] == [0, 1, 2]
    assert [(word["word"], word["senses"]) for word in found["words"]] == [("bank", 2), ("crane", 2)]
    assert found["baseline_accuracy"] == pytest.approx(4 / 7)


def test_train_words_limit_and_way(run_tiny: Any, files: tuple[Path, Path]) -> None:
    options = ("--train", files[1], "--words", "crane", "--limit", "2", "--nearest", "centroid", "--json")
    found = json.loads(run_tiny("senses", files[0], *options).out)
    assert (found["n"], found["train"], found["by"]) == (2, str(files[1]), "centroid")


def test_tables(run_tiny: Any, files: tuple[Path, Path]) -> None:
    shown = " ".join(run_tiny("senses", files[0]).out.split())
    for word in (
        "same sense",
        "other senses",
        "macro-accuracy",
        "most frequent",
        "crane",
        "all",
        "Words at the best layer",
    ):
        assert word in shown
    assert "nearest neighbour among the other occurrences" in shown


@pytest.mark.slow
def test_folder_and_figure(run_tiny: Any, files: tuple[Path, Path], tiny_folder: Path, tmp_path: Path) -> None:
    out, plot = tmp_path / "out", tmp_path / "figure.svg"
    other = shutil.copytree(tiny_folder, tmp_path / "other")
    answer = run_tiny("senses", files[0], "--out", out, "--plot", plot, "--model", other)
    assert answer.code == 0 and f"wrote {out}" in answer.err and plot.stat().st_size > 1000
    names = {"run.json", "layers.csv", "best_layer.csv", "words.csv", "senses.png", "senses.svg", "index.html"}
    assert {path.name for path in out.iterdir()} == names
    run = json.loads((out / "run.json").read_text())
    assert run["command"].startswith("likewise senses") and len(run["results"]["results"]) == 2
    layers, words = (list(csv.DictReader((out / f"{name}.csv").open())) for name in ("layers", "words"))
    assert len(layers) == 2 * 3 and {"within", "within_low", "macro_accuracy_high"} <= layers[0].keys()
    assert len(words) == 2 * 2 * 3 and words[0]["word"] == "bank"
    page = (out / "index.html").read_text()
    assert "<svg" in page and "http" not in page


def test_what_is_left_out_is_told(run_tiny: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    odd = ["a bank,x,bank,9", f"{'word ' * 100}bank,money,bank,100", "an arm,limb,arm,1", "on my way,money,bank,1"]
    file.write_text("\n".join([HEADER, *ROWS, *odd, ""]))
    answer = run_tiny("senses", file, "--skip-bad", "--json")
    found = json.loads(answer.out)
    assert (found["skipped"], found["cut"], found["unanswered"], found["misspelt"]) == (1, 1, 1, 1)
    assert "bad rows skipped: 1" in answer.err
    assert "words cut at the limit: 1, without another to compare with: 1" in answer.err
    assert "words whose index leads to another word: 1; does word_index count from 0?" in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nearest", "far"), "unknown way 'far' to find the nearest; choose from centroid, neighbour"),
        (("--words", "apple"), "no word 'apple' (--words); there are bank, crane"),
        (("--train", "nowhere"), "no data set 'nowhere'"),
        (("--plot", "figure.txt"), "cannot draw to 'figure.txt'"),
    ],
)
def test_mistakes_are_one_line(run_tiny: Any, files: tuple[Path, Path], options: Any, message: str) -> None:
    answer = run_tiny("senses", files[0], *options)
    assert answer.code == 2 and message in answer.err and answer.err.count("\n") == 1 and answer.out == ""


def test_a_bad_row_names_its_line(run_tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{HEADER}\na bank,money,bank,4\n")
    answer = run_tiny("senses", tmp_path / "a.csv")
    assert answer.code == 2 and "line 2, column 'word_index': the text has words 0 to 1, not 4.0" in answer.err
