"""A cluster writes the same bytes as one process, whatever is killed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from likewise.cluster import Cluster
from likewise.data import Dataset
from likewise.encoder import Encoder, forward
from likewise.encoder.stream import Manifest, encode_file
from likewise.encoder.windows import TextWindow, plain_windows
from likewise.progress import Ticker
from likewise.sample import sample_sentences
from likewise.search import Index
from likewise.search.index import IndexSettings
from likewise.search.indexed_files import index_file
from ray_nodes import SOURCES, RayNodes

pytest_plugins = ("ray_nodes",)
pytest.importorskip("ray", reason="Ray is not installed (extra: cluster)")
pytestmark = [pytest.mark.process, pytest.mark.slow]
FILES = ("vectors.npy", "ids.jsonl", "manifest.json")
TEXTS = 2000
WINDOW = 100
LIKEWISE = """
import sys
from likewise.encoder import forward
from likewise.cli.app import main

forward.WINDOW_TEXTS = int(sys.argv.pop(1))
if __name__ == "__main__":
    main()
"""


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", WINDOW)


def corpus(path: Path, texts: int) -> Path:
    """Lines of JSON with signs of several bytes, so that offsets are those of bytes."""
    sentences = sample_sentences()
    rows = ({"id": f"row-{row}", "text": f"{sentences[row % 300]} – {row}"} for row in range(texts))
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def single(minilm: Encoder, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file of texts, and the folder that one process makes of it."""
    folder = tmp_path_factory.mktemp("single")
    file = corpus(folder / "texts.jsonl", TEXTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "WINDOW_TEXTS", WINDOW)
        encode_file(Encoder.load("minilm", device="cpu", threads=1), Dataset(str(file)), folder / "out")
    return file, folder / "out"


def stored(folder: Path) -> tuple[bytes, ...]:
    return tuple((folder / name).read_bytes() for name in FILES)


def command(nodes: RayNodes, tmp_path: Path, *arguments: str, window: int = WINDOW) -> subprocess.Popen[str]:
    """``likewise`` in a process of its own, with small windows."""
    script = tmp_path / "likewise_with_small_windows.py"
    script.write_text(LIKEWISE)
    words = [sys.executable, str(script), str(window), *arguments]
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": nodes.environment}
    return subprocess.Popen(words, **how)


def rows_of(folder: Path) -> int:
    """How many rows are committed."""
    manifest = Manifest.read(folder) if folder.is_dir() else None
    return 0 if manifest is None else manifest.rows


def await_rows(folder: Path, least: int, process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if rows_of(folder) >= least:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    pytest.fail("no rows within a minute")


def finish(process: subprocess.Popen[str], seconds: float = 180) -> str:
    output, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, errors
    return output


def test_whatever_is_killed_the_bytes_are_those_of_one_process(
    ray_nodes: RayNodes, single: tuple[Path, Path], tmp_path: Path
) -> None:
    """First the driver is killed, then a node while the second driver goes on; a new node joins for a third run."""
    file, expected = single
    options = ["--cluster", ray_nodes.address, "--threads", "1", "--workers", "2"]
    first = command(ray_nodes, tmp_path, "encode", str(file), "--out", str(tmp_path / "out"), *options)
    await_rows(tmp_path / "out", 3 * WINDOW, first)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=60)
    before = rows_of(tmp_path / "out")
    assert 3 * WINDOW <= before < TEXTS

    second = command(ray_nodes, tmp_path, "encode", str(file), "--out", str(tmp_path / "out"), *options)
    await_rows(tmp_path / "out", before + 3 * WINDOW, second)
    ray_nodes.nodes[1].end()
    assert rows_of(tmp_path / "out") < TEXTS - 2 * WINDOW  # the node had windows to lose
    finish(second)
    assert stored(tmp_path / "out") == stored(expected)

    ray_nodes.start()
    third = command(ray_nodes, tmp_path, "encode", f"file://{file}", "--out", str(tmp_path / "whole"), *options)
    finish(third)
    assert stored(tmp_path / "whole") == stored(expected)


def test_a_killed_worker_does_not_change_an_index(tmp_path: Path) -> None:
    file = corpus(tmp_path / "texts.jsonl", 600)
    encoder = Encoder.load("minilm", device="cpu", threads=1)
    killed: list[int] = []
    notes: list[str] = []

    def kill(done: int, _: int | None, note: str) -> None:
        notes.append(note)
        if done >= 2 * WINDOW and not killed and "windows" in note:
            killed.append(actor_process())
            os.kill(killed[0], signal.SIGKILL)

    settings = IndexSettings(metadata=True)
    index_file(encoder, Dataset(str(file)), tmp_path / "alone", settings).index.close()
    with Cluster("local", 2).connected():
        pass  # a second cluster of the same process starts as well
    with Cluster("local", 2).connected() as cluster:
        index_file(encoder, Dataset(str(file)), tmp_path / "team", settings, workers=cluster, progress=kill)
    names = sorted(path.name for path in (tmp_path / "alone").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "team").iterdir())
    assert all((tmp_path / "alone" / name).read_bytes() == (tmp_path / "team" / name).read_bytes() for name in names)
    assert killed and notes[-1].endswith("workers lost 1"), notes[-1]
    assert Index.open(tmp_path / "team", encoder).search("volcano", k=1)


def actor_process() -> int:
    """The process id of a worker of the cluster that this process has started."""
    commands = {
        int(path.name): (path / "cmdline").read_bytes() for path in Path("/proc").iterdir() if path.name.isdigit()
    }
    return next(number for number, line in commands.items() if b"ray::_Worker" in line and is_ours(number))


def is_ours(number: int) -> bool:
    """Whether this process or one that it started has started a process."""
    while number > 1:
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
        if number == os.getpid():
            return True
    return False


@pytest.mark.nightly
def test_twenty_thousand_texts(ray_nodes: RayNodes, minilm: Encoder, tmp_path: Path) -> None:
    file = corpus(tmp_path / "texts.jsonl", 20_000)
    options = ["--cluster", ray_nodes.address, "--threads", "1"]
    words = ["encode", str(file), "--out", str(tmp_path / "team"), *options]
    finish(command(ray_nodes, tmp_path, *words, window=1000), seconds=3000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "WINDOW_TEXTS", 1000)
        encode_file(Encoder.load("minilm", device="cpu", threads=1), Dataset(str(file)), tmp_path / "alone")
    assert stored(tmp_path / "team") == stored(tmp_path / "alone")


@dataclass(frozen=True)
class PeakMemory:
    """A task that encodes a window and returns the most memory that its process has had, in megabytes."""

    def __call__(self, encoder: Encoder, window: TextWindow, progress: Any) -> float:
        encoder.encode_with_stats(window.texts)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.nightly
def test_memory_of_a_worker_does_not_grow_with_the_input(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (SOURCES, here, here.parent))))  # of the task
    sentences = sample_sentences()
    encoder, peaks = Encoder.load(str(tiny_folder), device="cpu", threads=1), {}
    with Cluster("local", 2).connected() as cluster:
        for texts in (5_000, 50_000):
            items = ((str(row), f"{sentences[row % 300]} {row}") for row in range(texts))
            stream = cluster.run(encoder, PeakMemory(), plain_windows(items, 0), Ticker(None))
            peaks[texts] = max(peak for _, peak in stream)
    assert peaks[50_000] < peaks[5_000] + 30, peaks
