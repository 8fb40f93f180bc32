"""Ranks: how many texts score above the relevant ones, counted off blocks of scores.

A text's rank is the number of texts that score more than ``TIE`` above it, so that ties, and what differs only by
rounding, are in the query's favour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError
from likewise.progress import Progress, Ticker
from likewise.search.ranker import Rows, Scores

TIE = 1e-6
"""Scores that lie no further apart are equal."""

TIES = f"a text's rank is the number of texts that score more than {TIE:g} above it: ties are in the query's favour"


@dataclass(frozen=True, eq=False)
class Relevant:
    """Which texts answer which of q queries, one after another: rows (m,), gains (m,), starts (q + 1,).

    The relevant texts of query i are ``rows[starts[i]:starts[i + 1]]``.

    >>> judged = Relevant.of([{4: 1.0}, {0: 2.0, 3: 1.0}])
    >>> judged.rows.tolist(), judged.starts.tolist(), len(judged)
    ([4, 0, 3], [0, 1, 3], 2)
    """

    rows: Rows
    gains: NDArray[np.float64]
    starts: Rows

    @classmethod
    def of(cls, gains: Iterable[Mapping[int, float]]) -> Relevant:
        """The gain of each relevant row, query by query."""
        queries = list(gains)
        rows = [row for query in queries for row in query]
        values = [gain for query in queries for gain in query.values()]
        starts = np.cumsum([0, *map(len, queries)], dtype=np.int64)
        return cls(np.array(rows, np.int64), np.array(values, np.float64), starts)

    @classmethod
    def single(cls, rows: ArrayLike) -> Relevant:
        """One relevant text for each query, of gain 1.

        >>> Relevant.single([2, 0]).starts.tolist()
        [0, 1, 2]
        """
        wanted = np.asarray(rows, dtype=np.int64)
        return cls(wanted, np.ones(len(wanted)), np.arange(len(wanted) + 1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def query_of(self) -> Rows:
        """The query of each relevant text: (m,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def turn(self) -> Rows:
        """Each entry's number within its query, from 0 on: (m,)."""
        return np.arange(len(self.rows)) - self.starts[self.query_of]


def ranks(blocks: Iterable[tuple[int, Scores]], judged: Relevant, progress: Progress | None = None) -> Rows:
    """The rank, from 0 on, of every relevant text (m,), counted off the blocks of any ranker.

    >>> scores = np.array([[0.1, 0.9, 0.9], [0.5, 0.2, 0.3]], np.float32)
    >>> ranks([(0, scores)], Relevant.of([{2: 1.0}, {1: 1.0, 0: 1.0}])).tolist()
    [0, 2, 0]
    """
    found = np.zeros(len(judged.rows), np.int64)
    ticker, seen = Ticker(progress, len(judged), "queries"), 0
    for start, scores in blocks:
        first, last = judged.starts[start], judged.starts[start + len(scores)]
        for entry, query in enumerate(judged.query_of[first:last] - start, start=first):
            row = scores[query]
            # A row at a time stays in the processor's cache, where comparing and counting cost next to nothing.
            found[entry] = np.count_nonzero(row > row[judged.rows[entry]] + np.float32(TIE))
        seen += len(scores)
        ticker.add(len(scores))
    ticker.close()
    if seen != len(judged):
        raise DataError(f"scores of {seen} queries for judgements of {len(judged)}; give the ranker all queries")
    return found


def indices(found: Rows, judged: Relevant) -> Rows:
    """Ranks (m,) -> places (m,) from 0 on that no two relevant texts of a query share.

    Two relevant texts that tie have one rank but cannot both be first: sorted by rank, and by gain where ranks are
    equal, each takes its rank or, if that is not below the last one's place, the next place. A query's only relevant
    text keeps its rank.

    >>> indices(np.array([3, 0, 0]), Relevant.of([{5: 1.0}, {0: 1.0, 1: 2.0}])).tolist()
    [3, 1, 0]
    """
    order = np.lexsort((-judged.gains, found, judged.query_of))
    # place_i = max(rank_i, place_(i-1) + 1) is i + max(rank_j - j) over j <= i. A step between queries as high as all
    # that one can reach lets a single running maximum begin anew with each.
    step = judged.query_of * (found.max(initial=0) + judged.turn.max(initial=0) + 1)
    taken = np.empty_like(found)
    taken[order] = np.maximum.accumulate(found[order] - judged.turn + step) - step + judged.turn
    return taken


def per_query(values: ArrayLike, judged: Relevant) -> NDArray[np.float64]:
    """The sum of the relevant texts' values (m,) for each query: (q,).

    >>> per_query([1.0, 2.0, 3.0], Relevant.of([{5: 1.0}, {0: 1.0, 1: 2.0}])).tolist()
    [1.0, 5.0]
    """
    return np.asarray(np.bincount(judged.query_of, np.asarray(values, np.float64), len(judged)), np.float64)
