"""``kill -9`` at random moments: no committed row is lost, and the index always opens."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from likewise.encoder import Encoder, forward
from likewise.errors import DataError
from likewise.search import Index, IndexSettings, PassageSettings
from likewise.search.stores.folder import FolderStore

LONGEST_WAIT = 0.25

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork server and kill -9"),
]


# Children come from a server that has loaded the package and has run nothing: a fork of the test run itself would
# hang wherever an earlier test has started a library's threads.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["faiss", "likewise.search", "pytest"])
STARTS_WITHIN = 120.0
"""Seconds after which a child that is not ready never will be; the first one waits for the server's imports."""


def add_for_ever(report: Connection, model: Path, folder: Path, first: int, batch: int) -> None:
    """In a process of its own: add batches until the kill, and report each one that is committed."""
    index = Index.open(folder, ready(report, model), verify=False)
    for start in range(first, first + 100_000, batch):
        index.add([(str(number), f"text number {number}") for number in range(start, start + batch)])
        report.send(start + batch)


def build_numbers(report: Connection, model: Path, folder: Path, count: int, replace: bool) -> None:
    """In a process of its own: build an index of ``count`` texts, in small windows."""
    forward.WINDOW_TEXTS = 16
    Index.build(ready(report, model), numbers(count), folder, source="numbers", replace=replace)


def ready(report: Connection, model: Path) -> Encoder:
    """The child's encoder; the time to the kill runs from here."""
    torch.set_num_threads(1)
    encoder = Encoder.load(str(model))
    report.send(0)
    return encoder


def numbers(count: int) -> list[tuple[str, str]]:
    return [(str(number), f"text number {number}") for number in range(count)]


def killed_while(work: Callable[..., None], wait: float, *given: object) -> int:
    """Run ``work(report, *given)`` in a child, kill it a while after it is ready, and return its last report."""
    receive, send = CHILDREN.Pipe(duplex=False)
    child = CHILDREN.Process(target=work, args=(send, *given), daemon=True)
    child.start()
    send.close()
    assert receive.poll(STARTS_WITHIN), "the child never got ready"
    child.join(wait)
    child.kill()
    child.join()
    last = 0
    with contextlib.suppress(EOFError):  # after the last report
        while receive.poll(0):
            last = receive.recv()
    return last


@pytest.mark.parametrize(
    ("engine", "rounds"),
    [
        ("exact", 20),
        ("hnsw", 10),
        pytest.param("exact", 400, marks=pytest.mark.nightly),
        pytest.param("hnsw", 100, marks=pytest.mark.nightly),
    ],
)
def test_many_kills_while_adding_lose_nothing(
    tiny: Encoder, tiny_folder: Path, tmp_path: Path, engine: str, rounds: int
) -> None:
    rng = random.Random(engine)
    folder = tmp_path / "index"
    Index.build(tiny, [("0", "text number 0")], folder, IndexSettings(engine))
    committed, next_id, interrupted = 1, 1, 0
    for _ in range(rounds):
        batch = rng.choice([1, 3, 20, 64])
        first = next_id
        wait = rng.uniform(0, LONGEST_WAIT)
        last = killed_while(add_for_ever, wait, tiny_folder, folder, first, batch) or first
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
    tiny: Encoder, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 16)
    whole = Index.build(tiny, numbers(3_000), tmp_path / "whole", source="numbers")
    folder, rng = tmp_path / "killed", random.Random(0)
    unfinished = 0
    for _ in range(40):
        killed_while(build_numbers, rng.uniform(0.02, 0.12), tiny_folder, folder, 3_000, False)
        try:
            FolderStore.open(folder)
            break
        except DataError as error:
            unfinished += "unfinished" in str(error)
    else:
        Index.build(tiny, numbers(3_000), folder, source="numbers")
    assert unfinished > 0
    resumed = Index.open(folder, tiny)
    assert list(resumed.corpus().ids) == list(whole.corpus().ids)
    query = "text number 399"
    assert [hit.id for hit in resumed.search(query)] == [hit.id for hit in whole.search(query)]


def test_a_killed_replacement_leaves_the_old_index(tiny: Encoder, tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    Index.build(tiny, [("old", "the cat sat")], folder)
    killed_while(build_numbers, 0.2, tiny_folder, folder, 20_000, True)
    assert list(Index.open(folder, tiny).corpus().ids) == ["old"]
    Index.build(tiny, numbers(3), folder, replace=True)
    assert len(Index.open(folder, tiny)) == 3
    names = {path.name for path in folder.iterdir()}
    assert names == {".lock", "index.json", *FolderStore.open(folder).manifest.files}


def build_documents(report: Connection, model: Path, folder: Path) -> None:
    """In a process of its own: build an index of documents in passages, in small windows."""
    forward.WINDOW_TEXTS = 8
    Index.build(ready(report, model), documents(), folder, passages=PassageSettings(24), source="documents")


def documents() -> list[tuple[str, str, dict[str, int]]]:
    return [
        (str(number), f"document {number} has this. " * (1 + number % 9), {"year": number}) for number in range(600)
    ]


@pytest.mark.slow
def test_a_killed_build_of_documents_goes_on_with_whole_documents(
    tiny: Encoder, tiny_folder: Path, tmp_path: Path
) -> None:
    folder, rng = tmp_path / "killed", random.Random(0)
    for _ in range(6):
        killed_while(build_documents, rng.uniform(0.05, 0.3), tiny_folder, folder)
        if (folder / "index.json").exists():
            break
    index = Index.open(folder, tiny) if (folder / "index.json").exists() else Index.build(
        tiny, documents(), folder, passages=PassageSettings(24), source="documents"
    )  # fmt: skip
    whole = Index.from_texts(tiny, documents(), passages=PassageSettings(24))
    assert index.corpus() == whole.corpus() and len(index) == 600
    assert all(index.document(name) == text for name, text, _ in documents()[::50])
