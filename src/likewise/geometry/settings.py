"""Settings of a geometry run: which words count, what is sampled, how much is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

from likewise.errors import UsageError


@dataclass(frozen=True)
class GeometrySettings:
    """What is measured and on how much of it.

    >>> GeometrySettings(words=("bank",)).min_contexts
    5
    """

    words: tuple[str, ...] = ()
    """Words that are measured in any case and drawn."""
    min_contexts: int = 5
    """Words in fewer different sentences are no part of the averages over words."""
    punctuation: bool = False
    """Whether punctuation marks count as words."""
    prompt: str | None = None
    """Put before each text; None is the model's own. Its tokens are no words of the text."""
    max_words: int = 5_000
    """Words whose self-similarity is measured; of more, so many are drawn at random."""
    max_contexts: int = 1_000
    """Contexts of a word that its explainable variance is measured on; of more, so many are drawn at random."""
    sample_rows: int = 20_000
    """Contexts in all that explainable variance is measured on, of words drawn at random."""
    sample_points: int = 2_000
    """Random occurrences for TwoNN, CKA, clusters and the random baseline of explainable variance, which has as many
    as a word has contexts, up to this number."""
    clusters: int = 10
    """Clusters within which isotropy is measured."""
    corrections: bool = True
    """Whether the curves are also measured after each correction, which takes a second pass."""
    draws: int = 300
    """Poisson bootstrap draws."""
    seed: int = 0
    """Of all that is drawn at random."""
    disk: float = 4.0
    """Gigabytes of word vectors that may be kept in a temporary file for the second pass; the rest is encoded again."""

    def __post_init__(self) -> None:
        if isinstance(self.words, str):
            raise UsageError("words are given as a sequence, such as ('bank',)")
        if not math.isfinite(self.disk):
            raise UsageError(f"disk takes a number of gigabytes, not {self.disk}")
        if "" in self.words:
            raise UsageError("a word to draw is empty; give words as beverage,go,school")
        least = {"min_contexts": 2, "max_words": 1, "max_contexts": 2, "sample_rows": 2, "sample_points": 2}
        for name, low in (least | {"clusters": 1, "draws": 2, "seed": 0, "disk": 0}).items():
            if getattr(self, name) < low:
                raise UsageError(f"{name.replace('_', '-')} must be at least {low}, got {getattr(self, name)}")


USUAL = GeometrySettings()
