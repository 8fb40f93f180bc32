"""Commands that look at texts: inspect, similarity, models, demo, convert."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from conftest import save_tiny
from likewise.encoder import Encoder

pytest_plugins = ("command_line",)

MARKUP = ["[bold]not bold[/bold]", "<img src=x onerror=alert(1)>", "[link=file:///x]", "\\[red]"]
LONG = "word " * 100


def one_document(out: str) -> Any:
    """Standard output as the single line of JSON it must be; NaN is no JSON."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    assert out.endswith("\n") and out.count("\n") == 1
    return json.loads(out, parse_constant=refuse)


def test_inspect_json(run_tiny: Any) -> None:
    found = one_document(run_tiny("inspect", "the cat", "the cat sat on", "--json").out)
    assert found.keys() == {"model", "special_tokens", "texts", "outputs"}
    first, second = ([token["token"] for token in text["tokens"]] for text in found["texts"])
    assert first[0] == second[0] == "[CLS]" and first[-1] == "[PAD]" and second[-1] == "[SEP]"
    assert [token["mask"] for token in found["texts"][0]["tokens"]].count(0) == first.count("[PAD]")
    assert found["model"]["layers"] == 2 and found["model"]["dimension"] == 16
    assert found["outputs"]["sentence_vectors"] == "(2, 16)"


def test_inspect_table(run_tiny: Any) -> None:
    answer = run_tiny("inspect", "the cat")
    assert (answer.code, answer.err) == (0, "")
    for words in ("[CLS]", "[SEP]", "decoded: [CLS] the c", "hidden size", "3 x (1, "):
        assert words in answer.out


def test_inspect_says_what_was_cut(run_tiny: Any) -> None:
    assert "(cut at 32 tokens)" in run_tiny("inspect", LONG).out


def test_similarity_of_one_with_others(run_tiny: Any, tiny: Encoder) -> None:
    texts = ["a cat sat", "the dog", "a cat sat"]
    found = one_document(run_tiny("similarity", *texts, "--json").out)
    assert found["left"] == texts[:1] and found["right"] == texts[1:] and found["pooling"] == "mean"
    np.testing.assert_allclose(found["similarity"], tiny.similarity(texts[:1], texts[1:]), atol=1e-6)
    assert found["similarity"][0][1] == pytest.approx(1, abs=1e-6)


def test_similarity_matrix(run_tiny: Any) -> None:
    found = one_document(run_tiny("similarity", "a cat", "a dog", "sea", "--matrix", "--json").out)
    matrix = np.array(found["similarity"])
    assert matrix.shape == (3, 3)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
    np.testing.assert_allclose(np.diag(matrix), 1, atol=1e-6)


@pytest.mark.parametrize("options", [(), ("--matrix",)], ids=["one to many", "matrix"])
def test_similarity_table_shows_the_numbers(run_tiny: Any, tiny: Encoder, options: tuple[str, ...]) -> None:
    shown = run_tiny("similarity", "a cat", "the blue sea", *options).out
    assert f"{tiny.similarity('a cat', 'the blue sea')[0, 0]:.4f}" in shown
    assert "a cat" in shown and "the blue sea" in shown


@pytest.mark.parametrize(
    ("options", "pooling_config"),
    [
        (("--pooling", "cls"), {"pooling": "cls"}),
        (("--layer", "0"), {"layer": 0}),
        (("--layer", "0,1"), {"layer": [0, 1]}),
        (("--layer", "first-last"), {"layer": "first-last"}),
        (("--no-special-tokens",), {"special_tokens": False}),
        (("--truncate-dim", "5"), {"truncate_dim": 5}),
    ],
    ids=str,
)
def test_options_reach_the_encoder(run_tiny: Any, tiny: Encoder, options: tuple[str, ...], pooling_config: Any) -> None:
    found = one_document(run_tiny("similarity", "a cat", "the sea", *options, "--json").out)["similarity"]
    expected = tiny.with_pooling(**pooling_config).similarity("a cat", "the sea")
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert abs(found[0][0] - tiny.similarity("a cat", "the sea")[0, 0]) > 1e-4


def test_warnings_do_not_spoil_the_document(run_tiny: Any) -> None:
    answer = run_tiny("similarity", LONG, "short", "--json")
    assert one_document(answer.out)["right"] == ["short"]
    assert answer.err == "likewise: cut at the model's limit of 32 tokens: 1 of 1 texts\n"


@pytest.mark.parametrize("text", MARKUP)
def test_markup_in_texts_is_text(run_tiny: Any, text: str) -> None:
    for command in (("inspect", text), ("similarity", text, text), ("similarity", text, text, "--matrix")):
        assert text in run_tiny(*command).out, command
    assert one_document(run_tiny("similarity", text, "b", "--json").out)["left"] == [text]


def test_long_texts_stay_on_one_line_in_a_pipe(run_tiny: Any) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
    assert text in run_tiny("similarity", "a", text).out


def test_matrix_encodes_each_text_once(run_tiny: Any) -> None:
    """Left and right are the same texts; encoded twice, a long one would be told of twice."""
    answer = run_tiny("similarity", LONG, "short", "--matrix")
    assert answer.err == "likewise: cut at the model's limit of 32 tokens: 1 of 2 texts\n"


def test_several_threads_are_set(run_tiny: Any) -> None:
    run_tiny("similarity", "a", "b", "--threads", "2")
    assert torch.get_num_threads() == 2


def test_models(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--ada--model" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    found = one_document(run("models", "--json").out)
    assert found["available"][-1] == "ada/model"
    assert found["short_names"]["bert-base-uncased"] == "google-bert/bert-base-uncased"
    table = run("models").out
    assert "ada/model" in table and "google-bert/bert-base-uncased" in table


def test_demo_writes_a_page(run: Any, tmp_path: Path) -> None:
    wide = save_tiny(tmp_path / "wide", hidden_size=64)
    answer = run("demo", "--out", tmp_path / "new" / "page.html", "--model", wide)
    page = (tmp_path / "new" / "page.html").read_text()
    assert answer.code == 0 and str(tmp_path / "new" / "page.html") in answer.err
    assert "negation" in answer.out and "adds to the cosine" in answer.out
    assert page.startswith("<!doctype html>") and "<svg" in page and "Spearman" in page and "Ledger" in page


def test_convert_gives_a_model_that_loads_alike(run: Any, tiny_folder: Path, tiny: Encoder, tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(tiny_folder, old)
    torch.save(load_file(old / "model.safetensors"), old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    refused = run("similarity", "a", "b", "--model", old)
    assert refused.code == 2 and f"run: likewise convert {old}" in refused.err
    answer = run("convert", old)
    assert (answer.code, answer.out) == (0, f"wrote {old / 'model.safetensors'}\n")
    again = Encoder.load(str(old), device="cpu")
    np.testing.assert_array_equal(again.encode(["a cat"]), tiny.encode(["a cat"]))
