"""The Milvus store against real Milvus Lite, in this process and behind a port; numpy is the slow twin."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from likewise.errors import DataError, MissingExtra, UsageError
from likewise.search.engines import Vectors
from likewise.search.stores import StoredRows, open_store
from likewise.search.stores.address import Address
from likewise.search.stores.folder import has_scheme
from likewise.search.stores.milvus import MilvusConnection, MilvusStore
from likewise.search.stores.server_rows import BATCH_ROWS, batches, id_of, key_of

SETTINGS = {"model": "tiny", "prompts": {"query": "find: ü\n"}, "max_tokens": 128, "layers": (1, 2)}
DIMENSION = 8
HOSTILE = [
    "",
    "%",
    "'",
    '"',
    "\\",
    "\\'",
    'x" or true',
    "x' or true or id == '",
    "x'] or place >= 0 or id in ['",
    "a\nb\r\t\0",
    "%41",
    "A",
    "日本 😀",
    "\\u4e2d",
    "C:\\users\\new",
    "{ids}",
    " ",
    "id",
    "half \ud800",
]


def rows_of(count: int, seed: int = 0, prefix: str = "d") -> StoredRows:
    vectors = np.random.default_rng(seed).normal(size=(count, DIMENSION)).astype(np.float32)
    return StoredRows([f"{prefix}{i}" for i in range(count)], [f"{prefix} text {i}" for i in range(count)], vectors)


def fill(store: MilvusStore, rows: StoredRows) -> None:
    with store.writer() as writer:
        writer.append(rows)
        writer.commit()


def plain_nearest(rows: StoredRows, query: Vectors, k: int) -> list[tuple[str, str, float]]:
    """Score every row in float64, sort; a stable sort leaves the earlier first."""
    scores = [float(np.dot(vector.astype(np.float64), query.astype(np.float64))) for vector in rows.vectors]
    order = sorted(range(len(rows)), key=lambda i: -np.float32(scores[i]))
    return [(rows.ids[i], rows.texts[i], scores[i]) for i in order[:k]]


def stored(store: MilvusStore) -> list[tuple[str, str]]:
    return [pair for rows in store.windows() for pair in zip(rows.ids, rows.texts, strict=True)]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"milvus:{tmp_path / 'index.db'}"


@pytest.fixture
def store(address: str) -> Iterator[MilvusStore]:
    with MilvusStore.create(address, SETTINGS, DIMENSION) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Milvus's protocol behind a port, as a cluster speaks it."""
    from milvus_lite.adapter.grpc.server import start_server_in_thread

    running, database, port = start_server_in_thread(str(tmp_path / "server"), port=0)
    yield f"milvus://127.0.0.1:{port}/news"
    running.stop(grace=None)
    database.close()


def in_another_process(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    head = "import os, signal, sys\nimport numpy as np\nfrom likewise.errors import LikewiseError\n"
    head += "from likewise.search.stores.milvus import MilvusStore\nfrom likewise.search.stores import StoredRows\n"
    return subprocess.run([sys.executable, "-c", head + code, *arguments], capture_output=True, text=True, timeout=60)


def test_addresses() -> None:
    server = Address.parse("milvus://db.example.org:19530/news_2")
    assert (server.nodes, server.collection, server.file) == (("db.example.org:19530",), "news_2", None)
    lite = Address.parse("milvus:/data/a#b.db")
    assert (lite.file, lite.nodes, lite.collection) == (Path("/data/a#b.db"), (), "likewise")
    assert Address.parse("milvus:x.db#news").collection == "news"
    assert Address.parse("milvus:x.db").file == Address.parse("milvus:y/../x.db").file == Path.cwd() / "x.db"
    assert Address.parse("milvus://[::1]:19530/news").nodes == ("[::1]:19530",)
    cluster = Address.parse("qdrant://one:6333,two:6334/news")
    assert (cluster.kind, cluster.nodes, cluster.collection) == ("qdrant", ("one:6333", "two:6334"), "news")
    table = Address.parse("postgresql://db:5432/main/news")
    assert (table.kind, table.nodes, table.database, table.collection) == ("postgresql", ("db:5432",), "main", "news")
    assert has_scheme("milvus:x.db") and has_scheme("milvus://h:1/c") and not has_scheme("folder/milvus")


@pytest.mark.parametrize(
    "written",
    [
        "milvus://host/news",
        "milvus://host:port/news",
        "milvus://[bad/news",
        "milvus://host:1",
        "milvus://host:1/a/b",
        "milvus://host:1/a-b",
        "milvus://host:1/a?b=c",
        "milvus:x.sqlite",
        "milvus:",
        "milvus:x.db#",
        "milvus:x.db#a b",
        "x.db",
        "milvus://one:1,two:1/news",
        "qdrant://host/news",
        "qdrant://host:1",
        "qdrant://one:1,/news",
        "qdrant://host:0/news",
        "qdrant:news.db",
        "postgresql://host:1/table",
        "postgresql://host:1/database/a b",
        "postgresql://host:1/database/" + "x" * 49,
    ],
)
def test_wrong_addresses(written: str) -> None:
    with pytest.raises(UsageError, match=r"(write|give) \w+://HOST:PORT/|use letters, digits|too long a name"):
        Address.parse(written)


@pytest.mark.parametrize(
    ("kind", "variable"), [("milvus", "MILVUS_TOKEN"), ("qdrant", "QDRANT_API_KEY"), ("postgresql", "PGPASSWORD")]
)
def test_no_password_in_an_address(kind: str, variable: str) -> None:
    with pytest.raises(UsageError, match=variable) as caught:
        Address.parse(f"{kind}://root:secret@host:1/database/news")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_key_is_harmless_and_is_the_id(name: str) -> None:
    key = key_of(name)
    assert id_of(key) == name
    assert key and key.isascii() and key.isprintable() and not set(key) & set("'\"\\{}")


def test_batches_hold_their_limits() -> None:
    sizes = [10] * 3000 + [5_000_000, 5_000_000, 9_000_000, 1]
    cut = [sizes[batch] for batch in batches(sizes)]
    assert [size for batch in cut for size in batch] == sizes
    assert all(len(batch) <= BATCH_ROWS and (sum(batch) <= 8_000_000 or len(batch) == 1) for batch in cut)


def check_twin(store: MilvusStore, rows: StoredRows, queries: Vectors, k: int) -> None:
    for query, hits in zip(queries, store.nearest(queries, k), strict=True):
        expected = plain_nearest(rows, query, k)
        assert [(hit.id, hit.text) for hit in hits] == [(name, text) for name, text, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for *_, score in expected], atol=1e-5)


def test_rows_that_a_graph_loses_are_found_by_a_scan(store: MilvusStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(60)
    fill(store, rows)
    search = MilvusConnection.search
    monkeypatch.setattr(MilvusConnection, "search", lambda *given: [hits[::2] for hits in search(*given)])
    check_twin(store, rows, rows_of(2, 9).vectors, 100)


def test_the_limits_of_k(store: MilvusStore) -> None:
    fill(store, rows_of(3))
    queries = rows_of(1, 9).vectors
    assert len(store.nearest(queries, 16_384)[0]) == 3
    for k in (0, 16_385):
        with pytest.raises(UsageError, match="16384"):
            store.nearest(queries, k)
    assert store.nearest(queries[:0], 5) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("long", "ü" * 32_768, r"'long'.*65536 bytes, at most 65535"),
        ("half", "\ud800", "'half'.*surrogate"),
        ("i" * 65_536, "t", r"id 'iii.*65536 bytes, at most 65535"),
    ],
)
def test_what_milvus_cannot_hold_is_refused_before_anything_is_written(
    store: MilvusStore, name: str, text: str, said: str
) -> None:
    rows = rows_of(3)
    bad = StoredRows([*rows.ids[:2], name], [*rows.texts[:2], text], rows.vectors)
    with store.writer() as writer:
        with pytest.raises(DataError, match=said):
            writer.append(bad)
        with pytest.raises(DataError, match=said):
            writer.missing(bad.ids, bad.texts)
    assert len(store) == 0


def test_missing(store: MilvusStore) -> None:
    rows = rows_of(BATCH_ROWS + 10)
    with store.writer() as writer:
        assert writer.missing(rows.ids, rows.texts) == list(range(len(rows)))
        assert writer.missing([], []) == []
        writer.append(rows)
        assert writer.missing(rows.ids, rows.texts) == []
        assert writer.missing(["d3", "new", "d4", "new"], ["d text 3", "n", "d text 4", "n"]) == [1]
        with pytest.raises(DataError, match="'d4' is already in the index with another text"):
            writer.missing(["d3", "d4"], ["d text 3", "other"])
        with pytest.raises(DataError, match="'new' names two texts"):
            writer.missing(["new", "new"], ["a", "b"])


def test_append_is_idempotent(store: MilvusStore) -> None:
    rows = rows_of(20)
    for _ in range(2):
        fill(store, rows)
    twice = StoredRows(["t", "t"], ["same", "same"], rows.vectors[:2])
    fill(store, twice)
    assert len(store) == 21 and stored(store) == [*zip(rows.ids, rows.texts, strict=True), ("t", "same")]


def test_what_is_not_there_is_not_made(tmp_path: Path, address: str) -> None:
    for call in (MilvusStore.open, MilvusStore.drop):
        with pytest.raises(DataError, match=f"likewise index FILE --store {address}"):
            call(address)
    assert list(tmp_path.iterdir()) == []
    with MilvusStore.create(address, SETTINGS, DIMENSION) as store:
        fill(store, rows_of(1))
    with pytest.raises(DataError, match=r"likewise index FILE --store .*#other"):
        MilvusStore.open(f"{address}#other")


def test_drop_and_make_anew(address: str) -> None:
    with MilvusStore.create(address, SETTINGS, DIMENSION) as store:
        fill(store, rows_of(5))
    with MilvusStore.create(f"{address}#second", SETTINGS, DIMENSION) as second:
        fill(second, rows_of(2))
    MilvusStore.drop(address)
    with MilvusStore.create(address, {"model": "big"}, 3) as store:
        fill(store, StoredRows(["a"], ["b"], np.ones((1, 3), np.float32)))
        assert len(store) == 1
    with MilvusStore.open(f"{address}#second") as store:
        assert len(store) == 2


def test_a_foreign_collection_is_left_alone(tmp_path: Path, address: str) -> None:
    from milvus_lite import server_manager_instance
    from pymilvus import MilvusClient

    client = MilvusClient(str(tmp_path / "index.db"), dedicated=True)
    client.create_collection("likewise", dimension=DIMENSION)
    client.close()
    server_manager_instance.release_server(str(tmp_path / "index.db"))
    for call in (MilvusStore.open, MilvusStore.drop):
        with pytest.raises(DataError, match="not made by Likewise; give another collection"):
            call(address)
    with pytest.raises(UsageError, match="not made by Likewise; give another collection"):
        MilvusStore.create(address, SETTINGS, DIMENSION)


def test_a_file_of_another_kind(tmp_path: Path, address: str) -> None:
    (tmp_path / "index.db").write_bytes(b"SQLite format 3\0")
    with pytest.raises(DataError, match="is not a database of Milvus Lite 3"):
        MilvusStore.create(address, SETTINGS, DIMENSION)


def test_lite_says_that_it_compares_every_row(store: MilvusStore) -> None:
    fill(store, rows_of(30))
    assert (store.searched.engine, store.searched.recall) == ("FLAT", None)
    assert "every row" in store.searched.note and "\n" not in store.searched.note


@pytest.mark.slow
@pytest.mark.process
def test_one_process_at_a_time_has_a_lite_database(store: MilvusStore, address: str) -> None:
    fill(store, rows_of(50))
    code = """
try:
    store = MilvusStore.open(sys.argv[1])
    print(len(store), store.settings["model"], store.nearest(np.ones((1, 8), np.float32), 1)[0][0].id)
    with store.writer() as writer:
        writer.append(StoredRows(["a"], ["b"], np.eye(1, 8, dtype=np.float32)))
except LikewiseError as error:
    print(type(error).__name__, error)
"""
    refused = in_another_process(code, address)
    assert refused.stdout.startswith("UsageError another process has ") and refused.stdout.count("\n") == 1
    best = store.nearest(np.ones((1, DIMENSION), np.float32), 1)[0][0].id
    store.close()
    opened = in_another_process(code, address)  # which neither commits nor closes, and yet loses nothing
    assert opened.stdout == f"50 tiny {best}\n"
    assert refused.stderr == opened.stderr == ""
    with MilvusStore.open(address) as again:
        assert len(again) == 51 and stored(again)[-1] == ("a", "b")


def test_closing_stops_milvus(address: str) -> None:
    def threads() -> set[str]:
        return {thread.name for thread in threading.enumerate() if "milvus" in thread.name}

    first = MilvusStore.create(address, SETTINGS, DIMENSION)
    fill(first, rows_of(2))
    second = MilvusStore.open(address)
    first.close()
    first.close()
    fill(second, rows_of(3))
    assert len(second) == 3 and threads()
    second.close()
    assert not threads()
    with pytest.raises(UsageError, match="is closed; open it again"):
        len(second)


def test_what_milvus_refuses_is_told_in_one_line(store: MilvusStore, capfd: pytest.CaptureFixture[str]) -> None:
    wide = StoredRows(["a"], ["b"], np.ones((1, DIMENSION + 1), np.float32))
    with store.writer() as writer, pytest.raises(DataError, match="Milvus failed at upsert on milvus:") as caught:
        writer.append(wide)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_an_unreachable_server(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"milvus://127.0.0.1:{closed.getsockname()[1]}/news"
        start = time.monotonic()
        for call in (MilvusStore.open, MilvusStore.drop, lambda where: MilvusStore.create(where, SETTINGS, DIMENSION)):
            with pytest.raises(DataError, match="no Milvus answers at http://127") as caught:
                call(address)
            assert "\n" not in str(caught.value) and "MILVUS_TOKEN" in str(caught.value)
    assert time.monotonic() - start < 10
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_server_has_a_graph_and_its_recall_is_kept(server: str) -> None:
    rows = rows_of(BATCH_ROWS + 200)
    with MilvusStore.create(server, SETTINGS, DIMENSION) as store:
        assert type(store) is MilvusStore and "not measured yet" in store.searched.note
        fill(store, rows)
        measured = store.searched
    assert measured.engine == "HNSW" and measured.note == ""
    assert measured.recall is not None and 0.9 <= measured.recall <= 1
    with MilvusStore.open(server) as store:
        assert store.searched == measured and store.settings == {**SETTINGS, "layers": [1, 2]}
        assert [name for name, _ in stored(store)] == rows.ids
        found = [{hit.id for hit in hits} for hits in store.nearest(rows.vectors[:20], 10)]
        true = [{name for name, *_ in plain_nearest(rows, query, 10)} for query in rows.vectors[:20]]
        assert np.mean([len(a & b) / 10 for a, b in zip(found, true, strict=True)]) > 0.9
        assert len(store.nearest(rows.vectors[:1], 5000)[0]) == len(rows)
    with pytest.raises(UsageError, match="was begun with model 'tiny', not 'big'"):
        MilvusStore.create(server, {**SETTINGS, "model": "big"}, DIMENSION)
    MilvusStore.drop(server)
    with pytest.raises(DataError, match="likewise index FILE --store"):
        MilvusStore.open(server)


def test_recall_counts_what_is_missed(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nearest = MilvusStore.nearest
    monkeypatch.setattr(MilvusStore, "nearest", lambda *given: [hits[::2] for hits in nearest(*given)])
    with MilvusStore.create(server, SETTINGS, DIMENSION) as store:
        fill(store, rows_of(100))
        assert store.searched.recall == 0.5
        before = store.searched
        monkeypatch.undo()
        fill(store, rows_of(5, 1, "few"))
        assert store.searched == before
        fill(store, rows_of(30, 1, "many"))
        assert store.searched.recall == 1


@pytest.mark.parametrize("is_replaced", [False, True], ids=["added to", "replaced"])
def test_a_collection_without_an_alias(address: str, is_replaced: bool) -> None:
    """Earlier versions gave the collection itself the name of the address."""
    from likewise.search.stores.server_store import SETTINGS as KEY

    made = MilvusConnection(Address.parse(address))
    made.create(DIMENSION, False, {KEY: json.dumps(SETTINGS)})
    made.close()
    rows, more = rows_of(5), rows_of(3, 1, "m")
    with MilvusStore.open(address) as store:
        fill(store, rows)
        assert store._connection.collection == "likewise"
    with MilvusStore.create(address, SETTINGS, DIMENSION, replace=is_replaced) as store:
        fill(store, more)
    with MilvusStore.open(address) as store:
        assert [name for name, _ in stored(store)] == [*([] if is_replaced else rows.ids), *more.ids]
        assert store._connection.collection == ("likewise__a" if is_replaced else "likewise")
        assert [name for name in store._copies if store._connection.exists(name)] == ["likewise__a"] * is_replaced


@pytest.mark.parametrize(
    ("package", "extra", "address"),
    [
        ("pymilvus", "milvus", "milvus://host:1/news"),
        ("qdrant_client", "qdrant", "qdrant://host:1/news"),
        ("psycopg", "pgvector", "postgresql://host:1/database/news"),
    ],
)
def test_a_missing_client_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, extra: str, address: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"likewise\[{extra}\]"):
        open_store(address)


@pytest.mark.process
def test_no_client_is_imported_before_it_is_needed(tmp_path: Path) -> None:
    code = """
import sys
import likewise.search, likewise.search.stores, likewise.cli.search
from likewise.search.stores import qdrant, pgvector, milvus, server_store
for kind in ("milvus://h:1/x", "qdrant://h:1/x", "postgresql://h:1/d/x"):
    server_store(kind)
print(sorted({"pymilvus", "milvus_lite", "grpc", "qdrant_client", "httpx", "psycopg"} & sys.modules.keys()))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout == "[]\n", found.stderr
