"""Baselines by name, chance and hybrids: what a model's ranking is compared with."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.encoder import Source
from likewise.errors import UsageError
from likewise.search.lexical import BagOfWords, Bm25, InputEmbeddings, StaticVectors, TfIdf
from likewise.search.ranker import TIE, Blocks, Ranker, Scores, block_rows


class Chance:
    """Random scores from 0 to 1, the same ones each time for a seed, a query and a number of texts.

    >>> ranker = Chance(["A cat sat.", "A dog ran."], seed=1)
    >>> first, second = (scores for _, scores in [*ranker.score_blocks(["cat"]), *ranker.score_blocks(["cat"])])
    >>> bool((first == second).all()), first.shape
    (True, (1, 2))
    """

    name = "random"
    floor = -np.inf
    """no score means that there is nothing in common"""

    def __init__(self, texts: Sequence[str], seed: int = 0) -> None:
        self._size, self._seed = len(texts), seed

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """Random scores (b, n) of each query with all texts, block by block."""
        rows = block_rows(self._size)
        for start in range(0, len(queries), rows):
            yield start, np.stack([self._scores(query) for query in queries[start : start + rows]])

    def _scores(self, query: str) -> Scores:
        # Drawn from the query itself, so that neither the block nor the order of the queries matters.
        source = f"{self._seed} {self._size} {query}".encode("utf-8", "surrogatepass")
        entropy = np.frombuffer(hashlib.sha256(source).digest(), np.uint32)
        return np.random.default_rng(entropy).random(self._size, dtype=np.float32)


class Hybrid:
    """Reciprocal rank fusion (Cormack et al. 2009), scaled so that a text that all rankers put first scores 1.

    Each of r rankers gives a text of rank ``k`` among its ``depth`` best ``(constant + 1) / (constant + k) / r``.
    Texts of equal score share their best rank, and all of them count if one does: the order of the corpus decides
    nothing. Texts at a ranker's ``floor`` (no word in common: 0 by BM25 and TF-IDF) get nothing from it, while a
    cosine of dense vectors is ranked even below 0.

    >>> texts = ["A cat sat.", "A dog ran."]
    >>> [scores.tolist() for _, scores in Hybrid([Bm25(texts), TfIdf(texts)]).score_blocks(["dog"])]
    [[[0.0, 1.0]]]
    """

    floor = 0.0
    """the score of a text that no ranker has among its best"""

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
            fused = np.zeros(first.shape, np.float32)
            for ranker, (_, scores) in zip(self.rankers, blocks, strict=True):
                for index, row in enumerate(scores):
                    fused[index] += self._credits(row, ranker.floor)
            yield start, fused

    def _credits(self, scores: Scores, floor: float) -> Scores:
        """What one ranker's scores (n,) of one query are worth: (n,)."""
        worth = scores > floor
        if self.depth < len(scores):
            worth &= scores >= np.partition(scores, -self.depth)[-self.depth] - TIE
        chosen = np.flatnonzero(worth)
        chosen = chosen[np.argsort(scores[chosen])]
        ascending = scores[chosen].astype(np.float64)
        better = len(chosen) - np.searchsorted(ascending, ascending + TIE, side="right")
        credits = np.zeros(len(scores), np.float32)
        credits[chosen] = (self.constant + 1) / (self.constant + 1 + better) / len(self.rankers)
        return credits


def _static(texts: Sequence[str], vectors: Path | None) -> Ranker:
    if vectors is None:
        raise UsageError(
            "the baseline static needs word vectors; give --vectors FILE, or take input-embeddings, which needs no file"
        )
    return StaticVectors(texts, vectors)


def _input_embeddings(texts: Sequence[str], encoder: Encoder | Source | None) -> Ranker:
    if encoder is None:
        raise UsageError("the baseline input-embeddings needs a model; give one with --model NAME")
    return InputEmbeddings(texts, encoder)


BASELINES: dict[str, Callable[[Sequence[str], Encoder | Source | None, Path | None, int], Ranker]] = {
    "bow": lambda texts, *_: BagOfWords(texts),
    "tfidf": lambda texts, *_: TfIdf(texts),
    "bm25": lambda texts, *_: Bm25(texts),
    "static": lambda texts, _encoder, vectors, _seed: _static(texts, vectors),
    "input-embeddings": lambda texts, encoder, _vectors, _seed: _input_embeddings(texts, encoder),
    "random": lambda texts, _encoder, _vectors, seed: Chance(texts, seed),
}
"""Each takes the texts, an encoder, a file of word vectors and a seed."""
RANKERS = ("dense", *BASELINES, "hybrid")
"""All ways to rank: a model's vectors, the baselines, and BM25 with a model."""


def check_ranker(name: str) -> None:
    """Rejects an unknown ranker before any work."""
    if name not in RANKERS:
        raise UsageError(f"unknown ranker {name!r}; choose from {', '.join(RANKERS)}")


def baseline(
    name: str, texts: Sequence[str], *, encoder: Encoder | Source | None = None, vectors: Path | None = None,
    seed: int = 0,
) -> Ranker:  # fmt: skip
    """The baseline of a name over a corpus's texts.

    >>> baseline("bm25", ["A cat sat.", "A dog ran."]).name
    'bm25'
    """
    builder = BASELINES.get(name)
    if builder is None:
        raise UsageError(f"unknown baseline {name!r}; choose from {', '.join(BASELINES)}")
    return builder(texts, encoder, vectors, seed)
