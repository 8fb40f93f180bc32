"""Corpora: the texts of files, be they texts or pairs, whose both sides count then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from likewise.data import GUESSED, Columns, SkippedRows, holds_pairs, read_pairs, read_texts
from likewise.errors import DataError, UsageError

OnBad = Callable[[DataError], None]


@dataclass(frozen=True)
class CorpusSource:
    """Where texts come from: files or names, and how they are read.

    >>> len(list(CorpusSource(("sample/pairs",)).read())) == 2 * 60
    True
    """

    files: tuple[str, ...]
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False
    limit: int | None = None
    """the first rows of each file only"""

    def __post_init__(self) -> None:
        if not self.files:
            raise UsageError("give a file of texts or pairs, or a name such as snli/dev")

    @property
    def name(self) -> str:
        """The files as they were given."""
        return ", ".join(self.files)

    def read(self, on_bad: OnBad | None = None) -> Iterator[str]:
        """Every text; bad rows raise, or go to ``on_bad`` where they are to be skipped."""
        handler = (on_bad or SkippedRows()) if self.skip_bad else None
        for file in self.files:
            for row in islice(self._rows(file, handler), self.limit):
                yield from row

    def _rows(self, file: str, on_bad: OnBad | None) -> Iterator[tuple[str, ...]]:
        how: dict[str, Any] = {"columns": self.columns, "data_dir": self.data_dir}
        if self.columns.text is None and holds_pairs(file, **how):
            return ((pair.left, pair.right) for pair in read_pairs(file, on_bad=on_bad, **how))
        return ((row.text,) for row in read_texts(file, on_bad=on_bad, **how))
