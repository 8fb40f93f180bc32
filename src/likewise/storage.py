"""Files on the user's machine: atomic writes, locks, hashes, and caches that are keyed by content."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar
from zipfile import BadZipFile

from filelock import FileLock, Timeout

from likewise.errors import UsageError

log = logging.getLogger("likewise")
Loaded = TypeVar("Loaded")
DRAFT = ".draft"
HASHED_BYTES = 2**20  # that are read at once
OLD_DRAFT_SECONDS = 3600.0  # An older draft belongs to no running process
DAMAGED = (ValueError, KeyError, TypeError, EOFError, OSError, BadZipFile)
"""Errors of reading a missing or damaged file."""


def user_cache() -> Path:
    """The folder for files that can be created or downloaded again; it may not exist yet.

    ``$LIKEWISE_CACHE``, else ``$XDG_CACHE_HOME/likewise``, else ``~/.cache/likewise``.
    """
    if own := os.environ.get("LIKEWISE_CACHE"):
        return Path(own).expanduser()
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "likewise"
    except RuntimeError as error:  # no HOME, and a user without an entry, as in some containers
        raise UsageError("no home folder for the cache; set LIKEWISE_CACHE to a folder") from error


def atomic_write(path: Path, write: Callable[[Path], Any], unique: bool = False) -> None:
    """Write a file whole or not at all: ``write`` fills a draft, which is synced to disk and then renamed.

    Without ``unique`` files of this stem share a draft, so they need a single writer. With ``unique`` each call has its
    own draft, and of several writers the last one wins.
    """
    draft = path.with_suffix(f".{uuid.uuid4().hex}{DRAFT}" if unique else DRAFT)
    try:
        write(draft)
        sync(draft)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text whole or not at all."""
    atomic_write(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def sync(path: Path) -> None:
    """Flush a file or a folder to disk, if the system can."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # Windows cannot open folders.
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def only_writer(lock: Path, what: Path, cure: str = "wait for it to end") -> Iterator[None]:
    """Hold a lock file, or raise if another process is writing to ``what``. A lock ends with its process."""
    try:
        held = FileLock(lock).acquire(timeout=0)
    except Timeout as error:
        raise UsageError(f"another process is writing to {what}; {cure}") from error
    with held:
        yield


class Readable(Protocol):
    """A path, or what stands for one."""

    def open(self, mode: Literal["rb"]) -> Any:
        """Its bytes."""


def file_hash(path: Readable) -> str:
    """The sha256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while data := stream.read(HASHED_BYTES):
            digest.update(data)
    return digest.hexdigest()


def content_key(*parts: Any) -> str:
    """The sha256 of the parts as JSON: a name for everything that a result depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def prune_folders(latest: Path, max_bytes: int) -> None:
    """Remove the least recently used neighbours of a folder beyond a total size; the folder itself stays."""
    others = []
    for folder in latest.parent.iterdir():
        files = [path.stat() for path in folder.iterdir()]
        if folder != latest and files:
            others.append((max(file.st_mtime for file in files), sum(file.st_size for file in files), folder))
    excess = sum(size for _, size, _ in others) - max_bytes
    for _, size, folder in sorted(others):
        if excess > 0:
            shutil.rmtree(folder, ignore_errors=True)
            excess -= size


@dataclass(frozen=True)
class FileCache:
    """Files under content keys in a folder of bounded size. A cache that fails costs time, nothing else."""

    folder: Path
    suffix: str
    max_bytes: int | None = None  # The largest size of the folder; the least recently used files are deleted first

    def path(self, key: str) -> Path:
        """The path of a key's file, which may not exist."""
        return self.folder / f"{key}{self.suffix}"

    def read(self, key: str, load: Callable[[Path], Loaded]) -> Loaded | None:
        """The content of a key's file; None if it is missing or damaged."""
        path = self.path(key)
        try:
            found = load(path)
        except DAMAGED:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return found

    def write(self, key: str, write: Callable[[Path], Any]) -> None:
        """Write a key's file, or log a warning if the folder cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write(self.path(key), write, unique=True)
        except OSError as error:
            log.warning("cannot write to the cache %s (%s)", self.folder, error.strerror)

    def prune(self) -> None:
        """Delete the files that were used longest ago beyond the size limit, and drafts that killed processes left."""
        files = []
        for path in [*self.folder.glob(f"*{self.suffix}"), *self.folder.glob(f"*{DRAFT}")]:
            with contextlib.suppress(FileNotFoundError):  # another process may prune too
                state = path.stat()
                files.append((state.st_mtime, state.st_size, path))
        excess = sum(size for _, size, _ in files) - (float("inf") if self.max_bytes is None else self.max_bytes)
        for used, size, path in sorted(files):
            is_draft = path.suffix == DRAFT
            is_new_draft = is_draft and time.time() - used < OLD_DRAFT_SECONDS
            if (excess > 0 or is_draft) and not is_new_draft:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
                excess -= size
