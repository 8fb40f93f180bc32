"""Why two models have two texts in opposite order: the margin of one over the other in each model, by query words.

A model's margin is an exact sum over the query's words. Margins of two models have no common scale, so each is divided
by the standard deviation of that model's scores for the query; the difference is then a sum over words too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.errors import ModelError
from likewise.explain.comparisons import aligned_contrasts
from likewise.explain.explanation import Contrast
from likewise.explain.pairs import explain
from likewise.search.engines import Vectors

if TYPE_CHECKING:
    from likewise.search.index import Index

ROUNDING = 1e-4  # What single precision leaves of a term that is zero, in standard deviations
StoredText = tuple[str, str, Vectors]  # The id, the text and the vector of a row


@dataclass(frozen=True, eq=False)
class Margin:
    """By how much one text scores above another for a query in one model, and its terms."""

    value: float  # of the scores in the index
    spread: float  # the standard deviation of the query's scores with all texts
    contrast: Contrast  # of the model in torch
    backend: str | None = None  # what computed the vectors, unless torch

    @property
    def backend_term(self) -> float:
        """What a backend other than torch changes in the margin; 0 for torch."""
        return 0.0 if self.backend is None else self.value - self.contrast.difference

    @property
    def gap(self) -> float:
        """The margin minus all its terms."""
        words = sum(share for _, share in self.contrast.query)
        return self.value - words - self.contrast.query_bias - self.backend_term

    @property
    def deviations(self) -> float:
        """The margin in standard deviations of the query's scores."""
        return self.value / self.spread


@dataclass(frozen=True, eq=False)
class OrderChange:
    """Two texts that a query's two rankings have in opposite order: ``came`` is the higher one in the second."""

    query: int
    came: int  # rows
    went: int
    came_text: tuple[str, str]  # id and text
    went_text: tuple[str, str]
    first: Margin  # of the one that came over the one that went: at most 0
    second: Margin  # at least 0

    @cached_property
    def terms(self) -> list[tuple[str, float, float]]:
        """What each query word adds to the margin in each model; the strongest change first."""
        found = aligned_contrasts(self.first.contrast, self.second.contrast)
        for column, one in enumerate((self.first, self.second)):
            if one.backend is not None:
                term = [0.0, 0.0]
                term[column] = one.backend_term
                found.append((f"({one.backend})", term[0], term[1]))
        return sorted(found, key=lambda row: -abs(self.change_of(row)))

    def change_of(self, term: tuple[str, float, float]) -> float:
        """What a term adds to the change of the margin, in standard deviations."""
        return term[2] / self.second.spread - term[1] / self.first.spread

    def strongest(self, count: int) -> list[tuple[str, float]]:
        """The terms that add most to the change, in standard deviations, without those that add nothing."""
        found = [(term[0], self.change_of(term)) for term in self.terms[:count]]
        return [(name, value) for name, value in found if abs(value) > ROUNDING]

    @property
    def change(self) -> float:
        """The change of the margin, in standard deviations of each model's own scores."""
        return self.second.deviations - self.first.deviations

    def to_dict(self) -> dict[str, Any]:
        """Margins, spreads and gaps of A and B, and the terms."""
        both = (self.first, self.second)
        terms = [{"word": term[0], "shares": [term[1], term[2]], "change": self.change_of(term)} for term in self.terms]
        return {
            "margins": [one.value for one in both], "spreads": [one.spread for one in both],
            "gaps": [one.gap for one in both], "change": self.change, "words": terms,
        }  # fmt: skip


def margin(index: Index, query: str, came: StoredText, went: StoredText, spread: float) -> Margin:
    """By how much one text scores above another in an index, by the query's words."""
    encoder, (query_prompt, document_prompt) = index.encoder, index.prompts
    vector = index.query_vectors([query])[0].astype(np.float64)
    scores = [float(vector @ stored[2].astype(np.float64)) for stored in (came, went)]
    # Only torch's layers can be looked into. What another backend makes of them is a term of its own.
    ledger = encoder if encoder.backend is None else replace(encoder, backend=None)
    how = {"granularity": "word", "similarity": index.similarity, "shares_only": True, "fold_special": True}
    prompts = {"left_prompt": query_prompt, "right_prompt": document_prompt}
    contrast = Contrast(*(explain(ledger, query, stored[1], **how, **prompts) for stored in (came, went)))
    backend = None if encoder.backend is None else encoder.backend.kind
    for score, one in zip(scores, (contrast.better, contrast.worse), strict=True):
        if backend is None and not abs(score - one.similarity) <= one.tolerance:
            flaw = f"{index.store.address} has the score {score:.5f} but {encoder.name} gives {one.similarity:.5f}"
            raise ModelError(f"{flaw}; build the index again")
    return Margin(scores[0] - scores[1], spread or 1.0, contrast, backend)
