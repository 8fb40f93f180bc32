"""BM25, the word-matching ranker that others are measured against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.errors import MissingExtra, UsageError
from likewise.search.lexical import words
from likewise.search.ranker import Blocks, block_rows


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
        self._index = _index(rows, self._row_of, k1, b)

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


def _index(rows: list[list[int]], row_of: dict[str, int], k1: float, b: float) -> Any:
    """The bm25s index of texts as lists of word numbers; None where no text has a word, which bm25s cannot take."""
    try:
        import bm25s
    except ImportError as error:
        raise MissingExtra("bm25s", "search") from error
    if not row_of:
        return None
    index = bm25s.BM25(k1=k1, b=b, method="lucene")
    index.index((rows, row_of), create_empty_token=False, show_progress=False)
    return index
