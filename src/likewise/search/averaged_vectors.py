"""Rankers by averages of vectors of words or tokens, compared by cosine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.data.word_vectors import WordVectors, read_word_vectors
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.forward import windows
from likewise.encoder.similarity import Vectors, similarity, unit
from likewise.encoder.tokens import report_truncation
from likewise.search.ledger import HitLedgers, ScoreLedger, Term
from likewise.search.ranker import BlockRanker, Scores
from likewise.search.words import cased_words, occurrences

if TYPE_CHECKING:
    from likewise.search.hits import Hit

SINGLE = 1e-5  # How far sums of vectors in single precision may miss their score
WINDOW = 16384  # Texts whose words are in memory at a time
Units = tuple[list[tuple[str, int, int]], Vectors]  # Words or tokens with their characters, and their vectors (m, d)


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

    def units(self, text: str) -> Units:
        """The words or tokens that count, each with its start and end in the text, and their vectors (m, d)."""
        raise NotImplementedError

    def ledgers(self, query: str, hits: Sequence[Hit], rows: Sequence[int], **options: Any) -> list[HitLedgers]:  # noqa: ARG002
        """Why each hit has its score: an average is a sum, and so is its product with another one."""
        asked, found = self.units(query), []
        for hit in hits:
            own = self.units(hit.text)
            by_text, by_query = (
                ScoreLedger(hit.score, terms, tolerance=SINGLE, measure="cosine")
                for terms in (_terms(own, asked[1], True), _terms(asked, own[1], False))
            )
            found.append(HitLedgers(by_text, by_query))
        return found


def _terms(units: Units, other: Vectors, in_text: bool) -> tuple[Term, ...]:
    """What each unit adds to the cosine of the average of all of them and the average of other vectors (m, d)."""
    names, vectors = units
    one, two = (each.astype(np.float64).sum(0) for each in (vectors, other))
    shares = vectors @ two / (np.linalg.norm(one) * np.linalg.norm(two) or 1.0)
    return tuple(
        Term(name, share, ((start, end),) if in_text else ())
        for (name, start, end), share in zip(names, shares.tolist(), strict=True)
    )


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
        known = self._looked_up_in(texts)
        return _in_windows(
            texts, lambda some: averages([known.rows_of(cased_words(text)) for text in some], known.matrix)
        )

    def _looked_up_in(self, texts: Sequence[str]) -> WordVectors:
        """The vectors of all words so far and of those of the texts."""
        new, known = {word for text in texts for word in cased_words(text)} - self._looked_up, self._known
        if new or known is None:
            found = read_word_vectors(self._path, new)
            self._known = known = found if known is None else known.joined(found)
            self._looked_up |= new
        return known

    def units(self, text: str) -> Units:
        """The known words of a text and their vectors (m, d)."""
        known = self._looked_up_in([text])
        rows = [(word, known.rows_of([word[0]])) for word in occurrences(text, lower=False)]
        found = [(word, row) for word, (row,) in ((word, own) for word, own in rows if own)]
        return [word for word, _ in found], known.matrix[[row for _, row in found]]


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

    def units(self, text: str) -> Units:
        """The tokens of a text, without special ones, and their embeddings (m, d)."""
        (tokens,) = self._encoder.tokenizer.tokenize([text])
        special = set(self._encoder.tokenizer.special_ids())
        kept = [index for index, token in enumerate(tokens.ids) if token not in special]
        table = self._encoder.model_view.embeddings.word.weight.detach()
        named = [
            (text[slice(*tokens.offsets[index])] or tokens.tokens[index], *tokens.offsets[index]) for index in kept
        ]
        rows = table[[tokens.ids[index] for index in kept]].float().cpu().numpy()
        return named, rows


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
