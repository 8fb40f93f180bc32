"""Samples: the vectors of chosen occurrences, for what cannot be had from running sums."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.geometry.corpus_stats import Plan
from likewise.geometry.occurrences import Occurrences


class Samples:
    """The contexts of sampled words and random points, as the plan chose them; what was cut off stays out."""

    def __init__(self, plan: Plan, layers: int, width: int, dtype: torch.dtype) -> None:
        self._starts = plan.starts
        self._contexts = torch.zeros(layers, int(plan.starts[-1]), width, dtype=dtype)
        self._points = torch.zeros(layers, len(plan.points), width, dtype=dtype)
        self._found = np.zeros(int(plan.starts[-1]), bool)
        self._sentence_of = np.full(len(plan.points), -1, np.int64)
        self._sentences = 0

    def add(self, batch: Occurrences) -> None:
        """Keep what the plan wants of a batch."""
        for store, rows in ((self._contexts, batch.kept), (self._points, batch.points)):
            if rows:
                indices, targets = zip(*rows, strict=True)
                store[:, list(targets)] = batch.vectors[:, list(indices)]
        self._found[[row for _, row in batch.kept]] = True
        for index, row in batch.points:
            self._sentence_of[row] = self._sentences + int(batch.sentences[index])
        self._sentences += batch.texts

    def contexts(self, which: int) -> NDArray[np.floating]:
        """The vectors (L, n, D) of a sampled word."""
        rows = slice(*map(int, self._starts[which : which + 2]))
        found: NDArray[np.floating] = self._contexts[:, rows][:, torch.from_numpy(self._found[rows])].numpy()
        return found

    @property
    def points(self) -> NDArray[np.floating]:
        """The random occurrences: (L, P, D)."""
        found: NDArray[np.floating] = self._points[:, torch.from_numpy(self._sentence_of >= 0)].numpy()
        return found

    @property
    def sentences(self) -> NDArray[np.int64]:
        """The sentence of each point: (P,)."""
        return self._sentence_of[self._sentence_of >= 0]
