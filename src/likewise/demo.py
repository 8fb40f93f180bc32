"""The demo: a first look at the bundled model on the built-in sample."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from likewise.data import read_scored_pairs
from likewise.encoder import Encoder
from likewise.encoder.inspection import Inspection, inspect
from likewise.evaluation.sts import StsResult, evaluate_sts
from likewise.explain import Explanation, explain

TEXTS = (
    "A fire in the old harbour left nine people without a home.",
    "Nine residents lost their homes when the harbour quarter burned.",
    "Nobody was hurt in the harbour fire.",
    "The harbour café has the best soup in town.",
    "My printer refuses to talk to my laptop.",
)


@dataclass(frozen=True)
class Demo:
    """What the demo shows: an inspected text, similarities (n, n) of n texts, and the sample pairs by kind."""

    texts: tuple[str, ...]
    inspection: Inspection
    similarity: NDArray[np.float32]
    sts: StsResult
    kinds: list[tuple[str, int, float, float]]
    """kind of pair, number, mean score, mean cosine"""
    explanation: Explanation
    """why the first two texts are similar"""


def demo(encoder: Encoder, texts: tuple[str, ...] = TEXTS) -> Demo:
    """Run the demo with any encoder."""
    pairs = list(read_scored_pairs("sample/pairs"))
    result = evaluate_sts(encoder, pairs, "sample/pairs")
    groups: dict[str, list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        groups[pair.meta["kind"]].append(index)
    kinds = [
        (kind, len(rows), float(result.truth[rows].mean()), float(result.predicted[rows].mean()))
        for kind, rows in groups.items()
    ]
    by_cosine = sorted(kinds, key=lambda row: -row[3])
    why = explain(encoder, texts[0], texts[1], granularity="word")
    return Demo(texts, inspect(encoder, texts[:1]), encoder.similarity(texts, texts), result, by_cosine, why)
