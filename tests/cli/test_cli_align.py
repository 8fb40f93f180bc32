"""``likewise align``, ``differences`` and ``evaluate alignment``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("command_line",)

ROW = {"left": ["the", "man"], "right": ["a", "man"], "links": [{"left": [0, 1], "right": [0, 1], "type": "EQUI"}]}
OTHER = {"left": ["a", "dog"], "right": ["the", "sea"], "links": [{"left": [0], "right": [0], "type": "EQUI"}]}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_align(run_tiny: Any, tmp_path: Path) -> None:
    answer = run_tiny("align", "the man is out", "a man, the sea", "--html", tmp_path / "a.html")
    assert answer.code == 0 and "words and their partners" in answer.out
    assert "frames are links" not in answer.out and "<svg" in (tmp_path / "a.html").read_text()
    found = json.loads(run_tiny("align", "the man is out", "a man, the sea", "--json", "--threshold", "0").out)
    assert found["threshold"] == 0 and found["links"] and "ledger" in found
    assert all(set(link) == {"left", "right", "score"} and len(link["left"]) == 2 for link in found["links"])
    short = json.loads(run_tiny("align", "the man", "a man", "--json", "--no-ledger").out)
    assert "ledger" not in short
    assert run_tiny("align", "the man", "a man", "--plot", tmp_path / "a.png").code == 0


def test_differences(run_tiny: Any, tmp_path: Path) -> None:
    answer = run_tiny("differences", "the man is out", "the sea", "--html", tmp_path / "d.html")
    assert answer.code == 0 and "what 1 - cosine is the sum of" in answer.out and (tmp_path / "d.html").exists()
    found = json.loads(run_tiny("differences", "the man is out", "", "--json").out)
    (span,) = found["left"]
    assert (span["start"], span["end"], span["text"], span["kind"]) == (0, 14, "the man is out", "unmatched")


@pytest.mark.slow
def test_evaluation(run_tiny: Any, tmp_path: Path) -> None:
    file, train = write(tmp_path / "own.jsonl", ROW, OTHER, ROW), write(tmp_path / "train.jsonl", ROW, OTHER)
    options = ("--method", "context", "--method", "layer-1")
    found = json.loads(run_tiny("evaluate", "alignment", file, "--train", train, *options, "--json").out)
    assert found["n"] == 3 and found["chosen"] in ("context", "layer-1")
    assert {"auc", "ap", "top1", "f1"} <= found["methods"]["context"].keys()
    out = tmp_path / "out"
    assert run_tiny("evaluate", "alignment", file, *options, "--out", out).code == 0
    assert (out / "methods.csv").exists() and (out / "alignment.svg").exists() and (out / "index.html").exists()
    several = json.loads(run_tiny("evaluate", "alignment", file, train, *options, "--json").out)
    assert [one["n"] for one in several["results"]] == [3, 2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("align", "a", "b", "--threshold", "nan"), "a threshold is a number above -1"),
        (("align", "a", "b", "--granularity", "letter"), "cannot explain by 'letter'"),
        (("differences", "a", "b", "--plot", "d.png"), "differences have no figure"),
        (("evaluate", "alignment", "nowhere.jsonl"), "no file 'nowhere.jsonl'"),
        (("evaluate", "alignment", "sample/pairs"), "alignments are JSON lines"),
    ],
)
def test_one_line_errors(run_tiny: Any, arguments: tuple[str, ...], words: str) -> None:
    answer = run_tiny(*arguments)
    assert answer.code == 2 and words in answer.err and answer.err.count("\n") == 1 and answer.out == ""


def test_bad_rows(run_tiny: Any, tmp_path: Path) -> None:
    file = write(tmp_path / "own.jsonl", ROW, {"left": "a"}, OTHER)
    answer = run_tiny("evaluate", "alignment", file, "--method", "context")
    assert answer.code == 2 and "line 2, column 'left': expected a list of words" in answer.err
    found = json.loads(run_tiny("evaluate", "alignment", file, "--method", "context", "--skip-bad", "--json").out)
    assert found["n"] == 2 and found["skipped"] == 1
    (tmp_path / "empty.jsonl").write_text("")
    assert "is empty" in run_tiny("evaluate", "alignment", tmp_path / "empty.jsonl").err
