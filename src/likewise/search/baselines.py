"""Baseline rankers to compare a model with: word counts, TF-IDF, BM25, averaged word vectors, chance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import Dataset, SkippedRows, read_texts
from likewise.encoder import Encoder
from likewise.encoder.encoder import Source
from likewise.errors import UsageError
from likewise.progress import Progress, Ticker
from likewise.search.averaged_vectors import InputEmbeddings, StaticVectors
from likewise.search.documents import EVERYTHING, Origin, Selection, documents
from likewise.search.filters import Filter
from likewise.search.hits import Hit, Hits, check_search
from likewise.search.index import Index
from likewise.search.ledger import HitLedgers
from likewise.search.ranker import BlockRanker, Corpus, Hybrid, Ranker, Scores, best
from likewise.search.searcher import Searcher
from likewise.search.stores import open_store
from likewise.search.word_rankers import BagOfWords, Bm25, TfIdf


class Chance(BlockRanker):
    """Random scores from 0 to 1, the same ones each time for a seed, a query and a number of texts."""

    name = "random"

    def __init__(self, texts: Sequence[str], seed: int = 0) -> None:
        self.size, self._seed = len(texts), seed

    def scores(self, queries: Sequence[str]) -> Scores:
        """Random scores (b, n) of some queries with all texts."""
        rows = []
        for query in queries:
            # Drawn from the query itself, so that neither the block nor the order of the queries matters.
            source = f"{self._seed} {self.size} {query}".encode("utf-8", "surrogatepass")
            entropy = np.frombuffer(hashlib.sha256(source).digest(), np.uint32)
            rows.append(np.random.default_rng(entropy).random(self.size, dtype=np.float32))
        return np.stack(rows)


BASELINES: dict[str, tuple[Callable[..., Ranker], str]] = {
    "bow": (BagOfWords, ""),
    "tfidf": (TfIdf, ""),
    "bm25": (Bm25, ""),
    "static": (StaticVectors, "vectors"),
    "input-embeddings": (InputEmbeddings, "encoder"),
    "random": (Chance, "seed"),
}
"""Each ranker, and which argument of ``baseline`` it takes after the texts."""
MISSING = {
    "static": "word vectors; give --vectors FILE, or take input-embeddings, which needs no file",
    "input-embeddings": "a model; give one with --model NAME",
}
RANKERS = ("dense", *BASELINES, "hybrid")  # All ways to rank: a model's vectors, the baselines, and BM25 with a model


def check_ranker(name: str) -> None:
    """Rejects an unknown ranker before any work."""
    if name not in RANKERS:
        raise UsageError(f"unknown ranker {name!r}; choose from {', '.join(RANKERS)}")


def baseline(
    name: str, texts: Sequence[str], *, encoder: Encoder | Source | None = None, vectors: Path | None = None,
    seed: int = 0,
) -> Ranker:  # fmt: skip
    """The baseline ranker with this name, over the texts of a corpus.

    >>> baseline("bm25", ["A cat sat.", "A dog ran."]).name
    'bm25'
    """
    if name not in BASELINES:
        raise UsageError(f"unknown baseline {name!r}; choose from {', '.join(BASELINES)}")
    build, argument = BASELINES[name]
    given = {"": (), "vectors": (vectors,), "encoder": (encoder,), "seed": (seed,)}[argument]
    if None in given:
        raise UsageError(f"the baseline {name} needs {MISSING[name]}")
    return build(texts, *given)


def stored_corpus(where: str | Path) -> Corpus:
    """The texts of an index, without loading its model."""
    with open_store(where) as store:
        return store.corpus()


def text_corpus(source: Dataset, with_metadata: bool = False) -> tuple[Corpus, SkippedRows]:
    """The texts of a file, and the bad rows that were skipped."""
    skipped = SkippedRows()
    found = list(documents(source.stream(read_texts, skipped), with_metadata=with_metadata))
    origins = [Origin(0, metadata=one.metadata) for one in found] if with_metadata else None
    return Corpus([one.id for one in found], [one.text for one in found], origins), skipped


@dataclass(frozen=True)
class RankedCorpus(Searcher):
    """The texts of a corpus, searched by any ranker.

    >>> corpus = Corpus(("a", "b"), ("A cat sat.", "A dog ran."))
    >>> found = RankedCorpus(baseline("bm25", corpus.texts), corpus).search("dog", explain=True)
    >>> found[0].id, [name for name, _ in found[0].ledger.strongest(1)]
    ('b', ['dog'])
    """

    ranker: Ranker
    corpus: Corpus

    @classmethod
    def hybrid(cls, index: Index) -> RankedCorpus:
        """The texts of an index, searched by BM25 and its model together."""
        corpus = index.corpus()
        return cls(Hybrid([baseline("bm25", corpus.texts), index]), corpus)

    @property
    def name(self) -> str:
        """The ranker's name."""
        return self.ranker.name

    @property
    def has_model(self) -> bool:
        """Whether the ranker is a hybrid."""
        return isinstance(self.ranker, Hybrid)

    def search_many(
        self, queries: Sequence[str], k: int = 10, progress: Progress | None = None, *,
        where: str | Filter | None = None, aggregate: str = "max",
    ) -> list[Hits]:  # fmt: skip
        """The k best texts or documents for each of several queries."""
        return ranked_hits(self.ranker, self.corpus, queries, k, progress, Selection.of(where, aggregate))

    def ledgers(self, query: str, hits: Sequence[Hit], **options: Any) -> list[HitLedgers]:
        """Why each hit has its score."""
        return self.ranker.ledgers(query, hits, [self._row_of[_key(hit)] for hit in hits], **options)

    @cached_property
    def _row_of(self) -> dict[tuple[str, int], int]:
        """The row of each passage: the id of its document and its number."""
        return {_key(self.corpus.hit(row, 0.0)): row for row in range(len(self.corpus))}

    def scored(self, query: str) -> Iterator[tuple[Corpus, Scores]]:
        """All texts or passages and their scores (n,)."""
        for _, (scores,) in self.ranker.score_blocks([query]):
            yield self.corpus, scores


def _key(hit: Hit) -> tuple[str, int]:
    return hit.id, 0 if hit.passage is None else hit.passage.number


def ranked_hits(
    ranker: Ranker, corpus: Corpus, queries: Sequence[str], k: int, progress: Progress | None = None,
    selection: Selection = EVERYTHING,
) -> list[Hits]:  # fmt: skip
    """The k best texts for each query by any ranker of a corpus; of passages, the best one of each document."""
    check_search(queries, k)
    keep, groups = corpus.matching(selection.where), corpus.groups
    ticker, results = Ticker(progress, len(queries), "queries"), []
    for start, block in ranker.score_blocks(queries):
        totals = np.where(keep, groups.aggregated(block, selection.passages), -np.inf)
        found = best(totals, k)
        for query, scores, rows, row_scores in zip(queries[start:], found.scores, found.rows, block, strict=False):
            # A text that has nothing in common with the query is not a hit.
            pairs = [(row, score) for row, score in zip(rows, scores.tolist(), strict=True) if score > ranker.floor]
            hits = tuple(corpus.hit(groups.best_row(row_scores, row), score) for row, score in pairs)
            results.append(Hits(query, hits, ranker.name))
        ticker.add(len(block))
    ticker.close()
    return results
