"""Retrieval evaluation: how well a ranker finds the texts that answer queries.

In a file of pairs each right text is a query, its left text is relevant, and all left texts are the corpus. A corpus
with queries and judgements is used unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Dataset, Pair, ScoredPair, SkippedRows, read_pairs, read_scored_pairs, read_texts
from likewise.data.annotations import (
    JudgedFiles,
    Judgement,
    Query,
    beir_files,
    read_documents,
    read_qrels,
    read_queries,
)
from likewise.data.rows import OnBad, shown
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source, encode_variants
from likewise.encoder.pooling import PoolingConfig
from likewise.encoder.similarity import unit
from likewise.errors import DataError, UsageError
from likewise.progress import Progress
from likewise.search.ranker import BlockRanker, Corpus, Ranker, Scores
from likewise.search.recall import (
    KS,
    Relevant,
    RetrievalResult,
    Setting,
    checked_ks,
    positions,
    ranks,
    retrieval_result,
)

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    """Queries to a corpus, and which of its texts answer them."""

    name: str
    corpus: Corpus
    queries: Sequence[str]
    relevant: Relevant
    left_out: int = 0  # queries without any relevant text
    skipped: int = 0  # bad rows

    @property
    def metadata(self) -> dict[str, Any]:
        """The counts of the task that results repeat."""
        return {"texts": len(self.corpus), "left_out": self.left_out, "skipped": self.skipped}

    @cached_property
    def key(self) -> str:
        """The sha256 of everything that ranks depend on."""
        digest = hashlib.sha256()
        for words in (self.corpus.ids, self.corpus.texts, self.queries):
            digest.update(f"{len(words)};".encode())
            for word in words:
                content = word.encode("utf-8", "surrogatepass")
                digest.update(f"{len(content)}:".encode() + content)
        for array in (self.relevant.rows, self.relevant.gains, self.relevant.starts):
            digest.update(array.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class RetrievalSource:
    """The files of a task: pairs, a folder in BEIR's layout, or a corpus with queries and judgements.

    >>> RetrievalSource("sample/pairs").read().metadata["texts"]
    60
    >>> len(RetrievalSource("sample/sentences", "sample/queries").read().queries)
    6
    """

    data: Dataset | str  # its limit keeps the first rows of the corpus and of the queries
    queries: str | None = None
    qrels: str | None = None
    where: str | None = None  # COLUMN=VALUE: only these pairs are queries
    min_score: float | None = None  # only pairs with at least this score are queries

    def __post_init__(self) -> None:
        if self.where is not None and "=" not in self.where:
            raise UsageError(f"--where takes COLUMN=VALUE, such as source=news, not {self.where!r}")

    @property
    def dataset(self) -> Dataset:
        """The pairs, or the corpus."""
        return Dataset(self.data) if isinstance(self.data, str) else self.data

    def read(self) -> RetrievalTask:
        """The whole task; files are read in full."""
        name = self.dataset.name
        files = beir_files(name, self.dataset.data_dir, self.queries, self.qrels)
        if files is None and self.queries is not None:
            files = JudgedFiles(name, self.queries, self.qrels)
        if files is None and self.qrels is not None:
            raise UsageError("--qrels judges a corpus's texts for queries; give --queries too")
        if files is None:
            return self._pairs()
        if self.where is not None or self.min_score is not None:
            raise UsageError("--where and --min-score choose among pairs; leave them out for a corpus with queries")
        return self._judged_task(files)

    def _pairs(self) -> RetrievalTask:
        read: Callable[..., Iterator[Pair | ScoredPair]] = read_pairs if self.min_score is None else read_scored_pairs
        skipped = SkippedRows()
        try:
            found = self.dataset.stream(read, skipped)
        except DataError as error:
            raise DataError(f"{error}{self._corpus_hint()}") from error
        pairs = list(found)
        chosen = [row for row, pair in enumerate(pairs) if self._is_query(pair)]
        if not chosen:
            raise DataError(f"{self.dataset.name}: no pair has {self._condition}; {self._values(pairs)}")
        corpus = Corpus([pair.id for pair in pairs], [pair.left for pair in pairs])
        queries = [pairs[row].right for row in chosen]
        name = ", ".join(part for part in (self.dataset.name, self._condition) if part)
        return RetrievalTask(name, corpus, queries, Relevant.single(chosen), skipped=skipped.count)

    def _corpus_hint(self) -> str:
        """The cure for a file that has texts but no pairs."""
        try:
            self.dataset.stream(read_texts)
        except DataError:
            return ""
        return "; or, to search these texts, give --queries"

    @property
    def _condition(self) -> str:
        """Which pairs are queries, in words; empty if all are."""
        least = "" if self.min_score is None else f"score >= {self.min_score:g}"
        return ", ".join(part for part in (self.where, least) if part)

    def _is_query(self, pair: Pair | ScoredPair) -> bool:
        if self.min_score is not None and isinstance(pair, ScoredPair) and pair.score < self.min_score:
            return False
        if self.where is None:
            return True
        column, _, value = self.where.partition("=")
        if column not in pair.meta:
            names = ", ".join(map(shown, pair.meta)) or "none"
            flaw = f"no column {shown(column)} next to the texts (--where)"
            raise DataError(f"{self.dataset.name}: {flaw}; there are {names}")
        return pair.meta[column] == value

    def _values(self, pairs: Sequence[Pair | ScoredPair]) -> str:
        if self.where is None:
            return f"the highest score is {max(pair.score for pair in pairs if isinstance(pair, ScoredPair)):g}"
        column = self.where.partition("=")[0]
        values = list(dict.fromkeys(pair.meta[column] for pair in pairs))
        return f"{shown(column)} has {', '.join(map(shown, values[:8]))}{' ...' if len(values) > 8 else ''}"

    def _judged_task(self, files: JudgedFiles) -> RetrievalTask:
        bad: list[DataError] = []
        everything, on_bad = replace(self.dataset, limit=None), bad.append if self.dataset.skip_bad else None
        documents = replace(everything, name=str(files.corpus)).stream(read_documents, bad.append)
        corpus = Corpus.of((text.id, text.text) for text in documents)
        try:
            _ = corpus.row_of
        except DataError as error:
            raise DataError(f"{files.corpus}: {error}") from error
        queries = list(replace(everything, name=str(files.queries)).stream(read_queries, bad.append))
        found = judged_rows(corpus, queries, files, self.dataset.data_dir, on_bad)
        limit = self.dataset.limit
        gains = [{row: gain for row, gain in each.items() if limit is None or row < limit} for each in found[:limit]]
        if not any(gains):
            cure = f"check the ids in {files.qrels or files.queries}"
            raise DataError(f"{self.dataset.name}: no query has a relevant text; {cure}")
        texts = [query.text for query, each in zip(queries, gains, strict=False) if each]
        cut = Corpus(corpus.ids[:limit], corpus.texts[:limit])
        relevant = Relevant.of(each for each in gains if each)
        return RetrievalTask(self.dataset.name, cut, texts, relevant, len(gains) - len(texts), len(bad))


def judged_rows(
    corpus: Corpus, queries: Sequence[Query], files: JudgedFiles, data_dir: Path | None, on_bad: OnBad | None
) -> list[dict[int, float]]:
    """The gain of each relevant row, query by query; an unknown id or a second judgement is a bad row."""
    named = (Judgement(query.id, text, 1.0, query.location) for query in queries for text in query.relevant)
    judgements: Iterator[Judgement] = named
    if files.qrels is not None:
        judgements = read_qrels(files.qrels, data_dir=data_dir, on_bad=on_bad)
    elif not any(query.relevant for query in queries):
        cure = "add a column relevant, or give --qrels"
        raise DataError(f"{files.queries}: no query names its relevant texts; {cure}")
    found: dict[str, dict[int, float]] = {}
    for query in queries:
        if query.id in found:
            raise DataError(f"{query.location}: the id {shown(query.id)} names two queries; give each an id of its own")
        found[query.id] = {}
    seen: set[tuple[str, str]] = set()
    for one in judgements:
        flaw = None
        if one.query not in found:
            flaw = f"no query {shown(one.query)} in {files.queries}; correct the id, or skip it with --skip-bad"
        elif one.text not in corpus.row_of:
            flaw = f"no text {shown(one.text)} in {files.corpus}; correct the id, or skip it with --skip-bad"
        elif (one.query, one.text) in seen:
            flaw = f"query {shown(one.query)} and text {shown(one.text)} are judged twice; keep one of the rows"
        if flaw is None:
            seen.add((one.query, one.text))
            if one.gain > 0:
                found[one.query][corpus.row_of[one.text]] = one.gain
        elif on_bad is None:
            raise one.location.error(flaw)
        else:
            on_bad(one.location.error(flaw))
    return list(found.values())


class EncodedRanker(BlockRanker):
    """Ranks by the cosines of given vectors of length 1: the texts' (n, d), and the (m, d) of m distinct queries."""

    name = "dense"

    def __init__(self, texts: Vectors, query_vectors: Vectors, row_of: Mapping[str, int]) -> None:
        self.texts, self.query_vectors, self.row_of, self.size = texts, query_vectors, row_of, len(texts)

    def prepared(self, queries: Sequence[str]) -> list[int]:
        """The row of each query's vector."""
        return [self.row_of[query] for query in queries]

    def scores(self, queries: list[int]) -> Scores:
        """The cosines (b, n) of some queries with all texts."""
        return self.query_vectors[queries] @ self.texts.T


def encoded_rankers(
    encoder: Encoder, variants: Sequence[PoolingConfig], task: RetrievalTask, progress: Progress | None = None
) -> tuple[list[EncodedRanker], int]:
    """A ranker for each pooling, from one forward pass over each distinct text; and how many texts were cut.

    Texts get the model's prompt for documents, queries its prompt for queries.
    """
    prompts = [encoder.modules_config.prompt_for(role) for role in ("document", "query")]
    sides = [list(dict.fromkeys(task.corpus.texts)), list(dict.fromkeys(task.queries))]
    if prompts[0] == prompts[1]:
        prompts, sides = prompts[:1], [list(dict.fromkeys(sides[0] + sides[1]))]
    encoded = [
        encode_variants(encoder, texts, variants, prompt=prompt, progress=progress)
        for prompt, texts in zip(prompts, sides, strict=True)
    ]
    row_of = [{text: row for row, text in enumerate(texts)} for texts in sides]
    rows = [row_of[0][text] for text in task.corpus.texts]
    rankers = []
    for which in range(len(variants)):
        units = [unit(side[which].vectors) for side in encoded]
        rankers.append(EncodedRanker(units[0][rows], units[-1], row_of[-1]))
    return rankers, sum(side[0].truncated for side in encoded)


def evaluate_ranker(
    ranker: Ranker, task: RetrievalTask, setting: Setting, ks: Sequence[int] = KS, truncated: int = 0,
    progress: Progress | None = None,
) -> RetrievalResult:  # fmt: skip
    """Rank the relevant texts of every query and average over the queries."""
    ks = checked_ks(ks)
    found = ranks(ranker.score_blocks(task.queries), task.relevant, progress)
    metadata = task.metadata | {"truncated": truncated}
    return retrieval_result(task.name, setting, positions(found, task.relevant), task.relevant, ks, metadata)


def evaluate_retrieval(
    encoder: Encoder | Source, task: RetrievalTask, ks: Sequence[int] = KS, progress: Progress | None = None
) -> RetrievalResult:
    """How well an encoder's cosines find the relevant texts.

    >>> result = evaluate_retrieval("minilm", RetrievalSource("sample/pairs").read())
    >>> result.n, result.recall[10].value > 0.9
    (60, True)
    """
    encoder = as_encoder(encoder)
    [ranker], truncated = encoded_rankers(encoder, [encoder.pooling_config], task, progress)
    return evaluate_ranker(ranker, task, dense_setting(encoder), ks, truncated, progress)


def dense_setting(encoder: Encoder, ranker: str = "dense") -> Setting:
    """The encoder, its pooling and its layers, as results name them."""
    layers = tuple(sorted(set(encoder.pooling_config.layers_of(encoder.model_view.layers))))
    return Setting(ranker, encoder.name, encoder.pooling_config.pooling, layers)
