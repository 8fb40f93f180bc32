"""Chance: what a ranker must beat."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from likewise.search.ranker import Blocks, Scores, block_rows


class Chance:
    """Random scores from 0 to 1, the same ones each time for a seed, a query and a number of texts.

    >>> ranker = Chance(["A cat sat.", "A dog ran."], seed=1)
    >>> first, second = (scores for _, scores in [*ranker.score_blocks(["cat"]), *ranker.score_blocks(["cat"])])
    >>> bool((first == second).all()), first.shape
    (True, (1, 2))
    """

    name = "random"
    floor = -np.inf
    """no score says anything"""

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
