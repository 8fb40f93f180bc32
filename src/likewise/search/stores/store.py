"""The protocol of a store: where the texts, vectors and settings of an index are, and how they change.

``Index(encoder, store)`` takes any object that follows ``Store``. A class that inherits it has only the methods without
a body here left to write. tests/stores/conformance.py holds what every store has to pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DataError
from likewise.progress import Progress
from likewise.search.documents import Document, Origin, hash_of, keeps_origins
from likewise.search.engines import Vectors
from likewise.search.filters import ColumnTypes, Filter
from likewise.search.hits import Hit
from likewise.search.ranker import Corpus


@dataclass(frozen=True)
class Searched:
    """How a store searches."""

    engine: str  # exact, hnsw, ivf, or what a server calls its index
    recall: float | None = None  # the share of the true ten best that it finds on a sample; None for an exact search
    note: str = ""  # one line for the user: why this engine, or that it fell back to another


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Some rows: their ids, their texts and their vectors (n, d); with origins, rows of documents."""

    ids: Sequence[str]
    texts: Sequence[str]
    vectors: Vectors
    origins: Sequence[Origin] | None = None  # None in an index of plain texts

    def __len__(self) -> int:
        return len(self.ids)


class Writer(Protocol):
    """One change of a store. Nothing that it appended is lost once ``commit`` has returned."""

    at_once: bool  # whether readers see rows before the commit; then a killed change is repeated to finish it

    def missing_documents(self, documents: Sequence[Document]) -> list[Document]:
        """The documents that are not stored yet, or only in part; one that cannot be stored raises DataError."""

    def append(self, rows: StoredRows) -> None:
        """Add rows after the others; the rows of a document are neighbours and come in one call."""

    def delete(self, ids: Sequence[str]) -> None:
        """Delete texts or documents; an unknown id raises DataError before any is deleted."""

    def commit(self, progress: Progress | None = None) -> None:
        """Make the change last, with everything that a search needs."""


class Store(Protocol):
    """Vectors of one model with their ids and texts, compared by inner product."""

    settings: Mapping[str, Any]
    """What the vectors depend on, as plain JSON; given when the store was made."""
    attachments: Mapping[str, bytes]
    """Files that are stored with the index, by name; empty in a store that holds none."""

    @property
    def address(self) -> str:
        """What the user gives to find it again."""

    @property
    def searched(self) -> Searched:
        """How it searches."""

    @property
    def state(self) -> str:
        """A fingerprint: a change of the rows changes it."""

    @property
    def documents(self) -> int:
        """The number of documents; of texts, in an index of plain texts."""

    @property
    def columns(self) -> ColumnTypes:
        """The columns of the metadata and the types of their values."""

    def __len__(self) -> int:
        """The number of rows: of passages, or of texts."""

    def nearest(self, vectors: Vectors, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """The k best rows for each query vector (q, d), best first, the earlier row first among equals.

        A score is the inner product of the query with the stored vector to the last bit, however the row was found.
        A filter leaves rows out before the k best are taken; an unknown column raises UsageError.
        """

    def document(self, name: str) -> str:
        """The whole text of a document; an unknown id raises DataError."""

    def passage_scores(self, hit: Hit, vector: Vectors) -> Vectors:
        """The scores of all passages of a hit's document for a query vector (d,)."""

    def windows(self) -> Iterator[StoredRows]:
        """All rows in the order in which they were added, about a thousand at a time."""

    def writer(self, change: str = "") -> AbstractContextManager[Any]:
        """Begin a change; ``change`` names it, so that the same change continues after a crash."""

    def reopened(self) -> Store:
        """The store with its present rows, after a change."""

    @property
    def has_origins(self) -> bool:
        """Whether rows are passages or have metadata."""
        return keeps_origins(self.settings)

    def corpus(self) -> Corpus:
        """All rows: texts or passages, with their ids and origins."""
        ids: list[str] = []
        texts: list[str] = []
        origins: list[Origin] = []
        for rows in self.windows():
            ids += rows.ids
            texts += rows.texts
            origins += rows.origins or ()
        return Corpus(ids, texts, origins if self.has_origins else None)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete texts or documents; an unknown id raises DataError, and then nothing is deleted."""
        with self.writer() as writer:
            writer.delete([ids] if isinstance(ids, str) else ids)
            writer.commit()

    def close(self) -> None:
        """Release what other processes may wait for."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def closed_on_error(store: Store) -> Iterator[None]:
    """Close a store that turns out to be unusable."""
    try:
        yield
    except BaseException:
        store.close()
        raise


def corpus_state(texts: NDArray[np.uint64]) -> str:
    """A fingerprint of texts by their hashes (n,), in any order."""
    return f"{len(texts)}-{int(texts.sum(dtype=np.uint64)):016x}"


class KnownRows:
    """Which ids and texts a change has already: the key of each id -> the key of its text."""

    at_once = False

    def __init__(self, keys: Iterable[NDArray[np.void]] = ()) -> None:
        self.known: dict[int, int] = {}
        for some in keys:
            self._remember(some)

    def _remember(self, keys: NDArray[np.void]) -> None:
        """Add rows by the hashes of their ids and texts (n,)."""
        # Of a document's rows, the first counts: its key is that of the document.
        self.known |= zip(keys["id"][::-1].tolist(), keys["text"][::-1].tolist(), strict=True)

    def missing(self, ids: Sequence[str], texts: Sequence[str]) -> list[int]:
        """The indices of the rows that are not stored yet; an id that is stored with another text raises DataError."""
        return self.missing_contents(ids, [hash_of(text) for text in texts])

    def missing_documents(self, documents: Sequence[Document]) -> list[Document]:
        """The documents that are not stored yet, by their texts and metadata."""
        other = "text or other metadata" if any(one.metadata for one in documents) else "text"
        found = self.missing_contents([one.id for one in documents], [one.content for one in documents], other)
        return [documents[index] for index in found]

    def missing_contents(self, ids: Sequence[str], contents: Sequence[int], other: str = "text") -> list[int]:
        """``missing`` by the hashes of the texts."""
        wanted: list[int] = []
        new: dict[int, int] = {}
        for index, (name, content) in enumerate(zip(ids, contents, strict=True)):
            key = hash_of(name)
            if new.get(key, content) != content:
                raise DataError(f"the id {name!r} names two texts; give each text an id of its own")
            stored = self.known.get(key)
            if stored is None and key not in new:
                new[key] = content
                wanted.append(index)
            elif stored is not None and stored != content:
                cure = "delete it first, or put a prefix before the new ids"
                raise DataError(f"the id {name!r} is already in the index with another {other}; {cure}")
        return wanted

    def _forget(self, ids: Sequence[str]) -> NDArray[np.uint64]:
        """The keys of rows to delete; an unknown id raises DataError before any is deleted."""
        keys = {hash_of(name): name for name in ids}
        unknown = [name for key, name in keys.items() if key not in self.known]
        if unknown:
            more = f" and {len(unknown) - 1} others are" if len(unknown) > 1 else " is"
            raise DataError(f"the id {unknown[0]!r}{more} not in the index; nothing was deleted")
        for key in keys:
            del self.known[key]
        return np.array(list(keys), np.uint64)
