"""Servers that restart, hang, are away or are of another kind; killed writers; readers while an index is replaced."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conformance import PLAIN, ServerTarget, add, check_twin, fill, pairs, rows_of, stored, write
from running import RunningServer

from likewise.errors import DataError, LikewiseError
from likewise.search.stores import connection, milvus, pgvector, qdrant, server_store

pytest_plugins = ("store_fixtures",)
pytestmark = [pytest.mark.stores, pytest.mark.process]
MODULES = (milvus, pgvector, qdrant)
KILLED = """
import os, signal, sys
from conformance import PLAIN, ServerTarget, part, rows_of, write
target, how, count = ServerTarget(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rows = rows_of(2000, 1, "m")
if how == "add":
    with target.open() as store, store.writer() as writer:
        write(writer, part(rows, slice(0, count)))
        os.kill(os.getpid(), signal.SIGKILL)
with target.building({**PLAIN, "texts": "b"}, replace=how == "replace") as writer:
    write(writer, part(rows, slice(0, count)))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_writer(target: ServerTarget, how: str, count: int = 1300) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, target.address, how, str(count)], cwd=Path(__file__).parent, timeout=120
    )
    assert done.returncode == -signal.SIGKILL


def restart(running: RunningServer) -> None:
    running.server.kill()
    running.server.start()


def test_a_restart_in_between(running: RunningServer, target: ServerTarget) -> None:
    rows, more = rows_of(300), rows_of(50, 1, "m")
    fill(target, rows)
    with target.open() as store:
        check_twin(store, rows)
        restart(running)
        check_twin(store, rows)
        assert stored(add(store, more)) == [*pairs(rows), *pairs(more)]
    restart(running)
    with target.open() as store:
        assert stored(store) == [*pairs(rows), *pairs(more)]
        assert store.searched.engine == "exact" or (store.searched.recall or 0) > 0.95


@pytest.mark.parametrize("how", ["build", "add", "replace"])
def test_a_killed_writer(target: ServerTarget, how: str) -> None:
    rows, more = rows_of(100), rows_of(2000, 1, "m")
    if how != "build":
        fill(target, rows)
    kill_a_writer(target, how)
    if how == "build":
        with pytest.raises(DataError, match="is unfinished; run the same likewise index"):
            target.open()
    else:
        with target.open() as store:  # an addition is visible row by row, a replacement not at all
            assert stored(store)[:100] == pairs(rows)
            assert len(store) == (1400 if how == "add" else 100)
    if how == "add":
        with target.open() as store:
            add(store, more)
    else:
        with target.building({**PLAIN, "texts": "b"}, replace=how == "replace") as writer:
            assert write(writer, more) == 700, "what was stored is not stored again"
            writer.commit()
    with target.open() as store:
        assert stored(store) == [*(pairs(rows) if how == "add" else []), *pairs(more)]


def test_readers_never_see_an_empty_or_mixed_index(target: ServerTarget) -> None:
    versions = [rows_of(300, seed, prefix) for seed, prefix in enumerate("abc")]
    fill(target, versions[0])
    done, seen, failures = threading.Event(), set[str](), list[BaseException]()

    def read() -> None:
        try:
            with target.open() as store:
                while not done.is_set():
                    hits = store.nearest(versions[0].vectors[:1], 20)[0]
                    prefixes = {hit.id[0] for hit in hits}
                    assert len(hits) == 20 and len(prefixes) == 1
                    seen.update(prefixes)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for rows in versions[1:]:
            fill(target, rows, {**PLAIN, "texts": rows.ids[0]}, replace=True)
            time.sleep(1.0)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == [] and seen == set("abc")


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 600 and ";" in text
    return text


def test_a_server_that_is_away(
    running: RunningServer, target: ServerTarget, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for module in MODULES:
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 2.0)
    fill(target, rows_of(50))
    store = target.open()
    running.server.kill()
    try:
        start = time.monotonic()
        with pytest.raises(DataError, match="answers at") as caught:
            target.open()
        assert "check the address" in one_line(caught)
        with pytest.raises(DataError, match="failed") as caught:
            store.nearest(rows_of(1).vectors, 3)
        one_line(caught)
        assert time.monotonic() - start < 60
    finally:
        running.server.start()
    monkeypatch.undo()
    check_twin(store, rows_of(50))
    store.close()
    assert "Traceback" not in "".join(capfd.readouterr())


def test_a_server_that_hangs(running: RunningServer, target: ServerTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 1.0)
        monkeypatch.setattr(module, "CALL_SECONDS", 3.0)
    monkeypatch.setattr(qdrant, "NODE_SECONDS", 3.0)
    rows = rows_of(50)
    fill(target, rows)
    store = target.open()
    running.server.pause()
    try:
        start = time.monotonic()
        with pytest.raises(DataError, match="failed") as caught:
            store.nearest(rows.vectors[:1], 3)
        one_line(caught)
        with pytest.raises(DataError, match="answers at") as caught:
            target.open()
        one_line(caught)
        assert time.monotonic() - start < 90
    finally:
        running.server.resume()
    monkeypatch.undo()
    if running.kind == "milvus":  # its parts give up their sessions while they are halted
        restart(running)
    with target.open() as again:
        check_twin(again, rows)
    store.close()


@pytest.mark.parametrize("kind", ["milvus", "qdrant", "postgresql"])
def test_a_server_of_another_kind(running: RunningServer, kind: str) -> None:
    if running.address("x").startswith(kind):
        return
    node = running.address("x").split("/")[2].split(",")[0]
    address = f"{kind}://{node}/{'postgres/x' if kind == 'postgresql' else 'x'}"
    with pytest.raises(DataError, match="answers at") as caught:
        server_store(address).open(address)
    one_line(caught)


def test_a_server_that_is_too_old(
    running: RunningServer, target: ServerTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (milvus, qdrant):
        monkeypatch.setattr(module, "OLDEST", (99, 0))
    monkeypatch.setattr(pgvector, "OLDEST", 990_000)
    with pytest.raises(DataError, match=r"Likewise needs .* or newer, so update it") as caught:
        target.open()
    one_line(caught)


def test_a_collection_of_someone_else_is_left_alone(running: RunningServer, target: ServerTarget) -> None:
    made = server_store(target.address).connection_type(connection.Address.parse(target.address))
    made.create(8, False, {"owner": "someone"})
    made.close()
    for call in (target.open, lambda: fill(target, rows_of(3)), lambda: fill(target, rows_of(3), replace=True)):
        with pytest.raises(LikewiseError, match="was not made by Likewise; give another collection"):
            call()
    made = server_store(target.address).connection_type(connection.Address.parse(target.address))
    assert made.properties()["owner"] == "someone"
    made.drop(made.collection)
    made.close()
