"""Locks: one writer at a time. A lock dies with its process, so nothing is left to clear away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from likewise.errors import UsageError


@contextmanager
def only_writer(lock: Path, what: Path, cure: str = "wait for it to end") -> Iterator[None]:
    """Hold a lock file, or say that another process is writing to ``what``.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with only_writer(folder / ".lock", folder):
    ...     (folder / ".lock").exists()
    True
    """
    held = FileLock(lock)
    try:
        held.acquire(timeout=0)
    except Timeout as error:
        raise UsageError(f"another process is writing to {what}; {cure}") from error
    try:
        yield
    finally:
        held.release()
