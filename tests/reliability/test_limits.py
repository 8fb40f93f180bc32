"""Limits of the machine: a full disk, folders that cannot be written, no home, two writers. One line, nothing lost."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
from warm import Setting, ended, index_rows, run, start

from likewise.encoder.stream import open_vectors
from training_files import sentence, similarity_file, write_rows

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork server and the limits of Unix"),
]

WRITERS = {
    "encode": ["encode", "{data}/texts.csv", "--out", "{out}"],
    "index": ["index", "{data}/texts.csv", "--out", "{out}"],
    "explain": ["explain", "--pairs", "{data}/pairs.csv", "--out", "{out}/pairs.jsonl"],
    "duplicates": ["duplicates", "{data}/texts.csv", "--threshold", "0.999", "--out", "{out}"],
    "calibrate": ["calibrate", "{data}/texts.csv", "--out", "{out}"],
    "train": ["train", "{data}/config.toml", "--out", "{out}", "--allow-overlap"],
}
SAME_BYTES = (".npy", ".jsonl", "model.safetensors", "pairs.csv", "unrelated.csv")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    folder, rng = tmp_path_factory.mktemp("data"), random.Random(0)
    texts = [[number, f"{sentence(rng)} {rng.getrandbits(40):x}"] for number in range(400)]
    write_rows(folder / "texts.csv", ["id", "text"], texts)
    similarity_file(folder / "pairs.csv", 200)
    task = f"[[task]]\nkind = 'similarity'\ntrain = '{folder}/pairs.csv'\ndev = '{folder}/pairs.csv'\n"
    (folder / "config.toml").write_text(f"model = '{tiny_folder}'\nepochs = 1\n{task}")
    return folder


def command(name: str, data: Path, out: Path, model: Path) -> list[str]:
    parts = [part.format(data=data, out=out) for part in WRITERS[name]]
    return [*parts, "--threads", "1", *([] if name == "train" else ["--model", str(model)])]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_cannot_grow_any_more(name: str, data: Path, tiny_folder: Path, tmp_path: Path) -> None:
    """One line says so, and the same command finishes when there is room."""
    out, setting = tmp_path / "out", Setting(tmp_path / "cache")
    said = run(command(name, data, out, tiny_folder), Setting(tmp_path / "cache", largest_file=9_000)).error
    assert "make room" in said
    done = run(command(name, data, out, tiny_folder), setting)
    assert done.code == 0, done.err
    assert run(command(name, data, tmp_path / "whole", tiny_folder), Setting(tmp_path / "other")).code == 0
    if name == "index":  # a run that broke off has more segments
        assert index_rows(out) == index_rows(tmp_path / "whole")
        return
    found, whole = files(out), files(tmp_path / "whole")
    assert found.keys() == whole.keys()
    same = [name for name in whole if name.endswith(SAME_BYTES)]
    assert same and all(found[name] == whole[name] for name in same)


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_cannot_be_written(name: str, data: Path, tiny_folder: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    said = run(command(name, data, closed / "out", tiny_folder), Setting(tmp_path / "cache", ordinary=True)).error
    assert "closed" in said and "ermission" in said
    assert not files(closed)


@pytest.mark.parametrize("arguments", [["explain", "a cat", "a dog"], ["search", "{data}/texts.csv", "the cat"]])
def test_a_cache_that_cannot_be_written(arguments: list[str], data: Path, tiny_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o555)
    setting = Setting(tmp_path / "cache", ordinary=True)
    parts = [part.format(data=data) for part in arguments]
    done = run([*parts, "--model", tiny_folder, "--json"], setting)
    if done.code == 0:
        assert json.loads(done.out)
    else:  # the index of a file has nowhere to go
        assert arguments[0] == "search" and "cache" in done.error


@pytest.mark.parametrize("name", ["encode", "explain", "duplicates"])
def test_without_a_home(name: str, data: Path, tiny_folder: Path, tmp_path: Path) -> None:
    """HOME leads nowhere, and there is no folder for a cache."""
    nowhere = dict.fromkeys(["LIKEWISE_CACHE", "XDG_CACHE_HOME", "MPLCONFIGDIR"]) | {"HOME": str(tmp_path / "none")}
    (tmp_path / "none").mkdir(mode=0o555)
    setting = Setting(tmp_path / "cache", ordinary=True, environment=nowhere)
    done = run(command(name, data, tmp_path / "out", tiny_folder), setting)
    assert done.code == 0 or "cache" in done.error, done.err


@pytest.mark.parametrize("name", ["encode", "index", "train"])
def test_two_writers(name: str, data: Path, tiny_folder: Path, tmp_path: Path) -> None:
    """One of them writes everything, the other one is refused in one line or finds it done."""
    setting = Setting(tmp_path / "cache")
    children = [start(command(name, data, tmp_path / "out", tiny_folder), setting) for _ in range(2)]
    done = [ended(child, setting) for child in children]
    assert any(each.code == 0 for each in done), [each.err for each in done]
    for each in done:
        assert each.code == 0 or any(words in each.error for words in ("another process", "already", "finished"))
    if name == "encode":
        vectors, ids = open_vectors(tmp_path / "out")
        assert len(vectors) == len(ids) == 400 and np.isfinite(vectors).all()
