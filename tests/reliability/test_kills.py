"""300 times ``kill -9``, 50 for each long command, at random moments: nothing that was committed is lost.

Children come from a warm server, so that a kill hits the work and not the imports. After each kill the same command
runs again, until it ends; then its result has the bytes of a run that nobody killed.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from warm import SECONDS_TO_END, Ended, Setting, index_rows, run

from likewise.encoder.stream import MANIFEST, Manifest
from likewise.errors import DataError
from likewise.search.stores.folder import UNFINISHED, IndexManifest
from likewise.train.loop import CHECKPOINT, Checkpoint
from training_files import paraphrase_file, sentence, similarity_file, write_rows

pytestmark = [
    pytest.mark.process,
    pytest.mark.nightly,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork server and kill -9"),
]

KILLS = 50
MOST_RUNS = 10 * KILLS


@dataclass(frozen=True)
class Folders:
    """Where a run writes: its result, and its cache."""

    out: Path
    cache: Path


@dataclass(frozen=True)
class Command:
    """A long command: its arguments, how much it has committed, and what the user gets."""

    arguments: Callable[[Path, Folders], list[object]]
    committed: Callable[[Folders], int]
    result: Callable[[Folders], dict[str, bytes]]


def files(*names: str) -> Callable[[Folders], dict[str, bytes]]:
    return lambda folders: {name: (folders.out / name).read_bytes() for name in names}


def vectors_of(folder: Path) -> int:
    found = Manifest.read(folder)
    return 0 if found is None else found.rows


def encoded(folders: Folders) -> int:
    return vectors_of(folders.out)


def cached(folders: Folders) -> int:
    return sum(vectors_of(path.parent) for path in folders.cache.glob(f"vectors/*/{MANIFEST}"))


def indexed(folders: Folders) -> int:
    found = IndexManifest.read(folders.out) or IndexManifest.read(folders.out, UNFINISHED)
    return 0 if found is None else sum(segment.rows for segment in found.segments)


def explained(folders: Folders) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folders.out.glob("pairs.jsonl*") if "run" not in path.name)


def trained(folders: Folders) -> int:
    if (folders.out / "likewise.json").exists():
        return sys.maxsize
    with contextlib.suppress(DataError):
        return int(Checkpoint.load(folders.out / CHECKPOINT).metadata["course"]["step"])
    return 0


def train_arguments(data: Path, folders: Folders) -> list[object]:
    again = ["--resume"] if (folders.out / CHECKPOINT).exists() else []
    return ["train", data / "config.toml", "--out", folders.out, "--allow-overlap", *again]


COMMANDS = {
    "encode": Command(
        lambda data, to: ["encode", data / "texts.csv", "--out", to.out], encoded, files("vectors.npy", "ids.jsonl")
    ),
    "index": Command(
        lambda data, to: ["index", data / "texts.csv", "--out", to.out], indexed, lambda to: index_rows(to.out)
    ),
    "explain": Command(
        lambda data, to: ["explain", "--pairs", data / "pairs.csv", "--out", to.out / "pairs.jsonl"], explained,
        files("pairs.jsonl"),
    ),
    "train": Command(train_arguments, trained, files("model.safetensors", "measures.csv")),
    "duplicates": Command(
        lambda data, to: ["duplicates", data / "texts.csv", "--threshold", 0.999, "--out", to.out], cached,
        files("groups.csv", "pairs.csv"),
    ),
    "calibrate": Command(
        lambda data, to: [
            "calibrate", data / "texts.csv", "--pairs", data / "labels.csv", "--out", to.out,
        ], cached, files("thresholds.csv", "reliability.csv", "unrelated.csv"),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> Path:
    folder, rng = tmp_path_factory.mktemp("data"), random.Random(0)
    texts = [[number, f"{sentence(rng)} {number} {rng.getrandbits(40):x}"] for number in range(2_000)]
    write_rows(folder / "texts.csv", ["id", "text"], texts)
    similarity_file(folder / "pairs.csv", 600)
    paraphrase_file(folder / "labels.csv", 400)
    (folder / "config.toml").write_text(
        f"model = '{tiny_folder}'\nepochs = 6\nbatch = 16\nlearning_rate = 1e-3\n"
        f"[[task]]\nkind = 'similarity'\ntrain = '{folder}/pairs.csv'\ndev = '{folder}/pairs.csv'\n"
    )
    return folder


def ended(name: str, data: Path, model: Path, folders: Folders, wait: float = SECONDS_TO_END) -> Ended:
    """Run a command, and kill it after ``wait`` seconds."""
    arguments = [*COMMANDS[name].arguments(data, folders), "--threads", 1]
    return run([*arguments, *([] if name == "train" else ["--model", model])], Setting(folders.cache), wait)


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_fifty_times(name: str, data: Path, tiny_folder: Path, tmp_path: Path) -> None:
    command, rng, seconds = COMMANDS[name], random.Random(name), 0.0
    for attempt in ("first", "second"):  # the first one waits for the server's imports
        whole = Folders(tmp_path / attempt, tmp_path / f"{attempt}-cache")
        done = ended(name, data, tiny_folder, whole)
        assert done.code == 0, done.err
        seconds = done.seconds
    expected, kills, midway, finished = command.result(whole), 0, 0, 0
    while kills < KILLS:
        folders, before = Folders(tmp_path / f"{finished}", tmp_path / f"{finished}-cache"), 0
        for _ in range(MOST_RUNS):
            done = ended(name, data, tiny_folder, folders, rng.uniform(0, seconds))
            after = command.committed(folders)
            assert after >= before, f"{before} were committed, {after} are left"
            if done.code is not None:
                break
            kills, midway, before = kills + 1, midway + (after > 0), after
        assert done.code == 0, done.err
        assert command.result(folders) == expected
        finished += 1
    assert midway >= 5, "the kills came before the first commit"
    print(f"{name}: {kills} kills, {midway} of them after a commit, {finished} results")
