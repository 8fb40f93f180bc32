"""Rankers by static vectors: the average of a text's word vectors, without any context, compared by cosine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from likewise.data.word_vectors import WordVectors, read_word_vectors
from likewise.encoder import Encoder
from likewise.encoder.batches import windows
from likewise.encoder.encoder import report_truncation
from likewise.encoder.similarity import Vectors, similarity, unit
from likewise.progress import Progress
from likewise.search.lexical import cased_words
from likewise.search.ranker import Blocks, block_rows

WINDOW = 16384
"""Texts whose words are held at a time."""


class StaticVectors:
    """The average of the words' vectors out of a GloVe, word2vec or fastText text file.

    Words are looked up as they are written, then in lower case; a text without a known word scores 0. Words that
    only queries have are looked up when they come, in one more pass over the file.

    >>> ranker = StaticVectors(["A cat sat."], "glove.6B.50d.txt")  # doctest: +SKIP
    >>> [scores.shape for _, scores in ranker.score_blocks(["a dog", "a bird"])]  # doctest: +SKIP
    [(2, 1)]
    """

    name = "static"
    floor = -np.inf
    """a cosine of 0 does not mean that there is nothing in common"""

    def __init__(self, texts: Sequence[str], path: str | Path, progress: Progress | None = None) -> None:
        self._path = path
        self._asked = _vocabulary(texts)
        self._known = read_word_vectors(path, self._asked, progress=progress)
        self._texts = unit(self._averages(texts))

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The cosines (b, n) of each query with all texts, block by block."""
        new = _vocabulary(queries) - self._asked
        if new:
            self._known = self._known.joined(read_word_vectors(self._path, new))
            self._asked |= new
        return _cosine_blocks(self._averages(queries), self._texts)

    def _averages(self, texts: Sequence[str]) -> Vectors:
        known: WordVectors = self._known
        return _in_windows(
            texts, lambda some: averages([known.rows_of(cased_words(text)) for text in some], known.matrix)
        )


class InputEmbeddings:
    """The average of the model's own word embeddings of a text's tokens, before any layer has seen them.

    Neither positions nor special tokens nor a prompt count; a text is cut where the model would cut it.

    >>> ranker = InputEmbeddings(["A cat sat.", "A dog ran."], Encoder.load("minilm", device="cpu"))
    >>> [int(scores.argmax()) for _, scores in ranker.score_blocks(["the dogs were running"])]
    [1]
    """

    name = "input-embeddings"
    floor = -np.inf
    """a cosine of 0 does not mean that there is nothing in common"""

    def __init__(self, texts: Sequence[str], encoder: Encoder) -> None:
        self._encoder = encoder
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
    """The average (n, d) of the rows of a matrix (v, d) that each of n texts has; the zero vector where it has none.

    >>> averages([[0, 0, 1], []], np.eye(2, dtype=np.float32)).round(2)
    array([[0.67, 0.33],
           [0.  , 0.  ]], dtype=float32)
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    flat = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    ends = np.concatenate([[0], lengths.cumsum()])
    counts = csr_array((np.ones(len(flat), np.float32), flat, ends), shape=(len(rows), len(matrix)))
    # A word that comes a million times is one product and not a million sums, each with its rounding.
    counts.sum_duplicates()
    total: Vectors = counts @ matrix
    return total / np.maximum(lengths, 1).astype(np.float32)[:, None]


def _vocabulary(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in cased_words(text)}


def _in_windows(texts: Sequence[str], average: Callable[[Sequence[str]], Vectors]) -> Vectors:
    """The vectors (n, d) of texts, made some thousand texts at a time."""
    return np.concatenate([average(some) for some in windows(texts, WINDOW)] or [average([])])


def _cosine_blocks(queries: Vectors, texts: Vectors) -> Blocks:
    """The cosines of queries (q, d) with texts (n, d) of length 1, block by block."""
    rows = block_rows(len(texts))
    for start in range(0, len(queries), rows):
        yield start, similarity(unit(queries[start : start + rows]), texts, "dot")
