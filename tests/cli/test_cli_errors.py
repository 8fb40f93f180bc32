"""Mistakes that a user can mend: one line on stderr, exit code 2, nothing on stdout."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from likewise.encoder import Encoder
from likewise.errors import Cancelled

pytest_plugins = ("command_line",)

TWO = ("similarity", "a", "b")
FIT = "fit-postprocessing"
STS = ("evaluate", "sts")

MISTAKES = {
    "one text": (("similarity", "alone"), "give at least two texts"),
    "unknown pooling": ((*TWO, "--pooling", "avg"), "unknown pooling 'avg'; choose from cls, last"),
    "layer that is no number": ((*TWO, "--layer", "top"), "--layer takes a number"),
    "layer beyond the last": ((*TWO, "--layer", "9"), "no layer 9; this model has layers 0 to 2"),
    "unknown device": ((*TWO, "--device", "tpu"), "unknown device 'tpu'; choose from auto, cpu"),
    "device with a bad number": ((*TWO, "--device", "cpu:x"), "'cpu:x'"),
    "unknown backend": ((*TWO, "--backend", "tf"), "unknown backend 'tf'; choose from torch, onnx"),
    "unknown dtype": ((*TWO, "--dtype", "int4"), "unknown dtype 'int4'; choose from float32"),
    "missing post-processing": ((*TWO, "--post", "none.safetensors"), "make one with: likewise fit"),
    "missing file of pairs": ((*STS, "none.csv"), "no file 'none.csv'"),
    "missing data set": ((*STS, "stsb/nope"), "no data set 'stsb/nope'"),
    "pairs without scores": ((*STS, "sample/sentences"), "no column for the left text"),
    "plot with a bad ending": ((*STS, "sample/pairs", "--plot", "a.jpg"), "end it with .png, .svg, .pdf"),
    "unknown column": ((*STS, "sample/pairs", "--score-column", "nope"), "no column 'nope' (--score-column)"),
    "missing file of texts": (("encode", "none.txt", "--out", "vectors"), "no file 'none.txt'"),
    "too many dimensions": ((FIT, "few.txt", "--out", "w", "--dim", "99"), "whitening can keep 1 to 16"),
    "unknown post-processing": ((FIT, "few.txt", "--out", "w", "--kind", "pca"), "unknown post-processing 'pca'"),
    "one text to fit on": ((FIT, "one.txt", "--out", "w"), "needs at least 2 texts"),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a little file of texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.txt").write_text("a cat\na dog\nthe sea\n")
    (tmp_path / "one.txt").write_text("a cat\n")
    return tmp_path


def is_one_line(answer: Any, words: str) -> bool:
    """Whether the answer is a proper refusal that says ``words``."""
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.startswith("likewise: ") and answer.err.endswith("\n")
    assert answer.err.count("\n") == 1 and "Traceback" not in answer.err
    return words in answer.err


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistake(run_tiny: Any, here: Path, arguments: tuple[str, ...], words: str) -> None:
    answer = run_tiny(*arguments)
    assert is_one_line(answer, words), answer.err


@pytest.mark.parametrize("name", ["nope", "./nope", "not a name", "few.txt"])
def test_unknown_model_offers_those_that_are_here(run: Any, here: Path, name: str) -> None:
    answer = run(*TWO, "--model", name)
    assert is_one_line(answer, name), answer.err
    assert "give the folder" in answer.err


@pytest.mark.parametrize("command", [STS, ("encode", "--out", "vectors")], ids=["evaluate", "encode"])
def test_bad_row_is_named(run_tiny: Any, here: Path, command: tuple[str, ...]) -> None:
    (here / "bad.csv").write_text("text,sentence1,sentence2,score\na,a,b,1\n ,c,d,two\n")
    answer = run_tiny(*command, "bad.csv")
    assert is_one_line(answer, "bad.csv, line 3, column "), answer.err
    assert not (here / "vectors").exists()


def test_too_few_pairs(run_tiny: Any, here: Path) -> None:
    (here / "one.csv").write_text("sentence1,sentence2,score\na,b,1\n")
    assert is_one_line(run_tiny(*STS, "one.csv"), "at least 2 pairs, got 1")


@pytest.mark.parametrize(
    "arguments",
    [
        ("encode", "few.txt", "--out", "one.txt"),
        ("fit-postprocessing", "few.txt", "--out", "folder"),
        ("fit-postprocessing", "few.txt", "--out", "one.txt/w.safetensors"),
        ("demo", "--out", "folder"),
        ("evaluate", "sts", "sample/pairs", "--plot", "one.txt/a.png"),
    ],
    ids=" ".join,
)
def test_output_that_cannot_be_written(run_tiny: Any, here: Path, arguments: tuple[str, ...]) -> None:
    (here / "folder").mkdir()
    answer = run_tiny(*arguments)
    last = answer.err.splitlines()[-1]  # there may be a warning of cut texts before it
    assert answer.code == 2 and "Traceback" not in answer.err
    assert last.startswith("likewise: ") and arguments[-1].split("/")[0] in last


@pytest.mark.parametrize("command", [("similarity", "a", "b"), ("evaluate", "sts", "sample/pairs")], ids=" ".join)
@pytest.mark.parametrize("options", [("--threads", "0"), ("--threads", "x"), ("--nonsense",), ("--truncate-dim", "0")])
def test_misuse_of_the_parser(run: Any, command: tuple[str, ...], options: tuple[str, ...]) -> None:
    answer = run(*command, *options)
    assert (answer.code, answer.out) == (2, "")
    assert options[0] in answer.err and "Traceback" not in answer.err


def test_code_in_old_weights_is_never_run(run: Any, here: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (here / "ran",)

    (here / "old").mkdir()
    (here / "old" / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Bomb()}, protocol=2))
    assert is_one_line(run("convert", here / "old"), "is not opened")
    assert not (here / "ran").exists() and not (here / "old" / "model.safetensors").exists()


@pytest.mark.parametrize("name", ["none", "empty"])
def test_nothing_to_convert(run: Any, here: Path, name: str) -> None:
    (here / "empty").mkdir()
    assert is_one_line(run("convert", name), name)


def test_missing_matplotlib_names_the_extra(run_tiny: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    answer = run_tiny(*STS, "sample/pairs", "--plot", "a.png")
    assert is_one_line(answer, 'pip install "likewise[plots]"'), answer.err


def test_cancelling_exits_like_an_interrupt(run_tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise Cancelled("stop")

    monkeypatch.setattr(Encoder, "load", stop)
    assert run_tiny(*TWO).code == 130
