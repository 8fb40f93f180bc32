"""Reranking: a ranker finds candidates, and a scorer of pairs, such as a cross-encoder, puts them into order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from likewise.encoder.cross_encoder import Scoring, pair_scores
from likewise.errors import UsageError
from likewise.progress import Progress
from likewise.search.ranker import TIE, Blocks, Ranker, Rows, Scores, Unexplained

CANDIDATES = 100
JOIN = " + "  # Between the names of a ranker and of its reranker


class Reranked(Unexplained):
    """The best texts of a ranker by the scores of a model for (query, text); all others follow in the ranker's order.

    A text's score is minus the number of texts that are better, so ties stay ties. With as many candidates as texts
    the model alone ranks.
    """

    floor = -np.inf

    def __init__(
        self, ranker: Ranker, scoring: Scoring, texts: Sequence[str], candidates: int = CANDIDATES,
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        if candidates < 1:
            raise UsageError(f"candidates must be at least 1, got {candidates}")
        self.ranker, self.scoring, self.texts, self.progress = ranker, scoring, texts, progress
        self.candidates = min(candidates, len(texts))

    @property
    def name(self) -> str:
        """The names of the ranker and of the model."""
        return f"{self.ranker.name}{JOIN}{self.scoring.name}"

    def score_blocks(self, queries: Sequence[str]) -> Blocks:
        """The scores (b, n) of each query with all texts, block by block."""
        for start, block in self.ranker.score_blocks(queries):
            # Of texts that tie, the first in the corpus are candidates.
            chosen = np.argsort(-block, axis=1, kind="stable")[:, : self.candidates]
            pairs = [(queries[start + index], self.texts[row]) for index, rows in enumerate(chosen) for row in rows]
            found = pair_scores(self.scoring, pairs, self.progress).reshape(chosen.shape)
            yield start, np.stack([self._merged(*each) for each in zip(block, chosen, found, strict=True)])

    def _merged(self, first: Scores, chosen: Rows, found: Scores) -> Scores:
        """The ranker's scores (n,), the candidates' rows (k,) and their new scores (k,) -> scores (n,)."""
        better = np.maximum(_better(first), self.candidates)
        better[chosen] = _better(found)
        return -better.astype(np.float32)


def _better(scores: Scores) -> NDArray[np.int64]:
    """How many of the scores (n,) are higher than each by more than a tie: (n,)."""
    ascending = np.sort(scores.astype(np.float64))
    return (len(scores) - np.searchsorted(ascending, scores.astype(np.float64) + TIE, side="right")).astype(np.int64)
