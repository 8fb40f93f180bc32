"""The Milvus store against real Milvus Lite, in this process and behind a port; numpy is the slow twin."""

from __future__ import annotations

import signal
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
from likewise.search.stores import StoredRows
from likewise.search.stores.address import Address, has_scheme
from likewise.search.stores.milvus import MilvusStore
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
    assert (server.uri, server.collection, server.file) == ("http://db.example.org:19530", "news_2", None)
    lite = Address.parse("milvus:/data/a#b.db")
    assert (lite.file, lite.uri, lite.collection) == (Path("/data/a#b.db"), "/data/a#b.db", "likewise")
    assert Address.parse("milvus:x.db#news").collection == "news"
    assert Address.parse("milvus:x.db").file == Address.parse("milvus:y/../x.db").file == Path.cwd() / "x.db"
    assert Address.parse("milvus://[::1]:19530/news").uri == "http://[::1]:19530"
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
    ],
)
def test_wrong_addresses(written: str) -> None:
    with pytest.raises(UsageError, match=r"write milvus://HOST:PORT/COLLECTION|use letters, digits"):
        Address.parse(written)


def test_no_password_in_an_address() -> None:
    with pytest.raises(UsageError, match="MILVUS_TOKEN"):
        Address.parse("milvus://root:secret@host:1/news")


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


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nearest_is_its_slow_twin(tmp_path: Path, seed: int) -> None:
    rows = rows_of(BATCH_ROWS + 300, seed)
    queries = rows_of(5, seed + 100).vectors
    with MilvusStore.create(f"milvus:{tmp_path / 'index.db'}", SETTINGS, DIMENSION) as store:
        with store.writer() as writer:
            writer.append(rows)
            check_twin(store, rows, queries, 7)  # not committed, and found
            writer.commit()
        for k in (1, 10, 2 * BATCH_ROWS):
            check_twin(store, rows, queries, k)


def check_twin(store: MilvusStore, rows: StoredRows, queries: Vectors, k: int) -> None:
    for query, hits in zip(queries, store.nearest(queries, k), strict=True):
        expected = plain_nearest(rows, query, k)
        assert [(hit.id, hit.text) for hit in hits] == [(name, text) for name, text, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for *_, score in expected], atol=1e-5)


def test_among_equals_the_earlier_comes_first(store: MilvusStore) -> None:
    rows = rows_of(200)
    rows.vectors[50:150] = rows.vectors[50]
    with store.writer() as writer:
        for part in (slice(0, 90), slice(90, 200)):
            writer.append(StoredRows(rows.ids[part], rows.texts[part], rows.vectors[part]))
            writer.commit()
    hits = store.nearest(rows.vectors[50:51], 20)[0]
    assert [hit.id for hit in hits] == [name for name, *_ in plain_nearest(rows, rows.vectors[50], 20)]
    assert [hit.id for hit in hits if hit.score == hits[0].score][:3] == ["d50", "d51", "d52"]


def test_rows_that_a_graph_loses_are_found_by_a_scan(store: MilvusStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(60)
    fill(store, rows)
    search = MilvusStore._search
    monkeypatch.setattr(MilvusStore, "_search", lambda *given: [hits[::2] for hits in search(*given)])
    check_twin(store, rows, rows_of(2, 9).vectors, 100)


def test_the_limits_of_k(store: MilvusStore) -> None:
    fill(store, rows_of(3))
    queries = rows_of(1, 9).vectors
    assert len(store.nearest(queries, 16_384)[0]) == 3
    for k in (0, 16_385):
        with pytest.raises(UsageError, match="16384"):
            store.nearest(queries, k)
    assert store.nearest(queries[:0], 5) == []


def test_an_empty_store(store: MilvusStore) -> None:
    assert len(store) == 0 and stored(store) == []
    assert store.nearest(rows_of(2).vectors, 5) == [[], []]


def test_texts_are_kept_as_they_are(store: MilvusStore) -> None:
    texts = ["", " ", "a\nb\r\n\t", "nul \0 inside", "😀 日本 e\u0301 \u2028", "'\"\\ {x}", "x" * 65_535, "ü" * 32_767]
    rows = rows_of(len(texts))
    fill(store, StoredRows(rows.ids, texts, rows.vectors))
    assert stored(store) == list(zip(rows.ids, texts, strict=True))
    np.testing.assert_array_equal(next(store.windows()).vectors, rows.vectors)
    assert [hit.text for hit in store.nearest(rows.vectors[:1], 8)[0]].count("nul \0 inside") == 1


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


def test_delete(store: MilvusStore) -> None:
    rows = rows_of(40)
    fill(store, rows)
    with store.writer() as writer:
        with pytest.raises(DataError, match="'nobody' is not in the index"):
            writer.delete(["d1", "nobody"])
        assert len(store) == 40
        writer.delete(["d39", "d5", "d39"])
        writer.delete([])
        writer.commit()
    left = [name for name in rows.ids if name not in ("d39", "d5")]
    assert len(store) == 38 and [name for name, _ in stored(store)] == left
    assert {hit.id for hit in store.nearest(rows.vectors[5:6], 100)[0]} == set(left)
    fill(store, rows_of(2, 5, "new"))
    assert [name for name, _ in stored(store)] == [*left, "new0", "new1"]


def test_hostile_ids(store: MilvusStore) -> None:
    rows = StoredRows(HOSTILE, rows_of(len(HOSTILE)).texts, rows_of(len(HOSTILE)).vectors)
    fill(store, rows)
    assert len(store) == len(HOSTILE) and [name for name, _ in stored(store)] == HOSTILE
    with store.writer() as writer:
        assert writer.missing(rows.ids, rows.texts) == []
        check_twin(store, rows, rows.vectors, 5)
        for place, name in enumerate(HOSTILE):
            writer.delete([name])
            assert [left for left, _ in stored(store)] == HOSTILE[place + 1 :]


def test_windows_pass_over_holes(store: MilvusStore) -> None:
    rows = rows_of(3 * BATCH_ROWS)
    fill(store, rows)
    gone = rows.ids[100 : 2 * BATCH_ROWS + 50]
    with store.writer() as writer:
        writer.delete(gone)
        writer.append(rows_of(5, 7, "late"))
        writer.commit()
    left = [*rows.ids[:100], *rows.ids[2 * BATCH_ROWS + 50 :], *(f"late{i}" for i in range(5))]
    assert [name for name, _ in stored(store)] == left


def test_settings_are_kept_and_a_build_is_gone_on_with(address: str) -> None:
    kept = {**SETTINGS, "layers": [1, 2]}
    with MilvusStore.create(address, SETTINGS, DIMENSION) as store:
        fill(store, rows_of(5))
    with MilvusStore.create(address, SETTINGS, DIMENSION) as store:
        assert len(store) == 5 and store.settings == kept
    with MilvusStore.open(address) as store:
        assert store.settings == kept and store.address == address
    for other in ({**SETTINGS, "model": "big"}, {**SETTINGS, "extra": None}, {}):
        with pytest.raises(UsageError, match=r"was begun with .* or another --store"):
            MilvusStore.create(address, other, DIMENSION)


def test_what_is_not_there_is_not_made(tmp_path: Path, address: str) -> None:
    for call in (MilvusStore.open, MilvusStore.drop):
        with pytest.raises(DataError, match=f"likewise index FILE --store {address}"):
            call(address)
    assert list(tmp_path.iterdir()) == []
    MilvusStore.create(address, SETTINGS, DIMENSION).close()
    with pytest.raises(DataError, match=r"likewise index FILE --store .*#other"):
        MilvusStore.open(f"{address}#other")


def test_drop_and_make_anew(address: str) -> None:
    with MilvusStore.create(address, SETTINGS, DIMENSION) as store:
        fill(store, rows_of(5))
    MilvusStore.create(f"{address}#second", SETTINGS, DIMENSION).close()
    MilvusStore.drop(address)
    with MilvusStore.create(address, {"model": "big"}, 3) as store:
        fill(store, StoredRows(["a"], ["b"], np.ones((1, 3), np.float32)))
        assert len(store) == 1
    with MilvusStore.open(f"{address}#second") as store:
        assert len(store) == 0


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


def test_a_second_writer_waits(store: MilvusStore, address: str) -> None:
    with store.writer():
        with pytest.raises(UsageError, match="another process is writing to"), store.writer():
            pass
        with (
            MilvusStore.open(address) as other,
            pytest.raises(UsageError, match="another process is writing to"),
            other.writer(),
        ):
            pass
    with store.writer() as writer:
        writer.append(rows_of(1))
    assert len(store) == 1


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


@pytest.mark.process
def test_a_killed_build_is_gone_on_with(address: str) -> None:
    code = """
store = MilvusStore.create(sys.argv[1], {"model": "tiny"}, 8)
with store.writer() as writer:
    writer.append(StoredRows(["d0", "d1"], ["d text 0", "d text 1"], np.eye(2, 8, dtype=np.float32)))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert in_another_process(code, address).returncode == -signal.SIGKILL
    rows = rows_of(4)
    with MilvusStore.create(address, {"model": "tiny"}, DIMENSION) as store, store.writer() as writer:
        places = writer.missing(rows.ids, rows.texts)
        assert places == [2, 3]
        writer.append(StoredRows(rows.ids[2:], rows.texts[2:], rows.vectors[2:]))
        writer.commit()
        assert [name for name, _ in stored(store)] == rows.ids


def test_closing_stops_milvus(address: str) -> None:
    def threads() -> set[str]:
        return {thread.name for thread in threading.enumerate() if "milvus" in thread.name}

    first = MilvusStore.create(address, SETTINGS, DIMENSION)
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
        # Of the eleven best six are left: five or six of the ten others, as the row itself is the best or not.
        assert store.searched.recall is not None and 0.5 <= store.searched.recall <= 0.6
        before = store.searched
        monkeypatch.undo()
        fill(store, rows_of(5, 1, "few"))
        assert store.searched == before
        fill(store, rows_of(30, 1, "many"))
        assert store.searched.recall == 1


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingExtra, match=r"likewise\[milvus\]"):
        MilvusStore.open("milvus://host:1/news")
