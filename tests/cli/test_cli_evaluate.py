"""``likewise evaluate sts``: cosines against human scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from likewise.data import read_scored_pairs
from likewise.encoder import Encoder
from likewise.evaluation.sts import evaluate_sts

pytest_plugins = ("command_line",)

Sts = Callable[..., Any]


@pytest.fixture
def sts(run_tiny: Any) -> Sts:
    """Run ``evaluate sts ... --json`` with the tiny model and read the document."""

    def call(*arguments: object) -> Any:
        answer = run_tiny("evaluate", "sts", *arguments, "--json")
        assert answer.code == 0 and answer.out.count("\n") == 1, answer
        return json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return call


def test_one_result_is_one_object(sts: Sts, tiny: Encoder, tiny_folder: Path, pairs_file: Path) -> None:
    found = sts(pairs_file)
    expected = evaluate_sts(tiny, list(read_scored_pairs(pairs_file)))
    metadata = ["data", "model", "pooling", "n", "truncated", "skipped"]
    assert found.keys() == {*metadata, "spearman", "pearson", "mse", "intervals"}
    assert [found[name] for name in metadata] == [str(pairs_file), str(tiny_folder), "mean", 4, 0, 0]
    for name in ("spearman", "pearson", "mse"):
        assert found[name] == pytest.approx(expected.agreement[name].value, abs=1e-6)
        low, high = found["intervals"][name]
        assert low <= high


def test_several_results_are_a_list(sts: Sts, pairs_file: Path) -> None:
    found = sts(pairs_file, "sample/pairs", "--pooling", "mean", "--pooling", "cls")["results"]
    expected = [(str(pairs_file), "mean", 4), ("sample/pairs", "mean", 60)]
    expected += [(name, "cls", n) for name, _, n in expected]
    assert [(row["data"], row["pooling"], row["n"]) for row in found] == expected
    assert found[1]["spearman"] != found[3]["spearman"]


def test_several_models(run: Any, tiny_folder: Path, tmp_path: Path, pairs_file: Path) -> None:
    other = tmp_path / "other"
    other.symlink_to(tiny_folder)
    models = ("--model", tiny_folder, "--model", other)
    found = json.loads(run("evaluate", "sts", pairs_file, *models, "--json").out)["results"]
    assert [row["model"] for row in found] == [str(tiny_folder), str(other)]
    assert found[0]["pearson"] == found[1]["pearson"]


def test_table(run_tiny: Any, sts: Sts, pairs_file: Path) -> None:
    found, answer = sts(pairs_file), run_tiny("evaluate", "sts", pairs_file)
    assert (answer.code, answer.err) == (0, "")
    for name in ("spearman", "pearson", "mse"):
        low, high = found["intervals"][name]
        assert f"{found[name]:.4f}" in answer.out and f"{low:.4f} to {high:.4f}" in answer.out


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plot(sts: Sts, pairs_file: Path, tmp_path: Path, ending: str) -> None:
    path = tmp_path / "figures" / f"sts.{ending}"
    sts(pairs_file, "sample/pairs", "--plot", path)
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert path.read_bytes().startswith(starts[ending])
    assert path.stat().st_size > 5000
    if ending == "svg":
        ElementTree.parse(path)


def test_plot_ending_is_checked_before_the_work(run_tiny: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def work(*_: Any, **__: Any) -> None:
        pytest.fail("encoded before the ending was checked")

    monkeypatch.setattr(Encoder, "encode_with_stats", work)
    assert run_tiny("evaluate", "sts", "sample/pairs", "--plot", tmp_path / "a.jpg").code == 2


def test_constant_scores_have_no_correlation(sts: Sts, run_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "constant.csv"
    path.write_text("sentence1,sentence2,score\na,b,0.1\nc,d,0.1\ne,f,0.1\n")
    found = sts(path)
    assert found["spearman"] is None and found["pearson"] is None
    assert found["intervals"]["spearman"] == [None, None]
    assert "- to -" in run_tiny("evaluate", "sts", path).out


def test_mix_takes_the_second_texts_from_the_other_file(sts: Sts, pairs_file: Path, tmp_path: Path) -> None:
    german, by_hand = tmp_path / "german.csv", tmp_path / "mixed.csv"
    words = ["die Katze", "das Meer", "rot", "eins zwei"]
    rows = list(read_scored_pairs(pairs_file))
    heading = "sentence1,sentence2,score"
    texts = [f"egal,{word},{row.score}" for word, row in zip(words, rows, strict=True)]
    german.write_text("\n".join([heading, *texts]))
    mixed = [f"{row.left},{word},{row.score}" for word, row in zip(words, rows, strict=True)]
    by_hand.write_text("\n".join([heading, *mixed]))
    found = sts(pairs_file, "--mix", german)
    assert found["data"] == f"{pairs_file} x {german}"
    assert found["pearson"] == sts(by_hand)["pearson"] != sts(pairs_file)["pearson"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [("a,b,5\nc,d,0.5\n", "the second data set has ended"), ("a,b,5\nc,d,3\ne,f,2\ng,h,4\n", "0.5 and 3 differ")],
    ids=["shorter", "other scores"],
)
def test_mix_of_files_that_are_not_parallel(
    run_tiny: Any, pairs_file: Path, tmp_path: Path, rows: str, words: str
) -> None:
    (tmp_path / "other.csv").write_text(f"sentence1,sentence2,score\n{rows}")
    answer = run_tiny("evaluate", "sts", pairs_file, "--mix", tmp_path / "other.csv")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert words in answer.err


def test_mix_never_skips_rows(run_tiny: Any, pairs_file: Path, tmp_path: Path) -> None:
    """A row that is missing on one side would shift all the others."""
    bad = tmp_path / "bad.csv"
    bad.write_text(pairs_file.read_text() + "only one text,,3\n")
    answer = run_tiny("evaluate", "sts", pairs_file, "--mix", bad, "--skip-bad")
    assert answer.code == 2 and "--skip-bad does not go with --mix" in answer.err


def test_bad_rows_are_skipped_and_counted(run_tiny: Any, sts: Sts, pairs_file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text(pairs_file.read_text() + "only one text,,3\na,b,many\n")
    found, good = sts(bad, "--skip-bad"), sts(pairs_file)
    assert (found["n"], found["skipped"], found["pearson"]) == (4, 2, good["pearson"])
    assert f"{bad}: bad rows skipped: 2" in run_tiny("evaluate", "sts", bad, "--skip-bad").err


def test_cut_texts_are_counted_on_stderr(run_tiny: Any, pairs_file: Path, tmp_path: Path) -> None:
    long = tmp_path / "long.csv"
    long.write_text(pairs_file.read_text() + f"{'word ' * 100},short,3\n")
    answer = run_tiny("evaluate", "sts", long, "--json")
    assert json.loads(answer.out)["truncated"] == 1 and answer.out.count("\n") == 1
    assert "texts cut at the limit: 1" in answer.err


def test_names_are_looked_up_in_the_data_folder(sts: Sts, pairs_file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    pairs_file.rename(tmp_path / "mine" / "test.csv")
    assert sts("mine/test", "--data-dir", tmp_path)["n"] == 4


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n", "spearman", "pearson"),
    [
        pytest.param("stsb/test", 1379, 0.8203, 0.8274, marks=pytest.mark.slow),
        pytest.param("sick/test", 4927, 0.7715, 0.8363, marks=pytest.mark.slow),
        ("biosses/all", 100, 0.8125, 0.8413),
    ],
)
def test_bundled_model_reaches_the_known_numbers(
    run: Any, minilm: Encoder, shared_data: Path, name: str, n: int, spearman: float, pearson: float
) -> None:
    answer = run("evaluate", "sts", name, "--data-dir", shared_data, "--threads", "1", "--json")
    found = json.loads(answer.out)
    assert found["n"] == n
    assert found["spearman"] == pytest.approx(spearman, abs=0.0005)
    assert found["pearson"] == pytest.approx(pearson, abs=0.0005)


@pytest.mark.data
@pytest.mark.slow
def test_second_encoder_reaches_the_known_number(run: Any, e5_folder: Path, shared_data: Path) -> None:
    options = ("--model", e5_folder, "--data-dir", shared_data, "--threads", "1", "--json")
    found = json.loads(run("evaluate", "sts", "stsb/test", *options).out)
    assert found["spearman"] == pytest.approx(0.8636, abs=0.001)
