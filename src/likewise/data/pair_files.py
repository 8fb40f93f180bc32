"""Pair files: pairs with human scores where a file has them, and without where it has none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from likewise.data import GUESSED, Columns, Pair, ScoredPair, read_pairs, read_scored_pairs
from likewise.data.columns import guess
from likewise.errors import DataError, UsageError

log = logging.getLogger("likewise")


@dataclass(frozen=True)
class PairFile:
    """A file or a name of pairs, and how it is read."""

    file: str
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False
    limit: int | None = None
    """the first pairs only"""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit takes a number of pairs from 1 on, got {self.limit}")

    def read(self) -> tuple[list[Pair | ScoredPair], int]:
        """The pairs and how many bad rows were skipped."""
        bad: list[DataError] = []
        return list(islice(self._pairs(bad), self.limit)), len(bad)

    def read_checked(self) -> list[Pair | ScoredPair]:
        """The pairs; that bad rows were skipped is said in the log, and a file without pairs is refused."""
        pairs, skipped = self.read()
        if skipped:
            log.warning("%s: skipped %d bad row%s", self.file, skipped, "" if skipped == 1 else "s")
        if not pairs:
            raise DataError(f"{self.file}: no pairs; give a file with at least one")
        return pairs

    def _pairs(self, bad: list[DataError]) -> Iterator[Pair | ScoredPair]:
        on_bad = bad.append if self.skip_bad else None
        try:
            return read_scored_pairs(self.file, columns=self.columns, data_dir=self.data_dir, on_bad=on_bad)
        except DataError:
            bad.clear()
            pairs = read_pairs(self.file, columns=self.columns, data_dir=self.data_dir, on_bad=on_bad)
            first = next(pairs)
            # A column of scores that cannot be read is a mistake, a missing one is none.
            if self.columns.score is not None or guess("score", list(first.meta)) is not None:
                raise
            return chain([first], pairs)
