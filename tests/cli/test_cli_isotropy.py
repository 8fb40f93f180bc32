"""``likewise isotropy``: one table, JSON, figure and folder."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("command_line",)

NAMES = ["none", "mean-removal", "standardisation", "all-but-the-top", "whitening"]


def test_json(run_tiny: Any, tiny_folder: Path) -> None:
    answer = run_tiny("isotropy", "sample/pairs", "--dim", "4,8", "--k", "1,5", "--min-score", "3", "--json")
    assert answer.code == 0 and answer.out.count("\n") == 1
    found = json.loads(answer.out)
    assert (found["data"], found["model"], found["transductive"]) == ("sample/pairs", str(tiny_folder), True)
    assert [one["setting"] for one in found["settings"]] == [*NAMES, "whitening", "whitening"]
    assert [one["dim"] for one in found["settings"]] == [16, 16, 16, 16, 16, 8, 4]
    assert all(list(one["recall"]) == ["1", "5"] for one in found["settings"]) and found["min_score"] == 3


def test_a_table_says_what_it_was_fitted_on(run_tiny: Any) -> None:
    own = run_tiny("isotropy", "sample/pairs").out
    for word in (
        *NAMES,
        "baseline",
        "IsoScore",
        "Spearman",
        "R@1",
        "R@10",
        "(transductive)",
        "score of at least 4 are queries",
    ):
        assert word in " ".join(own.split())
    others = " ".join(run_tiny("isotropy", "sample/pairs", "--fit", "sample/sentences").out.split())
    assert "fitted on sample/sentences (300 texts)" in others and "transductive" not in others


def test_how_vectors_are_read(run_tiny: Any) -> None:
    def first(*options: object) -> Any:
        return json.loads(run_tiny("isotropy", "sample/pairs", "--json", *options).out)

    assert first("--layer", "1")["layer"] == 1 and first("--pooling", "cls")["pooling"] == "cls"
    assert first("--remove", "3")["settings"][3]["removed"] == 3
    assert first("--truncate-dim", "8")["settings"][0]["dim"] == 8


def test_several_models_in_one_document(run_tiny: Any, tiny_folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_folder, tmp_path / "other")
    answer = run_tiny("isotropy", "sample/pairs", "--json", "--model", other)
    assert len(json.loads(answer.out)["results"]) == 2


@pytest.mark.slow
def test_folder_and_figure(run_tiny: Any, tmp_path: Path) -> None:
    out, plot = tmp_path / "out", tmp_path / "figure.svg"
    answer = run_tiny("isotropy", "sample/pairs", "--dim", "4", "--out", out, "--plot", plot)
    assert answer.code == 0 and f"wrote {out}" in answer.err and plot.stat().st_size > 1000
    assert {path.name for path in out.iterdir()} == {
        "run.json", "isotropy.csv", "isotropy.png", "isotropy.svg", "index.html",
    }  # fmt: skip
    run = json.loads((out / "run.json").read_text())
    assert run["command"].startswith("likewise isotropy sample/pairs") and run["results"]["n"] == 60
    assert {"versions", "time", "seconds", "reading", "options"} <= run.keys()
    rows = list(csv.DictReader((out / "isotropy.csv").open()))
    assert len(rows) == 6 and float(rows[0]["Spearman_low"]) <= float(rows[0]["Spearman"])
    page = (out / "index.html").read_text()
    assert "<svg" in page and "transductive" in page and "http" not in page


def test_skipped_rows_cut_texts_and_few_texts_are_told(run_tiny: Any, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text(f"sentence1,sentence2,score\na,b,1\nc,,2\n{'word ' * 100},d,3\n")
    answer = run_tiny("isotropy", file, "--skip-bad", "--json")
    assert json.loads(answer.out)["skipped"] == 1
    assert "bad rows skipped: 1, texts cut at the limit: 1" in answer.err
    assert "4 texts cannot fill 16 dimensions" in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dim", "many"), "--dim takes numbers as 1,5,10, not 'many'"),
        (("--dim", "17"), "whitening can keep 1 to 16 dimensions, not 17"),
        (("--k", "0"), "k from 1 on, not 0"),
        (("--remove", "16"), "all-but-the-top can remove 0 to 15 directions, not 16"),
        (("--min-score", "99"), "no pair has score >= 99"),
        (("--fit", "nowhere"), "no data set 'nowhere'"),
        (("--plot", "figure.txt"), "cannot draw to 'figure.txt'"),
    ],
)
def test_mistakes_are_one_line(run_tiny: Any, options: tuple[str, ...], message: str) -> None:
    answer = run_tiny("isotropy", "sample/pairs", *options)
    assert answer.code == 2 and message in answer.err and answer.err.count("\n") == 1 and answer.out == ""


def test_pairs_without_scores_are_refused(run_tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("sentence1,sentence2\na,b\nc,d\n")
    answer = run_tiny("isotropy", tmp_path / "pairs.csv")
    assert answer.code == 2 and "no column for the score" in answer.err
