"""An index in Milvus: a collection on a server or in Milvus Lite, with the same code for both.

Only the index type differs: HNSW on a server, FLAT in Milvus Lite. There, with 20 000 vectors of 384 dimensions on one
core, HNSW took 20 s to build and 21 ms to search; FLAT, which compares every row, took 43 ms and needs no build.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import nlargest
from itertools import repeat
from types import MappingProxyType
from typing import Any

import numpy as np

from likewise.errors import DataError, UsageError
from likewise.search.documents import Document, hash_of, joined_text, keeps_origins
from likewise.search.engines import Vectors, inner_products
from likewise.search.filters import Filter, column_types
from likewise.search.hits import Hit
from likewise.search.milvus_address import BATCH_BYTES, BATCH_ROWS, Address, Connection, Row, batches, id_of, key_of
from likewise.search.milvus_rows import (
    METADATA,
    PASSAGE,
    SEPARATOR,
    TEXT_BYTES,
    bytes_of,
    check_document,
    checked_key,
    fields_of,
    origin_of,
    passage_key,
)
from likewise.search.ranker import TIE
from likewise.search.segments import KnownRows, Searched, Store, StoredRows, closed_on_error

GREATEST_K = 16_384  # Milvus's greatest answer
INDEX_SECONDS = 1800.0
SAMPLE = 200
SETTINGS, RECALL = "likewise.settings", "likewise.recall"
COLUMNS = "likewise.columns"
EXACT = ("FLAT", "BRUTE_FORCE")
INDEX = {
    "server": {"index_type": "HNSW", "params": {"M": 16, "efConstruction": 200}},
    "lite": {"index_type": "FLAT", "params": {}},
}


class MilvusStore(Store):
    """A collection of Milvus with ids, texts and vectors, and the settings that the vectors depend on.

    Make one with ``create`` or ``open``, and close it: ``with MilvusStore.open("milvus:news.db") as store: ...``
    """

    attachments: Mapping[str, bytes] = MappingProxyType({})  # Milvus stores no files

    def __init__(self, connection: Connection) -> None:
        self._connection, self.address = connection, connection.where.written
        self.settings: Mapping[str, Any] = {}
        self.searched = Searched("")

    @classmethod
    def create(cls, address: str, settings: Mapping[str, Any], dimension: int) -> MilvusStore:
        """Make a collection, or continue the one that was begun with the same settings."""
        where = Address.parse(address)
        if where.file is not None:
            folder = where.file.parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"{folder} cannot be made ({error.strerror}); give another --store") from error
        store = cls(Connection(where))
        with closed_on_error(store):
            store._begin(json.loads(json.dumps(settings)), dimension)
            store._make_ready()
        return store

    @classmethod
    def open(cls, address: str) -> MilvusStore:
        """A collection that ``create`` made."""
        store = cls._found(Address.parse(address))
        with closed_on_error(store):
            store._make_ready()
        return store

    @classmethod
    def drop(cls, address: str) -> None:
        """Remove a collection that ``create`` made."""
        with cls._found(Address.parse(address)) as store, store._connection.locked():
            store._connection.ask("drop_collection")

    @classmethod
    def _found(cls, where: Address) -> MilvusStore:
        cure = f"make one with: likewise index FILE --store {where.written}"
        missing = DataError(f"{where.written} holds no index; {cure}")
        if where.file is not None and not where.file.exists():
            raise missing  # Milvus Lite would make an empty one
        store = cls(Connection(where))
        with closed_on_error(store):
            if not store._connection.ask("has_collection"):
                raise missing
            store._read_settings()
        return store

    def __len__(self) -> int:
        return self._count("")

    def _count(self, condition: str) -> int:
        return int(self._connection.query(condition, ["count(*)"])[0]["count(*)"])

    def close(self) -> None:
        """Leave Milvus; the last store of a Milvus Lite database stops it."""
        self._connection.close()

    @property
    def documents(self) -> int:
        """The number of documents; of texts, in an index of plain texts."""
        return self._count("number == 1" if self.has_origins else "")

    @property
    def columns(self) -> dict[str, list[str]]:
        """The columns of the metadata and the types of their values, as the last commit found them."""
        return dict(json.loads(self._properties().get(COLUMNS, "{}")))

    def nearest(self, vectors: Vectors, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """The k best rows for each query vector (q, d), best first, earlier rows first among equals.

        Milvus names the candidates; they are scored here from their stored vectors, so that neither a quantized
        index nor the order of an addition shows in a score. A filter is also checked here, since Milvus cannot
        express all of it.
        """
        if k < 1 or (k > GREATEST_K and not self.has_origins):
            raise UsageError(f"Milvus gives at most {GREATEST_K} hits, so k has to be between 1 and that, not {k}")
        if where is not None:
            where.check(self.columns)
        step = max(1, min(GREATEST_K // k, BATCH_BYTES // (4 * vectors.shape[1])))
        found: list[list[Hit]] = []
        for start in range(0, len(vectors), step):
            queries = np.ascontiguousarray(vectors[start : start + step], dtype=np.float32)
            found += self._scored(queries, self._matches(queries, k, where), k)
        return found

    def _matches(self, queries: Vectors, k: int, where: Filter | None) -> list[list[str]]:
        """For each query the keys of all matching rows that may belong to its k best."""
        if k <= GREATEST_K and (where is None or where.is_exact_in_milvus(METADATA)):
            found = self._candidates(queries, k, "" if where is None else where.milvus(METADATA))
            if where is None or self._all_match({key for row in found for key in row}, where):
                return found
        return [[key for _, key in hits] for hits in self._scanned(queries, k, where)]

    def _all_match(self, keys: set[str], where: Filter) -> bool:
        return all(
            where.matches(row[METADATA]) for rows in self._connection.rows(sorted(keys), [METADATA]) for row in rows
        )

    def document(self, name: str) -> str:
        """The whole text of a document."""
        rows = self._passages(name, ["text", *self._details])
        if not rows:
            raise DataError(f"the id {name!r} is not in the index; check it")
        return joined_text((row["text"], origin_of(row)) for row in rows)

    def passage_scores(self, hit: Hit, vector: Vectors) -> Vectors:
        """The scores of all passages of a hit's document for a query vector (d,)."""
        return inner_products(_stacked(self._passages(hit.id, ["vector", *self._details])), vector)

    def _passages(self, name: str, fields: list[str]) -> list[Row]:
        """The rows of a document in order; none if it is unknown."""
        if not self.has_origins:
            return [row for rows in self._connection.rows([key_of(name)], fields) for row in rows]
        first = [row for rows in self._connection.rows([passage_key(name)], fields) for row in rows]
        count = first[0][PASSAGE].get("of", 1) if first else 0
        keys = [passage_key(name, number) for number in range(2, count + 1)]
        rest = [row for rows in self._connection.rows(keys, fields) for row in rows] if keys else []
        return [*first, *sorted(rest, key=lambda row: int(row[PASSAGE]["number"]))]

    @property
    def _details(self) -> list[str]:
        """The fields of a row's origin."""
        return [PASSAGE, METADATA] if self.has_origins else []

    def _name(self, key: str) -> str:
        """The id of a row's text or document."""
        return id_of(key.rpartition(SEPARATOR)[0] if self.has_origins else key)

    @property
    def state(self) -> str:
        """How many rows there are, and which was added last: a change of the texts changes it."""
        return f"{len(self)}-{self._end()}"

    def windows(self) -> Iterator[StoredRows]:
        """All rows, in order of their adding, about a thousand at a time."""
        for rows in self._pages(["id", "text", "vector", *self._details]):
            yield StoredRows(
                [self._name(row["id"]) for row in rows], [row["text"] for row in rows], _stacked(rows),
                [origin_of(row) for row in rows] if self.has_origins else None,
            )  # fmt: skip

    def reopened(self) -> MilvusStore:
        """Itself: every call asks Milvus."""
        return self

    @contextmanager
    def writer(self, change: str = "") -> Iterator[MilvusWriter]:  # noqa: ARG002
        """Begin a change; a second writer of a Milvus Lite database gets a UsageError.

        A server's collection is not locked: the user must write from one process at a time.
        """
        with self._connection.locked():
            yield MilvusWriter(self)

    def _begin(self, settings: dict[str, Any], dimension: int) -> None:
        if not self._connection.ask("has_collection"):
            how: dict[str, Any] = {"properties": {SETTINGS: json.dumps(settings)}, "consistency_level": "Strong"}
            schema = _schema(dimension, keeps_origins(settings))
            self._connection.ask("create_collection", schema=schema, **how)
        try:
            self._read_settings()
        except DataError as error:
            raise UsageError(f"{self.address} is taken ({error})") from error
        begun = self.settings
        for key in sorted(begun.keys() | settings.keys()):
            if begun.get(key, ...) != settings.get(key, ...):
                flaw = f"which was begun with {key} {begun.get(key)!r}, not {settings.get(key)!r}"
                cure = "use the same settings, --replace or another --store"
                raise UsageError(f"{self.address} already holds an index, {flaw}; {cure}")

    def _read_settings(self) -> None:
        try:
            self.settings = dict(json.loads(self._properties()[SETTINGS]))
        except (KeyError, ValueError, TypeError) as error:
            name = self._connection.where.collection
            raise DataError(f"the collection {name} was not made by Likewise; give another collection") from error

    def _properties(self) -> dict[str, str]:
        return dict(self._connection.ask("describe_collection")["properties"])

    def _make_ready(self) -> None:
        """Load the collection; first make its index if a killed build could not."""
        if not self._index():
            # Not sync: there is nothing to wait for yet, and Milvus Lite does not know how pymilvus waits.
            self._connection.ask("create_index", index_params=_index_params(self._connection.where), sync=False)
        self._connection.ask("load_collection", timeout=INDEX_SECONDS)
        self.searched = self._search_info()

    def _index(self) -> dict[str, Any]:
        """What Milvus says of its index; empty without one."""
        return self._connection.ask("describe_index", index_name="vector") or {}

    def _search_info(self) -> Searched:
        engine = str(self._index()["index_type"])
        if engine in EXACT:
            name = "Milvus" if self._connection.where.file is None else "Milvus Lite"
            return Searched(engine, None, f"{name} compares a query with every row; a Milvus server builds a graph")
        recall = self._measured().get("recall")
        return Searched(engine, recall, "" if recall is not None else "the recall was not measured yet")

    def _measured(self) -> dict[str, Any]:
        """The recall of the index and the number of rows when it was measured; empty before that."""
        return dict(json.loads(self._properties().get(RECALL, "{}")))

    def _pages(self, fields: list[str], condition: str = "") -> Iterator[list[Row]]:
        """All rows, or those of a condition, by their field ``place``; a server limits offsets."""
        chosen = f" and ({condition})" if condition else ""
        for low in range(0, self._end(), BATCH_ROWS):
            wanted = f"place >= {low} and place < {low + BATCH_ROWS}{chosen}"
            rows = self._connection.query(wanted, [*fields, "place"])
            if rows:
                yield sorted(rows, key=lambda row: (row["place"], row["id"]))

    def _end(self) -> int:
        """The first free ``place``. It is not stored, so that a killed build cannot leave a wrong one."""
        end = len(self)  # higher places exist only after deletions
        while found := self._connection.query(f"place >= {end}", ["place"], limit=BATCH_ROWS):
            end = 1 + max(int(row["place"]) for row in found)
        return end

    def _candidates(self, queries: Vectors, k: int, condition: str = "") -> list[list[str]]:
        """For each query the keys of all rows, or those of a condition, that may belong to its k best."""
        found = self._search(queries, min(k + 1, GREATEST_K), condition)
        cut = [row for row, hits in enumerate(found) if len(hits) > k and hits[k][0] >= _bar(hits, k)]
        if cut:  # there are equals on both sides of the cut, and only all of them say which came first
            wider = self._search(queries[cut], min(k + BATCH_ROWS, GREATEST_K), condition)
            for row, hits in zip(cut, wider, strict=True):
                found[row] = hits
        short = [row for row, hits in enumerate(found) if len(hits) < k]
        if short and min(len(found[row]) for row in short) < min(k, self._count(condition)):
            # A graph may not reach every row.
            for row, hits in zip(short, self._scanned(queries[short], k, condition=condition), strict=True):
                found[row] = hits
        return [[key for score, key in hits if score >= _bar(hits, k)] for hits in found]

    def _search(self, queries: Vectors, k: int, condition: str = "") -> list[list[tuple[float, str]]]:
        """The scores and keys that Milvus finds, best first."""
        params = {"ef": max(128, k)} if self.searched.engine == "HNSW" else {}
        # Without any output field, Milvus Lite sends all.
        how: dict[str, Any] = {"anns_field": "vector", "output_fields": ["place"], "consistency_level": "Strong"}
        how |= {"filter": condition} if condition else {}
        how["search_params"] = {"metric_type": "IP", "params": params}
        found: list[list[tuple[float, str]]] = []
        step = max(1, GREATEST_K // k)
        for start in range(0, len(queries), step):
            answers = self._connection.ask("search", data=list(queries[start : start + step]), limit=k, **how)
            found += [[(float(hit["distance"]), str(hit["id"])) for hit in hits] for hits in answers]
        return found

    def _scanned(
        self, queries: Vectors, k: int, where: Filter | None = None, condition: str = ""
    ) -> list[list[tuple[float, str]]]:
        """The k best rows by comparing the queries (q, d) with every row that matches, as scores and keys."""
        best: list[list[tuple[float, str]]] = [[] for _ in queries]
        condition = condition if where is None else where.milvus(METADATA)
        for page in self._pages(["id", "vector", *([] if where is None else [METADATA])], condition):
            rows = page if where is None else [row for row in page if where.matches(row[METADATA])]
            if not rows:
                continue
            scores = queries @ _stacked(rows).T
            for query, row in enumerate(scores):
                top = np.argsort(-row, kind="stable")[:k]
                best[query] = nlargest(k, best[query] + [(float(row[j]), rows[j]["id"]) for j in top])
        return best

    def _scored(self, queries: Vectors, candidates: list[list[str]], k: int) -> list[list[Hit]]:
        keys = sorted({key for row in candidates for key in row})
        stored: dict[str, tuple[Row, Vectors]] = {}
        for rows in self._connection.rows(keys, ["place", "text", "vector", *self._details]):
            stored |= {row["id"]: (row, vector) for row, vector in zip(rows, _stacked(rows), strict=True)}
        found = []
        for query, row in zip(queries, candidates, strict=True):
            known = [key for key in row if key in stored]
            stack = np.array([stored[key][1] for key in known], np.float32).reshape(len(known), len(query))
            scores = inner_products(stack, query)
            order = sorted(range(len(known)), key=lambda i: (-scores[i], stored[known[i]][0]["place"]))
            found.append([self._hit(stored[known[i]][0], float(scores[i])) for i in order[:k]])
        return found

    def _hit(self, row: Row, score: float) -> Hit:
        origin = origin_of(row)
        return Hit(self._name(row["id"]), row["text"], score, passage=origin.passage, metadata=origin.metadata)

    def _key(self, hit: Hit) -> str:
        if not self.has_origins:
            return key_of(hit.id)
        return passage_key(hit.id, 1 if hit.passage is None else hit.passage.number)

    def _wait_for_index(self) -> None:
        until = time.monotonic() + INDEX_SECONDS
        while True:
            found = self._index()
            if found.get("state") == "Failed":
                raise DataError(f"Milvus could not build the index of {self.address}; see its log")
            if found.get("state") == "Finished" and not int(found.get("pending_index_rows", 0)):
                return
            if time.monotonic() > until:
                flaw = f"Milvus has not built the index of {self.address} in {INDEX_SECONDS / 60:.0f} minutes"
                raise DataError(f"{flaw}; all rows are stored, so run the same command again")
            time.sleep(0.5)

    def _measure(self) -> None:
        """Store the recall with the settings; it is measured anew after a tenth of the rows has changed."""
        if self.searched.engine in EXACT:
            return
        rows, known = len(self), self._measured()
        if known and abs(rows - known["rows"]) * 10 <= known["rows"]:
            return
        indices = np.unique(np.linspace(0, max(0, self._end() - 1), SAMPLE).astype(int)).tolist()
        if rows > 1 and (sample := self._connection.query(f"place in {indices}", ["id", "vector"])):
            measured = json.dumps({"recall": self._recall(sample), "rows": rows})
            self._connection.ask("alter_collection_properties", properties={RECALL: measured})
            self.searched = self._search_info()

    def _recall(self, sample: list[Row], k: int = 10) -> float:
        """The share of the k best rows that Milvus finds for stored rows, without the row itself."""
        queries = _stacked(sample)
        shares = []
        for row, best, hits in zip(sample, self._scanned(queries, k + 1), self.nearest(queries, k + 1), strict=True):
            others = [(score, key) for score, key in best if key != row["id"]][:k]
            found = [hit.score for hit in hits if self._key(hit) != row["id"]][:k]
            shares.append(sum(score >= _bar(others, k) for score in found) / len(others))
        return float(np.mean(shares))


class MilvusWriter(KnownRows):
    """One change of a ``MilvusStore``. Rows are stored at once; a killed change can be repeated."""

    at_once = True

    def __init__(self, store: MilvusStore) -> None:
        super().__init__()
        self._store = store
        self._end: int | None = None
        self._columns: dict[str, set[str]] = {}

    def missing_documents(self, documents: Sequence[Document]) -> list[Document]:
        """The documents that are not stored yet, or only in part; one that does not fit raises DataError."""
        if not self._store.has_origins:
            return [documents[i] for i in self.missing([one.id for one in documents], [one.text for one in documents])]
        for one in documents:
            check_document(one, self._store.settings.get("passages") is not None)
        for name, types in column_types(one.metadata for one in documents).items():
            self._columns.setdefault(name, set()).update(types)
        rows = self._stored([passage_key(one.id) for one in documents])
        # The rows of a document are stored in order, so the last one tells whether a killed change stored them all.
        lasts = {key: passage_key(self._store._name(key), row[PASSAGE].get("of", 1)) for key, row in rows.items()}
        whole = self._stored(list(lasts.values()))
        self.known = {
            hash_of(self._store._name(key)): int(row[PASSAGE]["content"], 16)
            for key, row in rows.items()
            if lasts[key] in whole
        }
        return super().missing_documents(documents)

    def _stored(self, keys: Sequence[str]) -> dict[str, Row]:
        """The rows of these keys that are stored."""
        unique = list(dict.fromkeys(keys))
        return {row["id"]: row for rows in self._store._connection.rows(unique, [PASSAGE]) for row in rows}

    def missing(self, ids: Sequence[str], texts: Sequence[str]) -> list[int]:
        """The indices of the rows that are not stored yet; a row that is given twice counts once."""
        keys = list({checked_key(name, text): None for name, text in zip(ids, texts, strict=True)})
        stored = (row for rows in self._store._connection.rows(keys, ["text"]) for row in rows)
        self.known = {hash_of(id_of(row["id"])): hash_of(row["text"]) for row in stored}
        return super().missing(ids, texts)

    def append(self, rows: StoredRows) -> None:
        """Add rows after the others; a row whose id is stored already replaces it."""
        vectors = np.ascontiguousarray(rows.vectors, dtype=np.float32)
        entries: dict[str, Row] = {}
        for name, text, vector, origin in zip(rows.ids, rows.texts, vectors, rows.origins or repeat(None)):  # noqa: B905
            details = {} if origin is None else fields_of(origin)
            key = checked_key(name, text) if origin is None else passage_key(name, details["number"])
            entries[key] = {"id": key, "text": text, "vector": vector, **details}
        start = self._store._end() if self._end is None else self._end
        data = [{**entry, "place": start + index} for index, entry in enumerate(entries.values())]
        for batch in batches([bytes_of(row) + vectors[0].nbytes for row in data]):
            self._store._connection.ask("upsert", data=data[batch])
        self._end = start + len(data)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows; an unknown id raises DataError before any is deleted."""
        found = {name: [row["id"] for row in self._store._passages(name, self._store._details)] for name in ids}
        if unknown := [name for name, keys in found.items() if not keys]:
            raise DataError(f"the id {unknown[0]!r} is not in the index, so nothing was deleted; check the ids")
        # From the last to the first: a killed change leaves a first row, which finds the others when it is repeated.
        keys = [key for rows in found.values() for key in reversed(rows)]
        for batch in batches([len(key) for key in keys]):
            self._store._connection.ask("delete", ids=keys[batch])

    def commit(self) -> None:
        """Let Milvus flush everything, build its index and load it; then measure its recall."""
        self._store._connection.ask("flush", timeout=INDEX_SECONDS)
        self._store._wait_for_index()
        self._store._connection.ask("load_collection", timeout=INDEX_SECONDS)
        self._store._measure()
        if self._columns:
            for name, types in self._store.columns.items():
                self._columns.setdefault(name, set()).update(types)
            columns = {name: sorted(types) for name, types in sorted(self._columns.items())}
            self._store._connection.ask("alter_collection_properties", properties={COLUMNS: json.dumps(columns)})


def _schema(dimension: int, with_origins: bool) -> Any:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=TEXT_BYTES)
    schema.add_field("place", DataType.INT64)
    schema.add_field("text", DataType.VARCHAR, max_length=TEXT_BYTES)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    if with_origins:
        schema.add_field("number", DataType.INT64)
        schema.add_field(PASSAGE, DataType.JSON)
        schema.add_field(METADATA, DataType.JSON)
    return schema


def _index_params(where: Address) -> Any:
    from pymilvus import MilvusClient

    params = MilvusClient.prepare_index_params()
    kind = INDEX["server" if where.file is None else "lite"]
    params.add_index(field_name="vector", index_name="vector", metric_type="IP", **kind)
    return params


def _stacked(rows: Sequence[Row]) -> Vectors:
    return np.array([row["vector"] for row in rows], dtype=np.float32)


def _bar(hits: Sequence[tuple[float, str]], k: int) -> float:
    """The least score of the k best; Milvus's own sums differ in their last digits."""
    least = hits[min(k, len(hits)) - 1][0]
    return least - TIE * max(1.0, abs(least))
