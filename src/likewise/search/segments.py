"""Segments: some rows of an index on disk, written once and never changed.

A segment is three files: the vectors (.npy), a key for each row (.npy) and the rows themselves, one JSON list
``[id, text]`` a line. All three are mapped, not read: a hit costs its own line.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DamagedIndex
from likewise.search.stacked import Vectors
from likewise.search.store import StoredRows

KEY = np.dtype([("id", "<u8"), ("text", "<u8"), ("end", "<u8")])
"""Hashes of a row's id and of its text, and where its line ends."""

Keys = NDArray[np.void]
PARTS = ("vectors.npy", "keys.npy", "rows.jsonl")


def key_of(text: str) -> int:
    """The 64-bit hash by which ids and texts are compared."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows in the form in which they are kept: vectors (n, d), keys (n,) and the bytes of their lines."""

    vectors: Vectors
    keys: Keys
    lines: bytes | mmap.mmap

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, rows: StoredRows) -> Segment:
        """From ids, texts and vectors."""
        lines = [_line(name, text) for name, text in zip(rows.ids, rows.texts, strict=True)]
        keys = np.empty(len(rows), KEY)
        keys["id"] = [key_of(name) for name in rows.ids]
        keys["text"] = [key_of(text) for text in rows.texts]
        keys["end"] = np.cumsum([len(line) for line in lines])
        return cls(np.ascontiguousarray(rows.vectors, dtype="<f4"), keys, b"".join(lines))

    @classmethod
    def joined(cls, segments: Sequence[Segment]) -> Segment:
        """Several one behind the other."""
        keys = np.concatenate([segment.keys for segment in segments])
        starts = np.cumsum([0, *(len(segment.lines) for segment in segments[:-1])], dtype=np.uint64)
        keys["end"] += np.repeat(starts, [len(segment) for segment in segments])
        lines = b"".join(segment.lines[:] for segment in segments)
        return cls(np.concatenate([segment.vectors for segment in segments]), keys, lines)

    def without(self, gone: NDArray[np.bool_]) -> Segment:
        """Only the rows that are not gone (n,)."""
        kept = np.flatnonzero(~gone)
        lines = [self.line(row) for row in kept.tolist()]
        keys = self.keys[kept]
        keys["end"] = np.cumsum([len(line) for line in lines])
        return Segment(self.vectors[kept], keys, b"".join(lines))

    def line(self, row: int) -> bytes:
        """The bytes of one row's line."""
        start = int(self.keys["end"][row - 1]) if row else 0
        return self.lines[start : int(self.keys["end"][row])]

    def row(self, row: int) -> tuple[str, str]:
        """The id and the text of one row."""
        name, text = json.loads(self.line(row))
        return name, text

    def windows(self, size: int) -> Iterator[StoredRows]:
        """All rows, ``size`` at a time."""
        for start in range(0, len(self), size):
            stop = min(start + size, len(self))
            pairs = [self.row(row) for row in range(start, stop)]
            names, texts = [name for name, _ in pairs], [text for _, text in pairs]
            yield StoredRows(names, texts, np.asarray(self.vectors[start:stop]))

    def write(self, folder: Path, name: str) -> dict[str, str]:
        """Write the three files, down to the disk; their checksums by file name."""
        vectors, keys, lines = (folder / f"{name}.{part}" for part in PARTS)
        _save(vectors, self.vectors)
        _save(keys, self.keys)
        lines.write_bytes(self.lines)
        return {path.name: synced_checksum(path) for path in (vectors, keys, lines)}

    @classmethod
    def open(cls, folder: Path, name: str) -> Segment:
        """Map a written segment."""
        vectors, keys, lines = (folder / f"{name}.{part}" for part in PARTS)
        with lines.open("rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        return cls(np.load(vectors, mmap_mode="r"), np.load(keys, mmap_mode="r"), mapped)


def _line(name: str, text: str) -> bytes:
    # Surrogates that stand alone are kept as they are: what goes in must come out.
    return (json.dumps([name, text], ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _save(path: Path, array: NDArray[np.generic]) -> None:
    with path.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def synced_checksum(path: Path) -> str:
    """The sha256 of a file whose bytes are on the disk by then."""
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_files(folder: Path, checksums: Mapping[str, str]) -> None:
    """Refuse a file that is not what was written."""
    for name, checksum in checksums.items():
        with (folder / name).open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != checksum:
                raise DamagedIndex(
                    f"{folder / name} is damaged: its checksum is not the one in the manifest; build it again"
                )


def remove_others(folder: Path, kept: Iterable[str], pattern: str) -> None:
    """Clear away what no manifest names any more."""
    names = set(kept)
    for path in folder.glob(pattern):
        if path.name not in names:
            path.unlink(missing_ok=True)
