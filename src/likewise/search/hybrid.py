"""Hybrid search: several rankers fused by the ranks that they give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from likewise.errors import UsageError
from likewise.search.ranker import Blocks, Ranker, Scores
from likewise.search.ranks import TIE


class Hybrid:
    """Reciprocal rank fusion (Cormack et al. 2009), scaled so that a text that all rankers put first scores 1.

    Each of r rankers gives a text of rank ``k`` among its ``depth`` best ``(constant + 1) / (constant + k) / r``.
    Texts of equal score share their best rank, and all of them are in if one is: where a text stands in the
    corpus decides nothing. Texts at a ranker's ``floor`` (no word in common: 0 by BM25 and TF-IDF) get nothing from
    it, while a cosine of dense vectors is ranked even below 0.

    >>> from likewise.search.bm25 import Bm25
    >>> from likewise.search.lexical import TfIdf
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
