"""Corpora: the texts of files, be they texts or pairs, whose both sides count then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from likewise.data import GUESSED, Columns, SkippedRows, read_pairs, read_texts
from likewise.data.places import BadRow
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
        if self.columns.text is not None:
            return self._texts(file, on_bad)
        try:
            pairs = read_pairs(file, columns=self.columns, data_dir=self.data_dir, on_bad=on_bad)
        except DataError as no_pairs:
            try:
                return self._texts(file, on_bad)
            except DataError as no_texts:
                # Where the columns of pairs are there and a row is bad, that is what has to be mended.
                is_row = isinstance(no_pairs, BadRow) and not isinstance(no_texts, BadRow)
                raise (no_pairs if is_row else no_texts) from None
        return ((pair.left, pair.right) for pair in pairs)

    def _texts(self, file: str, on_bad: OnBad | None) -> Iterator[tuple[str, ...]]:
        texts = read_texts(file, columns=self.columns, data_dir=self.data_dir, on_bad=on_bad)
        return ((row.text,) for row in texts)
