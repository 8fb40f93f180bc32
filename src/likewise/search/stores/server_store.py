"""An index in a collection of a server: Milvus, Qdrant or PostgreSQL, with the same code for all of them.

The server names candidates; they are scored here from their stored vectors. A new index is a collection of its own: the
address's name is switched to it when it is whole, and then the old one is removed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from likewise.errors import DataError, UsageError
from likewise.search.documents import joined_text, keeps_origins
from likewise.search.engines import Vectors, inner_products
from likewise.search.filters import Filter
from likewise.search.hits import Hit
from likewise.search.ranker import TIE
from likewise.search.stores.address import Address
from likewise.search.stores.connection import Connection, Scored
from likewise.search.stores.server_rows import (
    BATCH_BYTES,
    BATCH_ROWS,
    METADATA,
    PASSAGE,
    SEPARATOR,
    Row,
    id_of,
    key_of,
    origin_of,
    passage_key,
)  # fmt: skip
from likewise.search.stores.server_writer import COLUMNS, ServerWriter
from likewise.search.stores.store import Searched, Store, StoredRows, closed_on_error

SAMPLE = 200
BATCH_HITS = 16_384
READING_TRIES = 5
SETTINGS, RECALL, DRAFT = "likewise.settings", "likewise.recall", "likewise.draft"
COPIES = ("__a", "__b")  # Of the two, one is the index and the other one is being built
Answer = TypeVar("Answer")


class ServerStore(Store):
    """A collection with ids, texts and vectors, and the settings that the vectors depend on.

    Make one with ``create`` or ``open``, and close it: ``with MilvusStore.open("milvus:news.db") as store: ...``
    """

    connection_type: ClassVar[type[Connection]]
    attachments: Mapping[str, bytes] = MappingProxyType({})  # servers store no files

    def __init__(self, where: Address) -> None:
        self._connection = type(self).connection_type(where)
        self.settings: Mapping[str, Any] = {}
        self._searched = Searched("")
        self._is_draft = False

    @property
    def address(self) -> str:
        """As the user wrote it."""
        return self._connection.where.written

    @property
    def searched(self) -> Searched:
        """How the rows are searched."""
        return self._searched

    @classmethod
    def create(cls, address: str, settings: Mapping[str, Any], dimension: int, replace: bool = False) -> Self:
        """Begin a new index, or continue the one that was begun with the same settings.

        Readers see it from its first commit on. One that is whole raises UsageError if it has other settings; with
        ``replace`` it stays until the new one is committed.
        """
        where = Address.parse(address)
        if where.file is not None:
            folder = where.file.parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"{folder} cannot be made ({error.strerror}); give another --store") from error
        store = cls(where)
        with closed_on_error(store):
            store._begin(json.loads(json.dumps(settings)), dimension, replace)
            store._make_ready()
        return store

    @classmethod
    def open(cls, address: str) -> Self:
        """An index that was committed."""
        where = Address.parse(address)
        if where.file is not None and not where.file.exists():
            raise _missing(where)  # Milvus Lite would make an empty one
        store = cls(where)
        with closed_on_error(store):
            store._follow()
        return store

    @classmethod
    def drop(cls, address: str) -> None:
        """Remove an index with everything that was begun of it."""
        with cls.open(address) as store, store._connection.locked():
            for name in {store._connection.collection, *store._copies}:
                if store._connection.exists(name):
                    store._connection.drop(name)

    def __len__(self) -> int:
        return self._read(self._connection.count)

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()

    @property
    def documents(self) -> int:
        """The number of documents; of texts, in an index of plain texts."""
        return self._read(lambda: self._connection.count(None, self.has_origins))

    @property
    def columns(self) -> dict[str, list[str]]:
        """The columns of the metadata and the types of their values, as the last commit found them."""
        return dict(json.loads(self._read(self._connection.properties).get(COLUMNS, "{}")))

    @property
    def state(self) -> str:
        """How many rows there are, and which was added last: a change of the texts changes it."""
        return self._read(lambda: f"{self._connection.count()}-{self._connection.end()}")

    def nearest(self, vectors: Vectors, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """The k best rows for each query vector (q, d), best first, earlier rows first among equals.

        The server names the candidates; they are scored here from their stored vectors, so that neither a quantized
        index nor the order of an addition shows in a score. A filter is also checked here, since not every server can
        express all of it.
        """
        most = self._connection.greatest_k
        if k < 1 or (k > most and not self.has_origins):
            server = self._connection.where.server
            raise UsageError(f"{server} gives at most {most} hits, so k has to be between 1 and that, not {k}")
        if where is not None:
            where.check(self.columns)
        step = max(1, min(BATCH_HITS // k, BATCH_BYTES // (4 * vectors.shape[1])))
        found: list[list[Hit]] = []
        for start in range(0, len(vectors), step):
            queries = np.ascontiguousarray(vectors[start : start + step], dtype=np.float32)
            found += self._read(lambda some=queries: self._scored(some, self._matches(some, k, where), k))  # type: ignore[misc]
        return found

    def _read(self, call: Callable[[], Answer]) -> Answer:
        """What a call reads from the present collection; it is repeated if that is replaced meanwhile."""
        for _ in range(READING_TRIES):
            try:
                self._follow()
                found = call()
            except DataError:
                if self._is_current:
                    raise
                continue
            # A collection that is being removed may answer with nothing at all.
            if self._is_current:
                return found
        raise DataError(f"{self.address} was replaced several times while it was read; try again")

    @property
    def _is_current(self) -> bool:
        """Whether the address's name still stands for the collection; an old one is removed only after that ended."""
        return self._is_draft or self._connection.target() in (None, self._connection.collection)

    def _follow(self) -> None:
        """Turn to the collection that the address's name stands for now."""
        target = self._connection.collection if self._is_draft else self._connection.target()
        if target is None:
            raise _missing(self._connection.where, any(self._connection.exists(name) for name in self._copies))
        if target == self._connection.collection and self.settings:
            return
        self._connection.collection = target
        settings = self._stored_settings()
        if self.settings and _without_texts(settings) != _without_texts(self.settings):
            raise UsageError(f"{self.address} was replaced by an index with other settings; open it again")
        self.settings = settings
        self._make_ready()

    def _matches(self, queries: Vectors, k: int, where: Filter | None) -> list[list[str]]:
        """For each query the keys of all matching rows that may belong to its k best."""
        condition, is_exact = (None, True) if where is None else self._connection.condition(where)
        if k <= self._connection.greatest_k and is_exact:
            found = self._candidates(queries, k, condition)
            if where is None or self._all_match({key for row in found for key in row}, where):
                return found
        return [[key for _, key in hits] for hits in self._scanned(queries, k, condition, where)]

    def _all_match(self, keys: set[str], where: Filter) -> bool:
        return all(
            where.matches(row[METADATA]) for rows in self._connection.rows(sorted(keys), [METADATA]) for row in rows
        )

    def document(self, name: str) -> str:
        """The whole text of a document."""
        rows = self._read(lambda: self._passages(name, ["text", *self._details]))
        if not rows:
            raise DataError(f"the id {name!r} is not in the index; check it")
        return joined_text((row["text"], origin_of(row)) for row in rows)

    def passage_scores(self, hit: Hit, vector: Vectors) -> Vectors:
        """The scores of all passages of a hit's document for a query vector (d,)."""
        rows = self._read(lambda: self._passages(hit.id, ["vector", *self._details]))
        if not rows:
            raise DataError(f"the document {hit.id!r} was deleted while it was searched; search again")
        return inner_products(_stacked(rows), vector)

    def _passages(self, name: str, fields: list[str]) -> list[Row]:
        """The rows of a document in order; none if it is unknown."""
        if not self.has_origins:
            return self._rows([key_of(name)], fields)
        first = self._rows([passage_key(name)], fields)
        count = first[0][PASSAGE].get("of", 1) if first else 0
        rest = self._rows([passage_key(name, number) for number in range(2, count + 1)], fields)
        return [*first, *sorted(rest, key=lambda row: int(row[PASSAGE]["number"]))]

    def _rows(self, keys: Sequence[str], fields: list[str]) -> list[Row]:
        return [row for rows in self._connection.rows(keys, fields) for row in rows]

    @property
    def _details(self) -> list[str]:
        """The fields of a row's origin."""
        return [PASSAGE, METADATA] if self.has_origins else []

    def _name(self, key: str) -> str:
        """The id of a row's text or document."""
        return id_of(key.rpartition(SEPARATOR)[0] if self.has_origins else key)

    def windows(self) -> Iterator[StoredRows]:
        """All rows, in order of their adding, about a thousand at a time."""
        self._follow()
        for rows in self._pages(["id", "text", "vector", *self._details]):
            self._check_current()
            yield StoredRows(
                [self._name(row["id"]) for row in rows], [row["text"] for row in rows], _stacked(rows),
                [origin_of(row) for row in rows] if self.has_origins else None,
            )  # fmt: skip
        self._check_current()

    def _check_current(self) -> None:
        if not self._is_current:
            raise DataError(f"{self.address} was replaced while it was read; read it again")

    def reopened(self) -> ServerStore:
        """Itself: every call asks the server."""
        return self

    @contextmanager
    def writer(self, change: str = "") -> Iterator[ServerWriter]:  # noqa: ARG002
        """Begin a change; where the server can lock, a second writer gets a UsageError.

        Milvus and Qdrant cannot: there the user must write from one process at a time.
        """
        with self._connection.locked():
            self._follow()
            yield ServerWriter(self)

    @property
    def _copies(self) -> list[str]:
        """The names of the collections that the address's name stands for in turn."""
        return [f"{self._connection.where.collection}{ending}" for ending in COPIES]

    def _begin(self, settings: dict[str, Any], dimension: int, replace: bool) -> None:
        live = self._connection.target()
        if live is not None:
            self._connection.collection = live
            try:
                self.settings = self._stored_settings()
            except DataError as error:
                raise UsageError(f"{self.address} is taken ({error})") from error
            if not replace:
                return self._check_same(settings)
            # A writer that was killed after it had switched left this mark.
            self._connection.set_properties({DRAFT: ""})
        mark = json.dumps([dimension, settings], sort_keys=True)
        others = [name for name in self._copies if name != live]
        present = [name for name in others if self._connection.exists(name)]
        begun = [name for name in present if self._property_of(name, DRAFT) == mark]
        self._connection.collection = (begun or others)[0]
        if not begun:
            if others[0] in present:
                self._connection.drop(others[0])
            properties = {SETTINGS: json.dumps(settings), DRAFT: mark}
            self._connection.create(dimension, keeps_origins(settings), properties)
        self.settings, self._is_draft = settings, True
        return None

    def _property_of(self, collection: str, name: str) -> str:
        self._connection.collection = collection
        return self._connection.properties().get(name, "")

    def _check_same(self, settings: dict[str, Any]) -> None:
        begun = self.settings
        for key in sorted(begun.keys() | settings.keys()):
            if begun.get(key, ...) != settings.get(key, ...):
                flaw = f"which was begun with {key} {begun.get(key)!r}, not {settings.get(key)!r}"
                cure = "use the same settings, --replace or another --store"
                raise UsageError(f"{self.address} already holds an index, {flaw}; {cure}")

    def _publish(self) -> None:
        """Switch readers to the collection that was built, then remove the old one."""
        built = self._connection.collection
        old = {self._connection.target(), *self._copies} - {None, built, self._connection.where.collection}
        self._connection.point_to(built)
        self._is_draft = False
        self._connection.set_properties({DRAFT: ""})
        for name in sorted(map(str, old)):
            if self._connection.exists(name):
                self._connection.drop(name)

    def _stored_settings(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._connection.properties()[SETTINGS]))
        except (KeyError, ValueError, TypeError) as error:
            name = self._connection.where.collection
            raise DataError(f"the collection {name} was not made by Likewise; give another collection") from error

    def _make_ready(self) -> None:
        self._connection.make_ready()
        self._searched = self._search_info()

    def _search_info(self) -> Searched:
        if note := self._connection.exact_note:
            return Searched(self._connection.engine, None, note)
        recall = self._measured().get("recall")
        note = "" if recall is not None else "the recall was not measured yet"
        return Searched(self._connection.engine, recall, note)

    def _measured(self) -> dict[str, Any]:
        """The recall of the index and the number of rows when it was measured; empty before that."""
        return dict(json.loads(self._connection.properties().get(RECALL, "{}")))

    def _pages(self, fields: list[str], condition: Any = None) -> Iterator[list[Row]]:
        """All rows, or those of a condition, by their field ``place``; servers limit offsets."""
        for low in range(0, self._connection.end(), BATCH_ROWS):
            rows = self._connection.page(low, low + BATCH_ROWS, [*fields, "place"], condition)
            if rows:
                yield sorted(rows, key=lambda row: (row["place"], row["id"]))

    def _candidates(self, queries: Vectors, k: int, condition: Any = None) -> list[list[str]]:
        """For each query the keys of all rows, or those of a condition, that may belong to its k best."""
        most = self._connection.greatest_k
        found = self._search(queries, min(k + 1, most), condition)
        cut = [row for row, hits in enumerate(found) if len(hits) > k and hits[k][0] >= _bar(hits, k)]
        if cut:  # there are equals on both sides of the cut, and only all of them say which came first
            wider = self._search(queries[cut], min(k + BATCH_ROWS, most), condition)
            for row, hits in zip(cut, wider, strict=True):
                found[row] = hits
        short = [row for row, hits in enumerate(found) if len(hits) < k]
        if short and min(len(found[row]) for row in short) < min(k, self._connection.count(condition)):
            # A graph may not reach every row.
            for row, hits in zip(short, self._scanned(queries[short], k, condition), strict=True):
                found[row] = hits
        return [[key for score, key in hits if score >= _bar(hits, k)] for hits in found]

    def _search(self, queries: Vectors, k: int, condition: Any = None) -> Scored:
        """The scores and keys that the server finds, best first."""
        found: Scored = []
        step = max(1, BATCH_HITS // k)
        for start in range(0, len(queries), step):
            found += self._connection.search(queries[start : start + step], k, condition)
        return found

    def _scanned(self, queries: Vectors, k: int, condition: Any = None, where: Filter | None = None) -> Scored:
        """The k best rows and their equals by comparing the queries (q, d) with every row that matches."""
        best: Scored = [[] for _ in queries]
        for page in self._pages(["id", "vector", *([] if where is None else [METADATA])], condition):
            rows = page if where is None else [row for row in page if where.matches(row[METADATA])]
            if not rows:
                continue
            for query, scores in enumerate(queries @ _stacked(rows).T):
                least = -np.sort(-scores)[:k][-1]
                wanted = np.flatnonzero(scores >= least - TIE * max(1.0, abs(least)))
                merged = sorted(best[query] + [(float(scores[j]), rows[j]["id"]) for j in wanted], reverse=True)
                best[query] = [hit for hit in merged if hit[0] >= _bar(merged, k)]
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

    def _measure(self) -> None:
        """Store the recall with the settings; it is measured anew after a tenth of the rows has changed."""
        if self._connection.exact_note:
            return
        rows, known = self._connection.count(), self._measured()
        if known and abs(rows - known["rows"]) * 10 <= known["rows"]:
            return
        numbers = np.unique(np.linspace(0, max(0, self._connection.end() - 1), SAMPLE).astype(int)).tolist()
        if rows > 1 and (sample := self._connection.sample(numbers, ["vector"])):
            measured = json.dumps({"recall": self._recall(sample), "rows": rows})
            self._connection.set_properties({RECALL: measured})

    def _recall(self, sample: list[Row], k: int = 10) -> float:
        """The share of the k best rows that the server finds for sums of two stored rows."""
        # Sums are near the rows, as queries are; a row itself is too easy to find.
        vectors = _stacked(sample)
        queries = vectors + vectors[np.random.default_rng(len(vectors)).permutation(len(vectors))]
        shares = [
            sum(hit.score >= _bar(best, k) for hit in hits) / min(k, len(best))
            for best, hits in zip(self._scanned(queries, k), self.nearest(queries, k), strict=True)
        ]
        return float(np.mean(shares))


def _missing(where: Address, is_begun: bool = False) -> DataError:
    flaw = "is unfinished; run the same" if is_begun else "holds no index; make one with:"
    return DataError(f"{where.written} {flaw} likewise index FILE --store {where.written}")


def _without_texts(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "texts"}


def _stacked(rows: Sequence[Row]) -> Vectors:
    return np.array([row["vector"] for row in rows], dtype=np.float32)


def _bar(hits: Sequence[tuple[float, str]], k: int) -> float:
    """The least score of the k best; a server's own sums differ in their last digits."""
    least = hits[min(k, len(hits)) - 1][0]
    return least - TIE * max(1.0, abs(least))
