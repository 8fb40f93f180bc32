"""Segments (rows of an index that never change), the base class of stores that hold them, and a store in memory.

A segment on disk is three files: the vectors (.npy), a key for each row (.npy), and the rows themselves, one JSON list
``[id, text]`` per line, or ``[id, text, origin]`` for a passage or a text with metadata. The rows of a document are
neighbours in one segment. All three are memory-mapped: a hit reads only its own line.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DamagedIndex, DataError
from likewise.progress import Progress
from likewise.search.documents import Groups, Origin, hash_of, joined_text
from likewise.search.engines import Engine, Plan, StackedVectors, Vectors, built, inner_products
from likewise.search.filters import Filter, column_types
from likewise.search.hits import Hit
from likewise.search.stores.store import KnownRows, Searched, Store, StoredRows, corpus_state
from likewise.storage import file_hash, sync

KEY = np.dtype([("id", "<u8"), ("text", "<u8"), ("end", "<u8")])  # Hashes of a row's id and text; where its line ends
RowMask = NDArray[np.bool_]
Keys = NDArray[np.void]
PARTS = ("vectors.npy", "keys.npy", "rows.jsonl")
WINDOW = 4096


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows as they are stored: vectors (n, d), keys (n,) and the bytes of their lines."""

    vectors: Vectors
    keys: Keys
    lines: bytes | mmap.mmap

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, rows: StoredRows) -> Segment:
        """From ids, texts and vectors."""
        entries: Iterable[tuple[Any, ...]] = zip(rows.ids, rows.texts, strict=True)
        if rows.origins is not None:
            details = (origin.to_dict() for origin in rows.origins)
            entries = ((*entry, *([found] if found else [])) for entry, found in zip(entries, details, strict=True))
        # Lone surrogates are stored as they are: what goes in comes out.
        lines = [(json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass") for row in entries]
        keys = np.empty(len(rows), KEY)
        keys["id"] = [hash_of(name) for name in rows.ids]
        contents = map(hash_of, rows.texts) if rows.origins is None else (origin.key for origin in rows.origins)
        keys["text"] = list(contents)
        keys["end"] = np.cumsum([len(line) for line in lines])
        return cls(np.ascontiguousarray(rows.vectors, dtype="<f4"), keys, b"".join(lines))

    @classmethod
    def joined(cls, segments: Sequence[Segment]) -> Segment:
        """Several segments as one."""
        keys = np.concatenate([segment.keys for segment in segments])
        starts = np.cumsum([0, *(len(segment.lines) for segment in segments[:-1])], dtype=np.uint64)
        keys["end"] += np.repeat(starts, [len(segment) for segment in segments])
        lines = b"".join(segment.lines[:] for segment in segments)
        return cls(np.concatenate([segment.vectors for segment in segments]), keys, lines)

    def without(self, gone: NDArray[np.bool_]) -> Segment:
        """Only the rows that are not gone (n,)."""
        left = np.flatnonzero(~gone)
        lines = [self.line(row) for row in left.tolist()]
        keys = self.keys[left]
        keys["end"] = np.cumsum([len(line) for line in lines])
        return Segment(self.vectors[left], keys, b"".join(lines))

    def line(self, row: int) -> bytes:
        """The bytes of one row's line."""
        start = int(self.keys["end"][row - 1]) if row else 0
        return self.lines[start : int(self.keys["end"][row])]

    def row(self, row: int) -> tuple[str, str, Origin]:
        """The id, the text and the origin of one row."""
        name, text, *details = json.loads(self.line(row))
        return name, text, Origin.of(details[0] if details else {}, int(self.keys["text"][row]))

    def hit(self, row: int, score: float) -> Hit:
        """A row that was found."""
        name, text, origin = self.row(row)
        return Hit(name, text, score, passage=origin.passage, metadata=origin.metadata)

    def windows(self, with_origins: bool) -> Iterator[StoredRows]:
        """All rows, some thousand at a time."""
        for start in range(0, len(self), WINDOW):
            stop = min(start + WINDOW, len(self))
            names, texts, origins = zip(*(self.row(row) for row in range(start, stop)), strict=True)
            yield StoredRows(names, texts, np.asarray(self.vectors[start:stop]), origins if with_origins else None)

    def write(self, folder: Path, name: str) -> dict[str, str]:
        """Write and sync the three files; returns their checksums by file name."""
        vectors, keys, lines = (folder / f"{name}.{part}" for part in PARTS)
        for path, array in ((vectors, self.vectors), (keys, self.keys)):
            with path.open("wb") as stream:
                np.save(stream, array, allow_pickle=False)
        lines.write_bytes(self.lines)
        return {path.name: synced_checksum(path) for path in (vectors, keys, lines)}

    @classmethod
    def open(cls, folder: Path, name: str) -> Segment:
        """Map a written segment."""
        vectors, keys, lines = (folder / f"{name}.{part}" for part in PARTS)
        with lines.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(np.load(vectors, mmap_mode="r"), np.load(keys, mmap_mode="r"), mapped)


def synced_checksum(path: Path) -> str:
    """The sha256 of a file, after its bytes are synced to the disk."""
    sync(path)
    return file_hash(path)


def check_files(folder: Path, checksums: Mapping[str, str]) -> None:
    """Rejects a file that is not what was written."""
    for name, checksum in checksums.items():
        if file_hash(folder / name) != checksum:
            flaw = "its checksum is not the one in the manifest"
            raise DamagedIndex(f"{folder / name} is damaged: {flaw}; build it again")


class SegmentStore(Store):
    """What stores of segments share, on disk and in memory: the same engine, the same scores."""

    segments: Sequence[Segment]

    @property
    def wanted(self) -> tuple[str, int]:
        """The wanted engine and its bits per vector component."""
        raise NotImplementedError

    @cached_property
    def engine_plan(self) -> Plan:
        """The engine for this many vectors."""
        return Plan.of(len(self), *self.wanted)

    @property
    def recall(self) -> float | None:
        """Measured, of an approximate engine; None for an exact search."""
        return None if self.engine_plan.is_plain or not len(self) else self.engine.recall

    def __len__(self) -> int:
        return sum(len(segment) for segment in self.segments)

    @cached_property
    def state(self) -> str:
        """A fingerprint of all texts."""
        parts = [segment.keys["text"] for segment in self.segments]
        return corpus_state(np.concatenate(parts) if parts else np.empty(0, np.uint64))

    @cached_property
    def vectors(self) -> StackedVectors:
        """All vectors (n, d)."""
        return StackedVectors([segment.vectors for segment in self.segments])

    @cached_property
    def engine(self) -> Engine:
        """What searches; built at the first search."""
        return built(self.vectors, self.engine_plan)

    @property
    def searched(self) -> Searched:
        """How the rows are searched."""
        found = self.engine_plan
        return Searched(found.kind + ("" if found.bits == 32 else f", {found.bits} bits"), self.recall, found.why)

    def nearest(self, vectors: Vectors, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """The k best rows for each query vector (q, d); with a filter, of all rows that match."""
        if not len(self):
            return [[] for _ in vectors]
        found = self.engine.search(vectors, k, None if where is None else self.matching(where))
        return [
            [self._hit(row, score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True) if row >= 0]
            for rows, scores in zip(found.rows, found.scores, strict=True)
        ]

    def _hit(self, row: int, score: float) -> Hit:
        part, index = self.vectors.part_of(row)
        return self.segments[part].hit(index, score)

    @cached_property
    def groups(self) -> Groups:
        """Which rows are passages of one document."""
        ids = [segment.keys["id"] for segment in self.segments]
        return Groups.of(np.concatenate(ids) if ids else np.empty(0, np.uint64))

    @property
    def documents(self) -> int:
        """The number of documents; of texts, in an index of plain texts."""
        return len(self.groups.starts)

    @cached_property
    def _metadata(self) -> list[Mapping[str, Any]]:
        """The metadata of each document."""
        places = map(self.vectors.part_of, self.groups.starts.tolist())
        return [self.segments[part].row(index)[2].metadata for part, index in places]

    @cached_property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The columns of the metadata and the types of their values."""
        return column_types(self._metadata)

    def matching(self, where: Filter) -> RowMask:
        """The rows (n,) whose documents match a filter."""
        if where not in self._matching:
            where.check(self.columns)
            match = np.fromiter(map(where.matches, self._metadata), bool, self.documents)
            self._matching.clear()
            self._matching[where] = match[self.groups.group]
        return self._matching[where]

    @cached_property
    def _matching(self) -> dict[Filter, RowMask]:
        """The last filter and its rows."""
        return {}

    @cached_property
    def _group_of(self) -> dict[int, int]:
        """The document of each hash of an id."""
        ids = [segment.keys["id"] for segment in self.segments]
        firsts = np.concatenate(ids)[self.groups.starts] if ids else np.empty(0, np.uint64)
        return {key: group for group, key in enumerate(firsts.tolist())}

    def _rows_of(self, name: str) -> range:
        """The rows of a document."""
        group = self._group_of.get(hash_of(name))
        if group is None:
            raise DataError(f"the id {name!r} is not in the index; check it")
        return self.groups.rows_of(group)

    def document(self, name: str) -> str:
        """The whole text of a document."""
        parts = map(self.vectors.part_of, self._rows_of(name))
        return joined_text(self.segments[part].row(row)[1:] for part, row in parts)

    def passage_scores(self, hit: Hit, vector: Vectors) -> Vectors:
        """The scores of all passages of a hit's document for a query vector (d,)."""
        return inner_products(self.vectors.take(self._rows_of(hit.id)), vector)

    def windows(self) -> Iterator[StoredRows]:
        """All rows in order."""
        for segment in self.segments:
            yield from segment.windows(self.has_origins)


@dataclass(frozen=True, eq=False)
class MemoryStore(SegmentStore):
    """The rows of an index without a folder; they end with the process."""

    settings: Mapping[str, Any]  # what the vectors depend on
    wanted: tuple[str, int] = ("auto", 32)
    segments: list[Segment] = field(default_factory=list)
    attachments: Mapping[str, bytes] = field(default_factory=dict)  # none: the encoder is there
    address = "memory"

    @contextmanager
    def writer(self, change: str = "") -> Iterator[MemoryWriter]:  # noqa: ARG002
        """Begin a change; nothing of it is visible before its commit."""
        yield MemoryWriter(self)

    def reopened(self) -> MemoryStore:
        """The present rows, with a new engine."""
        return MemoryStore(self.settings, self.wanted, self.segments)


class MemoryWriter(KnownRows):
    """One change of a ``MemoryStore``."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(segment.keys for segment in store.segments)
        self._store, self._segments = store, list(store.segments)

    def append(self, rows: StoredRows) -> None:
        """Add rows after the others."""
        if len(rows):
            self._segments.append(Segment.of(rows))
            self._remember(self._segments[-1].keys)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows; an unknown id raises DataError before any is deleted."""
        keys = self._forget(ids)
        left = [segment.without(np.isin(segment.keys["id"], keys)) for segment in self._segments]
        self._segments = [segment for segment in left if len(segment)]

    def commit(self, progress: Progress | None = None) -> None:  # noqa: ARG002
        """Make the change visible in the store after ``reopened``."""
        self._store.segments[:] = self._segments
