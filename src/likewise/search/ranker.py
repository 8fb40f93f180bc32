"""A corpus, and the interface of everything that ranks it: dense vectors, BM25, TF-IDF and the other baselines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DataError
from likewise.progress import Progress, Ticker

Scores = NDArray[np.float32]
Rows = NDArray[np.int64]
Blocks = Iterator[tuple[int, Scores]]
"""The first query of a block, and the scores (b, n) of its b queries with all n texts; blocks come in order."""

TIE = 1e-6
"""Scores that lie no further apart are equal."""
BLOCK_BYTES = 2**26
"""The memory of a block of scores."""


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
        """The row of each id; an id that names two texts raises DataError."""
        rows = {name: row for row, name in enumerate(self.ids)}
        if len(rows) != len(self.ids):
            # The first row whose id a later row has too.
            twice = next(name for row, name in enumerate(self.ids) if rows[name] != row)
            raise DataError(f"the id {twice!r} names two texts; give each text an id of its own")
        return rows


class Ranker(Protocol):
    """Scores every text of a corpus of n texts for a query; higher is better."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def floor(self) -> float:
        """The score of a text that has nothing in common with the query; -inf where no score says that."""

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The scores of all texts for each query, block by block, in bounded memory."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """The best rows (q, k) of q queries and their scores (q, k), best first."""

    scores: Scores
    rows: Rows


def block_rows(texts: int) -> int:
    """How many queries' scores with ``texts`` texts make a block."""
    return max(1, BLOCK_BYTES // (4 * max(1, texts)))


def best(scores: Scores, k: int) -> Ranked:
    """The k highest of each row (q, n), best first; among equals the earlier text comes first.

    >>> best(np.array([[0.1, 0.9, 0.9]], np.float32), 2).rows
    array([[1, 2]])
    """
    k = min(k, scores.shape[1])
    if k == 0:
        return Ranked(np.empty((len(scores), 0), np.float32), np.empty((len(scores), 0), np.int64))
    # The k-th highest value is the bar; among rows that equal it, the earliest come in.
    bar = -np.partition(-scores, k - 1, axis=1)[:, k - 1]
    rows = np.empty((len(scores), k), np.int64)
    for index, (row, least) in enumerate(zip(scores, bar, strict=True)):
        above, equal = np.flatnonzero(row > least), np.flatnonzero(row == least)
        chosen = np.concatenate([above, equal[: k - len(above)]])
        rows[index] = chosen[np.lexsort((chosen, -row[chosen]))]
    return Ranked(np.take_along_axis(scores, rows, axis=1), rows)


def ranked(ranker: Ranker, queries: Sequence[str], k: int, progress: Progress | None = None) -> Ranked:
    """The k best texts of each query by any ranker.

    >>> from likewise.search import baseline
    >>> ranked(baseline("bm25", ["A cat sat.", "A dog ran."]), ["dog"], k=1).rows
    array([[1]])
    """
    ticker = Ticker(progress, len(queries), "queries")
    parts = []
    for _, scores in ranker.score_blocks(queries):
        parts.append(best(scores, k))
        ticker.add(len(scores))
    ticker.close()
    if not parts:
        return best(np.empty((0, 0), np.float32), k)
    return Ranked(np.concatenate([part.scores for part in parts]), np.concatenate([part.rows for part in parts]))
