"""The manifest of an index folder (its files with their checksums), and the saved engine that it names.

A saved engine is a faiss index with a label for each of its positions. Rows move when others are deleted; labels do
not. So an engine outlives additions and deletions.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DamagedIndex
from likewise.progress import Progress
from likewise.search.engines import Engine, Plan, StackedVectors, built, loaded
from likewise.search.ranker import Rows
from likewise.search.segments import Segment, check_files, synced_checksum

Labels = NDArray[np.uint64]

FORMAT = 1
MANIFEST, UNFINISHED = "index.json", "building.json"
STALE_SHARE = 0.2
"""An engine with more deleted rows than this share is built anew."""


@dataclass(frozen=True)
class SegmentEntry:
    """A segment's name, its number of rows and its files' checksums."""

    name: str
    rows: int
    files: dict[str, str]


@dataclass(frozen=True)
class EngineEntry:
    """A saved engine: its kind and bits, how wide it searches, its measured recall, its files' checksums."""

    kind: str
    bits: int
    width: int
    recall: float | None
    files: dict[str, str]


@dataclass(frozen=True)
class IndexManifest:
    """Everything that an index consists of."""

    settings: dict[str, Any]
    """what the vectors depend on"""
    dimension: int
    engine_kind: str = "auto"
    """as the user gave it"""
    bits: int = 32
    source: str = ""
    """which texts it was built from, if known"""
    segments: tuple[SegmentEntry, ...] = ()
    engine: EngineEntry | None = None
    attachments: dict[str, str] = field(default_factory=dict)
    """other files with their checksums, such as the post-processing"""
    change: str = ""
    """in a draft: the change that it belongs to"""
    number: int = 0
    """how many file names were given out, so that none is given twice"""
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(segment.rows for segment in self.segments)

    @property
    def files(self) -> dict[str, str]:
        """All files with their checksums."""
        found = dict(self.attachments)
        for segment in self.segments:
            found |= segment.files
        return found | ({} if self.engine is None else self.engine.files)

    @property
    def checksum(self) -> str:
        """A fingerprint of the manifest, and by its files' checksums of the whole index."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path, name: str = MANIFEST) -> None:
        """Commit: write a draft and rename it, so that the old or the new one is there, never half of one."""
        draft = folder / f"{name}.draft"
        with draft.open("w", encoding="utf-8") as stream:
            json.dump(asdict(self) | {"sha256": self.checksum}, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        # Before the rename, so that the names of the files reach the disk first; after it, so that the commit does.
        _sync_folder(folder)
        draft.replace(folder / name)
        _sync_folder(folder)

    @classmethod
    def read(cls, folder: Path, name: str = MANIFEST) -> IndexManifest | None:
        """The folder's manifest, or None without one."""
        path = folder / name
        try:
            stored = json.loads(path.read_bytes())
            checksum, version = stored.pop("sha256"), stored.get("format")
            if version != FORMAT:
                raise DamagedIndex(
                    f"{path} has format {version!r}, this version of Likewise reads {FORMAT}; build it again"
                )
            segments = tuple(SegmentEntry(**entry) for entry in stored.pop("segments"))
            engine = stored.pop("engine")
            found = cls(**stored, segments=segments, engine=None if engine is None else EngineEntry(**engine))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedIndex(f"{path} is damaged and no manifest; build the index again") from error
        if found.checksum != checksum:
            raise DamagedIndex(f"{path} is damaged: its checksum does not fit; build the index again")
        return found


def _sync_folder(folder: Path) -> None:
    """Sync the rename itself, if the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def load_engine(folder: Path, entry: EngineEntry, segments: Sequence[Segment]) -> Engine:
    """Read a saved engine for the present rows."""
    rows = rows_of_labels(_labels(folder, entry), labels_of(segments))
    plan = Plan(entry.kind, entry.bits)
    return loaded(_path(folder, entry, ".faiss"), plan, _stacked(segments), rows, entry.width, entry.recall)


def new_engine(
    folder: Path, old: EngineEntry | None, plan: Plan, segments: Sequence[Segment], progress: Progress | None
) -> tuple[Engine, Labels]:
    """The engine of a new state and its labels: the old one with the new rows, or one built from scratch."""
    labels = labels_of(segments)
    if old is not None and (old.kind, old.bits) == (plan.kind, plan.bits):
        check_files(folder, old.files)
        engine, before = load_engine(folder, old, segments), _labels(folder, old)
        assert engine.rows is not None
        alive = engine.rows[engine.rows >= 0]
        # Only rows after those that it knows can be added.
        if len(alive) >= (1 - STALE_SHARE) * len(before) and (alive == np.arange(len(alive))).all():
            extended = engine.extended(engine.vectors, engine.rows, progress)
            return extended, np.concatenate([before, labels[len(alive) :]])
    return built(_stacked(segments), plan, progress), labels


def save_engine(folder: Path, name: str, engine: Engine, labels: Labels) -> EngineEntry:
    """Write and sync an engine and its labels."""
    paths = folder / f"{name}.faiss", folder / f"{name}.npy"
    engine.save(paths[0])
    np.save(paths[1], labels)
    files = {path.name: synced_checksum(path) for path in paths}
    return EngineEntry(engine.plan.kind, engine.plan.bits, engine.width, engine.recall, files)


def labels_of(segments: Sequence[Segment]) -> Labels:
    """One number for each row's id and text."""
    parts = [segment.keys["id"] * np.uint64(0x9E3779B97F4A7C15) ^ segment.keys["text"] for segment in segments]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def rows_of_labels(labels: Labels, present: Labels) -> Rows:
    """The present row of each label (m,), -1 if it was deleted."""
    if not len(present):
        return np.full(len(labels), -1, np.int64)
    order = np.argsort(present)
    indices = np.minimum(np.searchsorted(present, labels, sorter=order), len(present) - 1)
    rows = order[indices]
    return np.where(present[rows] == labels, rows, -1).astype(np.int64)


def _stacked(segments: Sequence[Segment]) -> StackedVectors:
    return StackedVectors([segment.vectors for segment in segments])


def _labels(folder: Path, entry: EngineEntry) -> Labels:
    labels: Labels = np.load(_path(folder, entry, ".npy"))
    return labels


def _path(folder: Path, entry: EngineEntry, ending: str) -> Path:
    return folder / next(name for name in entry.files if name.endswith(ending))
