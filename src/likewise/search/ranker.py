"""Corpora, the interface of all rankers, the selection of the k best texts, and hybrids of rankers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DataError, UsageError
from likewise.progress import Progress, Ticker
from likewise.search.documents import Groups, Origin
from likewise.search.filters import Filter, column_types
from likewise.search.hits import Hit
from likewise.search.ledger import HitLedgers, ScoreLedger, Term

Scores = NDArray[Any]  # float32, or float64 where a ledger sums to the score
Rows = NDArray[np.int64]
Blocks = Iterator[tuple[int, Scores]]
"""The first query of a block, and the scores (b, n) of its b queries with all n texts; blocks come in order."""

TIE = 1e-6  # Scores that lie no further apart are equal
BLOCK_BYTES = 2**26  # The memory of a block of scores in single precision


@dataclass(frozen=True)
class Corpus:
    """Texts to search, each with an id.

    >>> corpus = Corpus(("a", "b"), ("A cat sat.", "A dog ran."))
    >>> corpus.row_of["b"], len(corpus)
    (1, 2)
    """

    ids: Sequence[str]
    texts: Sequence[str]
    origins: Sequence[Origin] | None = None  # of passages, which share the id of their document, or of metadata

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
    def groups(self) -> Groups:
        """Which rows are passages of one document."""
        is_cut = self.origins is not None and self.origins[0].passage is not None
        return Groups.of(self.ids if is_cut else np.arange(len(self)))

    def matching(self, where: Filter | None) -> NDArray[np.bool_]:
        """Which documents (m,) match a filter."""
        if where is None:
            return np.ones(len(self.groups.starts), bool)
        metadata = [self.origins[row].metadata for row in self.groups.starts] if self.origins else []
        where.check(column_types(metadata))
        return np.fromiter(map(where.matches, metadata), bool, len(metadata))

    def hit(self, row: int, score: float) -> Hit:
        """A row that was found."""
        found = Origin(0) if self.origins is None else self.origins[row]
        return Hit(self.ids[row], self.texts[row], score, passage=found.passage, metadata=found.metadata)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each id; an id that names two texts raises DataError."""
        rows = {name: row for row, name in enumerate(self.ids)}
        if len(rows) != len(self.ids):
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

    def ledgers(self, query: str, hits: Sequence[Hit], rows: Sequence[int], **options: Any) -> list[HitLedgers]:
        """Why each hit, which is the text of a row of the corpus, has its score."""


class Unexplained:
    """What a ranker inherits whose scores have no ledger."""

    name: Any

    def ledgers(self, query: str, hits: Sequence[Hit], rows: Sequence[int], **options: Any) -> list[HitLedgers]:  # noqa: ARG002
        """Rejects the question."""
        raise UsageError(f"the scores of the ranker {self.name} cannot be explained; leave --explain out")


class BlockRanker(Unexplained):
    """A ranker that scores some queries at once; the texts are those of a corpus of ``size`` texts."""

    floor: float = -np.inf  # a cosine of 0 does not mean that there is nothing in common
    size: int

    def prepared(self, queries: Sequence[str]) -> Any:
        """All queries, in the form that ``scores`` takes some of."""
        return queries

    def scores(self, queries: Any) -> Scores:
        """The scores (b, n) of b prepared queries with all n texts."""
        raise NotImplementedError

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The scores of all texts for each query, block by block, in bounded memory."""
        rows, everything = block_rows(self.size), self.prepared(queries)
        for start in range(0, len(queries), rows):
            yield start, self.scores(everything[start : start + rows])


@dataclass(frozen=True, eq=False)
class Ranked:
    """The best rows (q, k) of q queries and their scores (q, k), best first."""

    scores: Scores
    rows: Rows


def block_rows(texts: int) -> int:
    """How many queries' scores with ``texts`` texts make a block."""
    return max(1, BLOCK_BYTES // (4 * max(1, texts)))


def best(scores: Scores, k: int) -> Ranked:
    """The k highest of each row (q, n), best first; among equals the earlier text comes first."""
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
    ticker, parts = Ticker(progress, len(queries), "queries"), []
    for _, scores in ranker.score_blocks(queries):
        parts.append(best(scores, k))
        ticker.add(len(scores))
    ticker.close()
    parts = parts or [best(np.empty((0, 0), np.float32), k)]
    return Ranked(np.concatenate([part.scores for part in parts]), np.concatenate([part.rows for part in parts]))


class Hybrid:
    """Reciprocal rank fusion (Cormack et al. 2009), scaled so that a text that all rankers put first scores 1.

    Each of r rankers gives a text of rank ``k`` among its ``depth`` best ``(constant + 1) / (constant + k) / r``.
    Texts of equal score share their best rank, and all of them count if one does: the order of the corpus decides
    nothing. Texts at a ranker's ``floor`` (no word in common: 0 by BM25 and TF-IDF) get nothing from it, while a
    cosine of dense vectors is ranked even below 0.

    >>> from likewise.search import baseline
    >>> rankers = [baseline(name, ["A cat sat.", "A dog ran."]) for name in ("bm25", "tfidf")]
    >>> [scores.tolist() for _, scores in Hybrid(rankers).score_blocks(["dog"])]
    [[[0.0, 1.0]]]
    """

    floor = 0.0  # the score of a text that no ranker has among its best

    def __init__(self, rankers: Sequence[Ranker], constant: float = 60, depth: int = 1000) -> None:
        if not rankers:
            raise UsageError("a hybrid needs at least one ranker; give for example BM25 and a model")
        if not 0 <= constant < math.inf or depth < 1:
            raise UsageError(f"a hybrid with constant={constant} and depth={depth}; choose at least 0 and at least 1")
        # Neighbouring ranks k and k + 1 differ by (constant + 1) / (constant + k) / (constant + k + 1) / r.
        deepest = int(math.sqrt((constant + 1) / (2 * TIE * len(rankers))) - constant) - 1
        if depth > deepest:
            cure = f"a depth of at most {deepest}" if deepest > 0 else "a lower constant"
            raise UsageError(f"at depth {depth} neighbouring ranks would score the same; choose {cure}")
        self.rankers, self.constant, self.depth = tuple(rankers), constant, depth

    @property
    def name(self) -> str:
        """The rankers' names, joined by +."""
        return "+".join(ranker.name for ranker in self.rankers)

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The fused scores (b, n) of each query with all texts, block by block."""
        streams = (ranker.score_blocks(queries) for ranker in self.rankers)
        for blocks in zip_longest(*streams, fillvalue=(-1, np.empty((0, 0), np.float32))):
            start, first = blocks[0]
            if any((begin, scores.shape) != (start, first.shape) for begin, scores in blocks):
                raise UsageError(f"the rankers of {self.name} do not score the same texts; build them from one corpus")
            fused = np.zeros(first.shape)
            for ranker, (_, scores) in zip(self.rankers, blocks, strict=True):
                for index, row in enumerate(scores):
                    fused[index] += self._credits(self._ranks(row, ranker.floor))
            yield start, fused

    def ledgers(self, query: str, hits: Sequence[Hit], rows: Sequence[int], **options: Any) -> list[HitLedgers]:
        """Each ranker's rank of each hit and what it is worth; and below, each ranker's own ledger of the hit."""
        names = _unique([ranker.name for ranker in self.rankers])
        terms: list[list[Term]] = [[] for _ in hits]
        parts: list[dict[str, HitLedgers]] = [{} for _ in hits]
        for name, ranker in zip(names, self.rankers, strict=True):
            ((_, (scores,)),) = ranker.score_blocks([query])
            ranks = self._ranks(scores, ranker.floor)
            worth = self._credits(ranks)
            for index, row in enumerate(rows):
                detail = {"rank": int(ranks[row]), "score": float(scores[row])}
                terms[index].append(Term(name, float(worth[row]), kind="ranker", detail=detail if ranks[row] else {}))
            ranked = [index for index, row in enumerate(rows) if ranks[row]]
            own = [replace(hits[index], score=float(scores[rows[index]])) for index in ranked]
            found = ranker.ledgers(query, own, [rows[index] for index in ranked], **options)
            for index, one in zip(ranked, found, strict=True):
                parts[index][name] = one
        ledgers = [ScoreLedger(hit.score, tuple(own), measure="sum of reciprocal ranks")
                   for hit, own in zip(hits, terms, strict=True)]  # fmt: skip
        return [HitLedgers(ledger, ledger, part) for ledger, part in zip(ledgers, parts, strict=True)]

    def _ranks(self, scores: Scores, floor: float) -> Rows:
        """The rank from 1 of each text (n,) that one ranker has among its best, by its scores (n,); 0 of all others."""
        worth = scores > floor
        if self.depth < len(scores):
            worth &= scores >= np.partition(scores, -self.depth)[-self.depth] - TIE
        chosen = np.flatnonzero(worth)
        chosen = chosen[np.argsort(scores[chosen])]
        ascending = scores[chosen].astype(np.float64)
        ranks = np.zeros(len(scores), np.int64)
        ranks[chosen] = 1 + len(chosen) - np.searchsorted(ascending, ascending + TIE, side="right")
        return ranks

    def _credits(self, ranks: Rows) -> Scores:
        """What the ranks (n,) of one ranker are worth: (n,)."""
        worth = (self.constant + 1) / (self.constant + np.maximum(ranks, 1)) / len(self.rankers)
        return np.where(ranks > 0, worth, 0.0)


def _unique(names: Sequence[str]) -> list[str]:
    """Names of rankers, equal ones numbered."""
    return [f"{name} ({names[:index].count(name) + 1})" if name in names[:index] else name
            for index, name in enumerate(names)]  # fmt: skip
