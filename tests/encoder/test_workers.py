"""Several processes write the same bytes as one, whatever stops them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder, forward
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.encoder.stream import Manifest, encode_stream, open_vectors
from likewise.encoder.workers import WorkerModel
from likewise.errors import Cancelled, LikewiseError, UsageError
from likewise.sample import sample_sentences

pytestmark = pytest.mark.process
ITEMS = [(f"row-{row}", f"{sample_sentences()[row % 300]} {row}") for row in range(400)]
MANY = [(f"{name}-{turn}", text) for turn in range(12) for name, text in ITEMS]
"""So many that progress is reported in the midst of a run on a fast machine, too."""


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process cuts the windows, so that they need not be small in the workers."""
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 32)


def stored(folder: Path) -> tuple[bytes, ...]:
    return tuple((folder / name).read_bytes() for name in ("vectors.npy", "ids.jsonl", "manifest.json"))


@pytest.fixture(scope="module")
def alone(tiny: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[bytes, ...]]:
    """What one process writes."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "WINDOW_TEXTS", 32)
        encode_stream(tiny, ITEMS, folder)
    yield stored(folder)


@pytest.mark.parametrize("workers", [2, 3])
def test_bytes_are_those_of_one_process(workers: int, tiny: Encoder, tmp_path: Path, alone: tuple[bytes, ...]) -> None:
    calls: list[tuple[int, int | None, str]] = []
    encode_stream(tiny, ITEMS, tmp_path, total=400, workers=workers, progress=lambda *call: calls.append(call))
    assert stored(tmp_path) == alone
    assert calls[-1] == (400, 400, "texts") and len(calls) > 1
    assert [done for done, _, _ in calls] == sorted(done for done, _, _ in calls)
    assert not active_children()


def test_options_reach_the_workers(tiny: Encoder, tmp_path: Path) -> None:
    texts = [text for _, text in ITEMS]
    encoder = tiny.with_pooling(pooling="max", layer=(0, 1), truncate_dim=9)
    encoder = encoder.with_postprocessing(fit_postprocessing("whitening", encoder.encode(texts), 4))
    for workers in (1, 2):
        encode_stream(encoder, ITEMS, tmp_path / str(workers), prompt="the ", workers=workers)
    assert stored(tmp_path / "1") == stored(tmp_path / "2")


def test_one_window_needs_no_worker(tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerModel, "of", lambda *_: pytest.fail("a worker was started"))
    encode_stream(tiny, ITEMS[:32], tmp_path, workers=4)
    assert open_vectors(tmp_path)[0].shape == (32, 16)


# What stops them


def test_a_cancelled_run_goes_on_with_any_number_of_workers(tiny: Encoder, tmp_path: Path) -> None:
    def stop(done: int, *_: Any) -> None:
        manifest = Manifest.read(tmp_path / "stopped")
        if manifest is not None and manifest.rows > before:
            raise Cancelled

    before = 0
    for workers in (2, 1, 3):
        with pytest.raises(Cancelled):
            encode_stream(tiny, MANY, tmp_path / "stopped", workers=workers, progress=stop)
        assert not active_children()
        manifest = Manifest.read(tmp_path / "stopped")
        assert manifest is not None and before < manifest.rows < len(MANY)
        before = manifest.rows
    encode_stream(tiny, MANY, tmp_path / "stopped", workers=2)
    encode_stream(tiny, MANY, tmp_path / "alone")
    assert stored(tmp_path / "stopped") == stored(tmp_path / "alone")


def test_a_killed_worker_is_one_line_and_the_run_goes_on(tiny: Encoder, tmp_path: Path) -> None:
    def kill(*_: Any) -> None:
        manifest = Manifest.read(tmp_path / "killed")
        if manifest is not None and manifest.rows >= 64 and active_children():
            os.kill(active_children()[0].pid or 0, signal.SIGKILL)

    message = "a worker process ended by signal 9; run the same command again to go on, with fewer workers"
    with pytest.raises(LikewiseError, match=message):
        encode_stream(tiny, MANY, tmp_path / "killed", workers=2, progress=kill)
    assert not active_children()
    encode_stream(tiny, MANY, tmp_path / "killed", workers=2)
    encode_stream(tiny, MANY, tmp_path / "alone")
    assert stored(tmp_path / "killed") == stored(tmp_path / "alone")


def test_an_error_in_a_worker_is_one_line(tiny: Encoder, tmp_path: Path) -> None:
    """The folder of the weights is gone when the workers look for it."""
    gone = replace(tiny, folder=tmp_path / "gone")
    object.__setattr__(gone, "loaded_version", -1)  # so that this process does not look into the folder
    with pytest.raises(LikewiseError, match="no folder") as raised:
        encode_stream(gone, ITEMS, tmp_path / "out", workers=2)
    assert "\n" not in str(raised.value) and not active_children()


INTERRUPTED = """
import signal
import sys
from pathlib import Path
from likewise.encoder import Encoder, forward
from likewise.encoder.stream import encode_stream
from likewise.sample import sample_sentences

forward.WINDOW_TEXTS = 32
if __name__ == "__main__":
    # A process that was started in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    encoder = Encoder.load(sys.argv[1], device="cpu", threads=1)
    texts = sample_sentences()
    items = ((f"row-{row}", f"{texts[row % 300]} {row}") for row in range(10**6))
    encode_stream(encoder, items, Path(sys.argv[2]), workers=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_first_process(number: int, tiny_folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script), str(tiny_folder), str(tmp_path / "out")]
    # A process group of its own: Ctrl-C reaches all processes of the terminal.
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    rows = 0
    while rows < 64 and first.poll() is None:
        time.sleep(0.05)
        manifest = Manifest.read(tmp_path / "out") if (tmp_path / "out").exists() else None
        rows = 0 if manifest is None else manifest.rows
    (os.killpg if number == signal.SIGINT else os.kill)(first.pid, number)
    errors = first.communicate(timeout=60)[1]  # ends when no process holds stderr any more
    assert first.returncode == -number or number == signal.SIGINT
    assert errors.count("Traceback") == (1 if number == signal.SIGINT else 0), errors


# What is refused


def test_a_model_without_a_folder_is_refused(tiny: Encoder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"workers load a model from its folder, and .* has none; save it first"):
        encode_stream(replace(tiny, folder=None), ITEMS, tmp_path, workers=2)


def test_a_changed_model_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    encoder = Encoder.load(str(tiny_folder), device="cpu")
    with torch.no_grad():
        next(encoder.model.parameters()).add_(1)
    with pytest.raises(UsageError, match="has another model_sha256; save the encoder and load it again"):
        encode_stream(encoder, ITEMS, tmp_path, workers=2)


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_are_refused(workers: int, tiny: Encoder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="workers must be at least 1"):
        encode_stream(tiny, ITEMS, tmp_path, workers=workers)


def test_vectors_are_the_encoders(tiny: Encoder, tmp_path: Path) -> None:
    encode_stream(tiny, ITEMS, tmp_path, workers=2)
    assert np.abs(open_vectors(tmp_path)[0] - tiny.encode([text for _, text in ITEMS])).max() < 1e-6
