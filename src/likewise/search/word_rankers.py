"""Rankers of words: word counts, TF-IDF and BM25, whose scores are sums over the query's words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.errors import MissingExtra, UsageError
from likewise.grammar.spans import Span
from likewise.search.ledger import HitLedgers, ScoreLedger, Term
from likewise.search.ranker import BlockRanker, Scores
from likewise.search.words import occurrences, words

if TYPE_CHECKING:
    from likewise.search.hits import Hit

Occurrences = dict[str, tuple[Span, ...]]


class WordRanker(BlockRanker):
    """A ranker whose scores are sums over the query's words that occur in a text."""

    floor = 0.0  # no word in common
    measure: str

    def terms(self, query: str, text: str, found: Occurrences) -> Iterable[Term]:
        """What each word of the query that the corpus has adds to the score of a text with these occurrences."""
        raise NotImplementedError

    def ledger(self, query: str, hit: Hit) -> ScoreLedger:
        """The score of a hit as the sum over the query's words."""
        found: dict[str, list[Span]] = {}
        for word, start, end in occurrences(hit.text):
            found.setdefault(word, []).append((start, end))
        terms = tuple(self.terms(query, hit.text, {word: tuple(spans) for word, spans in found.items()}))
        return ScoreLedger(hit.score, terms, measure=self.measure)

    def ledgers(self, query: str, hits: Sequence[Hit], rows: Sequence[int], **options: Any) -> list[HitLedgers]:  # noqa: ARG002
        """Why each hit has its score; the options are those of a model, which a hybrid may have too."""
        return [HitLedgers.of(self.ledger(query, hit)) for hit in hits]


class WordCosine(WordRanker):
    """The cosine of the vectors that a scikit-learn vectorizer, fitted to the texts, makes of texts and queries."""

    name: str
    measure = "cosine"

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
        scores = np.zeros((len(queries), self.size))
        if self._vectorizer is None:
            return scores
        vectors = self._normalize(self._vectorizer.transform(queries))
        for row, (first, last) in zip(scores, pairwise(vectors.indptr), strict=True):
            # Word by word takes a quarter of the time of a sparse product, which first makes a sparse result.
            for column, weight in zip(vectors.indices[first:last].tolist(), vectors.data[first:last], strict=True):
                postings = slice(self._starts[column], self._starts[column + 1])
                np.add.at(row, self._rows[postings], weight * self._values[postings])
        return scores

    def terms(self, query: str, text: str, found: Occurrences) -> Iterable[Term]:
        """The product of the two vectors' components for each word of the query."""
        if self._vectorizer is None:
            return
        asked, own = self._normalize(self._vectorizer.transform([query, text]))
        weights = dict(zip(own.indices.tolist(), own.data.tolist(), strict=True))
        column_of = {int(column): weight for column, weight in zip(asked.indices, asked.data.tolist(), strict=True)}
        for word in dict.fromkeys(words(query)):
            column = self._vectorizer.vocabulary_.get(word)
            if column in column_of:
                weight, share = column_of[column], weights.get(column, 0.0)
                detail = {"query_weight": weight, "text_weight": share}
                yield Term(word, weight * share, found.get(word, ()), detail=detail)


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
    return own | {"stop_words": stop_words, "dtype": np.float64}


class Bm25(WordRanker):
    """BM25 as Lucene computes it (by bm25s), over all words in lower case: no stemming, no stop words.

    A word in ``d`` of ``n`` texts, ``f`` times in a text of length ``l`` (on average ``m``), adds
    ``log(1 + (n - d + 0.5) / (d + 0.5)) * f / (f + k1 * (1 - b + b * l / m))`` each time the query has it.
    """

    name = measure = "bm25"

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
        self.k1, self.b, self.average_length = k1, b, sum(map(len, rows)) / max(1, len(rows))
        # Double precision, so that the terms of a ledger sum to the score.
        self._index = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64")
        if self._row_of:  # bm25s does not take texts without any word
            self._index.index((rows, self._row_of), create_empty_token=False, show_progress=False)

    def scores(self, queries: Sequence[str]) -> Scores:
        """The BM25 scores (b, n) of some queries with all texts."""
        scores = np.zeros((len(queries), self.size))
        for row, query in zip(scores, queries, strict=True):
            known = [self._row_of[word] for word in words(query) if word in self._row_of]
            if known:
                row[:] = self._index.get_scores_from_ids(known)
        return scores

    def terms(self, query: str, text: str, found: Occurrences) -> Iterable[Term]:  # noqa: ARG002
        """The formula's value for each word of the query, with its factors."""
        length = sum(map(len, found.values()))
        norm = self.k1 * (1 - self.b + self.b * length / self.average_length) if self._row_of else 1.0
        for word, times in Counter(words(query)).items():
            if word in self._row_of:
                row, count = self._row_of[word], len(found.get(word, ()))
                texts = int(self._index.scores["indptr"][row + 1] - self._index.scores["indptr"][row])
                idf = math.log(1 + (self.size - texts + 0.5) / (texts + 0.5))
                detail = {"idf": idf, "tf": count, "norm": norm, "texts": texts, "in_query": times}
                value = times * idf * count / (count + norm) if count else 0.0
                yield Term(word, value, found.get(word, ()), detail=detail)
