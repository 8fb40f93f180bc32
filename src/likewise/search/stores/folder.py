"""An index in a folder: immutable segments and a manifest; a change is committed by renaming the manifest.

After a crash the folder holds either the old index or the new one: files that no manifest lists are ignored, and the
next writer removes them. A long build writes a draft and resumes from it. A saved engine has a label for each of its
positions: row numbers change when other rows are deleted, labels do not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DamagedIndex, DataError, UsageError, first_line
from likewise.progress import Progress
from likewise.search.engines import Engine, Plan, StackedVectors, built, faiss
from likewise.search.ranker import Rows
from likewise.search.stores.segments import Segment, SegmentStore, check_files, synced_checksum
from likewise.search.stores.store import KnownRows, StoredRows
from likewise.storage import only_writer, sync, write_text

Labels = NDArray[np.uint64]
FORMAT = 1
MANIFEST, UNFINISHED, LOCK, CALIBRATION = "index.json", "building.json", ".lock", "calibration.json"
POINTER = "store.json"  # The file of a folder that only says in which other store its index is
FORMS = {
    "milvus": "milvus://HOST:PORT/COLLECTION or milvus:FILE.db",
    "qdrant": "qdrant://HOST:PORT/COLLECTION or qdrant://HOST:PORT,HOST:PORT/COLLECTION",
    "postgresql": "postgresql://HOST:PORT/DATABASE/TABLE",
}
"""The forms of other stores' addresses, by scheme."""
STALE_SHARE = 0.2  # An engine with more deleted rows than this share is built anew
OPENING_TRIES = 5  # A writer may remove old files after a manifest is read and before its files are opened
LARGEST_SEGMENT = 65536
OWN_FILES = ("segment-*", "engine-*", "postprocessing-*", "*.draft")


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

    settings: dict[str, Any]  # what the vectors depend on
    dimension: int
    engine_kind: str = "auto"  # as the user gave it
    bits: int = 32
    source: str = ""  # which texts it was built from, if known
    segments: tuple[SegmentEntry, ...] = ()
    engine: EngineEntry | None = None
    attachments: dict[str, str] = field(default_factory=dict)  # other files and checksums, such as the post-processing
    change: str = ""  # in a draft: the change that it belongs to
    number: int = 0  # how many file names were given out, so that none is given twice
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
    def _is_sound(self) -> bool:
        """Whether everything has its type, and files are in the folder itself."""
        engine = [] if self.engine is None else [self.engine]
        numbers = [self.dimension, self.bits, self.number, *(one.rows for one in self.segments)]
        texts = [self.engine_kind, self.source, self.change, *(one.kind for one in engine)]
        names = [one.name for one in self.segments]
        for files in (self.attachments, *(one.files for one in self.segments), *(one.files for one in engine)):
            if not isinstance(files, dict):
                return False
            names += files
            texts += files.values()
        endings = [sorted(Path(name).suffix for name in one.files) for one in engine]
        return (
            isinstance(self.settings, dict)
            and all(
                type(one) is int and one >= 0 for one in (*numbers, *(n for e in engine for n in (e.bits, e.width)))
            )
            and all(isinstance(one, str) for one in (*texts, *names))
            and all(one not in ("", ".", "..") and not set(one) & set("/\\\0") for one in names)
            and all(one.recall is None or isinstance(one.recall, float | int) for one in engine)
            and all(found == [".faiss", ".npy"] for found in endings)
        )

    @property
    def checksum(self) -> str:
        """A fingerprint of the manifest, and by its files' checksums of the whole index."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path, name: str = MANIFEST) -> None:
        """Commit: write a draft and rename it, so that the old or the new one is there, never half of one."""
        sync(folder)  # the names of the files reach the disk before the manifest does
        write_text(folder / name, json.dumps(asdict(self) | {"sha256": self.checksum}, indent=1))

    @classmethod
    def read(cls, folder: Path, name: str = MANIFEST) -> IndexManifest | None:
        """The folder's manifest, or None without one."""
        path = folder / name
        try:
            stored = json.loads(path.read_bytes())
            checksum, version = stored.pop("sha256"), stored.get("format")
            if version != FORMAT:
                versions = f"{version!r}, this version of Likewise reads {FORMAT}"
                raise DamagedIndex(f"{path} has format {versions}; build it again")
            segments = tuple(SegmentEntry(**entry) for entry in stored.pop("segments"))
            engine = stored.pop("engine")
            found = cls(**stored, segments=segments, engine=None if engine is None else EngineEntry(**engine))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedIndex(f"{path} is damaged and no manifest; build the index again") from error
        if not found._is_sound:
            raise DamagedIndex(f"{path} is damaged and no manifest; build the index again")
        if found.checksum != checksum:
            raise DamagedIndex(f"{path} is damaged: its checksum does not fit; build the index again")
        return found


def load_engine(folder: Path, entry: EngineEntry, segments: Sequence[Segment]) -> Engine:
    """Read a saved engine for the present rows."""
    path = _path(folder, entry, ".faiss")
    rows = rows_of_labels(np.load(_path(folder, entry, ".npy")), labels_of(segments))
    try:
        index = faiss().read_index(str(path))
    except RuntimeError as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}); build the index again") from error
    vectors = StackedVectors([segment.vectors for segment in segments])
    return Engine(index, Plan(entry.kind, entry.bits), vectors, rows, entry.width, entry.recall)


def new_engine(
    folder: Path, old: EngineEntry | None, engine_plan: Plan, segments: Sequence[Segment], progress: Progress | None
) -> tuple[Engine, Labels]:
    """The engine of a new state and its labels: the old one with the new rows, or one built from scratch."""
    labels = labels_of(segments)
    if old is not None and (old.kind, old.bits) == (engine_plan.kind, engine_plan.bits):
        check_files(folder, old.files)
        engine, before = load_engine(folder, old, segments), np.load(_path(folder, old, ".npy"))
        assert engine.rows is not None
        alive = engine.rows[engine.rows >= 0]
        # Only rows after those that it knows can be added.
        if len(alive) >= (1 - STALE_SHARE) * len(before) and (alive == np.arange(len(alive))).all():
            extended = engine.extended(engine.vectors, engine.rows, progress)
            return extended, np.concatenate([before, labels[len(alive) :]])
    return built(StackedVectors([segment.vectors for segment in segments]), engine_plan, progress), labels


def save_engine(folder: Path, name: str, engine: Engine, labels: Labels) -> EngineEntry:
    """Write and sync an engine and its labels."""
    paths = folder / f"{name}.faiss", folder / f"{name}.npy"
    faiss().write_index(engine.index, str(paths[0]))
    np.save(paths[1], labels)
    files = {path.name: synced_checksum(path) for path in paths}
    return EngineEntry(engine.engine_plan.kind, engine.engine_plan.bits, engine.width, engine.recall, files)


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


def _path(folder: Path, entry: EngineEntry, ending: str) -> Path:
    return folder / next(name for name in entry.files if name.endswith(ending))


@dataclass(frozen=True, eq=False)
class FolderStore(SegmentStore):
    """One committed state of an index folder, mapped into memory."""

    folder: Path
    manifest: IndexManifest
    segments: tuple[Segment, ...]
    attachments: Mapping[str, bytes] = field(default_factory=dict)  # other files that are stored with the index

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
    def settings(self) -> dict[str, Any]:  # type: ignore[override]
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
        if self.manifest.engine is None:
            return built(self.vectors, self.engine_plan)
        return load_engine(self.folder, self.manifest.engine, self.segments)

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
    present: IndexManifest | None  # what readers see
    draft: IndexManifest  # what they will see after the commit
    segments: list[Segment]

    def __post_init__(self) -> None:
        super().__init__(segment.keys for segment in self.segments)

    @classmethod
    def begun(cls, folder: Path, present: IndexManifest | None, start: IndexManifest, change: str) -> FolderWriter:
        """Begin at ``start``, or where the same change to the same present state was cut short."""
        if change:
            before = "" if present is None else present.checksum
            change = hashlib.sha256(f"{before}:{change}".encode()).hexdigest()
        draft = _draft(folder)
        if draft is None or not change or draft.change != change:
            (folder / UNFINISHED).unlink(missing_ok=True)
            draft = replace(start, change=change)
        # A manifest may be missing or damaged, so the names of all files count.
        given = [int(match[1]) for path in folder.iterdir() if (match := re.search(r"-(\d{6,})\.", path.name))]
        number = max(draft.number, 0 if present is None else present.number, *given)
        segments = [Segment.open(folder, entry.name) for entry in draft.segments]
        writer = cls(folder, present, replace(draft, number=number), segments)
        writer._sweep()
        return writer

    def append(self, rows: StoredRows) -> None:
        """Add rows after the others; segments are merged so that few remain."""
        if not len(rows):
            return
        segment = Segment.of(rows)
        self._remember(segment.keys)
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
        entry, engine_plan = None, Plan.of(self.draft.rows, self.draft.engine_kind, self.draft.bits)
        if self.segments and not engine_plan.is_plain:
            engine, labels = new_engine(self.folder, self.draft.engine, engine_plan, self.segments, progress)
            entry = save_engine(self.folder, self._next_name("engine"), engine, labels)
        self.draft = replace(self.draft, engine=entry, change="")
        self.draft.write(self.folder)
        self.present = self.draft
        (self.folder / UNFINISHED).unlink(missing_ok=True)
        self._sweep()

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
        named = self.draft.files | ({} if self.present is None else self.present.files)
        for path in (path for pattern in OWN_FILES for path in self.folder.glob(pattern)):
            if path.name not in named:
                path.unlink(missing_ok=True)


@contextmanager
def building(folder: Path, empty: IndexManifest, replaces: bool = False) -> Iterator[FolderWriter]:
    """Build anew from an empty manifest; the old index stays until the commit. Continues the same build's draft."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made ({error.strerror}); give another --out") from error
    # Own files may be left over from a killed writer.
    own = (LOCK, MANIFEST, UNFINISHED, CALIBRATION, *OWN_FILES)
    others = sorted(path.name for path in folder.iterdir() if not any(fnmatch(path.name, name) for name in own))
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


def _missing_index(folder: Path) -> str:
    if (folder / UNFINISHED).exists():
        return f"{folder} is unfinished; run the same likewise index again"
    flaw = "holds no index; make one" if folder.exists() else "does not exist; make an index"
    return f"{folder} {flaw} with: likewise index FILE --out {folder}"


def _draft(folder: Path) -> IndexManifest | None:
    """The draft of an unfinished change, if it is whole."""
    try:
        found = IndexManifest.read(folder, UNFINISHED)
        if found is not None:
            check_files(folder, found.files)
        return found
    except (DataError, FileNotFoundError):
        return None


def has_scheme(address: str) -> bool:
    """Whether a text is the address of a store, and not a path."""
    return address.partition(":")[0] in FORMS and ":" in address


def address_of(folder: str | Path | None, store: str | None = None) -> str:
    """The address of an index: a store that is given or named in the folder's pointer, or the folder itself."""
    if store is not None:
        if not has_scheme(store):
            raise UsageError(f"unknown store {store!r}; give {' or '.join(FORMS.values())}")
        return store
    path = Path(str(folder)) / POINTER
    if folder is None or has_scheme(str(folder)) or not path.is_file():
        return str(folder)
    try:
        store = json.loads(path.read_text(encoding="utf-8"))["store"]
        if isinstance(store, str) and has_scheme(store):
            return store
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise DataError(f"{path} is damaged; give the store itself, or point to it again with likewise index --store")


def check_pointer(folder: Path) -> None:
    """Rejects a pointer in a folder that is an index itself."""
    if (folder / MANIFEST).exists() or (folder / UNFINISHED).exists():
        raise UsageError(f"{folder} already holds an index of its own; give another --out")
