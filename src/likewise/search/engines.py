"""Search engines: faiss indexes over stored vectors, selected by the number of vectors, with their measured recall."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DataError, MissingExtra, UsageError
from likewise.progress import Progress, Ticker
from likewise.search.ranker import Ranked, Rows, Scores, best

Vectors = NDArray[np.float32]
EXACT_UP_TO = 1_000_000
HNSW_UP_TO = 8_000_000  # Beyond, the links and the build time of a graph cost more than IVF's lists lose
KINDS = ("exact", "hnsw", "ivf")
BITS = (32, 8)
LINKS, BUILD_WIDTH = 32, 200
WIDTHS = {"hnsw": (32, 64, 128, 256, 512, 1024), "ivf": (4, 8, 16, 32, 64, 128, 256, 512)}
ENOUGH_RECALL = 0.99
SAMPLE, SAMPLE_K = 200, 10
CANDIDATES = 4  # An 8-bit search scores this many times k rows again with the full vectors
CHUNK = 16384


@dataclass(frozen=True, eq=False)
class StackedVectors:
    """Arrays (n_i, d), on disk or in memory, as one of n rows; never copied as a whole."""

    parts: Sequence[Vectors]

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.parts) else 0

    @property
    def dimension(self) -> int:
        """The number of components of a vector."""
        return int(self.parts[0].shape[1]) if len(self.parts) else 0

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The end of each part."""
        return np.cumsum([len(part) for part in self.parts], dtype=np.int64)

    def part_of(self, row: int) -> tuple[int, int]:
        """The part of a row, and its row in that part."""
        part = int(np.searchsorted(self.ends, row, side="right"))
        return part, row - int(self.ends[part]) + len(self.parts[part])

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> Vectors:
        """Some rows (m, d), in the given order."""
        wanted = np.asarray(rows, dtype=np.int64)
        result = np.empty((len(wanted), self.dimension), np.float32)
        indices = np.searchsorted(self.ends, wanted, side="right")
        for part in np.unique(indices):
            here = indices == part
            result[here] = self.parts[part][wanted[here] - (self.ends[part] - len(self.parts[part]))]
        return result

    def blocks(self, size: int, start: int = 0) -> Iterator[Vectors]:
        """All rows from ``start`` on, at most ``size`` at a time."""
        for part, end in zip(self.parts, self.ends, strict=True):
            first = max(0, start - int(end) + len(part))
            for index in range(first, len(part), size):
                yield np.ascontiguousarray(part[index : index + size])

    def sample(self, most: int) -> Vectors:
        """At most ``most`` rows, evenly spread."""
        return self.take(np.linspace(0, len(self) - 1, min(most, len(self))).astype(np.int64))


@dataclass(frozen=True)
class Plan:
    """What to build: a kind of index, the bits per vector component, and why."""

    kind: str
    bits: int = 32
    why: str = ""

    @classmethod
    def of(cls, size: int, kind: str = "auto", bits: int = 32) -> Plan:
        """The plan for ``size`` vectors; ``auto`` leaves the kind to the size."""
        check_engine(kind, bits)
        if kind != "auto":
            return cls(kind, bits, f"{kind} was asked for")
        if size <= EXACT_UP_TO:
            return cls("exact", bits, f"chosen for {size:,} vectors; up to {EXACT_UP_TO:,} are searched one by one")
        chosen = "hnsw" if size <= HNSW_UP_TO else "ivf"
        return cls(chosen, bits, f"chosen for {size:,} vectors, more than {EXACT_UP_TO:,}")

    @property
    def is_plain(self) -> bool:
        """Whether the vectors themselves are the engine, so that nothing else is stored."""
        return self.kind == "exact" and self.bits == 32


def check_engine(kind: str, bits: int) -> None:
    """Rejects an unknown engine before any work."""
    if kind != "auto" and kind not in KINDS:
        raise UsageError(f"unknown engine {kind!r}; choose from auto, {', '.join(KINDS)}")
    if bits not in BITS:
        raise UsageError(f"vectors of {bits} bits are not supported; choose 32 or 8")


def faiss() -> Any:
    """The library, with the number of threads that torch uses."""
    try:
        import faiss as library
    except ImportError as error:
        raise MissingExtra("faiss-cpu", "search") from error
    import torch

    library.omp_set_num_threads(torch.get_num_threads())
    return library


@dataclass(frozen=True, eq=False)
class Engine:
    """A faiss index over the rows of a store, with the vectors (n, d) that it was built from.

    >>> engine = built(StackedVectors((np.eye(3, dtype=np.float32),)), Plan.of(3))
    >>> engine.search(np.array([[0.1, 0.9, 0.0]], np.float32), 1).rows
    array([[1]])
    """

    index: Any
    engine_plan: Plan
    vectors: StackedVectors
    rows: Rows | None = None  # the store's row at each position, -1 if deleted since; None if they are the same
    width: int = 0  # the number of candidates of hnsw, or of lists of ivf; 0 for a scan
    recall: float | None = None

    def search(self, queries: Vectors, k: int, keep: NDArray[np.bool_] | None = None) -> Ranked:
        """The k best rows of each query (q, d), best first, the earlier row first among equals.

        ``keep`` (n,) leaves rows out: the others are all compared, with any engine. Scores are computed anew from the
        vectors, so that a row has the same score to the last bit however it was found.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.vectors.dimension:
            raise DataError(f"queries of shape {queries.shape} for vectors of {self.vectors.dimension} dimensions")
        k = min(k, len(self.vectors) if keep is None else int(keep.sum()))
        if k == 0 or len(queries) == 0:
            return Ranked(np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64))
        rows = self._candidates(queries, k) if keep is None else exact_best(self.vectors, queries, k, keep).rows
        found = _in_order(self._scored(queries, rows), rows, k)
        # A graph may not reach every row; if it brings too few, all rows are scanned.
        short = np.flatnonzero((found.rows < 0).any(1))
        if len(short):
            every = exact_best(self.vectors, queries[short], k).rows
            anew = _in_order(self._scored(queries[short], every), every, k)
            found.scores[short], found.rows[short] = anew.scores, anew.rows
        return found

    def _candidates(self, queries: Vectors, k: int) -> Rows:
        """The rows (q, m) that the index finds, -1 for none."""
        wanted = k if self.engine_plan.bits == 32 else min(len(self.vectors), CANDIDATES * k)
        _, indices = self.index.search(queries, wanted, params=self._parameters(wanted))
        return indices if self.rows is None else np.where(indices >= 0, self.rows[indices], -1)

    def _parameters(self, wanted: int) -> Any:
        options: dict[str, Any] = {}
        if self._selector is not None:
            options["sel"] = self._selector
        if self.engine_plan.kind == "hnsw":
            return faiss().SearchParametersHNSW(efSearch=max(self.width, wanted), **options)
        if self.engine_plan.kind == "ivf":
            return faiss().SearchParametersIVF(nprobe=self.width, **options)
        return faiss().SearchParameters(**options) if options else None

    @cached_property
    def _selector(self) -> Any:
        """Only rows that still exist; cached because faiss does not own the bits."""
        if self.rows is None or (self.rows >= 0).all():
            return None
        return faiss().IDSelectorBitmap(np.packbits(self.rows >= 0, bitorder="little"))

    def _scored(self, queries: Vectors, rows: Rows) -> Scores:
        """The inner products of queries (q, d) with their rows (q, m)."""
        scores = np.full(rows.shape, -np.inf, np.float32)
        for position, (query, found) in enumerate(zip(queries, rows, strict=True)):
            there = found >= 0
            scores[position, there] = inner_products(self.vectors.take(found[there]), query)
        return scores

    def extended(self, vectors: StackedVectors, present: Rows, progress: Progress | None = None) -> Engine:
        """For a changed store: ``present`` is the row of each position now, -1 if deleted; later rows are added."""
        first_new = int((present >= 0).sum())
        _fill(self.index, vectors, first_new, progress)
        rows = np.concatenate([present, np.arange(first_new, len(vectors), dtype=np.int64)])
        return tuned(replace(self, vectors=vectors, rows=rows))

    @property
    def bytes_per_vector(self) -> float:
        """The memory of the index per vector."""
        size: int = len(faiss().serialize_index(self.index))
        return size / max(1, int(self.index.ntotal))


def inner_products(rows: Vectors, query: Vectors) -> Scores:
    """The scores (m,) of vectors (m, d) with a query (d,), each independent of the others to the last bit."""
    # Not a matrix product: it may sum equal rows in different orders, which gives different scores.
    found: Scores = (rows.astype(np.float64) * query).sum(axis=1).astype(np.float32)
    return found


def _in_order(scores: Scores, rows: Rows, k: int) -> Ranked:
    scores = np.where(rows >= 0, scores, -np.inf).astype(np.float32)
    order = np.lexsort((rows, -scores), axis=1)[:, :k]
    return Ranked(np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1))


def built(vectors: StackedVectors, engine_plan: Plan, progress: Progress | None = None) -> Engine:
    """Build the planned index over vectors (n, d); an approximate one is tuned and its recall measured."""
    index = _empty(vectors, engine_plan)
    _fill(index, vectors, 0, progress)
    engine = Engine(index, engine_plan, vectors)
    return engine if engine_plan.is_plain else tuned(engine)


def _empty(vectors: StackedVectors, engine_plan: Plan) -> Any:
    """The planned index without rows; quantizers and lists are trained on a sample."""
    library, lists = faiss(), max(1, min(int(4 * math.sqrt(len(vectors))), len(vectors) // 39))
    kind = {"exact": "", "hnsw": f"HNSW{LINKS},", "ivf": f"IVF{lists},"}[engine_plan.kind]
    storage = "SQ8" if engine_plan.bits == 8 else "Flat"
    index = library.index_factory(vectors.dimension, kind + storage, library.METRIC_INNER_PRODUCT)
    if engine_plan.kind == "hnsw":
        index.hnsw.efConstruction = BUILD_WIDTH
    if not index.is_trained:
        index.train(vectors.sample(256 * 1024))
    return index


def _fill(index: Any, vectors: StackedVectors, start: int, progress: Progress | None) -> None:
    """Add the rows from ``start`` on, in pieces, so that a long build reports progress and can be cancelled."""
    ticker = Ticker(progress, len(vectors) - start, "indexed")
    for block in vectors.blocks(CHUNK, start):
        index.add(block)
        ticker.add(len(block))
    ticker.close()


def tuned(engine: Engine) -> Engine:
    """The engine with its recall measured, at the smallest width that finds enough."""
    if not len(engine.vectors):
        return engine
    # Sums of two random rows: near the texts, as queries are; a text itself is too easy to find.
    first, second = np.random.default_rng(len(engine.vectors)).integers(0, len(engine.vectors), (2, SAMPLE))
    queries = engine.vectors.take(first) + engine.vectors.take(second)
    truth = exact_best(engine.vectors, queries, SAMPLE_K)
    for width in WIDTHS.get(engine.engine_plan.kind, (0,)):
        recall = recall_against(truth, replace(engine, width=width).search(queries, SAMPLE_K))
        if recall >= ENOUGH_RECALL:
            break
    return replace(engine, width=width, recall=recall)


def exact_best(
    vectors: StackedVectors, queries: Vectors, k: int, keep: NDArray[np.bool_] | None = None
) -> Ranked:  # fmt: skip
    """The k best rows by plain inner products, block by block; ``keep`` (n,) leaves rows out."""
    top = best(np.empty((len(queries), 0), np.float32), k)
    start = 0
    for block in vectors.blocks(CHUNK):
        present = np.arange(len(block)) if keep is None else np.flatnonzero(keep[start : start + len(block)])
        here = best(queries @ (block if keep is None else block[present]).T, k)
        scores, rows = np.hstack([top.scores, here.scores]), np.hstack([top.rows, present[here.rows] + start])
        top = _in_order(scores, rows, min(k, scores.shape[1]))
        start += len(block)
    return top


def recall_against(truth: Ranked, found: Ranked) -> float:
    """The share of the true best rows (q, k) that were found."""
    shared = [len(set(true) & set(there)) for true, there in zip(truth.rows.tolist(), found.rows.tolist(), strict=True)]
    return sum(shared) / max(1, truth.rows.size)
