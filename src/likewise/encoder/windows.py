"""Windows of texts: the parts of the input that are encoded whole, cut by position alone; how they reach a worker.

A window of a file that its workers can read travels as a place in that file, and the worker reads the texts itself.
Other windows travel with their texts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from likewise.data import Dataset, read_texts
from likewise.data.rows import Cursor, find_source, is_splittable
from likewise.encoder.forward import IdAndText, text_windows
from likewise.encoder.workers import Team
from likewise.errors import DataError, MissingExtra

Cut = Callable[[Iterator[IdAndText], int], Iterator["TextWindow"]]
"""A stream of items and the number of those before it -> windows."""


@dataclass(frozen=True)
class FilePart:
    """Some rows of a file, for a process that reads them itself."""

    source: Dataset
    start: Cursor
    rows: int
    sha256: str

    def read(self) -> list[IdAndText]:
        """The ids and texts, which must be those that the first process has read."""
        cure = "put it where every worker can read it, or give its path and not a URI"
        try:
            rows = self.source.stream(read_texts, cursor=self.start.copy())
            found = [(row.id, row.text) for row in islice(rows, self.rows)]
        except MissingExtra:
            raise
        except (DataError, OSError) as error:
            raise DataError(f"a worker cannot read {self.source.name} ({error}); {cure}") from error
        if hash_of(found) != self.sha256:
            raise DataError(f"{self.source.name} has changed, or is another file for a worker; {cure}")
        return found


class TextWindow:
    """Items (id, text) in order, and the number of items before them."""

    def __init__(self, first: int, items: Sequence[IdAndText], part: FilePart | None = None) -> None:
        self.first, self.size, self.part = first, len(items), part
        self.items = items

    def __len__(self) -> int:
        return self.size

    @property
    def texts(self) -> list[str]:
        """The texts alone."""
        return [text for _, text in self.items]

    @cached_property
    def items(self) -> Sequence[IdAndText]:
        """Read from the file, where the window came without them."""
        assert self.part is not None
        return self.part.read()

    def __getstate__(self) -> dict[str, Any]:
        if self.part is None:
            return vars(self)
        part = replace(self.part, rows=self.size, sha256=hash_of(self.items))
        return {"first": self.first, "size": self.size, "part": part}


def plain_windows(items: Iterator[IdAndText], first: int) -> Iterator[TextWindow]:
    """Windows that travel with their texts."""
    for window in text_windows(items):
        yield TextWindow(first, window)
        first += len(window)


def file_stream(source: Dataset, team: Team) -> tuple[Iterator[IdAndText], Cut]:
    """The items of a file, and how they are cut: as parts of the file, if the team reads it itself."""
    path, cursor = find_source(source.name, source.data_dir), Cursor()
    if not (is_splittable(path) and team.reaches(path)):
        return ((row.id, row.text) for row in source.stream(read_texts)), plain_windows
    name = str(path.resolve()) if isinstance(path, Path) else str(path)
    there = replace(source, name=name, limit=None)

    def cut(items: Iterator[IdAndText], first: int) -> Iterator[TextWindow]:
        # The reader is one row ahead before the first item is taken, so the place is that of the items that were.
        start = Cursor() if first == 0 else cursor.copy()
        for window in text_windows(items):
            yield TextWindow(first, window, FilePart(there, start, len(window), ""))
            first, start = first + len(window), cursor.copy()

    return ((row.id, row.text) for row in source.stream(read_texts, cursor=cursor)), cut


def add_to(digest: hashlib._Hash, items: Iterable[IdAndText]) -> None:
    """Hash ids and texts."""
    for name, text in items:
        digest.update(json.dumps([name, text]).encode())


def hash_of(items: Iterable[IdAndText]) -> str:
    """The sha256 of ids and texts."""
    digest = hashlib.sha256()
    add_to(digest, items)
    return digest.hexdigest()
