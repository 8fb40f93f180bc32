"""Baseline rankers to compare a model with: word counts, TF-IDF, BM25, averaged word vectors, chance."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import Dataset, SkippedRows, read_texts
from likewise.data.word_vectors import WordVectors, read_word_vectors
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.forward import windows
from likewise.encoder.similarity import Vectors, similarity, unit
from likewise.encoder.tokens import report_truncation
from likewise.errors import MissingExtra, UsageError
from likewise.progress import Progress, Ticker
from likewise.search.documents import EVERYTHING, Origin, Selection, documents
from likewise.search.hits import Hits, check_search
from likewise.search.index import Index, open_store
from likewise.search.ranker import BlockRanker, Corpus, Hybrid, Ranker, Scores, best

# scikit-learn's own pattern drops words of one letter: the 5 of "5 killed", and every part of "U.S.".
WORD = re.compile(r"\w+")
WINDOW = 16384  # Texts whose words are in memory at a time


def words(text: str) -> list[str]:
    """The words of a text: runs of letters, digits and underscores, in lower case.

    >>> words("U.S. troops: 5 killed")
    ['u', 's', 'troops', '5', 'killed']
    """
    return cased_words(text.lower())


def cased_words(text: str) -> list[str]:
    """``words`` in their original case."""
    # NFC, so that an accent that is a character of its own does not split its word.
    return WORD.findall(unicodedata.normalize("NFC", text))


class WordCosine(BlockRanker):
    """The cosine of the vectors that a scikit-learn vectorizer, fitted to the texts, makes of texts and queries."""

    name: str
    floor = 0.0  # no word in common

    def __init__(self, texts: Sequence[str], vectorizer: Any) -> None:
        from sklearn.preprocessing import normalize

        self.size, self._normalize = len(texts), normalize
        # scikit-learn rejects texts without a single word; here nothing matches them.
        self._vectorizer = vectorizer if any(map(vectorizer.build_analyzer(), texts)) else None
        if self._vectorizer is not None:
            postings = normalize(vectorizer.fit_transform(texts)).tocsc()
            self._starts, self._values = postings.indptr.tolist(), postings.data
            self._rows = postings.indices.astype(np.intp)  # np.add.at converts other types at each call

    def scores(self, queries: Sequence[str]) -> Scores:
        """The cosines (b, n) of some queries with all texts."""
        scores = np.zeros((len(queries), self.size), np.float32)
        if self._vectorizer is None:
            return scores
        vectors = self._normalize(self._vectorizer.transform(queries))
        for row, (first, last) in zip(scores, pairwise(vectors.indptr), strict=True):
            # Word by word takes a quarter of the time of a sparse product, which first makes a sparse result.
            for column, weight in zip(vectors.indices[first:last].tolist(), vectors.data[first:last], strict=True):
                postings = slice(self._starts[column], self._starts[column + 1])
                np.add.at(row, self._rows[postings], weight * self._values[postings])
        return scores


class BagOfWords(WordCosine):
    """The count of each word, compared by cosine. Words that the corpus lacks do not count.

    ``stop_words`` is scikit-learn's: None keeps all words, "english" drops its list.
    """

    name = "bow"

    def __init__(self, texts: Sequence[str], stop_words: str | list[str] | None = None) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        super().__init__(texts, CountVectorizer(**_settings(stop_words)))


class TfIdf(WordCosine):
    """Word counts weighted by how rare a word is in the corpus, compared by cosine.

    A word in ``d`` of ``n`` texts weighs ``1 + log((1 + n) / (1 + d))``; words that the corpus lacks do not count.
    """

    name = "tfidf"

    def __init__(self, texts: Sequence[str], stop_words: str | list[str] | None = None) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        super().__init__(texts, TfidfVectorizer(**_settings(stop_words), norm=None))


def _settings(stop_words: str | list[str] | None) -> dict[str, Any]:
    own = {"tokenizer": words, "token_pattern": None, "lowercase": False}
    return own | {"stop_words": stop_words, "dtype": np.float32}


class Bm25(BlockRanker):
    """BM25 as Lucene computes it (by bm25s), over all words in lower case: no stemming, no stop words.

    A word in ``d`` of ``n`` texts, ``f`` times in a text of length ``l`` (on average ``m``), adds
    ``log(1 + (n - d + 0.5) / (d + 0.5)) * f / (f + k1 * (1 - b + b * l / m))`` each time the query has it.
    """

    name = "bm25"
    floor = 0.0  # no word in common

    def __init__(self, texts: Sequence[str], k1: float = 1.5, b: float = 0.75) -> None:
        if not 0 <= k1 < math.inf or not 0 <= b <= 1:
            raise UsageError(f"BM25 with k1={k1} and b={b}; choose k1 of at least 0, and b from 0 to 1")
        self.size = len(texts)
        self._row_of: dict[str, int] = {}
        rows = [[self._row_of.setdefault(word, len(self._row_of)) for word in words(text)] for text in texts]
        try:
            import bm25s
        except ImportError as error:
            raise MissingExtra("bm25s", "search") from error
        self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
        if self._row_of:  # bm25s does not take texts without any word
            self._index.index((rows, self._row_of), create_empty_token=False, show_progress=False)

    def scores(self, queries: Sequence[str]) -> Scores:
        """The BM25 scores (b, n) of some queries with all texts."""
        scores = np.zeros((len(queries), self.size), np.float32)
        for row, query in zip(scores, queries, strict=True):
            known = [self._row_of[word] for word in words(query) if word in self._row_of]
            if known:
                row[:] = self._index.get_scores_from_ids(known)
        return scores


class AveragedVectors(BlockRanker):
    """The averages of vectors of the texts' words or tokens, compared by cosine."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.size = len(texts)
        self._texts = unit(self.averages(texts))

    def averages(self, texts: Sequence[str]) -> Vectors:
        """The average (n, d) of each text."""
        raise NotImplementedError

    def prepared(self, queries: Sequence[str]) -> Vectors:
        """The queries' averages (q, d)."""
        return self.averages(queries)

    def scores(self, queries: Vectors) -> Scores:
        """The cosines (b, n) of some queries' averages (b, d) with all texts."""
        return similarity(unit(queries), self._texts, "dot")


class StaticVectors(AveragedVectors):
    """The average of the words' vectors from a GloVe, word2vec or fastText text file, compared by cosine.

    Words are looked up as they are written, then in lower case; a text without a known word scores 0. Words that
    only queries have are looked up with the query, in one more pass over the file.
    """

    name = "static"

    def __init__(self, texts: Sequence[str], path: str | Path) -> None:
        self._path, self._looked_up = path, set[str]()
        self._known: WordVectors | None = None
        super().__init__(texts)

    def averages(self, texts: Sequence[str]) -> Vectors:
        """The average (n, d) of the known words of each text."""
        new, known = {word for text in texts for word in cased_words(text)} - self._looked_up, self._known
        if new or known is None:
            found = read_word_vectors(self._path, new)
            self._known = known = found if known is None else known.joined(found)
            self._looked_up |= new
        return _in_windows(
            texts, lambda some: averages([known.rows_of(cased_words(text)) for text in some], known.matrix)
        )


class InputEmbeddings(AveragedVectors):
    """The average of the model's own word embeddings of a text's tokens, before any layer, compared by cosine.

    Positions, special tokens and prompts do not count; a text is cut at the model's limit.
    """

    name = "input-embeddings"

    def __init__(self, texts: Sequence[str], encoder: Encoder | Source) -> None:
        self._encoder = as_encoder(encoder)
        super().__init__(texts)

    def averages(self, texts: Sequence[str]) -> Vectors:
        """The average (n, d) of the tokens of each text."""
        tokenizer = self._encoder.tokenizer
        special = set(tokenizer.special_ids())
        table = self._encoder.model_view.embeddings.word.weight.detach().float().cpu().numpy()
        cut = 0

        def average(some: Sequence[str]) -> Vectors:
            nonlocal cut
            ids, number = tokenizer.ids(some)
            cut += number
            return averages([[token for token in row if token not in special] for row in ids], table)

        vectors = _in_windows(texts, average)
        report_truncation(cut, len(texts), tokenizer.limit)
        return vectors


def averages(rows: Sequence[Sequence[int]], matrix: Vectors) -> Vectors:
    """The average (n, d) of each text's rows of a matrix (v, d); the zero vector for a text without any."""
    from scipy.sparse import csr_array

    lengths = np.array([len(row) for row in rows], np.int64)
    flat = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    ends = np.concatenate([[0], lengths.cumsum()])
    counts = csr_array((np.ones(len(flat), np.float32), flat, ends), shape=(len(rows), len(matrix)))
    # A word that occurs a million times is one product, not a million sums with a rounding each.
    counts.sum_duplicates()
    total: Vectors = counts @ matrix
    return total / np.maximum(lengths, 1).astype(np.float32)[:, None]


def _in_windows(texts: Sequence[str], average: Callable[[Sequence[str]], Vectors]) -> Vectors:
    """The vectors (n, d) of texts, some thousand texts at a time."""
    return np.concatenate([average(some) for some in windows(texts, WINDOW)] or [average([])])


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


def hybrid_hits(
    index: Index, queries: Sequence[str], k: int, progress: Progress | None = None, selection: Selection = EVERYTHING
) -> list[Hits]:
    """The k best texts or documents for each query by BM25 and the model together."""
    corpus = index.corpus()
    return ranked_hits(Hybrid([baseline("bm25", corpus.texts), index]), corpus, queries, k, progress, selection)


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
        found = best(totals.astype(np.float32), k)
        for query, scores, rows, row_scores in zip(queries[start:], found.scores, found.rows, block, strict=False):
            # A text that has nothing in common with the query is not a hit.
            pairs = [(row, score) for row, score in zip(rows, scores.tolist(), strict=True) if score > ranker.floor]
            hits = tuple(corpus.hit(groups.best_row(row_scores, row), score) for row, score in pairs)
            results.append(Hits(query, hits, ranker.name))
        ticker.add(len(block))
    ticker.close()
    return results
