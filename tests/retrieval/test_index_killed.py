"""``kill -9`` at random moments: no committed row is lost, and the index always opens."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.retrieval import Index, IndexSettings
from likewise.retrieval.folder import FolderStore

ROUNDS = 100
LONGEST_WAIT = 0.25

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and kill -9")


def child_adding(encoder: Encoder, folder: Path, first: int, batch: int, report: int) -> None:
    """In a process of its own: add batches for ever, and report each one that is committed."""
    index = Index.open(folder, encoder, verify=False)
    for start in range(first, first + 100_000, batch):
        index.add([(str(number), f"text number {number}") for number in range(start, start + batch)])
        os.write(report, f"{start + batch}\n".encode())


def killed_while(work, wait: float) -> str:  # type: ignore[no-untyped-def]
    """Run ``work(report)`` in a fork, kill it after a while, and return what it reported before."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            work(write)
        finally:
            os._exit(1)  # never back into pytest
    os.close(write)
    time.sleep(wait)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read) as stream:
        return stream.read()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exact", "hnsw"])
def test_a_hundred_kills_while_adding_lose_nothing(tiny: Encoder, tmp_path: Path, engine: str) -> None:
    rng = random.Random(engine)
    folder = tmp_path / "index"
    Index.build(tiny, [("0", "text number 0")], folder, IndexSettings(engine))
    committed, next_id, interrupted = 1, 1, 0
    for _ in range(ROUNDS):
        batch = rng.choice([1, 3, 20, 64])
        first = next_id
        told = killed_while(
            lambda report, first=first, batch=batch: child_adding(tiny, folder, first, batch, report),
            rng.uniform(0, LONGEST_WAIT),
        )
        done = [int(line) for line in told.split() if line]
        last = max(done, default=first)
        store = FolderStore.open(folder, verify=True)
        ids = [name for rows in store.windows() for name in rows.ids]
        # All that was reported is there; of what was under way, all of one batch or nothing.
        assert ids == [str(number) for number in range(len(ids))]
        assert last <= len(ids) <= last + batch and (len(ids) - first) % batch == 0
        interrupted += bool({path.name for path in folder.glob("*-*")} - set(store.manifest.files))
        committed, next_id = len(ids), len(ids)
        hits = Index.open(folder, tiny).search(f"text number {committed - 1}", k=1)
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert committed > 50, "the children never got to add anything"
    assert interrupted > 0, "no kill came in the midst of a change"


@pytest.mark.slow
def test_a_killed_build_goes_on_and_ends_the_same(
    tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("likewise.encoder.stream.WINDOW_TEXTS", 16)
    items = [(str(number), f"text number {number}") for number in range(400)]
    whole = Index.build(tiny, items, tmp_path / "whole", source="numbers")
    folder, rng = tmp_path / "killed", random.Random(0)
    unfinished = 0
    for _ in range(40):
        killed_while(lambda report: Index.build(tiny, items, folder, source="numbers"), rng.uniform(0.02, 0.12))
        try:
            FolderStore.open(folder)
            break
        except DataError as error:
            unfinished += "unfinished" in str(error)
    else:
        Index.build(tiny, items, folder, source="numbers")
    assert unfinished > 0
    resumed = Index.open(folder, tiny)
    assert list(resumed.corpus().ids) == list(whole.corpus().ids)
    query = "text number 399"
    assert [hit.id for hit in resumed.search(query)] == [hit.id for hit in whole.search(query)]


def test_a_killed_replacement_leaves_the_old_index(tiny: Encoder, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    Index.build(tiny, [("old", "the cat sat")], folder)
    items = [(str(number), f"text number {number}") for number in range(20_000)]
    killed_while(lambda report: Index.build(tiny, items, folder, replace=True), 0.2)
    assert list(Index.open(folder, tiny).corpus().ids) == ["old"]
    Index.build(tiny, items[:3], folder, replace=True)
    assert len(Index.open(folder, tiny)) == 3
    names = {path.name for path in folder.iterdir()}
    assert names == {".lock", "index.json", *FolderStore.open(folder).manifest.files}
