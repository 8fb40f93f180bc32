"""``likewise duplicates`` and ``mine``: files in, pairs, groups and triplets out; every mistake in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("command_line",)


def document(answer: Any) -> Any:
    assert answer.code == 0 and answer.out.count("\n") == 1, answer
    return json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture
def texts_file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    path.write_text("id,text,year\na,two cats sat,1\nb,the sea is blue,2\nc,two cats sat,3\nd,five cats sat,4\n")
    return path


def test_json(run_tiny: Any, texts_file: Path) -> None:
    found = document(run_tiny("duplicates", texts_file, "--threshold", 0.999, "--json"))
    assert [(pair["left"], pair["right"], pair["score"]) for pair in found["pairs"]] == [("a", "c", 1.0)]
    assert found["pairs"][0]["flags"] == [] and found["pairs"][0]["differences"] == {"left": [], "right": []}
    assert found["groups"] == [["a", "c"]]
    assert (found["n"], found["distinct"], found["removable"]) == (4, 3, 1)


def test_all_pairs_have_their_differences(run_tiny: Any, texts_file: Path) -> None:
    found = document(run_tiny("duplicates", texts_file, "--threshold", -1, "--json"))
    assert len(found["pairs"]) == 4
    flags = {(pair["left"], pair["right"]): pair["flags"] for pair in found["pairs"]}
    assert flags[("a", "d")] == ["number"]
    assert all(set(pair["differences"]) == {"left", "right"} for pair in found["pairs"])


@pytest.mark.slow
def test_folder_page_and_corpus(run_tiny: Any, texts_file: Path, tmp_path: Path) -> None:
    out, rest = tmp_path / "out", tmp_path / "rest.csv"
    answer = run_tiny(
        "duplicates", texts_file, "--threshold", 0.999, "--out", out, "--html", tmp_path / "page.html",
        "--keep", "first", "--write", rest,
    )  # fmt: skip
    assert answer.code == 0 and "rest.csv: 3 of 4 rows" in answer.err and "different texts" in answer.out
    assert rest.read_text() == "id,text,year\na,two cats sat,1\nb,the sea is blue,2\nd,five cats sat,4\n"
    names = {path.name for path in out.iterdir()}
    assert names == {
        "counts.csv", "groups.csv", "pairs.csv", "scores.png", "scores.svg", "index.html", "run.json",
    }  # fmt: skip
    with (out / "groups.csv").open(encoding="utf-8", newline="") as file:
        assert [(row["group"], row["id"]) for row in csv.DictReader(file)] == [("1", "a"), ("1", "c")]
    assert json.loads((out / "run.json").read_text())["settings"]["explain"] == 1000
    assert "Duplicates" in (tmp_path / "page.html").read_text()


def test_the_same_command_again_gives_the_same(run_tiny: Any, texts_file: Path) -> None:
    command = ("duplicates", texts_file, "--threshold", 0.2, "--json")
    assert run_tiny(*command).out == run_tiny(*command).out


def test_flags_of_a_grammar(run_tiny: Any, english_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The dog chased the postman.\nThe postman chased the dog.\n")
    found = document(
        run_tiny("duplicates", tmp_path / "a.txt", "--threshold", 0, "--grammar", english_folder, "--json")
    )
    assert found["pairs"][0]["flags"] == ["role"] and found["rules_left_out"] == []


@pytest.mark.slow
def test_threshold_of_the_files_own_calibration(run_tiny: Any) -> None:
    answer = run_tiny("duplicates", "sample/sentences", "--limit", 80)
    assert answer.code == 2 and "no threshold and no calibration" in answer.err
    assert run_tiny("calibrate", "sample/sentences").code == 0
    how = ("duplicates", "sample/sentences", "--percentile", 0.999, "--explain", 0)
    found = document(run_tiny(*how, "--json"))
    assert found["basis"].startswith("percentile 0.999 by the calibration of sample/sentences")
    assert all(pair["meaning"]["percentile"] >= 0.999 for pair in found["pairs"]) and found["pairs"]
    assert "% of unrelated pairs" in run_tiny(*how).out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "no threshold and no calibration"),
        (["--threshold", 2], "--threshold is a cosine from -1 to 1"),
        (["--threshold", "nan"], "--threshold is a cosine from -1 to 1"),
        (["--threshold", -1, "--max-pairs", 1], "raise --threshold or --max-pairs"),
        (["--threshold", 0.9, "--engine", "tree"], "choose from exact, hnsw, ivf"),
        (["--threshold", 0.9, "--keep", "first"], "--keep and --write go together"),
        (["--threshold", 0.9, "--keep", "last", "--write", "x.csv"], "choose from first, longest"),
        (["--threshold", 0.9, "--keep", "first", "--write", "x.txt"], "no .csv file"),
        (["--threshold", 0.9, "--explain", 5000], "--explain-from"),
        (["--threshold", 0.9, "--grammar", "no_such_pipeline"], "no_such_pipeline"),
        (["--threshold", 0.9, "--calibration", "none.json"], "none.json"),
        (["--percentile", 0.9], "no threshold and no calibration"),
    ],
)
def test_mistakes(run_tiny: Any, texts_file: Path, options: list[object], words: str) -> None:
    answer = run_tiny("duplicates", texts_file, *options)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1) and words in answer.err, answer


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("text\n", "holds no rows"),
        ("id,text\n1,a\n1,b\n", "the id '1' names two texts"),
        ("sentence1,sentence2\na,b\n", "choose a side"),
        ("text\n \n", "the text is empty"),
    ],
)
def test_wrong_files(run_tiny: Any, tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    answer = run_tiny("duplicates", tmp_path / "a.csv", "--threshold", 0.9)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1) and words in answer.err, answer


def test_one_text(run_tiny: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alone\n")
    found = document(run_tiny("duplicates", tmp_path / "a.txt", "--threshold", 0.9, "--json"))
    assert (found["pairs"], found["groups"], found["n"]) == ([], [], 1)
    answer = run_tiny("duplicates", tmp_path / "a.txt", "--threshold", 0.9, "--html", tmp_path / "page.html")
    assert answer.code == 0 and (tmp_path / "page.html").exists()


def test_a_corpus_is_not_overwritten(run_tiny: Any, texts_file: Path) -> None:
    before = texts_file.read_text()
    answer = run_tiny("duplicates", texts_file, "--threshold", 0.9, "--keep", "first", "--write", texts_file)
    assert answer.code == 2 and "not overwritten" in answer.err and texts_file.read_text() == before


@pytest.fixture
def positives(tmp_path: Path) -> Path:
    path = tmp_path / "positives.csv"
    rows = [f"cat {n} sat on mat {n},on mat {n} cat {n} sat" for n in range(12)]
    path.write_text("\n".join(["anchor,positive", *rows, ""]))
    return path


def test_mined_negatives_are_trained_on(run: Any, run_tiny: Any, tiny_folder: Path, positives: Path) -> None:
    out, folder = positives.parent / "mined.csv", positives.parent
    found = document(run_tiny("mine", positives, "--out", out, "--no-filter", "--per-anchor", 2, "--json"))
    assert len(found["triplets"]) == 24 and found["rejected"] == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["negative"] for row in rows] == [one["negative"] for one in found["triplets"]]
    config = f'model = "{tiny_folder}"\nout = "{folder}/run"\nepochs = 1\nbatch = 4\n'
    task = f'[[task]]\nkind = "contrastive"\nviews = "triplets"\ntrain = "{out}"\n'
    (folder / "train.toml").write_text(config + task)
    answer = run("train", folder / "train.toml", "--device", "cpu", "--threads", 1)
    assert answer.code == 0, answer.err
    assert (folder / "run" / "model.safetensors").exists()


def test_a_scored_file_needs_the_score_of_a_match(run_tiny: Any, pairs_file: Path, tmp_path: Path) -> None:
    answer = run_tiny("mine", pairs_file, "--out", tmp_path / "a.csv")
    assert answer.code == 2 and "--min-score" in answer.err and not (tmp_path / "a.csv").exists()
    found = document(run_tiny("mine", pairs_file, "--out", tmp_path / "a.csv", "--min-score", 4, "--json"))
    assert found["anchors"] == 2 and found["texts"] == 8


def test_page_of_mined_negatives(run_tiny: Any, positives: Path, tmp_path: Path) -> None:
    page, figure = tmp_path / "page.html", tmp_path / "figure.png"
    answer = run_tiny("mine", positives, "--out", tmp_path / "a.csv", "--no-filter", "--html", page, "--plot", figure)
    assert answer.code == 0 and "likely matches are not rejected" in answer.err
    assert "Hard negatives" in page.read_text() and figure.stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ranks", "few"], "--ranks is a range such as 1-50"),
        (["--ranks", "9-2"], "ranks go from 1 on"),
        (["--max-probability", 0.5], "needs a calibration"),
        (["--max-probability", 0.5, "--margin", 0.1], "does not go with"),
        (["--per-anchor", 0], "--per-anchor"),
        (["--corpus", "none.txt"], "no file"),
    ],
)
def test_mistakes_in_mining(run_tiny: Any, positives: Path, tmp_path: Path, options: list[object], words: str) -> None:
    answer = run_tiny("mine", positives, "--out", tmp_path / "a.csv", *options)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1) and words in answer.err, answer
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("name", ["positives.csv", "a.txt", "none/a.csv"])
def test_where_nothing_is_written(run_tiny: Any, positives: Path, name: str) -> None:
    before = positives.read_text()
    answer = run_tiny("mine", positives, "--out", positives.parent / name)
    assert answer.code == 2 and answer.err.count("\n") == 1 and positives.read_text() == before
