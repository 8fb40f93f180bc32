"""``likewise attribute`` and ``likewise explain-attention``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.explain import attribute, explain_attention

pytest_plugins = ("command_line",)

ROWS = ["the man is out", "a dog, the sea", "it is out. it is in"]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(ROWS), encoding="utf-8")
    return path


def test_terminal_and_json(run_tiny: Any, tiny: Encoder, texts: Path) -> None:
    answer = run_tiny("attribute", texts, "--direction", "the sea")
    assert answer.code == 0 and answer.out.startswith("the sea  (")
    found = json.loads(run_tiny("attribute", texts, "--direction", "the sea", "--json").out)
    expected = attribute(tiny, ROWS, "the sea")
    assert found["directions"] == ["the sea"]
    for one, own in zip(found["texts"], expected.texts, strict=True):
        np.testing.assert_allclose(one["shares"], own.shares, atol=1e-6)
        assert f"{own.scores[0]:.4f}" in answer.out


@pytest.mark.parametrize(
    ("direction", "name"),
    [("difference:a dog | the sea", "a dog - the sea"), ("axis:1", "axis 1"), ("centroid:{}", "centroid of {}")],
)
def test_directions(run_tiny: Any, texts: Path, direction: str, name: str) -> None:
    found = json.loads(run_tiny("attribute", texts, "--direction", direction.format(texts), "--json").out)
    assert found["directions"] == [name.format(texts)]


def test_vectors_limits_and_files(run_tiny: Any, tiny: Encoder, texts: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.ones((2, tiny.dimension)))
    options = ("--direction", f"vector:{tmp_path / 'v.npy'}", "--limit", "2", "--granularity", "token")
    answer = run_tiny("attribute", texts, *options, "--out", tmp_path / "o.jsonl")
    assert answer.code == 0 and "2 attributions in" in answer.err
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [len(line["scores"]) for line in lines] == [2, 2]
    page = tmp_path / "new" / "p.html"
    assert run_tiny("attribute", texts, *options, "--html", page).code == 0 and page.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--direction", "difference:a"), "two texts as difference:A | B"),
        (("--direction", "axis:first"), "axis takes a number from 1 on"),
        (("--direction", "axis:9"), "principal axes 1 to"),
        (("--direction", "vector:none.npy"), "cannot be read as numbers"),
        (("--direction", "a", "--out", "o.jsonl", "--json"), "leave --html and --json out"),
        (("--direction", "a", "--bias", "hidden"), "unknown bias 'hidden'"),
        (("--direction", "a", "--granularity", "page"), "cannot explain by 'page'"),
    ],
)
def test_mistakes(run_tiny: Any, texts: Path, options: tuple[str, ...], words: str) -> None:
    answer = run_tiny("attribute", texts, *options)
    assert answer.code == 2 and words in answer.err and answer.err.count("\n") == 1


@pytest.mark.slow
def test_attention(run_tiny: Any, tiny: Encoder, tmp_path: Path) -> None:
    command = ("explain-attention", "the man is out", "man", "3", "--layer", "2", "--head", "1")
    answer = run_tiny(*command, "--plot", tmp_path / "a.svg", "--html", tmp_path / "a.html")
    expected = explain_attention(tiny, "the man is out", 2, 1, 2, 3)
    assert answer.code == 0 and answer.out.startswith(f"{expected.title}, attention {expected.weight:.4f}")
    assert (tmp_path / "a.svg").exists() and (tmp_path / "a.html").exists()
    found = json.loads(run_tiny(*command, "--json").out)
    assert found["score"] == pytest.approx(expected.score, abs=1e-6)
    assert run_tiny("explain-attention", "the man", "dog", "1").code == 2
    assert run_tiny(*command[:4], "--layer", "99").code == 2
