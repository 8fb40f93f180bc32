"""Indexes of files: built, continued, added to, and cached by the content of the file and all settings."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from likewise.data import Dataset, SkippedRows, read_texts
from likewise.data.folders import DocumentFolder
from likewise.data.rows import find_source
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.workers import Team
from likewise.errors import DamagedIndex, DataError, UsageError
from likewise.progress import Progress, tracked
from likewise.search.documents import hash_of
from likewise.search.index import Index, IndexSettings
from likewise.search.stores.folder import FORMAT, MANIFEST, IndexManifest, has_scheme
from likewise.storage import file_hash, prune_folders, user_cache

log = logging.getLogger("likewise")
MOST_CACHED_BYTES = 2**33  # The size of all cached indexes of files, without the one in use
Built = TypeVar("Built")


@dataclass(frozen=True)
class IndexedFile:
    """A file's index, its skipped bad rows, and whether the index was there already."""

    index: Index
    skipped: SkippedRows
    cached: bool = False


def index_file(
    encoder: Encoder | Source, source: Dataset, where: str | Path, settings: IndexSettings, *, replace: bool = False,
    progress: Progress | None = None, workers: int | Team = 1,
) -> IndexedFile:  # fmt: skip
    """Build the index of a file; the same call again continues where it stopped, or finds it done.

    The file is read through once before, so that a bad row is an error before hours of work and not after.
    """
    encoder, name = as_encoder(encoder), fingerprint(source)
    present = None if has_scheme(str(where)) or replace else IndexManifest.read(Path(where))
    if present is not None:
        made = present.source, present.settings, present.engine_kind, present.bits
        if made == (name, settings.stored(encoder), settings.engine, settings.bits):
            skipped = checked(source, progress)[0] if source.skip_bad else SkippedRows()
            return IndexedFile(Index.open(where, encoder), skipped, cached=True)
        raise UsageError(
            f"{where} already holds an index of other texts or settings; use --add, --replace or another --out"
        )
    skipped, total = checked(source, progress)
    how: dict[str, Any] = {"source": name, "replace": replace, "total": total, "progress": progress}
    how["workers"] = workers
    return IndexedFile(Index.build(encoder, source.stream(read_texts), where, settings, **how), skipped)


def add_file(
    index: Index, source: Dataset, prefix: str = "", progress: Progress | None = None, workers: int | Team = 1
) -> SkippedRows:
    """Add a file's texts to an index, all of them or none; the same call again continues where it stopped."""
    skipped, _ = checked(source, progress)
    items = ((prefix + row.id, row.text, row.meta) for row in source.stream(read_texts))
    index.add(items, source=f"{prefix} {fingerprint(source)}", progress=progress, workers=workers)
    return skipped


def cached_index(
    encoder: Encoder | Source, source: Dataset, settings: IndexSettings, progress: Progress | None = None
) -> IndexedFile:
    """The index of a file, built at the first search; its key is the file's content and all settings."""
    encoder, name = as_encoder(encoder), fingerprint(source)

    def build(folder: Path, replace: bool) -> IndexedFile:
        return index_file(encoder, source, folder, settings, replace=replace, progress=progress)

    return cached(name, encoder, settings, build)


def cached_folder(name: str, encoder: Encoder, settings: IndexSettings) -> Path:
    """The cache's folder for the texts that ``name`` identifies and all settings."""
    made_of = json.dumps([FORMAT, name, settings.stored(encoder), asdict(settings)], sort_keys=True)
    return user_cache() / "indexes" / hashlib.sha256(made_of.encode()).hexdigest()[:32]


def cached(name: str, encoder: Encoder, settings: IndexSettings, build: Callable[[Path, bool], Built]) -> Built:
    """What ``build`` makes in the cache's folder for the texts that ``name`` identifies and all settings.

    Its second argument is whether a damaged index must be replaced.
    """
    folder = cached_folder(name, encoder, settings)
    try:
        done = build(folder, False)
    except DamagedIndex:
        # The user does not know of this index and cannot build it again.
        done = build(folder, True)
    with suppress(OSError):  # another process may be pruning too
        (folder / MANIFEST).touch()
        prune_folders(folder, MOST_CACHED_BYTES)
    return done


def checked(source: Dataset, progress: Progress | None = None) -> tuple[SkippedRows, int]:
    """Read a file through: the bad rows that are skipped, and the number of good ones."""
    skipped, total = SkippedRows(), 0
    text_of: dict[int, int] = {}
    for row in tracked(source.stream(read_texts, skipped), progress, note="rows checked"):
        total += 1
        if text_of.setdefault(hash_of(row.id), hash_of(row.text)) != hash_of(row.text):
            raise DataError(f"{source.name}: the id {row.id!r} names two texts; give each text an id of its own")
    path = find_source(source.name, source.data_dir)
    if isinstance(path, Path) and path.is_dir() and (others := DocumentFolder(path, source.name).others):
        log.warning("%s: files that are no documents: %d (first: %s)", source.name, len(others), others[0])
    return skipped, total


def fingerprint(source: Dataset) -> str:
    """A hash of a file's bytes and of how they are read."""
    path = find_source(source.name, source.data_dir)
    is_folder = isinstance(path, Path) and path.is_dir()
    content = DocumentFolder(Path(str(path)), source.name).fingerprint() if is_folder else file_hash(path)
    # With the suffixes: the same bytes are other texts in a .csv than in a .txt.
    how = [content, path.suffixes, asdict(source.columns), source.skip_bad]
    if source.limit is not None:
        how.append(source.limit)
    return hashlib.sha256(json.dumps(how).encode()).hexdigest()
