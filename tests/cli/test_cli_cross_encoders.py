"""Cross-encoders on the command line: explain, similarity, evaluate, lint; and commands that take none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import CrossEncoder
from likewise.explain.cross_encoder import explain_cross_encoder
from tiny_cross_encoders import save_cross_encoder, tiny_classifier

pytest_plugins = ("command_line",)

LEFT, RIGHT = "the man is out", "a man is in"
PAIR = ("explain", LEFT, RIGHT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cross_encoder(tmp_path_factory.mktemp("models") / "cross", tiny_classifier("bert"))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_cross_encoder(tmp_path_factory.mktemp("models") / "several", tiny_classifier("roberta", labels=3))


@pytest.fixture(scope="module")
def model(folder: Path) -> CrossEncoder:
    return CrossEncoder.load(str(folder), device="cpu")


def test_explain(run: Any, folder: Path, model: CrossEncoder) -> None:
    answer = run(*PAIR, "-m", folder, "--granularity", "word")
    assert answer.code == 0 and answer.out.startswith("score ") and "special tokens" in answer.out
    document = json.loads(run(*PAIR, "-m", folder, "--json", "--bias", "local", "--reference", "none").out)
    wanted = explain_cross_encoder(model, LEFT, RIGHT, bias="local", reference="none").to_dict()
    assert document["shares"]["left"] == pytest.approx(wanted["shares"]["left"], abs=1e-6)
    assert document["logit"] == pytest.approx(wanted["logit"], abs=1e-6) and document["bias_mode"] == "local"


def test_explain_a_label(run: Any, several: Path) -> None:
    assert "choose one by label (--label)" in run(*PAIR, "-m", several).err
    logits = CrossEncoder.load(str(several), device="cpu").logits([(LEFT, RIGHT)])[0]
    document = json.loads(run(*PAIR, "-m", several, "--label", "LABEL_2", "--json").out)
    assert document["label"] == "LABEL_2" and document["logit"] == pytest.approx(float(logits[2]), abs=1e-6)


def test_explain_next_to_an_encoder(run: Any, folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "both.html"
    answer = run(*PAIR, "-m", folder, "--other-model", tiny_folder, "--html", page)
    assert answer.code == 0 and "second part" in answer.out and "logit" in answer.out
    assert "cosine" in page.read_text() and "<mark" in page.read_text()


def test_explain_a_file(run: Any, folder: Path, pairs_file: Path, tmp_path: Path, model: CrossEncoder) -> None:
    out = tmp_path / "lines.jsonl"
    assert run("explain", "--pairs", pairs_file, "--out", out, "-m", folder).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    pairs = [(row["left"]["text"], row["right"]["text"]) for row in rows]
    assert len(rows) == 4
    assert np.abs(np.array([row["logit"] for row in rows]) - model.logits(pairs)[:, 0]).max() < 1e-5


def test_similarity(run: Any, folder: Path, model: CrossEncoder) -> None:
    document = json.loads(run("similarity", LEFT, RIGHT, "the sea", "-m", folder, "--json").out)
    wanted = model.score([(LEFT, RIGHT), (LEFT, "the sea")])
    assert document["similarity"][0] == pytest.approx(wanted.tolist(), abs=1e-6)
    assert document["pooling"] == "cross-encoder"
    matrix = json.loads(run("similarity", LEFT, RIGHT, "-m", folder, "--matrix", "--json").out)["similarity"]
    # A cross-encoder is not symmetric.
    assert np.shape(matrix) == (2, 2) and matrix[0][1] != pytest.approx(matrix[1][0], abs=1e-4)


def test_sts(run: Any, folder: Path, tiny_folder: Path, pairs_file: Path) -> None:
    answer = run("evaluate", "sts", pairs_file, "-m", folder, "-m", tiny_folder, "--json")
    results = json.loads(answer.out)["results"]
    assert [one["pooling"] for one in results] == ["cross-encoder", "mean"] and results[0]["n"] == 4


def test_retrieval(run: Any, folder: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path))
    given = ("sample/pairs", "-m", tiny_folder, "--rerank", folder, "--candidates", 4, "--limit", 12, "--k", "1,4")
    results = json.loads(run("evaluate", "retrieval", *given, "--json").out)["results"]
    assert [one["ranker"] for one in results] == ["dense", f"dense + {folder}"]
    assert results[1]["recall"]["4"] == results[0]["recall"]["4"]


def test_lint(run: Any, folder: Path, english_folder: Path, pairs_file: Path) -> None:
    answer = run("lint", pairs_file, "-m", folder, "--grammar", english_folder, "--json")
    assert json.loads(answer.out)["pooling"] == "cross-encoder"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*PAIR, "--against", "x"), "need a vector of each text, which a cross-encoder does not have"),
        ((*PAIR, "--top", "2"), "need a vector of each text"),
        ((*PAIR, "--method", "hxp"), "leave --method and --rules out"),
        ((*PAIR, "--right-prompt", "x"), "no --right-prompt"),
        ((*PAIR, "--layer", "1"), "leave --layer and other options of pooling out"),
        (("encode", "sample/sentences", "--out", "x"), "is a cross-encoder and has no vectors of texts"),
        (("evaluate", "retrieval", "sample/pairs"), "use it in explain, similarity, lint, evaluate sts or --rerank"),
        (("evaluate", "sts", "sample/pairs", "--pooling", "cls"), "leave --pooling out"),
        (("similarity", "a", "b", "--label", "yes"), "has no label 'yes'; choose from LABEL_0"),
    ],
)
def test_what_makes_no_sense_is_one_line(arguments: tuple[str, ...], words: str, run: Any, folder: Path) -> None:
    answer = run(*arguments, "-m", folder)
    assert answer.code == 2 and words in answer.err and answer.err.count("\n") == 1


def test_with_a_pooling_its_layers_are_an_encoder(run: Any, folder: Path) -> None:
    answer = run(*PAIR, "-m", folder, "--pooling", "mean", "--json")
    assert json.loads(answer.out)["measure"] == "cosine"
    assert "leave --label out" in run(*PAIR, "-m", folder, "--pooling", "mean", "--label", "LABEL_0").err
