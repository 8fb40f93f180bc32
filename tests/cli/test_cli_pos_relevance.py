"""``likewise pos-relevance``: what a model's similarities rest on."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from conftest import SHARED
from likewise.lint.pos_relevance import QUARTERS

pytest_plugins = ("command_line",)

pytestmark = pytest.mark.data


def document(answer: Any) -> Any:
    assert answer.code == 0 and answer.out.count("\n") == 1, answer
    return json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.slow
def test_one_setting(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    arguments = ("pos-relevance", "sample/pairs", "--grammar", english_folder, "--limit", 20)
    found = document(run_tiny(*arguments, "--json", "--out", tmp_path / "out", "--plot", tmp_path / "p.svg"))
    assert (found["n"], found["pooling"], found["skipped"]) == (20, "mean", 0)
    assert {"NOUN", "VERB", "PUNCT", "[CLS]", "[SEP]"} <= set(found["relevance"]["classes"])
    assert {name: len(part) for name, part in found["strongest"].items()} == dict.fromkeys(QUARTERS, 10)
    assert sum(level["n"] for level in found["errors"]["levels"]) == 20
    assert len(found["farthest"]) == 10
    tables = {"classes", "bias", "word_pairs", "errors_by_level", "disagreements"}
    assert {path.stem for path in (tmp_path / "out").glob("*.csv")} == tables
    figures = {"classes_summed", "classes_averaged", "errors_by_level"}
    assert {path.stem for path in (tmp_path / "out").glob("*.png")} == figures
    with (tmp_path / "out" / "classes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    noun = next(row for row in rows if row["class1"] == row["class2"] == "NOUN")
    assert float(noun["summed_positive"]) == found["relevance"]["summed"]["positive"][0][0]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["grammar"] == ["en_ud"]
    assert (tmp_path / "p.svg").stat().st_size > 5000


def test_shown_as_tables(run_tiny: Any, english_folder: Path) -> None:
    answer = run_tiny("pos-relevance", "sample/pairs", "--grammar", english_folder, "--limit", 12, "--top", 3)
    assert answer.code == 0
    for words in ("scaled by the largest", "bottom quarter", "squared error by level", "differ most"):
        assert words in " ".join(answer.out.split())


@pytest.mark.slow
def test_two_poolings(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    poolings = ("--pooling", "cls", "--pooling", "mean")
    arguments = ("pos-relevance", "sample/pairs", "--grammar", english_folder, "--limit", 12, *poolings, "--row", 2)
    found = document(run_tiny(*arguments, "--json", "--out", tmp_path))
    assert [one["pooling"] for one in found["settings"]] == ["cls", "mean"]
    assert found["change"]["settings"] == ["cls", "mean"]
    for kind in ("summed", "averaged"):
        assert [len(found["change"][kind][sign]) for sign in ("positive", "negative")] == [10, 10]
    assert list(found["row"]["maps"]) == ["cls", "mean"]
    assert {"change_summed.png", "row_2.png", "changes.csv"} <= {path.name for path in tmp_path.iterdir()}
    shown = run_tiny(*arguments)
    assert "interactions that change most, negative" in " ".join(shown.out.split())


def test_two_models(run: Any, tiny_folder: Path, english_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.symlink_to(tiny_folder)
    models = ("--model", tiny_folder, "--model", other)
    found = document(run("pos-relevance", "sample/pairs", "--grammar", english_folder, "--limit", 5, *models, "--json"))
    assert [one["model"] for one in found["settings"]] == [str(tiny_folder), str(other)]
    assert found["change"]["settings"] == [tiny_folder.name, "other"]
    assert all(one["change"] == 0 for one in found["change"]["summed"]["positive"])


def test_shared_bias_leaves_none(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "short.csv"
    file.write_text("left,right,score\na cat,the cat,4\na dog,red,1\n")
    found = document(run_tiny("pos-relevance", file, "--grammar", english_folder, "--bias", "shared", "--json"))
    bias = found["relevance"]["bias"]
    assert bias["both"] == pytest.approx(0) and bias["positive"] == pytest.approx([0] * len(bias["positive"]))


@pytest.mark.slow
def test_mixed_languages(
    run_tiny: Any, english_folder: Path, german_folder: Path, shared_data: Path, tmp_path: Path
) -> None:
    mixed = ("mstsb/en_test", "--mix", "mstsb/de_test", "--data-dir", shared_data, "--limit", 8, "--row", 3)
    found = document(
        run_tiny(
            "pos-relevance",
            *mixed,
            "--grammar",
            english_folder,
            "--grammar-other",
            german_folder,
            "--json",
            "--out",
            tmp_path,
        )
    )
    assert [one["data"] for one in found["settings"]] == ["mstsb/en_test", "mstsb/en_test x mstsb/de_test"]
    maps = found["row"]["maps"]
    assert list(maps) == ["en-en", "de-de", "en-de"]
    assert maps["en-de"]["left"]["text"] == maps["en-en"]["left"]["text"]
    assert maps["en-de"]["right"]["text"] == maps["de-de"]["right"]["text"]
    assert (tmp_path / "row_3.png").exists()


def test_pairs_without_scores(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "plain.csv"
    file.write_text("left,right\na cat sat,the cat sat\nred,green\n")
    found = document(run_tiny("pos-relevance", file, "--grammar", english_folder, "--json"))
    assert found["errors"] is None and found["farthest"] == []
    assert run_tiny("pos-relevance", file, "--grammar", english_folder).code == 0


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        (("--row", 99), "rows 1 to 5"),
        (("--bias", "none"), "separate, shared"),
        (("--mix", "sample/pairs"), "--grammar-other"),
        (("--pooling", "cls", "--pooling", "mean", "--pooling", "max"), "two settings at most"),
        (("--mix", "sample/pairs", "--grammar-other", SHARED / "models" / "en_ud"), "is the file itself"),
        (("--pooling", "avg"), "unknown pooling"),
        (("--plot", "figure.gif"), "end it with"),
    ],
)
def test_errors_are_one_line(run_tiny: Any, english_folder: Path, options: tuple[object, ...], cure: str) -> None:
    answer = run_tiny("pos-relevance", "sample/pairs", "--grammar", english_folder, "--limit", 5, *options)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert cure in answer.err


def test_missing_grammar(run_tiny: Any) -> None:
    answer = run_tiny("pos-relevance", "sample/pairs", "--grammar", "./nowhere")
    assert answer.code == 2 and "python -m spacy download" in answer.err
