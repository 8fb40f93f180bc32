"""Rankers that compare words: counts, TF-IDF, BM25, and averages of word vectors without any context."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data.word_vectors import read_word_vectors
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source, Vectors, similarity, unit
from likewise.encoder.forward import windows
from likewise.encoder.tokens import report_truncation
from likewise.errors import MissingExtra, UsageError
from likewise.progress import Progress
from likewise.search.ranker import Blocks, Scores, block_rows

# scikit-learn's own pattern drops words of one letter: the 5 of "5 killed", and every part of "U.S.".
WORD = re.compile(r"\w+")
WINDOW = 16384
"""Texts whose words are in memory at a time."""


def words(text: str) -> list[str]:
    """The words of a text: runs of letters, digits and underscores, in lower case.

    >>> words("U.S. troops: 5 killed")
    ['u', 's', 'troops', '5', 'killed']
    """
    return cased_words(text.lower())


def cased_words(text: str) -> list[str]:
    """``words`` in their original case.

    >>> cased_words("U.S. troops")
    ['U', 'S', 'troops']
    """
    # NFC, so that an accent that is a character of its own does not split its word.
    return WORD.findall(unicodedata.normalize("NFC", text))


class WordCosine:
    """The cosine of the vectors that a scikit-learn vectorizer, fitted to the texts, makes of texts and queries."""

    name: str
    floor = 0.0
    """the score of a text that has no word in common with the query"""

    def __init__(self, texts: Sequence[str], vectorizer: Any) -> None:
        from sklearn.preprocessing import normalize

        self._size, self._normalize = len(texts), normalize
        # scikit-learn rejects texts without a single word; here nothing matches them.
        self._vectorizer = vectorizer if any(map(vectorizer.build_analyzer(), texts)) else None
        if self._vectorizer is not None:
            postings = normalize(vectorizer.fit_transform(texts)).tocsc()
            self._starts, self._values = postings.indptr.tolist(), postings.data
            self._rows = postings.indices.astype(np.intp)  # np.add.at converts other types at each call

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The cosines (b, n) of each query with all texts, block by block."""
        rows = block_rows(self._size)
        for start in range(0, len(queries), rows):
            some = queries[start : start + rows]
            scores = np.zeros((len(some), self._size), np.float32)
            if self._vectorizer is not None:
                vectors = self._normalize(self._vectorizer.transform(some))
                for index, (first, last) in enumerate(pairwise(vectors.indptr)):
                    scores[index] = self._scores(vectors.indices[first:last].tolist(), vectors.data[first:last])
            yield start, scores

    def _scores(self, columns: list[int], weights: Scores) -> Scores:
        """The cosines (n,) of all texts with a query that has these words with these weights."""
        scores = np.zeros(self._size, np.float32)
        # Word by word takes a quarter of the time of a sparse product, which first makes a sparse result.
        for column, weight in zip(columns, weights, strict=True):
            postings = slice(self._starts[column], self._starts[column + 1])
            np.add.at(scores, self._rows[postings], weight * self._values[postings])
        return scores


class BagOfWords(WordCosine):
    """The count of each word, compared by cosine. Words that the corpus lacks do not count.

    ``stop_words`` is scikit-learn's: None keeps all words, "english" drops its list.

    >>> ranker = BagOfWords(["A cat sat.", "A dog ran."])
    >>> [(_, scores)] = ranker.score_blocks(["cat"])
    >>> scores.round(2)
    array([[0.58, 0.  ]], dtype=float32)
    """

    name = "bow"

    def __init__(self, texts: Sequence[str], stop_words: str | list[str] | None = None) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        super().__init__(texts, CountVectorizer(**_settings(stop_words)))


class TfIdf(WordCosine):
    """Word counts weighted by how rare a word is in the corpus, compared by cosine.

    A word in ``d`` of ``n`` texts weighs ``1 + log((1 + n) / (1 + d))``; words that the corpus lacks do not count.

    >>> ranker = TfIdf(["A cat sat.", "A dog ran."])
    >>> [(_, scores)] = ranker.score_blocks(["a dog"])
    >>> scores.round(2)
    array([[0.26, 0.78]], dtype=float32)
    """

    name = "tfidf"

    def __init__(self, texts: Sequence[str], stop_words: str | list[str] | None = None) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        super().__init__(texts, TfidfVectorizer(**_settings(stop_words), norm=None))


def _settings(stop_words: str | list[str] | None) -> dict[str, Any]:
    own = {"tokenizer": words, "token_pattern": None, "lowercase": False}
    return own | {"stop_words": stop_words, "dtype": np.float32}


class Bm25:
    """BM25 as Lucene computes it (by bm25s), over all words in lower case: no stemming, no stop words.

    A word in ``d`` of ``n`` texts, ``f`` times in a text of length ``l`` (on average ``m``), adds
    ``log(1 + (n - d + 0.5) / (d + 0.5)) * f / (f + k1 * (1 - b + b * l / m))`` each time the query has it.

    >>> ranker = Bm25(["A cat sat.", "A dog ran.", "A cat ran."])
    >>> [(_, scores)] = ranker.score_blocks(["cat", "bird"])
    >>> scores.round(2)
    array([[0.19, 0.  , 0.19],
           [0.  , 0.  , 0.  ]], dtype=float32)
    """

    name = "bm25"
    floor = 0.0
    """the score of a text that has no word in common with the query"""

    def __init__(self, texts: Sequence[str], k1: float = 1.5, b: float = 0.75) -> None:
        if not 0 <= k1 < math.inf or not 0 <= b <= 1:
            raise UsageError(f"BM25 with k1={k1} and b={b}; choose k1 of at least 0, and b from 0 to 1")
        self._size = len(texts)
        self._row_of: dict[str, int] = {}
        rows = [[self._row_of.setdefault(word, len(self._row_of)) for word in words(text)] for text in texts]
        self._index = _bm25_index(rows, self._row_of, k1, b)

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The BM25 scores (b, n) of each query with all texts, block by block."""
        rows = block_rows(self._size)
        for start in range(0, len(queries), rows):
            some = queries[start : start + rows]
            scores = np.zeros((len(some), self._size), np.float32)
            for row, query in zip(scores, some, strict=True):
                known = [self._row_of[word] for word in words(query) if word in self._row_of]
                if known:
                    row[:] = self._index.get_scores_from_ids(known)
            yield start, scores


def _bm25_index(rows: list[list[int]], row_of: dict[str, int], k1: float, b: float) -> Any:
    """The bm25s index of texts as lists of word numbers; None if no text has a word, which bm25s does not take."""
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtra("bm25s", "search") from error
    if not row_of:
        return None
    index = bm25s.BM25(k1=k1, b=b, method="lucene")
    index.index((rows, row_of), create_empty_token=False, show_progress=False)
    return index


class StaticVectors:
    """The average of the words' vectors from a GloVe, word2vec or fastText text file, compared by cosine.

    Words are looked up as they are written, then in lower case; a text without a known word scores 0. Words that
    only queries have are looked up with the query, in one more pass over the file.

    >>> ranker = StaticVectors(["A cat sat."], "glove.6B.50d.txt")  # doctest: +SKIP
    >>> [scores.shape for _, scores in ranker.score_blocks(["a dog", "a bird"])]  # doctest: +SKIP
    [(2, 1)]
    """

    name = "static"
    floor = -np.inf
    """a cosine of 0 does not mean that there is nothing in common"""

    def __init__(self, texts: Sequence[str], path: str | Path, progress: Progress | None = None) -> None:
        self._path = path
        self._looked_up = _vocabulary(texts)
        self._known = read_word_vectors(path, self._looked_up, progress=progress)
        self._texts = unit(self._averages(texts))

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The cosines (b, n) of each query with all texts, block by block."""
        new = _vocabulary(queries) - self._looked_up
        if new:
            self._known = self._known.joined(read_word_vectors(self._path, new))
            self._looked_up |= new
        return _cosine_blocks(self._averages(queries), self._texts)

    def _averages(self, texts: Sequence[str]) -> Vectors:
        known = self._known
        return _in_windows(
            texts, lambda some: averages([known.rows_of(cased_words(text)) for text in some], known.matrix)
        )


class InputEmbeddings:
    """The average of the model's own word embeddings of a text's tokens, before any layer, compared by cosine.

    Positions, special tokens and prompts do not count; a text is cut at the model's limit.

    >>> ranker = InputEmbeddings(["A cat sat.", "A dog ran."], "minilm")
    >>> [int(scores.argmax()) for _, scores in ranker.score_blocks(["the dogs were running"])]
    [1]
    """

    name = "input-embeddings"
    floor = -np.inf
    """a cosine of 0 does not mean that there is nothing in common"""

    def __init__(self, texts: Sequence[str], encoder: Encoder | Source) -> None:
        self._encoder = as_encoder(encoder)
        self._texts = unit(self._averages(texts))

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The cosines (b, n) of each query with all texts, block by block."""
        return _cosine_blocks(self._averages(queries), self._texts)

    def _averages(self, texts: Sequence[str]) -> Vectors:
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
    """The average (n, d) of each text's rows of a matrix (v, d); the zero vector for a text without any.

    >>> averages([[0, 0, 1], []], np.eye(2, dtype=np.float32)).round(2)
    array([[0.67, 0.33],
           [0.  , 0.  ]], dtype=float32)
    """
    from scipy.sparse import csr_array

    lengths = np.array([len(row) for row in rows], np.int64)
    flat = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    ends = np.concatenate([[0], lengths.cumsum()])
    counts = csr_array((np.ones(len(flat), np.float32), flat, ends), shape=(len(rows), len(matrix)))
    # A word that occurs a million times is one product, not a million sums with a rounding each.
    counts.sum_duplicates()
    total: Vectors = counts @ matrix
    return total / np.maximum(lengths, 1).astype(np.float32)[:, None]


def _vocabulary(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in cased_words(text)}


def _in_windows(texts: Sequence[str], average: Callable[[Sequence[str]], Vectors]) -> Vectors:
    """The vectors (n, d) of texts, some thousand texts at a time."""
    return np.concatenate([average(some) for some in windows(texts, WINDOW)] or [average([])])


def _cosine_blocks(queries: Vectors, texts: Vectors) -> Blocks:
    """The cosines of queries (q, d) with texts (n, d) of length 1, block by block."""
    rows = block_rows(len(texts))
    for start in range(0, len(queries), rows):
        yield start, similarity(unit(queries[start : start + rows]), texts, "dot")
