"""An index in a folder: immutable segments, and one manifest; renaming the manifest is the commit.

Whatever happens to a writer, the folder holds the old index or the new one: files that no manifest names do not
count, and the next writer removes them. A long build leaves a draft from which it continues.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import DamagedIndex, DataError, UsageError
from likewise.locks import only_writer
from likewise.progress import Progress
from likewise.search.engines import Engine, Plan, built
from likewise.search.manifest import (
    MANIFEST,
    UNFINISHED,
    EngineEntry,
    IndexManifest,
    SegmentEntry,
    load_engine,
    new_engine,
    save_engine,
)
from likewise.search.segments import KnownRows, Segment, SegmentStore, check_files, remove_others, synced_checksum
from likewise.search.store import StoredRows

LOCK = ".lock"
OPENING_TRIES = 5
"""A writer may commit and remove the old files between the reading of a manifest and the opening of its files."""
LARGEST_SEGMENT = 65536
OWN_FILES = ("segment-*", "engine-*", "postprocessing-*", "*.draft")


@dataclass(frozen=True, eq=False)
class FolderStore(SegmentStore):
    """One committed state of an index folder, mapped into memory."""

    folder: Path
    manifest: IndexManifest
    segments: tuple[Segment, ...]
    attachments: Mapping[str, bytes] = field(default_factory=dict)
    """other files that are stored with the index"""

    @classmethod
    def open(cls, folder: Path, verify: bool = True) -> FolderStore:
        """Open the present state; ``verify`` compares every file with its checksum."""
        for attempt in range(OPENING_TRIES):
            manifest = IndexManifest.read(folder)
            if manifest is None:
                raise DataError(_missing_index(folder))
            try:
                if verify:
                    check_files(folder, manifest.files)
                segments = tuple(Segment.open(folder, entry.name) for entry in manifest.segments)
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

    @property
    def wanted(self) -> tuple[str, int]:
        """The wanted engine and its bits per vector component."""
        return self.manifest.engine_kind, self.manifest.bits

    @property
    def recall(self) -> float | None:
        """Measured when the engine was saved; None for an exact search."""
        return None if self.manifest.engine is None else self.manifest.engine.recall

    @cached_property
    def engine(self) -> Engine:
        """What searches; built or read at the first search."""
        entry = self.manifest.engine
        return built(self.vectors, self.plan) if entry is None else load_engine(self.folder, entry, self.segments)

    @contextmanager
    def writer(self, change: str = "") -> Iterator[FolderWriter]:
        """Change the folder's present state, which may be newer than this one."""
        with only_writer(self.folder / LOCK, self.folder):
            present = FolderStore.open(self.folder, verify=False)
            # From now on it has other texts than those it was built from.
            yield FolderWriter.begun(self.folder, present.manifest, replace(present.manifest, source=""), change)

    def reopened(self) -> FolderStore:
        """The folder's present state."""
        return FolderStore.open(self.folder, verify=False)


@dataclass
class FolderWriter(KnownRows):
    """One change, under the folder's lock: nothing is visible before ``commit``, nothing is lost after it."""

    folder: Path
    present: IndexManifest | None
    """what readers see"""
    draft: IndexManifest
    """what they will see after the commit"""
    segments: list[Segment]

    def __post_init__(self) -> None:
        super().__init__(self.segments)

    @classmethod
    def begun(cls, folder: Path, present: IndexManifest | None, start: IndexManifest, change: str) -> FolderWriter:
        """Begin at ``start``, or where the same change to the same present state was cut short."""
        change = _fingerprint(present, change) if change else ""
        draft = _draft(folder)
        if draft is None or not change or draft.change != change:
            (folder / UNFINISHED).unlink(missing_ok=True)
            draft = replace(start, change=change)
        number = max(draft.number, 0 if present is None else present.number, _highest_number(folder))
        segments = [Segment.open(folder, entry.name) for entry in draft.segments]
        writer = cls(folder, present, replace(draft, number=number), segments)
        writer._sweep()
        return writer

    def append(self, rows: StoredRows) -> None:
        """Add rows after the others; segments are merged so that few remain."""
        if not len(rows):
            return
        segment = Segment.of(rows)
        self._remember(segment)
        entries = list(self.draft.segments)
        # As in a binary counter, each row is written again only log(n) times.
        while entries and entries[-1].rows <= len(segment) and entries[-1].rows + len(segment) <= LARGEST_SEGMENT:
            # Otherwise damage would be written anew with a checksum that fits.
            check_files(self.folder, entries.pop().files)
            segment = Segment.joined([self.segments.pop(), segment])
        entries.append(self._written(segment))
        self._go_on(entries)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows: their segments are written anew without them."""
        keys = self._forget(ids)
        entries: list[SegmentEntry] = []
        segments, self.segments = self.segments, []
        for segment, old in zip(segments, self.draft.segments, strict=True):
            gone = np.isin(segment.keys["id"], keys)
            if not gone.any():
                self.segments.append(segment)
                entries.append(old)
            elif not gone.all():
                check_files(self.folder, old.files)
                entries.append(self._written(segment.without(gone)))
        self._go_on(entries)

    def attach(self, kind: str, ending: str, data: bytes) -> None:
        """Store another file with the index; a build that continues has it already."""
        if any(name.startswith(kind) for name in self.draft.attachments):
            return
        path = self.folder / f"{self._next_name(kind)}{ending}"
        path.write_bytes(data)
        self.draft = replace(self.draft, attachments=self.draft.attachments | {path.name: synced_checksum(path)})

    def commit(self, progress: Progress | None = None) -> None:
        """Build or extend the engine, then make everything the present state by renaming the manifest."""
        self.draft = replace(self.draft, engine=self._engine(progress), change="")
        self.draft.write(self.folder)
        self.present = self.draft
        (self.folder / UNFINISHED).unlink(missing_ok=True)
        self._sweep()

    def _engine(self, progress: Progress | None) -> EngineEntry | None:
        """The saved engine of the new state; None if the vectors themselves are searched."""
        plan = Plan.of(self.draft.rows, self.draft.engine_kind, self.draft.bits)
        if plan.is_plain or not self.segments:
            return None
        engine, labels = new_engine(self.folder, self.draft.engine, plan, self.segments, progress)
        return save_engine(self.folder, self._next_name("engine"), engine, labels)

    def _written(self, segment: Segment) -> SegmentEntry:
        name = self._next_name("segment")
        files = segment.write(self.folder, name)
        self.segments.append(Segment.open(self.folder, name))
        return SegmentEntry(name, len(segment), files)

    def _next_name(self, kind: str) -> str:
        self.draft = replace(self.draft, number=self.draft.number + 1)
        return f"{kind}-{self.draft.number:06d}"

    def _go_on(self, entries: Sequence[SegmentEntry]) -> None:
        self.draft = replace(self.draft, segments=tuple(entries))
        if self.draft.change:
            self.draft.write(self.folder, UNFINISHED)
        self._sweep()

    def _sweep(self) -> None:
        """Remove the files of neither state."""
        kept = {**self.draft.files, **({} if self.present is None else self.present.files)}
        for pattern in OWN_FILES:
            remove_others(self.folder, kept, pattern)


@contextmanager
def building(folder: Path, empty: IndexManifest, replaces: bool = False) -> Iterator[FolderWriter]:
    """Build anew from an empty manifest; the old index stays until the commit. Continues the same build's draft."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made ({error.strerror}); give another --out") from error
    others = sorted(path.name for path in folder.iterdir() if not _is_own(path.name))
    if others and _present(folder, replaces) is None:
        raise UsageError(f"{folder} already holds {others[0]}; give a new or empty folder as --out")
    with only_writer(folder / LOCK, folder):
        present = _present(folder, replaces)
        if present is not None and not replaces:
            raise UsageError(f"{folder} already holds an index; add to it, replace it or give another folder")
        yield FolderWriter.begun(folder, present, empty, empty.checksum if empty.source else "")


def _present(folder: Path, replaces: bool) -> IndexManifest | None:
    """The present index; a damaged one counts as none if it is replaced."""
    try:
        return IndexManifest.read(folder)
    except DamagedIndex:
        if not replaces:
            raise
        return None


def _is_own(name: str) -> bool:
    """Whether a file may be left over from a killed writer."""
    return name in (LOCK, MANIFEST, UNFINISHED) or any(fnmatch(name, pattern) for pattern in OWN_FILES)


def _missing_index(folder: Path) -> str:
    if (folder / UNFINISHED).exists():
        return f"{folder} is unfinished; run the same likewise index again"
    if folder.exists():
        return f"{folder} holds no index; make one with: likewise index FILE --out {folder}"
    return f"{folder} does not exist; make an index with: likewise index FILE --out {folder}"


def _highest_number(folder: Path) -> int:
    """The highest number of all file names; a manifest may be missing or damaged."""
    found = (re.search(r"-(\d{6,})\.", path.name) for path in folder.iterdir())
    return max((int(match[1]) for match in found if match), default=0)


def _draft(folder: Path) -> IndexManifest | None:
    """The draft of an unfinished change, if it is whole."""
    try:
        found = IndexManifest.read(folder, UNFINISHED)
        if found is not None:
            check_files(folder, found.files)
        return found
    except (DataError, FileNotFoundError):
        return None


def _fingerprint(present: IndexManifest | None, change: str) -> str:
    before = "" if present is None else present.checksum
    return hashlib.sha256(f"{before}:{change}".encode()).hexdigest()
