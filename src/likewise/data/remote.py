"""Files and folders behind a URI such as ``s3://bucket/texts.jsonl``, by the file systems of pyarrow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from likewise.errors import DataError, MissingExtra, first_line
from likewise.storage import atomic_write, sync

URI = re.compile(r"[a-z][a-z0-9+.-]+://")
OBJECT_STORES = ("s3", "gcs", "abfs")  # Their files appear when they are whole, and they cannot rename


def is_uri(name: str | Path) -> bool:
    """Whether a name is a URI and not a path.

    >>> is_uri("s3://bucket/texts.csv"), is_uri("texts.csv")
    (True, False)
    """
    return URI.match(str(name)) is not None


def arrow(module: str = "fs") -> Any:
    """A module of pyarrow: ``fs`` or ``parquet``."""
    try:
        import pyarrow.fs
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet") from error
    return {"fs": pyarrow.fs, "parquet": pyarrow.parquet, "pyarrow": pyarrow}[module]


@dataclass(frozen=True)
class RemotePath:
    """A file or a folder behind a URI, with the few methods of ``Path`` that readers and writers need."""

    uri: str

    def __str__(self) -> str:
        return self.uri

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.uri.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return PurePosixPath(self.uri).name

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of the name."""
        return PurePosixPath(self.name).suffixes

    def is_file(self) -> bool:
        """Whether there is a file."""
        return self._kind() == "File"

    def is_dir(self) -> bool:
        """Whether there is a folder."""
        return self._kind() == "Directory"

    def is_fifo(self) -> bool:
        """No pipe has a URI."""
        return False

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return self._kind() != "NotFound"

    def open(self, mode: str = "rb") -> BinaryIO:
        """The bytes of the file, which can be read from anywhere."""
        assert mode == "rb"
        system, path = self._opened()
        return system.open_input_file(path)  # type: ignore[no-any-return]

    def read_text(self, encoding: str) -> str:
        """The whole file."""
        with self.open() as stream:
            return stream.read().decode(encoding)

    def write_bytes(self, data: bytes) -> None:
        """Write a file whole or not at all."""
        system, path = self._opened()
        draft = path if system.type_name in OBJECT_STORES else str(PurePosixPath(path).with_name(f".{self.name}"))
        with system.open_output_stream(draft) as stream:
            stream.write(data)
        if draft != path:
            system.move(draft, path)

    def mkdir(self, **_: bool) -> None:
        """Make the folder and those above it."""
        system, path = self._opened()
        system.create_dir(path, recursive=True)

    def iterdir(self) -> Iterator[RemotePath]:
        """What is in the folder."""
        system, path = self._opened()
        found = system.get_file_info(arrow().FileSelector(path, allow_not_found=True))
        return (self / one.base_name for one in found)

    def _kind(self) -> str:
        system, path = self._opened()
        return str(system.get_file_info(path).type.name)

    def _opened(self) -> tuple[Any, str]:
        try:
            return arrow().FileSystem.from_uri(self.uri)  # type: ignore[no-any-return]
        except (ValueError, OSError, NotImplementedError) as error:
            raise DataError(f"{self.uri} cannot be reached ({first_line(error)}); check the URI") from error


AnyPath = Path | RemotePath


def path_of(name: str | Path) -> AnyPath:
    """The file or folder of a path or a URI, which need not exist."""
    return RemotePath(str(name)) if is_uri(name) else Path(name)


def write_atomically(path: AnyPath, data: bytes) -> None:
    """Write a file whole or not at all, synced on a local disk; drafts have hidden names, which engines ignore."""
    if isinstance(path, Path):
        draft = path.with_name(f".{path.name}")
        atomic_write(draft, lambda one: one.write_bytes(data), unique=True)
        os.replace(draft, path)
        sync(path.parent)
    else:
        path.write_bytes(data)
