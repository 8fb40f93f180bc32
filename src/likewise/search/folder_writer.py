"""The writer of an index folder: segments, then a manifest; a long build leaves a draft to go on from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from likewise.errors import DataError
from likewise.progress import Progress
from likewise.search.engines import Plan
from likewise.search.manifest import UNFINISHED, EngineFacts, IndexManifest, SegmentFacts
from likewise.search.saved_engine import new_engine, save_engine
from likewise.search.segments import Segment, check_files, key_of, remove_others, synced_checksum
from likewise.search.store import StoredRows

LARGEST_SEGMENT = 65536
OWN_FILES = ("segment-*", "engine-*", "postprocessing-*", "*.draft")


@dataclass
class FolderWriter:
    """One change, under the folder's lock: nothing is visible before ``commit``, nothing is lost after it."""

    folder: Path
    present: IndexManifest | None
    """what readers see"""
    draft: IndexManifest
    """what they will see after the commit"""
    segments: list[Segment]
    known: dict[int, int] = field(default_factory=dict)
    """the key of each id -> the key of its text"""
    at_once = False

    @classmethod
    def begun(cls, folder: Path, present: IndexManifest | None, start: IndexManifest, change: str) -> FolderWriter:
        """Begin at ``start``, or where the same change of the same present state was cut short."""
        change = _fingerprint(present, change) if change else ""
        draft = _draft(folder)
        if draft is None or not change or draft.change != change:
            (folder / UNFINISHED).unlink(missing_ok=True)
            draft = replace(start, change=change)
        number = max(draft.number, 0 if present is None else present.number, _highest_number(folder))
        segments = [Segment.open(folder, metadata.name) for metadata in draft.segments]
        writer = cls(folder, present, replace(draft, number=number), segments)
        writer._sweep()
        for segment in segments:
            writer._remember(segment)
        return writer

    def missing(self, ids: Sequence[str], texts: Sequence[str]) -> list[int]:
        """The places of the rows that are not stored yet; an id stored with another text is refused."""
        wanted: list[int] = []
        here: dict[int, int] = {}
        for index, (name, text) in enumerate(zip(ids, texts, strict=True)):
            key, content = key_of(name), key_of(text)
            if here.get(key, content) != content:
                raise DataError(f"the id {name!r} names two texts; give each text an id of its own")
            stored = self.known.get(key)
            if stored is None and key not in here:
                here[key] = content
                wanted.append(index)
            elif stored is not None and stored != content:
                raise DataError(
                    f"the id {name!r} is already in the index with another text; delete it first, or put a prefix"
                    " before the new ids"
                )
        return wanted

    def append(self, rows: StoredRows) -> None:
        """Put rows behind the others; segments are merged so that few remain."""
        if not len(rows):
            return
        segment = Segment.of(rows)
        self._remember(segment)
        metadata = list(self.draft.segments)
        # As a binary counter carries: each row is written again only log(n) times.
        while metadata and metadata[-1].rows <= len(segment) and metadata[-1].rows + len(segment) <= LARGEST_SEGMENT:
            # Or damage would be written anew with a checksum that fits.
            check_files(self.folder, metadata.pop().files)
            segment = Segment.joined([self.segments.pop(), segment])
        metadata.append(self._written(segment))
        self._go_on(metadata)

    def delete(self, ids: Sequence[str]) -> None:
        """Take rows out: the segments that hold them are written anew without them."""
        keys = {key_of(name): name for name in ids}
        unknown = [name for key, name in keys.items() if key not in self.known]
        if unknown:
            more = f" and {len(unknown) - 1} others are" if len(unknown) > 1 else " is"
            raise DataError(f"the id {unknown[0]!r}{more} not in the index; nothing was deleted")
        wanted = np.array(list(keys), np.uint64)
        metadata: list[SegmentFacts] = []
        segments, self.segments = self.segments, []
        for segment, old in zip(segments, self.draft.segments, strict=True):
            gone = np.isin(segment.keys["id"], wanted)
            if not gone.any():
                self.segments.append(segment)
                metadata.append(old)
            elif not gone.all():
                check_files(self.folder, old.files)
                metadata.append(self._written(segment.without(gone)))
        for key in keys:
            del self.known[key]
        self._go_on(metadata)

    def attach(self, kind: str, ending: str, data: bytes) -> None:
        """Keep another file with the index, under a name of its own; a build that goes on has it already."""
        if any(name.startswith(kind) for name in self.draft.attachments):
            return
        path = self.folder / f"{self._next_name(kind)}{ending}"
        path.write_bytes(data)
        self.draft = replace(self.draft, attachments=self.draft.attachments | {path.name: synced_checksum(path)})

    def commit(self, progress: Progress | None = None) -> None:
        """Build or extend the engine, then let the manifest's renaming make all of it the present state."""
        self.draft = replace(self.draft, engine=self._engine(progress), change="")
        self.draft.write(self.folder)
        self.present = self.draft
        (self.folder / UNFINISHED).unlink(missing_ok=True)
        self._sweep()

    def _engine(self, progress: Progress | None) -> EngineFacts | None:
        """The saved engine of the new state; None where the vectors themselves are searched."""
        plan = Plan.of(self.draft.rows, self.draft.engine_kind, self.draft.bits)
        if plan.is_plain or not self.segments:
            return None
        engine, labels = new_engine(self.folder, self.draft.engine, plan, self.segments, progress)
        return save_engine(self.folder, self._next_name("engine"), engine, labels)

    def _written(self, segment: Segment) -> SegmentFacts:
        name = self._next_name("segment")
        files = segment.write(self.folder, name)
        self.segments.append(Segment.open(self.folder, name))
        return SegmentFacts(name, len(segment), files)

    def _next_name(self, kind: str) -> str:
        self.draft = replace(self.draft, number=self.draft.number + 1)
        return f"{kind}-{self.draft.number:06d}"

    def _go_on(self, metadata: Sequence[SegmentFacts]) -> None:
        self.draft = replace(self.draft, segments=tuple(metadata))
        if self.draft.change:
            self.draft.write(self.folder, UNFINISHED)
        self._sweep()

    def _remember(self, segment: Segment) -> None:
        self.known |= zip(segment.keys["id"].tolist(), segment.keys["text"].tolist(), strict=True)

    def _sweep(self) -> None:
        """Clear away the files of neither state."""
        kept = {**self.draft.files, **({} if self.present is None else self.present.files)}
        for pattern in OWN_FILES:
            remove_others(self.folder, kept, pattern)


def _highest_number(folder: Path) -> int:
    """Of all names that were given out; not by a manifest, which may be gone or damaged."""
    found = (re.search(r"-(\d{6,})\.", path.name) for path in folder.iterdir())
    return max((int(match[1]) for match in found if match), default=0)


def _draft(folder: Path) -> IndexManifest | None:
    """What an unfinished change left, if it is whole."""
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
