"""The interface of what stores an index: memory, a folder on this machine, or Milvus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from likewise.search.engines import Vectors
from likewise.search.hits import Hit
from likewise.search.ranker import Corpus


@dataclass(frozen=True)
class Searched:
    """How a store searches."""

    engine: str
    """exact, hnsw, ivf, or the name of Milvus's index"""
    recall: float | None = None
    """the share of the true ten best that it finds, measured on a sample; None for an exact search"""
    note: str = ""
    """one line for the user: why this engine, or that it fell back to another"""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Some rows: their ids, their texts and their vectors (n, d)."""

    ids: Sequence[str]
    texts: Sequence[str]
    vectors: Vectors

    def __len__(self) -> int:
        return len(self.ids)


class Writer(Protocol):
    """One change of a store. Nothing that it appends is lost once ``commit`` has returned."""

    @property
    def at_once(self) -> bool:
        """Whether rows are stored as they are appended, and stay if the change is cut short."""

    def missing(self, ids: Sequence[str], texts: Sequence[str]) -> list[int]:
        """The indices of the rows that are not stored yet; an id that is stored with another text raises DataError."""

    def append(self, rows: StoredRows) -> None:
        """Add rows after the others."""

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows; an unknown id raises DataError before any is deleted."""

    def commit(self) -> None:
        """Make the change the present state."""


class Store(Protocol):
    """Vectors of one model with their texts and ids. Vectors are compared by inner product."""

    @property
    def address(self) -> str:
        """Where it is, as the user wrote it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the vectors depend on, as given when the store was made; plain JSON."""

    @property
    def searched(self) -> Searched:
        """How it searches."""

    def __len__(self) -> int:
        """The number of rows."""

    def nearest(self, vectors: Vectors, k: int) -> list[list[Hit]]:
        """The k best rows for each query vector (q, d), best first, with exact scores."""

    def windows(self) -> Iterator[StoredRows]:
        """All rows, in the order of their addition, some thousands at a time."""

    @property
    def attachments(self) -> Mapping[str, bytes]:
        """Other files that are stored with the index."""

    def reopened(self) -> Store:
        """The present state, after a change."""

    def close(self) -> None:
        """Release it; until then Milvus Lite lets no other process in."""

    def writer(self, change: str = "") -> AbstractContextManager[Writer]:
        """Begin a change; a second writer gets a UsageError. The same named change continues where it was cut short."""


@contextmanager
def closed_on_error(store: Store) -> Iterator[None]:
    """Close a store that turns out to be unusable."""
    try:
        yield
    except BaseException:
        store.close()
        raise


def corpus_of(store: Store) -> Corpus:
    """All texts of a store with their ids."""
    return Corpus.of((name, text) for rows in store.windows() for name, text in zip(rows.ids, rows.texts, strict=True))
