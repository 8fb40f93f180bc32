"""All pairs of vectors above a cosine: exactly, by blocked products, or among the neighbours that faiss finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from likewise.encoder.similarity import unit
from likewise.errors import DataError, ModelError, UsageError
from likewise.progress import Progress, Ticker
from likewise.search.engines import KINDS, Engine, Plan, StackedVectors, Vectors, built
from likewise.search.ranker import Rows
from likewise.storage import DAMAGED, atomic_write

BLOCK = 4096  # Rows and columns of a block of products: 64 MB of scores
RESCORED = 65536  # Candidates between two checks of the number of pairs
SCORED_AT_ONCE = 8192  # Pairs whose vectors are in memory in float64
DIGITS = 7  # A score is a float64 cosine with so many decimals, so that equal vectors have 1 and blocks do not matter
FIRST_NEIGHBOURS = 16
SAMPLE = 500  # Rows whose pairs measure what faiss finds
SAMPLED_SCORES = 1500  # Texts whose pairs show how the scores of all pairs lie


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of rows: left (p,), right (p,) with left < right, and scores (p,)."""

    left: Rows
    right: Rows
    scores: NDArray[np.float64]

    @classmethod
    def empty(cls) -> Pairs:
        """No pair."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def __len__(self) -> int:
        return len(self.scores)

    def ordered(self) -> Pairs:
        """The highest score first, then by rows."""
        return self.taken(np.lexsort((self.right, self.left, -self.scores)))

    def taken(self, chosen: NDArray[np.int64] | NDArray[np.bool_]) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.left[chosen], self.right[chosen], self.scores[chosen])

    @classmethod
    def joined(cls, parts: list[Pairs]) -> Pairs:
        """The pairs of all parts."""
        every = [cls.empty(), *parts]
        return cls(*(np.concatenate([getattr(one, name) for one in every]) for name in ("left", "right", "scores")))


@dataclass(frozen=True)
class PairSearch:
    """Which pairs are found, and how."""

    threshold: float  # the lowest cosine of a pair
    engine: str = "exact"  # exact, hnsw or ivf
    max_pairs: int = 100_000

    def __post_init__(self) -> None:
        if not -1 <= self.threshold <= 1:
            raise UsageError(f"--threshold is a cosine from -1 to 1, got {self.threshold:g}")
        if self.engine not in KINDS:
            raise UsageError(f"unknown engine {self.engine!r}; choose from {', '.join(KINDS)}")
        if self.max_pairs < 1:
            raise UsageError(f"--max-pairs is at least 1, got {self.max_pairs}")

    def check_count(self, count: int) -> None:
        """Raises if there are too many pairs."""
        if count > self.max_pairs:
            raise DataError(
                f"more than {self.max_pairs:,} pairs have a cosine of {self.threshold:g} or more;"
                " raise --threshold or --max-pairs"
            )


def similar_pairs(
    vectors: Vectors, search: PairSearch, folder: Path | None = None, progress: Progress | None = None
) -> tuple[Pairs, float | None]:
    """The pairs of rows (n, d) at or above the threshold, the highest first; and the recall if it is not exact.

    With a folder, finished blocks of an exact search are stored in it, and the same call again continues.

    >>> found, _ = similar_pairs(np.array([[1, 0], [0, 1], [2, 0.1]], np.float32), PairSearch(0.9))
    >>> found.left, found.right, found.scores.round(3)
    (array([0]), array([2]), array([0.999]))
    """
    if len(vectors) < 2:
        return Pairs.empty(), None
    if search.engine == "exact":
        return Pairs.joined(list(_exact(vectors, search, folder, progress))).ordered(), None
    return _approximate(vectors, search, progress)


def _exact(vectors: Vectors, search: PairSearch, folder: Path | None, progress: Progress | None) -> Iterator[Pairs]:
    """The pairs of each stripe of rows with all later rows."""
    size, count = len(vectors), 0
    ticker = Ticker(progress, size * (size - 1) // 2, "pairs compared")
    for start in range(0, size, BLOCK):
        path = None if folder is None else folder / f"pairs-{search.threshold!r}-{start}.npz"
        found = None if path is None else _stored(path)
        if found is None:
            found = _stripe(vectors, start, search, count, ticker)
            if path is not None:
                _store(found, path)
        else:
            ticker.add(_area(start, min(size, start + BLOCK), size))
        count += len(found)
        search.check_count(count)
        yield found
    ticker.close()


def _area(start: int, end: int, size: int) -> int:
    """The number of pairs of the rows from start to end with all later rows."""
    return sum(size - 1 - row for row in range(start, end))


def _stripe(vectors: Vectors, start: int, search: PairSearch, before: int, ticker: Ticker) -> Pairs:
    """The pairs of one block of rows with all later rows; ``before`` is the number of pairs that are known."""
    rows, margin, found = _units(vectors, start), _rounding(vectors), list[Pairs]()
    for column in range(start, len(vectors), BLOCK):
        columns = rows if column == start else _units(vectors, column)
        scores = rows @ columns.T
        if column == start:
            scores[np.tril_indices(len(rows))] = -np.inf
        # Counted before anything is listed: a low threshold would fill the memory.
        search.check_count(before + int(np.count_nonzero(scores >= search.threshold + margin)))
        near = np.flatnonzero(scores >= search.threshold - margin)
        for part in range(0, len(near), RESCORED):
            left, right = np.divmod(near[part : part + RESCORED], len(columns))
            found.append(_at_least(vectors, left + start, right + column, search.threshold))
            before += len(found[-1])
            search.check_count(before)
        ticker.add(len(rows) * len(columns) if column > start else len(rows) * (len(rows) - 1) // 2)
    return Pairs.joined(found)


def _units(vectors: Vectors, start: int) -> Vectors:
    """A block of rows, scaled to length 1."""
    rows = unit(np.asarray(vectors[start : start + BLOCK], np.float32))
    if not np.isfinite(rows).all():
        raise ModelError("the model gave vectors that are not numbers; load it with --dtype float32")
    return rows


def _rounding(vectors: Vectors) -> float:
    """More than the rounding error of a float32 product of unit vectors of d components."""
    return float((vectors.shape[1] + 8) * np.finfo(np.float32).eps)


def _at_least(vectors: Vectors, left: Rows, right: Rows, threshold: float) -> Pairs:
    """The given pairs with their exact scores, without those below the threshold."""
    scores = np.empty(len(left))
    for start in range(0, len(left), SCORED_AT_ONCE):
        part = slice(start, start + SCORED_AT_ONCE)
        first, second = (np.asarray(vectors[rows[part]], np.float64) for rows in (left, right))
        lengths = np.sqrt(np.einsum("nd,nd->n", first, first) * np.einsum("nd,nd->n", second, second))
        scores[part] = np.einsum("nd,nd->n", first, second) / np.where(lengths > 0, lengths, 1.0)
    pairs = Pairs(left.astype(np.int64), right.astype(np.int64), scores.round(DIGITS))
    return pairs.taken(pairs.scores >= threshold)


def _stored(path: Path) -> Pairs | None:
    """The pairs of a finished stripe; None if it is missing or damaged."""
    try:
        with np.load(path) as found:
            return Pairs(found["left"], found["right"], found["scores"])
    except DAMAGED:
        return None


def _store(pairs: Pairs, path: Path) -> None:
    def write(draft: Path) -> None:
        with draft.open("wb") as stream:
            np.savez(stream, left=pairs.left, right=pairs.right, scores=pairs.scores)

    atomic_write(path, write)


def _approximate(vectors: Vectors, search: PairSearch, progress: Progress | None) -> tuple[Pairs, float]:
    """The pairs among the neighbours of each row, and the share of a sample's pairs that they hold."""
    scaled = np.concatenate([_units(vectors, start) for start in range(0, len(vectors), BLOCK)])
    engine = built(StackedVectors((scaled,)), Plan.of(len(vectors), search.engine), progress)
    ticker, keys, count = Ticker(progress, len(vectors), "neighbours"), list[Rows](), 0
    for start in range(0, len(vectors), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(vectors)))
        queries, neighbours = _neighbours(engine, rows, search.threshold - _rounding(vectors))
        low, high = np.minimum(queries, neighbours), np.maximum(queries, neighbours)
        keys.append(np.unique((low * len(vectors) + high)[low < high]))
        # Each pair may be found from both of its ends.
        count += len(keys[-1])
        search.check_count(count // 2)
        ticker.add(len(rows))
    ticker.close()
    both = np.unique(np.concatenate(keys))
    found = _at_least(vectors, both // len(vectors), both % len(vectors), search.threshold)
    search.check_count(len(found))
    return found.ordered(), _recall(vectors, scaled, found, search)


def _neighbours(engine: Engine, rows: Rows, least: float) -> tuple[Rows, Rows]:
    """Each row with its neighbours from a score on; rows whose last neighbour is that near are searched deeper."""
    size, k, left, right = len(engine.vectors), FIRST_NEIGHBOURS, list[Rows](), list[Rows]()
    while len(rows):
        found = engine.search(engine.vectors.take(rows), k)
        is_full = (found.scores[:, -1] >= least) & (k < size)
        query, rank = np.nonzero((found.scores >= least) & ~is_full[:, None])
        left.append(rows[query])
        right.append(found.rows[query, rank])
        rows, k = rows[is_full], min(size, 4 * k)
    return np.concatenate(left), np.concatenate(right)


def _recall(vectors: Vectors, scaled: Vectors, found: Pairs, search: PairSearch) -> float:
    """The share of the pairs of some evenly spread rows that were found; 1 if they have none."""
    sample = np.unique(np.linspace(0, len(vectors) - 1, min(SAMPLE, len(vectors))).astype(np.int64))
    known, true, hit = set(zip(found.left.tolist(), found.right.tolist(), strict=True)), 0, 0
    for row in sample.tolist():
        near = np.flatnonzero(scaled @ scaled[row] >= search.threshold - _rounding(vectors))
        near = near[near != row]
        exact = _at_least(vectors, np.minimum(near, row), np.maximum(near, row), search.threshold)
        pairs = list(zip(exact.left.tolist(), exact.right.tolist(), strict=True))
        true, hit = true + len(pairs), hit + sum(pair in known for pair in pairs)
    return hit / true if true else 1.0


def components(size: int, left: Rows, right: Rows) -> Rows:
    """The connected component (n,) of each of n rows, numbered from 0 on in the order of their first rows.

    >>> components(4, np.array([0]), np.array([2]))
    array([0, 1, 0, 2])
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(left), np.int8), (left, right)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse], np.int64)


def sampled_scores(vectors: Vectors) -> NDArray[np.float32]:
    """The scores of all pairs of some evenly spread rows: how those of all pairs lie."""
    rows = np.unique(np.linspace(0, len(vectors) - 1, min(SAMPLED_SCORES, len(vectors))).astype(np.int64))
    some = unit(np.asarray(vectors[rows], np.float32))
    scores: NDArray[np.float32] = (some @ some.T)[np.triu_indices(len(rows), 1)]
    return scores
