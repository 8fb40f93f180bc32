"""What every store has to do; the slow twin compares a query with every row in numpy.

A store passes if ``class TestMine(Conformance)`` passes with a fixture ``target`` that makes and opens it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from likewise.errors import DataError, UsageError
from likewise.search.documents import Document, IndexRow, Origin, Selection, nearest_documents
from likewise.search.engines import Vectors, inner_products
from likewise.search.filters import Filter
from likewise.search.hits import Hit, Passage
from likewise.search.stores import ServerStore, Store, StoredRows, server_store
from likewise.search.stores.folder import FolderStore, IndexManifest, building

DIMENSION = 8
PLAIN = {"model": "tiny", "prompts": {"query": "find: ü\n"}, "layers": [1, 2], "texts": ""}
CUT = {**PLAIN, "passages": {"tokens": 4, "overlap": 0}}
TAGGED = {**PLAIN, "metadata": True}
HOSTILE = [
    "", "%", "'", '"', "\\", "\\'", 'x" or true', "x' or true or id == '", "x'] or place >= 0 or id in ['", "%s", "{}",
    "a\nb\r\t", "%41", "A", "日本 😀", "\\u4e2d", "C:\\users\\new", "{ids}", " ", "id", "half \ud800", "i" * 5000,
    "'; drop table x; --",
]  # fmt: skip
FILTERS = [
    "year >= 2020", "year == 2021", "year == 2021.0", "lang == 'de'", "lang != 'de'", "not (lang == 'de')", "draft",
    "not draft", "lang in ['de', 'en']", "lang in []", "lang not in ['de']", "year < 2020 or lang == 'en'",
    "lang < 'e'",
    "year == null", "year != null and draft != true", "note == 'it\\'s \"x\"'", "`a b.c` == 1", "mixed == 'x'",
    "mixed == 1", "mixed >= 'a'", "year > 2019 and (lang == 'de' or not draft)", "lang == '%s'", "year in [2020, 1.5]",
    "note == '日本'", "note >= '日'",
]  # fmt: skip


class Target(Protocol):
    """Where an index of a store is."""

    can_lock: bool
    holds_zero: bool  # whether a text may contain U+0000

    def building(
        self, settings: Mapping[str, Any], dimension: int = DIMENSION, replace: bool = False
    ) -> AbstractContextManager[Any]:
        """The writer of a new index, or of the one that was begun."""

    def open(self) -> Store:
        """The index."""


class FolderTarget:
    """An index in a folder."""

    can_lock = holds_zero = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def building(self, settings: Mapping[str, Any], dimension: int = DIMENSION, replace: bool = False) -> Iterator[Any]:
        with building(self.folder, IndexManifest(dict(settings), dimension, source="x"), replace) as writer:
            yield writer

    def open(self) -> Store:
        return FolderStore.open(self.folder)


class ServerTarget:
    """An index at an address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.can_lock = not address.startswith(("milvus://", "qdrant:"))
        self.holds_zero = not address.startswith("postgresql:")

    @contextmanager
    def building(self, settings: Mapping[str, Any], dimension: int = DIMENSION, replace: bool = False) -> Iterator[Any]:
        made = server_store(self.address)
        with made.create(self.address, settings, dimension, replace) as store, store.writer() as writer:
            yield writer

    def open(self) -> Store:
        return server_store(self.address).open(self.address)


def rows_of(count: int, seed: int = 0, prefix: str = "d", dimension: int = DIMENSION) -> StoredRows:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return StoredRows([f"{prefix}{i}" for i in range(count)], [f"{prefix} text {i}" for i in range(count)], vectors)


def part(rows: StoredRows, chosen: slice) -> StoredRows:
    return taken(rows, range(len(rows))[chosen])


def taken(rows: StoredRows, chosen: Sequence[int]) -> StoredRows:
    origins = None if rows.origins is None else [rows.origins[i] for i in chosen]
    ids, texts = [rows.ids[i] for i in chosen], [rows.texts[i] for i in chosen]
    return StoredRows(ids, texts, rows.vectors[list(chosen)], origins)


def fill(target: Target, rows: StoredRows, settings: Mapping[str, Any] = PLAIN, replace: bool = False) -> None:
    with target.building(settings, rows.vectors.shape[1], replace) as writer:
        write(writer, rows)
        writer.commit()


def write(writer: Any, rows: StoredRows) -> int:
    """Append what is missing; returns how many rows."""
    if rows.origins is None:
        wanted = {one.id for one in writer.missing_documents([Document(*row) for row in pairs(rows)])}
    else:
        contents = {name: origin.content for name, origin in zip(rows.ids, rows.origins, strict=True)}
        wanted = {list(contents)[i] for i in writer.missing_contents(list(contents), list(contents.values()))}
    chosen = [i for i, name in enumerate(rows.ids) if name in wanted]
    writer.append(taken(rows, chosen))
    return len(chosen)


def add(store: Store, rows: StoredRows) -> Store:
    with store.writer("add x") as writer:
        write(writer, rows)
        writer.commit()
    return store.reopened()


def best(rows: StoredRows, query: Vectors, k: int, keep: Sequence[bool] | None = None) -> list[tuple[str, str, float]]:
    """The k best of all rows; a stable sort leaves the earlier first."""
    scores = inner_products(rows.vectors, query)
    chosen = [i for i in range(len(rows)) if keep is None or keep[i]]
    order = sorted(chosen, key=lambda i: -scores[i])
    return [(rows.ids[i], rows.texts[i], float(scores[i])) for i in order[:k]]


def found(hits: Sequence[Hit]) -> list[tuple[str, str, float]]:
    return [(hit.id, hit.text, hit.score) for hit in hits]


def check_twin(store: Store, rows: StoredRows, k: int = 10, queries: Vectors | None = None) -> None:
    asked = rows_of(4, 99, dimension=rows.vectors.shape[1]).vectors if queries is None else queries
    assert [found(hits) for hits in store.nearest(asked, k)] == [best(rows, query, k) for query in asked]


def stored(store: Store) -> list[tuple[str, str]]:
    return [pair for rows in store.windows() for pair in zip(rows.ids, rows.texts, strict=True)]


def pairs(rows: StoredRows) -> list[tuple[str, str]]:
    return list(zip(rows.ids, rows.texts, strict=True))


METADATA: list[dict[str, Any]] = [
    {"year": 2020, "lang": "de", "draft": True}, {"year": 2021, "lang": "en", "draft": False}, {}, {"year": 2021.0},
    {"lang": "fr", "note": "it's \"x\""}, {"a b.c": 1, "mixed": 1}, {"mixed": "x", "year": 1.5}, {"note": "日本"},
    {"lang": "%s", "draft": False, "year": -3}, {"mixed": True, "year": 2**53 + 1},
]  # fmt: skip


def cut_rows(count: int, seed: int = 0) -> StoredRows:
    """Documents of one to three passages, with metadata."""
    rows: list[IndexRow] = []
    for i in range(count):
        document = Document(
            f"d{i}", "".join(f"Part {n} of {i}. " for n in range(1 + i % 3)), METADATA[i % len(METADATA)]
        )
        start, of = 0, 1 + i % 3
        for number in range(1, of + 1):
            text = f"Part {number - 1} of {i}."
            after = " " if number == of else ""
            origin = Origin(
                document.content, Passage(number, of, start, start + len(text)),
                ("" if number == 1 else " ", after), document.metadata,
            )  # fmt: skip
            rows.append(IndexRow(document.id, text, origin))
            start += len(text) + 1
    vectors = np.random.default_rng(seed).normal(size=(len(rows), DIMENSION)).astype(np.float32)
    return StoredRows([row.id for row in rows], [row.text for row in rows], vectors, [row.origin for row in rows])


def documents_of(rows: StoredRows) -> list[Document]:
    assert rows.origins is not None
    known = {name: origin.metadata for name, origin in zip(rows.ids, rows.origins, strict=True)}
    texts = {name: "".join(f"{text} " for other, text in pairs(rows) if other == name) for name in known}
    return [Document(name, texts[name], metadata) for name, metadata in known.items()]


def fill_cut(target: Target, rows: StoredRows, settings: Mapping[str, Any] = CUT) -> None:
    with target.building(settings) as writer:
        missing = {one.id for one in writer.missing_documents(documents_of(rows))}
        assert missing == set(rows.ids)
        writer.append(rows)
        writer.commit()


VALUES = {
    "year": ["2020", "2021", "1.5", "-3", "9007199254740993", "1e3", "null"],
    "lang": ["'de'", "'en'", "'%s'", "'\\\\'", "'x\\' or true'", "null"],
    "draft": ["true", "false", "null"],
    "note": ["'日本'", "'it\\'s \"x\"'", "null"],
    "mixed": ["1", "'x'", "true", "null"],
    "`a b.c`": ["1", "2"],
}


def random_filter(chance: random.Random, depth: int = 0) -> str:
    """A filter that ``Filter.check`` accepts for ``METADATA``."""
    kind = chance.choice(["and", "or", "not", "one", "one"]) if depth < 3 else "one"
    if kind == "not":
        return f"not ({random_filter(chance, depth + 1)})"
    if kind != "one":
        return f" {kind} ".join(f"({random_filter(chance, depth + 1)})" for _ in range(chance.randint(2, 3)))
    column = chance.choice(list(VALUES))
    if chance.random() < 0.2:
        return f"{column} in [{', '.join(chance.sample(VALUES[column], chance.randint(1, 2)))}]"
    value = chance.choice(VALUES[column])
    is_ordered = value not in ("true", "false", "null")
    return f"{column} {chance.choice(['==', '!=', '<', '<=', '>', '>='] if is_ordered else ['==', '!='])} {value}"


class Killed(BaseException):
    """What ends a writer in the middle."""


class Conformance:
    """All tests, for a fixture ``target``."""

    def test_nearest_is_brute_force(self, target: Target) -> None:
        rows = rows_of(1324, 1)
        fill(target, rows)
        with target.open() as store:
            for k in (1, 10, 2000):
                check_twin(store, rows, k)
            assert store.nearest(rows.vectors[:0], 5) == []

    def test_among_equals_the_earlier_comes_first(self, target: Target) -> None:
        rows = rows_of(200)
        rows.vectors[50:150] = rows.vectors[50]
        with target.building(PLAIN) as writer:
            for chosen in (slice(0, 90), slice(90, 200)):
                write(writer, part(rows, chosen))
            writer.commit()
        with target.open() as store:
            check_twin(store, rows, 20, rows.vectors[50:51])

    def test_rows_come_out_as_they_went_in(self, target: Target) -> None:
        texts = ["", " ", "a\nb\r\n\t", "😀 日本 e\u0301 \u2028", "'\"\\ {x} %s %(a)s", "x" * 65_000, "ü" * 32_000]
        texts += ["nul \0 inside"] if target.holds_zero else []
        some = rows_of(len(texts))
        rows = StoredRows(some.ids, texts, some.vectors)
        fill(target, rows)
        with target.open() as store:
            assert stored(store) == pairs(rows) and len(store) == store.documents == len(rows)
            np.testing.assert_array_equal(next(store.windows()).vectors, rows.vectors)
            assert store.document("d2") == texts[2] and list(store.corpus().texts) == texts
            assert store.settings == PLAIN and dict(store.attachments) == {}
            check_twin(store, rows)

    def test_hostile_ids(self, target: Target) -> None:
        some = rows_of(len(HOSTILE))
        rows = StoredRows(HOSTILE, some.texts, some.vectors)
        fill(target, rows)
        with target.open() as store:
            assert stored(store) == pairs(rows)
            check_twin(store, rows, 5)
            for start, stop in ((0, 1), (1, 9), (9, len(HOSTILE) - 1)):
                store.delete(HOSTILE[start:stop])
                store = store.reopened()
                assert [left for left, _ in stored(store)] == HOSTILE[stop:]
            store.close()

    def test_add_and_delete(self, target: Target) -> None:
        rows, more = rows_of(60), rows_of(20, 1, "m")
        fill(target, rows)
        with target.open() as store:
            before = store.state
            store = add(add(store, more), part(more, slice(0, 3)))
            assert store.state != before and len(store) == 80
            with pytest.raises(DataError, match="'nobody'"):
                store.delete(["d1", "nobody"])
            with pytest.raises(DataError, match="'d1' is already in the index with another text"):
                add(store, StoredRows(["d1"], ["other"], rows.vectors[:1]))
            with pytest.raises(DataError, match="'new' names two texts"):
                add(store, StoredRows(["new", "new"], ["a", "b"], rows.vectors[:2]))
            assert len(store.reopened()) == 80
            store.delete(["d59", "d5", "m3"])
            store = store.reopened()
            left = [i for i, name in enumerate([*rows.ids, *more.ids]) if name not in ("d59", "d5", "m3")]
            whole = StoredRows(
                [[*rows.ids, *more.ids][i] for i in left], [[*rows.texts, *more.texts][i] for i in left],
                np.concatenate([rows.vectors, more.vectors])[left],
            )  # fmt: skip
            assert stored(store) == pairs(whole)
            check_twin(store, whole)
            store.delete(whole.ids)
            store = store.reopened()
            assert len(store) == 0 and stored(store) == [] and store.nearest(rows.vectors[:2], 5) == [[], []]
            store = add(store, part(rows, slice(0, 2)))
            assert stored(store) == pairs(rows)[:2]
            store.close()

    def test_windows_pass_over_holes(self, target: Target) -> None:
        rows = rows_of(3100)
        fill(target, rows)
        with target.open() as store:
            store.delete(rows.ids[100:2150])
            store = add(store.reopened(), rows_of(5, 7, "late"))
            left = [*rows.ids[:100], *rows.ids[2150:], *(f"late{i}" for i in range(5))]
            assert [name for name, _ in stored(store)] == left
            store.close()

    def test_a_killed_build_continues(self, target: Target) -> None:
        rows = rows_of(30)
        with pytest.raises(Killed), target.building(PLAIN) as writer:
            write(writer, part(rows, slice(0, 12)))
            raise Killed
        with pytest.raises(DataError, match="is unfinished; run the same likewise index"):
            target.open()
        with target.building(PLAIN) as writer:
            assert write(writer, rows) == 18
            writer.commit()
        with target.open() as store:
            assert stored(store) == pairs(rows)
            check_twin(store, rows)

    def test_a_killed_build_of_other_settings_is_dropped(self, target: Target) -> None:
        with pytest.raises(Killed), target.building({**PLAIN, "model": "big"}, 3) as writer:
            writer.append(rows_of(5, dimension=3))
            raise Killed
        fill(target, rows_of(4))
        with target.open() as store:
            assert len(store) == 4 and store.settings["model"] == "tiny"

    def test_a_killed_addition_is_repeated(self, target: Target) -> None:
        rows, more = rows_of(10), rows_of(30, 1, "m")
        fill(target, rows)
        with target.open() as store, pytest.raises(Killed), store.writer("add x") as writer:
            write(writer, part(more, slice(0, 12)))
            raise Killed
        with target.open() as store:
            store = add(store, more)
            assert stored(store) == [*pairs(rows), *pairs(more)]
            store.close()

    def test_replace(self, target: Target) -> None:
        rows, other = rows_of(40), rows_of(25, 1, "new")
        fill(target, rows)
        with target.open() as reader:
            with target.building({**PLAIN, "texts": "b"}, replace=True) as writer:
                write(writer, other)
                check_twin(reader.reopened(), rows)
                assert len(reader.reopened()) == 40
                writer.commit()
            check_twin(reader.reopened(), other)
        for number in range(2):  # the names of the collections come around again
            fill(target, rows if number else other, {**PLAIN, "texts": str(number)}, replace=True)
        with target.open() as store:
            assert stored(store) == pairs(rows)

    def test_a_killed_replacement_leaves_the_old_index_and_continues(self, target: Target) -> None:
        rows, other = rows_of(40), rows_of(25, 1, "new")
        fill(target, rows)
        with pytest.raises(Killed), target.building({**PLAIN, "texts": "b"}, replace=True) as writer:
            write(writer, part(other, slice(0, 10)))
            raise Killed
        with target.open() as store:
            assert stored(store) == pairs(rows)
            check_twin(store, rows)
        with target.building({**PLAIN, "texts": "b"}, replace=True) as writer:
            assert write(writer, other) == 15
            writer.commit()
        with target.open() as store:
            assert stored(store) == pairs(other)

    def test_other_settings(self, target: Target) -> None:
        fill(target, rows_of(5))
        other = {**PLAIN, "model": "big"}
        with pytest.raises(UsageError, match="already holds an index"), target.building(other):
            pass
        wide = rows_of(4, dimension=16)
        with target.open() as reader:
            fill(target, wide, other, replace=True)
            with target.open() as store:
                assert store.settings["model"] == "big"
                check_twin(store, wide)
            if not isinstance(reader, FolderStore):
                with pytest.raises(UsageError, match="was replaced by an index with other settings; open it again"):
                    reader.nearest(rows_of(1).vectors, 3)

    def test_what_is_not_there(self, target: Target) -> None:
        with pytest.raises(DataError, match=r"make (one|an index) with: likewise index FILE --(store|out)"):
            target.open()

    def test_passages_and_metadata(self, target: Target) -> None:
        rows = cut_rows(60)
        fill_cut(target, rows)
        query = rows_of(1, 5).vectors
        with target.open() as store:
            assert (len(store), store.documents, stored(store)) == (len(rows), 60, pairs(rows))
            whole = {one.id: one for one in documents_of(rows)}
            assert store.document("d5") == whole["d5"].text
            assert store.columns == {
                "a b.c": ["number"], "draft": ["boolean"], "lang": ["text"], "mixed": ["boolean", "number", "text"],
                "note": ["text"], "year": ["number"],
            }  # fmt: skip
            hits = store.nearest(query, 12)[0]
            assert found(hits) == best(rows, query[0], 12)
            assert all(dict(hit.metadata) == dict(whole[hit.id].metadata) for hit in hits)
            scores = store.passage_scores(hits[0], query[0])
            own = [i for i, name in enumerate(rows.ids) if name == hits[0].id]
            np.testing.assert_array_equal(scores, inner_products(rows.vectors[own], query[0]))
            firsts = [hit.id for hit in nearest_documents(store, query, 5, Selection())[0]]
            assert firsts == list(dict.fromkeys(name for name, *_ in best(rows, query[0], len(rows))))[:5]
            corpus = store.corpus()
            assert corpus.origins is not None and rows.origins is not None
            assert [one.passage for one in corpus.origins] == [one.passage for one in rows.origins]
            with pytest.raises(DataError, match="'nobody' is not in the index"):
                store.document("nobody")
            store.delete(["d5"])
            store = store.reopened()
            assert store.documents == 59 and "d5" not in {name for name, _ in stored(store)}
            store.close()

    @pytest.mark.parametrize("settings", [CUT, TAGGED], ids=["passages", "metadata"])
    def test_filters_select_what_they_match(self, target: Target, settings: Mapping[str, Any]) -> None:
        rows = cut_rows(90)
        if settings is TAGGED:
            assert rows.origins is not None
            firsts = [i for i, one in enumerate(rows.origins) if one.passage and one.passage.number == 1]
            plain = [Origin(rows.origins[i].content, metadata=rows.origins[i].metadata) for i in firsts]
            rows = StoredRows(
                [rows.ids[i] for i in firsts], [rows.texts[i] for i in firsts], rows.vectors[firsts], plain
            )
        fill_cut(target, rows, settings)
        queries = rows_of(2, 5).vectors
        assert rows.origins is not None
        with target.open() as store:
            for text in FILTERS:
                where = Filter.parse(text)
                keep = [where.matches(one.metadata) for one in rows.origins]
                for k in (3, 500):
                    hits = store.nearest(queries, k, where)
                    assert [found(some) for some in hits] == [best(rows, query, k, keep) for query in queries], text
            with pytest.raises(UsageError, match="no column 'nothing'"):
                store.nearest(queries, 3, Filter.parse("nothing == 1"))

    def test_random_filters(self, target: Target) -> None:
        rows = cut_rows(90)
        fill_cut(target, rows)
        query = rows_of(1, 5).vectors
        assert rows.origins is not None
        with target.open() as store:
            for seed in range(40):
                where = Filter.parse(random_filter(random.Random(seed)))
                keep = [where.matches(one.metadata) for one in rows.origins]
                assert found(store.nearest(query, 20, where)[0]) == best(rows, query[0], 20, keep), where.text
                if isinstance(store, ServerStore):
                    condition, is_exact = store._connection.condition(where)
                    count = store._connection.count(condition)
                    assert count == sum(keep) if is_exact else count >= sum(keep), where.text

    def test_a_document_that_was_stored_in_part_is_stored_again(self, target: Target) -> None:
        rows = cut_rows(9)
        with pytest.raises(Killed), target.building(CUT) as writer:
            writer.missing_documents(documents_of(rows))
            writer.append(part(rows, slice(0, 5)))  # ends in the middle of d2
            raise Killed
        with target.building(CUT) as writer:
            wanted = {one.id for one in writer.missing_documents(documents_of(rows))}
            at_once = writer.at_once
            assert wanted == {f"d{i}" for i in range(2 if at_once else 3, 9)}
            chosen = [i for i, name in enumerate(rows.ids) if name in wanted]
            writer.append(taken(rows, chosen))
            writer.commit()
        if at_once:
            with target.open() as store:
                assert sorted(stored(store)) == sorted(pairs(rows))
                assert store.document("d2") == {one.id: one.text for one in documents_of(rows)}["d2"]

    def test_two_readers_at_once(self, target: Target) -> None:
        rows = rows_of(300)
        fill(target, rows)
        failures: list[BaseException] = []

        def read(store: Store) -> None:
            try:
                for _ in range(5):
                    check_twin(store, rows)
            except BaseException as error:
                failures.append(error)

        with target.open() as one, target.open() as two:
            threads = [threading.Thread(target=read, args=(store,)) for store in (one, two)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert failures == []

    def test_a_second_writer_is_refused(self, target: Target) -> None:
        fill(target, rows_of(3))
        if not target.can_lock:
            return
        with (
            target.open() as one,
            target.open() as two,
            one.writer(),
            pytest.raises(UsageError, match="another process is writing to"),
            two.writer(),
        ):
            pass
