"""``likewise faithfulness``: tables, one document, a folder of results, and mistakes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import read_pairs
from likewise.encoder import Encoder
from likewise.evaluation.faithfulness import DEFAULT_VARIANTS, PerturbationSettings, conservation, faithfulness

pytest_plugins = ("command_line",)

TWO = ("--method", "bilrp", "--method", "random")


def one_document(out: str) -> Any:
    assert out.endswith("\n") and out.count("\n") == 1
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def refusal(answer: Any) -> str:
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("likewise: ") and answer.err.count("\n") == 1
    return str(answer.err)


@pytest.fixture
def expected(tiny: Encoder, pairs_file: Path) -> Any:
    def run(*variants: str, limit: int | None = None, **settings: Any) -> Any:
        pairs = list(read_pairs(str(pairs_file)))[:limit]
        return faithfulness(tiny, pairs, PerturbationSettings(variants, **settings))

    return run


def test_document(run_tiny: Any, pairs_file: Path, expected: Any, tiny: Encoder) -> None:
    answer = run_tiny("faithfulness", pairs_file, *TWO, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = one_document(answer.out)
    assert found.keys() == {
        "model",
        "pooling",
        "n",
        "fractions",
        "methods",
        "bilrp_against",
        "default_against",
        "conservation",
    }
    study = expected("bilrp", "random")
    for name in ("bilrp", "random"):
        assert found["methods"][name]["aupc"] == pytest.approx(study.areas[name].mean(), abs=1e-5)
        np.testing.assert_allclose(found["methods"][name]["curve"], study.curves[name].mean(0), atol=1e-5)
    texts = ["a cat sat", "the cat sat", "a dog ran", "the sea is blue", "red", "green", "one two three", "one two"]
    assert found["conservation"]["n"] == 8
    assert found["conservation"]["r2"] == pytest.approx(conservation(tiny, texts).to_dict()["r2"], abs=1e-5)


def test_default_methods(run_tiny: Any, pairs_file: Path) -> None:
    found = one_document(run_tiny("faithfulness", pairs_file, "--sentences", "0", "--limit", "2", "--json").out)
    assert set(found["methods"]) == set(DEFAULT_VARIANTS) and "conservation" not in found and "slow" not in found


def test_limit(run_tiny: Any, pairs_file: Path, expected: Any) -> None:
    found = one_document(run_tiny("faithfulness", pairs_file, *TWO, "--limit", "2", "--json").out)
    assert found["n"] == 2 and found["conservation"]["n"] == 4
    assert found["methods"]["bilrp"]["aupc"] == pytest.approx(
        expected("bilrp", limit=2).areas["bilrp"].mean(), abs=1e-5
    )


@pytest.mark.parametrize(
    ("options", "settings"),
    [(("--rank-special",), {"rank_special": True}), (("--seed", "7"), {"seed": 7})],
    ids=lambda one: str(one),
)
def test_settings_reach_the_test(
    run_tiny: Any, pairs_file: Path, expected: Any, options: tuple[str, ...], settings: Any
) -> None:
    command = ("faithfulness", pairs_file, *TWO, "--sentences", "0", "--json")
    found = one_document(run_tiny(*command, *options).out)["methods"]["random"]["curve"]
    np.testing.assert_allclose(found, expected("random", **settings).curves["random"].mean(0), atol=1e-5)
    assert np.abs(np.subtract(found, one_document(run_tiny(*command).out)["methods"]["random"]["curve"])).max() > 1e-3


def test_second_order(run_tiny: Any, pairs_file: Path, expected: Any) -> None:
    command = ("faithfulness", pairs_file, *TWO, "--second-order", "--sentences", "0")
    found = one_document(run_tiny(*command, "--json").out)["second_order"]
    for name, insertion, deletion in expected("bilrp", "random", second_order=True).tables()["second_order"].rows:
        assert found[name] == {
            "insertion": pytest.approx(insertion, abs=1e-5),
            "deletion": pytest.approx(deletion, abs=1e-5),
        }
    assert "insertion, lower is better" in run_tiny(*command).out


def test_slow_method(run_tiny: Any, pairs_file: Path) -> None:
    options = ("--method", "integrated-jacobian", "--jacobian-pairs", "2", "--steps", "2", "--sentences", "0")
    found = one_document(run_tiny("faithfulness", pairs_file, "--method", "hxp", *options, "--json").out)
    assert found["n"] == 4 and found["slow"]["n"] == 2
    assert set(found["slow"]["methods"]) == {"bilrp", "random", "integrated-jacobian"}


def test_tables(run_tiny: Any, pairs_file: Path, expected: Any) -> None:
    answer = run_tiny("faithfulness", pairs_file, *TWO)
    assert (answer.code, answer.err) == (0, "")
    for words in ("AUPC", "lower is better", "p (Wilcoxon)", "R² to the identity", "BiLRP with the bias row"):
        assert words in " ".join(answer.out.split())
    for areas in expected("bilrp", "random").areas.values():
        assert f"{areas.mean():.4f}" in answer.out


@pytest.mark.slow
def test_folder(run_tiny: Any, tiny: Encoder, pairs_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    options = ("--second-order", "--seed", "3", "--rank-special", "--out", out)
    answer = run_tiny("faithfulness", pairs_file, *TWO, *options, "--json")
    assert answer.err == f"likewise: wrote {out}\n"
    figures = {
        f"{name}.{end}" for name in ("curves", "insertion", "deletion", "conservation") for end in ("png", "svg")
    }
    tables = {
        f"{name}.csv" for name in ("methods", "areas", "curves", "second_order", "conservation", "conservation_r2")
    }
    assert {path.name for path in out.iterdir()} == {"run.json", "index.html"} | figures | tables
    run = json.loads((out / "run.json").read_text())
    assert run["settings"]["seed"] == 3 and run["settings"]["rank_special"] is True
    assert run["settings"]["variants"] == ["bilrp", "random"]
    assert run["model_hash"] == tiny.hash and run["model"] == tiny.name
    assert run["data"] == str(pairs_file) and run["pairs"] == 4 and run["reading"]["pooling"] == "mean"
    assert {"likewise", "torch", "python"} <= run["versions"].keys()
    assert run["results"] == one_document(answer.out)
    with (out / "areas.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    own = [float(row["aupc"]) for row in rows if row["method"] == "bilrp"]
    assert np.mean(own) == pytest.approx(run["results"]["methods"]["bilrp"]["aupc"], rel=1e-9) and len(own) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.csv",), "no file 'none.csv'"),
        (("sample/pairs", "--method", "lime"), "unknown method 'lime'; choose from bilrp"),
        (("sample/sentences",), "no column for the left text"),
        (("empty.csv",), "empty.csv"),
    ],
    ids=str,
)
def test_mistakes_are_told_before_the_work(
    run_tiny: Any, arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").write_text("sentence1,sentence2\n")
    monkeypatch.setattr(Encoder, "load", lambda *_, **__: pytest.fail("the model was loaded too soon"))
    assert words in refusal(run_tiny("faithfulness", *arguments))


@pytest.mark.parametrize("option", ["--limit", "--steps", "--jacobian-pairs"])
def test_parser(run_tiny: Any, pairs_file: Path, option: str) -> None:
    answer = run_tiny("faithfulness", pairs_file, option, "0")
    assert (answer.code, answer.out) == (2, "") and option in answer.err


def test_too_few_sentences_are_told_before_the_work(
    run_tiny: Any, pairs_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likewise.evaluation.faithfulness.faithfulness", lambda *_: pytest.fail("the test was run"))
    assert "at least 2 texts" in refusal(run_tiny("faithfulness", pairs_file, "--sentences", "1"))
