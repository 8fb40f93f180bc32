"""What a training changed: the pairs whose cosine moved the most, and the words that moved it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.pooling import pooling_parts
from likewise.encoder.similarity import paired_similarity
from likewise.explain import Comparison, compare
from likewise.progress import Progress
from likewise.train import Example, TrainReport
from likewise.train.config import SINGLE
from likewise.train.running import RunContext
from likewise.train.sampling import fixed_sample

LOOKED_AT = 500
"""Pairs among which the most changed ones are looked for."""
SHOWN_PAIRS, SHOWN_WORDS = 4, 6


@dataclass(frozen=True, eq=False)
class PairChange:
    """One pair before and after."""

    example: Example
    comparison: Comparison

    def strongest(self, count: int = SHOWN_WORDS) -> list[tuple[str, str, float, float]]:
        """The cells of the ledger that changed the most: left, right, before and after."""
        found = self.comparison
        left, right = found.labels
        order = np.argsort(-np.abs(found.difference), axis=None, kind="stable")[:count]
        indices = [divmod(int(index), len(right)) for index in order]
        return [
            (left[row], right[column], float(found.before[row, column]), float(found.after[row, column]))
            for row, column in indices
        ]

    def to_dict(self) -> dict[str, Any]:
        """The two cosines and what changed the most."""
        found = self.comparison
        return {
            "texts": list(self.example.texts), "truth": self.example.target, "id": self.example.id,
            "before": found.first.similarity, "after": found.second.similarity, "gap": found.gap,
            "words": [dict(zip(("left", "right", "before", "after"), row, strict=True)) for row in self.strongest()],
        }  # fmt: skip


def pair_changes(
    before: Encoder, after: Encoder, pairs: Sequence[Example], count: int = SHOWN_PAIRS
) -> list[PairChange]:
    """The pairs whose cosine rose or fell the most from one encoder to the other, compared word by word."""
    left, right = ([example.texts[side] for example in pairs] for side in (0, 1))
    cosines = [paired_similarity(encoder.encode(left), encoder.encode(right)) for encoder in (before, after)]
    moves = cosines[1] - cosines[0]
    chosen = np.argsort(-np.abs(moves), kind="stable")[:count]
    return [PairChange(pairs[index], compare(before, after, left[index], right[index])) for index in chosen]


def training_changes(
    run_context: RunContext, report: TrainReport, progress: Progress | None = None
) -> list[PairChange]:
    """What a run that has left its model in ``config.out`` changed; nothing where vectors cannot be explained."""
    pairs = _pairs(report)
    before, after = run_context.load(report.config.model), run_context.load(report.config.out)
    if not pairs or any("bilstm" in pooling_parts(each.pooling_config.pooling) for each in (before, after)):
        return []
    if progress is not None:
        progress(0, 1, "comparing before and after")
    found = pair_changes(before, after, fixed_sample(pairs, LOOKED_AT, 0))
    if progress is not None:
        progress(1, 1, "comparing before and after")
    return found


def _pairs(report: TrainReport) -> tuple[Example, ...]:
    """The held-out pairs of the first task that gives each text a vector of its own."""
    towers = [task.name for task in report.config.tasks if task.kind not in SINGLE and not task.joint]
    found = [outcomes[name].examples for outcomes in (report.test, report.dev) for name in towers if name in outcomes]
    return found[0] if found else ()
