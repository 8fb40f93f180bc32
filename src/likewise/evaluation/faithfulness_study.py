"""Proof of explanations on a file of pairs: the perturbation test of every method, and conservation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.evaluation.conservation import Conservation, conservation
from likewise.evaluation.faithfulness import Faithfulness, PerturbationSettings, faithfulness
from likewise.progress import Progress

SLOW = "jacobian"
"""Slow by nature, so it is run on fewer pairs, beside the others on the same ones."""


@dataclass(frozen=True, eq=False)
class Proof:
    """The perturbation test on all pairs, that of the slow method on fewer, and conservation."""

    faithfulness: Faithfulness
    slow: Faithfulness | None = None
    conservation: Conservation | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it."""
        parts = {"slow": self.slow, "conservation": self.conservation}
        return self.faithfulness.to_dict() | {name: part.to_dict() for name, part in parts.items() if part is not None}


def prove(
    encoder: Encoder,
    pairs: Sequence[Pair | ScoredPair],
    settings: PerturbationSettings,
    slow_pairs: int = 300,
    sentences: int = 300,
    progress: Progress | None = None,
) -> Proof:
    """Run the tests; ``slow_pairs`` is how many pairs the slow method gets, ``sentences`` is for conservation."""
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.left, pair.right)))[:sentences]
    if sentences and len(texts) < 2:
        raise DataError(f"conservation needs at least 2 texts, got {len(texts)}; leave it out with --sentences 0")
    quick = tuple(name for name in settings.variants if name != SLOW)
    found = None
    if quick:
        found = faithfulness(encoder, pairs, replace(settings, variants=quick), progress)
    slow = None
    if SLOW in settings.variants:
        beside = replace(settings, variants=("bilrp", "random", SLOW))
        slow = faithfulness(encoder, pairs[:slow_pairs], beside, progress)
    conserved = conservation(encoder, texts, progress) if sentences else None
    if found is None:
        assert slow is not None
        return Proof(slow, None, conserved)
    return Proof(found, slow, conserved)
