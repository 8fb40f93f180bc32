"""Dataset: a file or a name, and how it is read; every command and analysis reads its rows through it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from likewise.data.bad_rows import SkippedRows
from likewise.data.columns import GUESSED, Columns, guess
from likewise.data.readers import Pair, ScoredPair, Text, holds_pairs, read_pairs, read_scored_pairs, read_texts
from likewise.errors import DataError, UsageError

log = logging.getLogger("likewise")

Row = TypeVar("Row")
OnBad = Callable[[DataError], None]


class Rows(list[Row]):
    """The rows of a dataset; ``skipped`` counts the bad ones that were left out.

    >>> Rows(["a", "b"]).skipped
    0
    """

    skipped: int = 0


@dataclass(frozen=True)
class Dataset:
    """A file, or a name such as stsb/test, and how it is read.

    >>> pairs = Dataset("sample/pairs", limit=3).pairs()
    >>> len(pairs), pairs.skipped, pairs[0].score > 0
    (3, 0, True)
    """

    name: str
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False
    limit: int | None = None
    """only the first rows"""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit takes a number of rows from 1 on, got {self.limit}")

    def stream(self, read: Callable[..., Iterator[Row]], on_bad: OnBad | None = None) -> Iterator[Row]:
        """The rows that a reader such as ``read_texts`` finds, one by one.

        A bad row raises, or goes to ``on_bad`` where bad rows are skipped.
        """
        handler = (on_bad or SkippedRows()) if self.skip_bad else None
        return islice(read(self.name, columns=self.columns, data_dir=self.data_dir, on_bad=handler), self.limit)

    def rows(self, read: Callable[..., Iterator[Row]]) -> Rows[Row]:
        """The same as a list, with the number of bad rows that were skipped."""
        skipped = SkippedRows()
        found = Rows(self.stream(read, skipped))
        found.skipped = skipped.count
        return found

    def texts(self) -> Rows[Text]:
        """Texts with their ids."""
        return self.rows(read_texts)

    def scored_pairs(self) -> Rows[ScoredPair]:
        """Pairs with human scores."""
        return self.rows(read_scored_pairs)

    def pairs(self) -> Rows[Pair | ScoredPair]:
        """Pairs, with scores where the file has them; a file without any pair is an error, skipped rows are logged."""
        found = self.rows(self._any_pairs)
        if found.skipped:
            log.warning("%s: skipped %d bad row%s", self.name, found.skipped, "" if found.skipped == 1 else "s")
        if not found:
            raise DataError(f"{self.name}: no pairs; give a file with at least one")
        return found

    def sentences(self, on_bad: OnBad | None = None) -> Iterator[str]:
        """Every text: a file of pairs gives both texts of each pair."""
        is_pairs = self.columns.text is None and holds_pairs(self.name, columns=self.columns, data_dir=self.data_dir)
        if not is_pairs:
            yield from (row.text for row in self.stream(read_texts, on_bad))
            return
        for pair in self.stream(read_pairs, on_bad):
            yield from (pair.left, pair.right)

    def _any_pairs(self, name: str, *, on_bad: OnBad | None, **how: Any) -> Iterator[Pair | ScoredPair]:
        try:
            # Read twice up to the first pair: rows without a score are not bad if the file has no scores at all.
            read_scored_pairs(name, on_bad=None if on_bad is None else SkippedRows(), **how)
        except DataError:
            pairs = read_pairs(name, on_bad=on_bad, **how)
            first = next(pairs)
            # A missing column of scores is fine, an unreadable one is a mistake.
            if self.columns.score is not None or guess("score", list(first.meta)) is not None:
                raise
            return chain([first], pairs)
        return read_scored_pairs(name, on_bad=on_bad, **how)


@dataclass(frozen=True)
class Datasets:
    """Several datasets read as one stream of texts.

    >>> len(list(Datasets((Dataset("sample/pairs"),)).sentences()))
    120
    """

    datasets: Sequence[Dataset]

    def __post_init__(self) -> None:
        if not self.datasets:
            raise UsageError("give a file of texts or pairs, or a name such as snli/dev")

    @property
    def name(self) -> str:
        """The names of all datasets."""
        return ", ".join(one.name for one in self.datasets)

    def sentences(self, on_bad: OnBad | None = None) -> Iterator[str]:
        """Every text of every dataset."""
        return chain.from_iterable(one.sentences(on_bad) for one in self.datasets)


SCORE_TOLERANCE = 1e-6


def mixed_pairs(first: Iterable[ScoredPair], second: Iterable[ScoredPair]) -> Iterator[ScoredPair]:
    """Pairs across two parallel data sets: the first with the right texts of the second.

    >>> english = [ScoredPair("A plane.", "A jet.", 4.0, "1")]
    >>> german = [ScoredPair("Ein Flugzeug.", "Ein Jet.", 4.0, "1")]
    >>> next(mixed_pairs(english, german)).right
    'Ein Jet.'
    """
    for row, (one, other) in enumerate(zip_longest(first, second), start=1):
        if one is None or other is None:
            shorter = "first" if one is None else "second"
            raise DataError(
                f"row {row}: the {shorter} data set has ended; give two data sets that are parallel row by row"
            )
        if abs(one.score - other.score) > SCORE_TOLERANCE:
            raise DataError(
                f"row {row}: the scores {one.score:g} and {other.score:g} differ, so the rows are not parallel;"
                " give two translations of the same pairs in the same order"
            )
        yield replace(one, right=other.right)
