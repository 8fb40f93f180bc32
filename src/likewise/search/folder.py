"""An index in a folder: immutable segments, and one manifest whose renaming is the commit.

Whatever happens to a writer, the folder holds the old index or the new one: files that no manifest names do not
count, and the next writer clears them away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from likewise.errors import DamagedIndex, DataError, UsageError
from likewise.locks import only_writer
from likewise.search.engines import Engine, Plan, built
from likewise.search.folder_writer import OWN_FILES, FolderWriter
from likewise.search.manifest import MANIFEST, UNFINISHED, IndexManifest
from likewise.search.saved_engine import load_engine, stacked
from likewise.search.segments import Segment, check_files
from likewise.search.stacked import StackedVectors, Vectors
from likewise.search.store import Hit, Searched, StoredRows

LOCK = ".lock"
WINDOW = 4096
OPENING_TRIES = 5
"""A writer may commit, and clear the old files away, between reading a manifest and opening its files."""


@dataclass(frozen=True, eq=False)
class FolderStore:
    """One committed state of an index folder, mapped into memory."""

    folder: Path
    manifest: IndexManifest
    segments: tuple[Segment, ...]
    attachments: Mapping[str, bytes] = field(default_factory=dict)
    """other files that are kept with the index"""

    @classmethod
    def open(cls, folder: Path, verify: bool = True) -> FolderStore:
        """Open the present state; ``verify`` compares every file with its checksum."""
        for attempt in range(OPENING_TRIES):
            manifest = IndexManifest.read(folder)
            if manifest is None:
                raise DataError(_nothing_there(folder))
            try:
                if verify:
                    check_files(folder, manifest.files)
                segments = tuple(Segment.open(folder, metadata.name) for metadata in manifest.segments)
                attachments = {name: (folder / name).read_bytes() for name in manifest.attachments}
                return cls(folder, manifest, segments, attachments)
            except FileNotFoundError as error:
                if attempt == OPENING_TRIES - 1 or IndexManifest.read(folder) == manifest:
                    raise DamagedIndex(f"{error.filename} is missing; build the index again") from error
            except (ValueError, EOFError) as error:
                raise DamagedIndex(f"{folder} is damaged ({error}); build the index again") from error
        raise AssertionError  # the last attempt returns or raises

    @property
    def address(self) -> str:
        """The folder."""
        return str(self.folder)

    @property
    def settings(self) -> dict[str, Any]:
        """What the vectors depend on."""
        return self.manifest.settings

    def __len__(self) -> int:
        return self.manifest.rows

    @cached_property
    def vectors(self) -> StackedVectors:
        """All vectors (n, d), mapped."""
        return stacked(self.segments)

    @cached_property
    def engine(self) -> Engine:
        """What searches; made or read at the first search."""
        metadata = self.manifest.engine
        if metadata is None:
            return built(self.vectors, self.plan)
        return load_engine(self.folder, metadata, self.segments)

    @cached_property
    def plan(self) -> Plan:
        """The engine that this many vectors get."""
        return Plan.of(len(self), self.manifest.engine_kind, self.manifest.bits)

    @property
    def searched(self) -> Searched:
        """How the folder is searched."""
        metadata = self.manifest.engine
        name = self.plan.kind if self.plan.bits == 32 else f"{self.plan.kind}, {self.plan.bits} bits"
        return Searched(name, None if metadata is None else metadata.recall, self.plan.why)

    def nearest(self, vectors: Vectors, k: int) -> list[list[Hit]]:
        """The k best rows for each query vector (q, d)."""
        if not len(self):
            return [[] for _ in vectors]
        found = self.engine.search(vectors, k)
        return [
            [self._hit(row, score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True) if row >= 0]
            for rows, scores in zip(found.rows, found.scores, strict=True)
        ]

    def _hit(self, row: int, score: float) -> Hit:
        part, index = self.vectors.part_of(row)
        return Hit(*self.segments[part].row(index), score)

    def windows(self) -> Iterator[StoredRows]:
        """All rows in order."""
        for segment in self.segments:
            yield from segment.windows(WINDOW)

    @contextmanager
    def writer(self, change: str = "") -> Iterator[FolderWriter]:
        """Change the folder's present state, which may be newer than this one."""
        with only_writer(self.folder / LOCK, self.folder):
            present = FolderStore.open(self.folder, verify=False)
            # From now on it holds other texts than those it was built from.
            yield FolderWriter.begun(self.folder, present.manifest, replace(present.manifest, source=""), change)

    def reopened(self) -> FolderStore:
        """The folder's present state."""
        return FolderStore.open(self.folder, verify=False)

    def close(self) -> None:
        """Nothing is held that others wait for."""


@contextmanager
def building(folder: Path, empty: IndexManifest, replaces: bool = False) -> Iterator[FolderWriter]:
    """Build anew from an empty manifest; what is there stays until the commit. Goes on with the same build's draft."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made ({error.strerror}); give another --out") from error
    strangers = sorted(path.name for path in folder.iterdir() if not _is_own(path.name))
    if strangers and _present(folder, replaces) is None:
        raise UsageError(f"{folder} already holds {strangers[0]}; give a new or empty folder as --out")
    with only_writer(folder / LOCK, folder):
        present = _present(folder, replaces)
        if present is not None and not replaces:
            raise UsageError(f"{folder} already holds an index; add to it, replace it or give another folder")
        yield FolderWriter.begun(folder, present, empty, empty.checksum if empty.source else "")


def _present(folder: Path, replaces: bool) -> IndexManifest | None:
    """What is there; a damaged index is nothing to one that replaces it."""
    try:
        return IndexManifest.read(folder)
    except DamagedIndex:
        if not replaces:
            raise
        return None


def _is_own(name: str) -> bool:
    """Whether a file may be one that a killed writer left."""
    return name in (LOCK, MANIFEST, UNFINISHED) or any(fnmatch(name, pattern) for pattern in OWN_FILES)


def _nothing_there(folder: Path) -> str:
    if (folder / UNFINISHED).exists():
        return f"{folder} is unfinished; run the same likewise index again"
    if folder.exists():
        return f"{folder} holds no index; make one with: likewise index FILE --out {folder}"
    return f"{folder} does not exist; make an index with: likewise index FILE --out {folder}"
