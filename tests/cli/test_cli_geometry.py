"""``likewise geometry``: its JSON, its folder, its page and its error lines."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal

pytest_plugins = ("command_line",)

QUICK = ("--min-contexts", 3, "--draws", 10, "--threads", 1)


@pytest.fixture
def found(run_tiny: Any) -> dict[str, Any]:
    return one_document(run_tiny("geometry", "sample/pairs", *QUICK, "--words", "The,train", "--json"))


def test_json_holds_every_measure_of_every_layer(found: dict[str, Any]) -> None:
    assert [layer["layer"] for layer in found["layers"]] == [0, 1, 2]
    for layer in found["layers"]:
        assert set(layer["mev"]) == set(layer["mev_baseline"]) == {"formula", "pca", "svd"}
        assert set(layer["corrected"]) == {"mean-removal", "standardisation", "all-but-the-top", "whitening"}
        assert abs(layer["corrected"]["mean-removal"]["baseline"]) < 0.2 * layer["baseline"]
        assert layer["intervals"]["mev"]["pca"][0] <= layer["mev"]["pca"] <= layer["intervals"]["mev"]["pca"][1]
        for name in ("baseline", "self_similarity", "intra_similarity", "isoscore", "effective_rank"):
            low, high = layer["intervals"][name]
            assert low <= layer[name] <= high, name
        assert layer["self_similarity_adjusted"] == pytest.approx(layer["self_similarity"] - layer["baseline"])
        assert layer["rogue"]["top1"] <= layer["rogue"]["top3"] and len(layer["rogue"]["dimensions"]) == 3
        assert layer["clusters"]["clusters"] == 10 and layer["intrinsic_dimension"] > 0
    assert len(found["cka"]) == 3 and found["cka"][1][1] == 1.0


def test_chosen_words_come_with_their_contexts(found: dict[str, Any]) -> None:
    assert [word["word"] for word in found["words"]["chosen"]] == ["the", "train"]
    assert all(word["n"] >= 2 and len(word["mev"]["formula"]) == 3 for word in found["words"]["chosen"])
    assert {"highest", "lowest"} == set(found["words"]["self_similarity"])


@pytest.mark.slow
def test_folder_holds_tables_figures_and_a_page(run_tiny: Any, tmp_path: Path) -> None:
    answer = run_tiny("geometry", "sample/pairs", *QUICK, "--words", "the", "--out", tmp_path / "out")
    assert answer.code == 0 and "wrote" in answer.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    figures = {f"{name}.{end}" for name in ("measures", "corrected", "words", "alignment") for end in ("png", "svg")}
    readable = ("similarities", "explained_variance", "isotropy", "corrected", "word_extremes", "chosen_words")
    tables = {f"{name}.csv" for name in ("layers", "words", "rogue", "cka", *readable)}
    assert names == figures | tables | {"run.json", "index.html"}
    with (tmp_path / "out" / "layers.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = json.loads((tmp_path / "out" / "run.json").read_text())["results"]
    [baseline] = [row for row in rows if (row["space"], row["layer"], row["measure"]) == ("raw", "2", "baseline")]
    assert float(baseline["value"]) == pytest.approx(found["layers"][2]["baseline"])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4 and "http" not in page


def test_screen_shows_layers_and_words(run_tiny: Any) -> None:
    answer = run_tiny("geometry", "sample/sentences", *QUICK, "--no-corrections")
    assert answer.code == 0
    assert "baseline" in answer.out and "MEV (formula)" in answer.out and "After corrections" not in answer.out


@pytest.mark.slow
def test_several_models_in_one_document(run: Any, tiny_folder: Path, tmp_path: Path) -> None:
    from conftest import save_tiny

    other = save_tiny(tmp_path / "other", seed=3)
    models = ("--model", tiny_folder, "--model", other, "--plot", tmp_path / "both.svg", "--html", tmp_path / "p.html")
    found = one_document(run("geometry", "sample/pairs", *QUICK, *models, "--no-corrections", "--json"))
    assert [one["model"] for one in found["results"]] == [str(tiny_folder), str(other)]
    assert (tmp_path / "both.svg").stat().st_size > 1000
    assert "other" in (tmp_path / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--words", "zebra"), "the word 'zebra' stands in 0 of the"),
        (("--words", "a,,b"), "a word to draw is empty"),
        (("--min-contexts", 900), "no word stands in 900 different texts"),
        (("--min-contexts", 1), "min-contexts must be at least 2, got 1"),
        (("--plot", "curves.gif"), "cannot draw to 'curves.gif'"),
        (("--backend", "onnx"), "only the backend torch shows what the layers hold"),
    ],
)
def test_mistakes_are_told_in_a_line(run_tiny: Any, options: tuple[object, ...], said: str) -> None:
    assert said in refusal(run_tiny("geometry", "sample/pairs", *options))


def test_missing_file_is_told(run_tiny: Any) -> None:
    assert "nowhere" in refusal(run_tiny("geometry", "nowhere.csv"))
