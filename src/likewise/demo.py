"""The demo: a first look at the bundled model on the built-in sample, as tables and one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Dataset
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.inspection import Inspection, inspect
from likewise.evaluation.sts import StsResult, evaluate_sts
from likewise.explain import Explanation, explain
from likewise.plotting.html import matrix_svg, paragraph, section, table
from likewise.results import Column, Result, Table

TEXTS = (
    "A fire in the old harbour left nine people without a home.",
    "Nine residents lost their homes when the harbour quarter burned.",
    "Nobody was hurt in the harbour fire.",
    "The harbour café has the best soup in town.",
    "My printer refuses to talk to my laptop.",
)
STRONGEST = 6


@dataclass(frozen=True, repr=False)
class Demo(Result):
    """An inspected text, similarities (n, n) of n texts, and the sample pairs by kind."""

    texts: tuple[str, ...]
    inspection: Inspection
    similarity: NDArray[np.float32]
    sts: StsResult
    kinds: list[tuple[str, int, float, float]]  # kind of pair, number, mean score, mean cosine
    explanation: Explanation  # why the first two texts are similar

    title = "Likewise demo"

    @property
    def notes(self) -> list[str]:
        """The model."""
        model = self.inspection.model
        return [f"Model {model.name}: {model.layers} layers, {model.parameters:,} parameters, on this machine."]

    def to_dict(self) -> dict[str, Any]:
        """The similarities, the strongest pairs of words and the kinds of pairs."""
        pairs = [[left.text, right.text, value] for left, right, value in self.explanation.strongest(STRONGEST)]
        found = {"texts": list(self.texts), "similarity": self.similarity.tolist(), "strongest": pairs}
        return found | {"spearman": self.sts.agreement["spearman"].value, "kinds": [list(row) for row in self.kinds]}

    def tables(self) -> dict[str, Table]:
        """How similar the texts are, why the first two are, and the cosines of each kind of pair."""
        numbers = [str(number) for number in range(1, len(self.texts) + 1)]
        rows = zip(numbers, self.texts, self.similarity.tolist(), strict=True)
        similarity = [(f"{number} {text}", *row) for number, text, row in rows]
        strongest = [(left.text, right.text, value) for left, right, value in self.explanation.strongest(STRONGEST)]
        why = "why it finds the first two similar"
        means = Column("score", "mean score 0-5", ".3f"), Column("cosine", "mean cosine", ".3f")
        return {
            "similarity": Table.of([Column("text", "how similar the model finds these"), *numbers], similarity),
            "strongest": Table.of(["1", "2", Column("share", "adds to the cosine")], strongest, why),
            "kinds": Table.of((Column("kind", "kind of pair"), "pairs", *means), self.kinds),
        }

    def fragments(self) -> list[str]:
        """Inspection, similarity, explanation and agreement with scores by hand."""
        read = self.inspection.texts[0]
        tokens = [(token.token, token.id, "special" if token.special else "") for token in read.tokens]
        agreement = (
            f"On {self.sts.n} built-in pairs with scores given by hand, Spearman's correlation is"
            f" {self.sts.agreement['spearman'].value:.3f}. Near-misses cost most: negations, numbers and swapped roles"
            " change the meaning and hardly the vector."
        )
        cosines = "Cosine of every pair of sentence vectors."
        shares = "Each pair of words with what it adds to the cosine; the parts sum to the whole."
        header = ("kind of pair", "pairs", "mean score, 0 to 5", "mean cosine")
        parts = {
            "How the model reads a text": [paragraph(read.text), table(("token", "id", ""), tokens)],
            "How similar it finds texts": [paragraph(cosines), matrix_svg(self.similarity, self.texts, self.texts)],
            "Why it finds the first two similar": [paragraph(shares), self.explanation._repr_html_()],
            "How well that agrees with a reader": [paragraph(agreement), table(header, self.kinds)],
        }
        return [section(heading, content) for heading, content in parts.items()]


def demo(encoder: Encoder | Source = "minilm", texts: tuple[str, ...] = TEXTS) -> Demo:
    """Run the demo with any encoder."""
    encoder = as_encoder(encoder)
    pairs = Dataset("sample/pairs").scored_pairs()
    result = evaluate_sts(encoder, pairs, "sample/pairs")
    found = np.array([pair.meta["kind"] for pair in pairs])
    groups = {kind: found == kind for kind in dict.fromkeys(found.tolist())}
    kinds = [
        (kind, int(rows.sum()), float(result.truth[rows].mean()), float(result.predicted[rows].mean()))
        for kind, rows in groups.items()
    ]
    by_cosine = sorted(kinds, key=lambda row: -row[3])
    why = explain(encoder, texts[0], texts[1], granularity="word")
    return Demo(texts, inspect(encoder, texts[:1]), encoder.similarity(texts, texts), result, by_cosine, why)
