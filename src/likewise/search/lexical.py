"""Rankers that compare words: bag of words and TF-IDF, both by the cosine of word counts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from likewise.search.ranker import Blocks, Scores, block_rows

# scikit-learn's own pattern drops words of one letter: the 5 of "5 killed", and all that its dots leave of "U.S.".
WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text: runs of letters, digits and underscores, in lower case.

    >>> words("U.S. troops: 5 killed")
    ['u', 's', 'troops', '5', 'killed']
    """
    return cased_words(text.lower())


def cased_words(text: str) -> list[str]:
    """``words`` in the case in which they are written.

    >>> cased_words("U.S. troops")
    ['U', 'S', 'troops']
    """
    # Composed, so that an accent written as a character of its own does not break its word in two.
    return WORD.findall(unicodedata.normalize("NFC", text))


class WordCosine:
    """The cosine of the vectors that a scikit-learn vectorizer, fitted to the texts, makes of texts and queries."""

    name: str
    floor = 0.0
    """the score of a text that has no word in common with the query"""

    def __init__(self, texts: Sequence[str], vectorizer: Any) -> None:
        self._size = len(texts)
        # scikit-learn refuses texts without a single word; here they are texts that nothing matches.
        self._vectorizer = vectorizer if any(map(vectorizer.build_analyzer(), texts)) else None
        if self._vectorizer is not None:
            postings = normalize(vectorizer.fit_transform(texts)).tocsc()
            self._starts, self._values = postings.indptr.tolist(), postings.data
            self._rows = postings.indices.astype(np.intp)  # np.add.at would convert others at each call

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The cosines (b, n) of each query with all texts, block by block."""
        rows = block_rows(self._size)
        for start in range(0, len(queries), rows):
            some = queries[start : start + rows]
            scores = np.zeros((len(some), self._size), np.float32)
            if self._vectorizer is not None:
                vectors = normalize(self._vectorizer.transform(some))
                for index, (first, last) in enumerate(pairwise(vectors.indptr)):
                    scores[index] = self._scores(vectors.indices[first:last].tolist(), vectors.data[first:last])
            yield start, scores

    def _scores(self, columns: list[int], weights: Scores) -> Scores:
        """The cosines (n,) of all texts with a query that holds these words with these weights."""
        scores = np.zeros(self._size, np.float32)
        # Word by word takes a quarter of the time of a sparse product, which first makes a sparse result.
        for column, weight in zip(columns, weights, strict=True):
            held = slice(self._starts[column], self._starts[column + 1])
            np.add.at(scores, self._rows[held], weight * self._values[held])
        return scores


class BagOfWords(WordCosine):
    """How often each word occurs, compared by cosine. Words that the corpus lacks do not count.

    ``stop_words`` is scikit-learn's: None keeps all words, "english" drops its list.

    >>> ranker = BagOfWords(["A cat sat.", "A dog ran."])
    >>> [(_, scores)] = ranker.score_blocks(["cat"])
    >>> scores.round(2)
    array([[0.58, 0.  ]], dtype=float32)
    """

    name = "bow"

    def __init__(self, texts: Sequence[str], stop_words: str | list[str] | None = None) -> None:
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
        super().__init__(texts, TfidfVectorizer(**_settings(stop_words), norm=None))


def _settings(stop_words: str | list[str] | None) -> dict[str, Any]:
    return {
        "tokenizer": words,
        "token_pattern": None,
        "lowercase": False,
        "stop_words": stop_words,
        "dtype": np.float32,
    }
