"""A corpus: texts and their ids, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from likewise.errors import DataError


@dataclass(frozen=True)
class Corpus:
    """Texts to be searched, each with an id of its own.

    >>> corpus = Corpus(("a", "b"), ("A cat sat.", "A dog ran."))
    >>> corpus.row_of["b"], len(corpus)
    (1, 2)
    """

    ids: Sequence[str]
    texts: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.texts):
            raise DataError(f"{len(self.ids)} ids and {len(self.texts)} texts; give each text one id")
        if not self.ids:
            raise DataError("a corpus needs at least one text; give or add some")

    @classmethod
    def of(cls, items: Iterable[tuple[str, str]]) -> Corpus:
        """A corpus of (id, text) items."""
        rows = list(items)
        return cls([name for name, _ in rows], [text for _, text in rows])

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each id; an id that names two texts is refused."""
        rows = {name: row for row, name in enumerate(self.ids)}
        if len(rows) != len(self.ids):
            seen: set[str] = set()
            twice = next(name for name in self.ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise DataError(f"the id {twice!r} names two texts; give each text an id of its own")
        return rows
