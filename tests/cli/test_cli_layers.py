"""``likewise layers``: words and sentences through the layers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conftest import save_tiny
from likewise.encoder import Encoder
from likewise.geometry.trajectories import EXAMPLES, sentence_trajectories, word_trajectories
from likewise.plotting.terminal import BARS

pytest_plugins = ("command_line",)

BANKS = [
    "We will rob a bank next week!",
    "The children skipped stones by the bank of the river.",
    "I put money in the bank.",
]
Layers = Callable[..., Any]


@pytest.fixture
def layers(run_tiny: Any) -> Layers:
    """Run ``layers ... --json`` with the tiny model and read the document."""

    def call(*arguments: object) -> Any:
        answer = run_tiny("layers", *arguments, "--json")
        assert answer.code == 0 and answer.out.count("\n") == 1, answer
        return json.loads(answer.out)

    return call


def test_words(layers: Layers, tiny: Encoder, tiny_folder: Path) -> None:
    found = layers("--word", "bank", *BANKS)
    assert (found["model"], found["layers"], found["texts"]) == (str(tiny_folder), [0, 1, 2], BANKS)
    assert [(pair["left"], pair["right"], pair["words"]) for pair in found["pairs"]] == [
        (left, right, ["bank", "bank"]) for left, right in ((0, 1), (0, 2), (1, 2))
    ]
    expected = word_trajectories(tiny, BANKS, "bank")
    for pair, own in zip(found["pairs"], expected.pairs, strict=True):
        assert pair.keys() == {"left", "right", "words", "cosine"}
        assert pair["cosine"] == pytest.approx(own.cosine, abs=1e-6)
    assert [place["first"] for place in found["places"]] == [5, 7, 6]
    assert found["tokens"] == [list(places) for places in expected.tokens]


def test_a_word_for_each_sentence(layers: Layers) -> None:
    found = layers("--word", "bank", "--word", "children", "--word", "the bank", *BANKS)
    assert [pair["words"] for pair in found["pairs"]] == [
        ["bank", "children"],
        ["bank", "the bank"],
        ["children", "the bank"],
    ]


def test_one_of_several_occurrences(layers: Layers) -> None:
    texts = ("the bank by the bank", "a bank")
    first, second = (layers("--word", word, "--word", "bank", *texts)["pairs"][0] for word in ("bank:1", "bank:2"))
    assert first["words"] == second["words"] == ["bank", "bank"] and first["cosine"] != second["cosine"]


def test_sentences(layers: Layers, tiny: Encoder, run_tiny: Any) -> None:
    found = layers("--sentences", *BANKS)
    assert found["pooling"] == "mean" and [pair["words"] for pair in found["pairs"]] == [None] * 3
    shown = json.loads(run_tiny("similarity", *BANKS, "--matrix", "--json").out)["similarity"]
    for pair in found["pairs"]:
        assert pair["cosine"][-1] == pytest.approx(shown[pair["left"]][pair["right"]], abs=1e-6)
    expected = sentence_trajectories(tiny.with_pooling(pooling="cls"), BANKS, "query: ").pairs
    given = layers("--sentences", *BANKS, "--pooling", "cls", "--prompt", "query: ")["pairs"]
    assert [pair["cosine"] for pair in given] == [pytest.approx(pair.cosine, abs=1e-6) for pair in expected]


@pytest.fixture
def both(tiny_folder: Path, tmp_path: Path) -> tuple[object, ...]:
    """Two models of 2 and of 14 layers."""
    return "--model", tiny_folder, "--model", save_tiny(tmp_path / "deep", num_hidden_layers=14)


def test_several_models(run: Any, both: tuple[object, ...], layers: Layers, tmp_path: Path) -> None:
    targets = ("--plot", tmp_path / "a.svg", "--html", tmp_path / "a.html")
    answer = run("layers", "--word", "bank", *BANKS, *both, *targets, "--json")
    found = json.loads(answer.out)["results"]
    assert [(one["model"], len(one["layers"])) for one in found] == [(str(both[1]), 3), (str(both[3]), 15)]
    assert found[0] == layers("--word", "bank", *BANKS)
    assert all(str(model) in (tmp_path / "a.html").read_text() for model in both[1::2])
    assert answer.err.count("wrote ") == 2


def test_screen(run_tiny: Any, layers: Layers) -> None:
    answer = run_tiny("layers", "--word", "bank", *BANKS)
    assert answer.code == 0
    for pair in layers("--word", "bank", *BANKS)["pairs"]:
        [numbers, curve] = [
            line for line in answer.out.splitlines() if f" {pair['left'] + 1} / {pair['right'] + 1} " in line
        ]
        assert all(f" {value:.3f} " in numbers for value in pair["cosine"])
        lowest = pair["cosine"].index(min(pair["cosine"]))
        assert re.search(rf" [{BARS}]{{3}} .* {min(pair['cosine']):.3f} +{lowest} ", curve)
    assert all(text in answer.out for text in BANKS) and "\x1b" not in answer.out


def test_deep_models_fit_a_narrow_screen(run: Any, both: tuple[object, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.results.terminal.PIPE_WIDTH", 60)
    out = run("layers", "--word", "bank", *BANKS[:2], *both[2:]).out
    heads = [line.split()[2:] for line in out.splitlines() if re.match(r" +model +pair +\d", line)]
    assert len(heads) > 1 and [int(layer) for head in heads for layer in head] == list(range(15))
    assert max(len(line) for line in out.splitlines() if re.search(r" 1 / 2 +\d", line)) <= 60


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_plot(layers: Layers, tmp_path: Path, ending: str) -> None:
    path = tmp_path / "figures" / f"layers.{ending}"
    layers("--word", "bank", *BANKS, "--plot", path)
    assert path.read_bytes().startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])


def test_page(layers: Layers, tmp_path: Path) -> None:
    path = tmp_path / "pages" / "layers.html"
    found = layers("--word", "bank", *BANKS[:2], "A <b>bold</b> bank", "--html", path)
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|<script|<link|@import|url\((?!#)|(src|href)=[\"'](?!#)", page)
    assert "A &lt;b&gt;bold&lt;/b&gt; bank" in page and "<b>" not in page
    assert all(f"{value:.3f}" in page for pair in found["pairs"] for value in pair["cosine"])
    [figure] = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    ElementTree.fromstring(figure.replace("xlink:", ""))
    assert "currentColor" in figure and "#000000" not in figure


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(run_tiny: Any, name: str) -> None:
    answer = run_tiny("layers", "--example", name)
    example = EXAMPLES[name]
    assert answer.code == 0 and example.look_for in answer.out
    assert all(text in answer.out for text in example.texts)


def test_list_of_examples(run: Any) -> None:
    shown, document = run("layers", "--example", "list"), run("layers", "--example", "list", "--json")
    assert all(name in shown.out and example.look_for in shown.out for name, example in EXAMPLES.items())
    assert json.loads(document.out)["examples"].keys() == EXAMPLES.keys()


WORD, TWO = ("--word", "bank"), tuple(BANKS[:2])
MISTAKES = {
    "no sentence": (WORD, 'give sentences: likewise layers --word bank "We will rob a bank."'),
    "one sentence": ((*WORD, BANKS[0]), "give at least two sentences to compare, not 1"),
    "empty sentence": (("--sentences", "a", " "), "sentence 2 is empty"),
    "nothing to follow": (TWO, "say what to follow: --word WORD, or --sentences"),
    "both": ((*WORD, "--sentences", *TWO), "--word does not go with --sentences"),
    "more words": ((*WORD, *WORD, *BANKS), "2 words for 3 sentences; give --word once for all"),
    "no such word": (("--word", "money", *BANKS), "sentence 1 has no 'money'; choose from its words: 1 We 2 will"),
    "twice": ((*WORD, "a bank", "bank a bank"), "sentence 2 has 'bank' 2 times, as words 1, 3; choose one: bank:1 or"),
    "cut off": ((*WORD, "a " * 40 + "bank", "a bank"), "'bank' of sentence 1 lies beyond the model's limit of 32"),
    "pooled words": ((*WORD, *TWO, "--pooling", "cls"), "--pooling does not go with words"),
    "pooler": (("--sentences", *TWO, "--pooling", "pooler"), "the model's own pooler takes the last layer only"),
    "unknown example": (("--example", "banc"), "unknown example 'banc'; choose from bank, banks, certainty, idiom"),
    "example and text": (("--example", "bank", "a text"), "does not go with --example"),
    "example and word": (("--example", "bank", *WORD), "--word does not go with --example"),
    "plot ending": ((*WORD, *TWO, "--plot", "a.jpg"), "end it with .png, .svg, .pdf"),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(run_tiny: Any, arguments: tuple[str, ...], words: str) -> None:
    answer = run_tiny("layers", *arguments)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1), answer
    assert answer.err.startswith("likewise: ") and words in answer.err


def test_wrong_word_is_told_before_the_model_is_loaded(run: Any) -> None:
    assert "has no 'money'" in run("layers", "--word", "money", *BANKS, "--model", "no-such-model").err
