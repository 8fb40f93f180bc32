"""One change of an index on a server: what is stored already, rows in batches, and the commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from likewise.errors import DataError
from likewise.progress import Progress
from likewise.search.documents import Document, hash_of
from likewise.search.filters import column_types
from likewise.search.stores.server_rows import (
    PASSAGE,
    Row,
    batches,
    bytes_of,
    check_document,
    checked_key,
    fields_of,
    id_of,
    key_of,
    passage_key,
)  # fmt: skip
from likewise.search.stores.store import KnownRows, StoredRows

if TYPE_CHECKING:
    from likewise.search.stores.server_store import ServerStore

COLUMNS = "likewise.columns"


class ServerWriter(KnownRows):
    """One change of a ``ServerStore``. Rows are stored at once; a killed change can be repeated."""

    at_once = True

    def __init__(self, store: ServerStore) -> None:
        super().__init__()
        self._store, self._connection = store, store._connection
        self._end: int | None = None
        self._columns: dict[str, set[str]] = {}

    def missing_documents(self, documents: Sequence[Document]) -> list[Document]:
        """The documents that are not stored yet, or only in part; one that does not fit raises DataError."""
        if not self._store.has_origins:
            return [documents[i] for i in self.missing([one.id for one in documents], [one.text for one in documents])]
        for one in documents:
            check_document(one, self._store.settings.get("passages") is not None, self._connection.limits)
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
        return {row["id"]: row for row in self._store._rows(list(dict.fromkeys(keys)), [PASSAGE])}

    def missing(self, ids: Sequence[str], texts: Sequence[str]) -> list[int]:
        """The indices of the rows that are not stored yet; a row that is given twice counts once."""
        limits = self._connection.limits
        keys = list({checked_key(name, text, limits): None for name, text in zip(ids, texts, strict=True)})
        self.known = {hash_of(id_of(row["id"])): hash_of(row["text"]) for row in self._store._rows(keys, ["text"])}
        return super().missing(ids, texts)

    def append(self, rows: StoredRows) -> None:
        """Add rows after the others; a row whose id is stored already replaces it."""
        vectors = np.ascontiguousarray(rows.vectors, dtype=np.float32)
        entries: dict[str, Row] = {}
        for name, text, vector, origin in zip(rows.ids, rows.texts, vectors, rows.origins or repeat(None)):  # noqa: B905
            details = {} if origin is None else fields_of(origin)
            key = checked_key(name, text, self._connection.limits)
            key = key if origin is None else passage_key(name, details["number"])
            entries[key] = {"id": key, "text": text, "vector": vector, **details}
        start = self._connection.end() if self._end is None else self._end
        data = [{**entry, "place": start + index} for index, entry in enumerate(entries.values())]
        for batch in batches([bytes_of(row) + vectors[0].nbytes for row in data]):
            self._connection.upsert(data[batch])
        self._end = start + len(data)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows; an unknown id raises DataError before any is deleted."""
        if not self._store.has_origins:
            firsts = {key_of(name): name for name in ids}
            counts = {row["id"]: 1 for row in self._store._rows(list(firsts), [])}
        else:
            firsts = {passage_key(name): name for name in ids}
            counts = {key: row[PASSAGE].get("of", 1) for key, row in self._stored(list(firsts)).items()}
        if unknown := [name for key, name in firsts.items() if key not in counts]:
            raise DataError(f"the id {unknown[0]!r} is not in the index, so nothing was deleted; check the ids")
        # From the last to the first: a killed change leaves a first row, which finds the others when it is repeated.
        others = [passage_key(firsts[key], number) for key, of in counts.items() for number in range(of, 1, -1)]
        keys = [*others, *counts]
        for batch in batches([len(key) for key in keys]):
            self._connection.delete(keys[batch])

    def commit(self, progress: Progress | None = None) -> None:  # noqa: ARG002
        """Let the server flush everything and build its index; measure its recall; switch readers to a new index."""
        self._connection.finish()
        self._store._measure()
        if self._columns:
            for name, types in self._store.columns.items():
                self._columns.setdefault(name, set()).update(types)
            columns = {name: sorted(types) for name, types in sorted(self._columns.items())}
            self._connection.set_properties({COLUMNS: json.dumps(columns)})
        if self._store._is_draft:
            self._store._publish()
        self._store._searched = self._store._search_info()
