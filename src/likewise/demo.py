"""The demo: a first look at the built-in sample, as tables and one HTML page.

A pair, a search with reasons, a document, what a score means, and a score that is too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Dataset, ScoredPair
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.inspection import Inspection, inspect
from likewise.evaluation.sts import StsResult, evaluate_sts
from likewise.explain import Differences, Explanation, differences, explain
from likewise.plotting.html import matrix_svg, paragraph, section, table
from likewise.results import Column, Result, Table
from likewise.sample import sample_sentences
from likewise.search import Calibration, Hits, Index, PassageSettings

TEXTS = (
    "A fire in the old harbour left nine people without a home.",
    "Nine residents lost their homes when the harbour quarter burned.",
    "Nobody was hurt in the harbour fire.",
    "The harbour café has the best soup in town.",
    "My printer refuses to talk to my laptop.",
)
STRONGEST = 6
QUERY = "volcano erupted"
CHAPTER = 30  # sentences of the sample that make a document
SCORES = (0.1, 0.3, 0.5, 0.7)  # whose meaning is shown
NEAR_MISSES = ("negation", "number")
LOW_SCORE = 2.5  # of 5: a reader finds the two texts rather different


@dataclass(frozen=True, repr=False)
class Demo(Result):
    """A pair, hits with reasons, a calibration, a near-miss, similarities (n, n) of n texts, sample pairs by kind."""

    texts: tuple[str, ...]
    inspection: Inspection
    similarity: NDArray[np.float32]
    sts: StsResult
    kinds: list[tuple[str, int, float, float]]  # kind of pair, number, mean score, mean cosine
    explanation: Explanation  # why the first two texts are similar
    hits: Hits  # of a query among the sample's sentences, with reasons and meanings
    documents: Hits  # of the same query among documents, by their best passages
    calibration: Calibration
    near_miss: Differences  # two texts that differ in meaning and hardly in score

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
        found |= {"hits": self.hits.to_dict(), "documents": self.documents.to_dict()}
        found |= {"meanings": dict(self._meanings), "near_miss": self.near_miss.to_dict()}
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
            "meanings": Table.of(
                ["cosine", Column("percentile", "above so many unrelated pairs", ".1%")], self._meanings
            ),
            "kinds": Table.of((Column("kind", "kind of pair"), "pairs", *means), self.kinds),
        }

    @property
    def _meanings(self) -> list[tuple[float, float]]:
        """Cosines with the share of unrelated pairs that score lower."""
        return [(score, self.calibration.percentile(score)) for score in SCORES]

    def fragments(self) -> list[str]:
        """The sections of the page, the most striking first."""
        parts = {
            "Why it finds two texts similar": self._pair_fragments(),
            "A search that gives its reasons": self._search_fragments(),
            "What a score means": self._meaning_fragments(),
            "A score that is too high": self._near_miss_fragments(),
            "How the model reads, and how it agrees with a reader": self._model_fragments(),
        }
        return [section(heading, content) for heading, content in parts.items()]

    def _pair_fragments(self) -> list[str]:
        shares = "Each pair of words with what it adds to the cosine; the parts sum to the whole. Point at a word."
        return [paragraph(shares), self.explanation._repr_html_()]

    def _search_fragments(self) -> list[str]:
        sentences = (
            "Every hit shows the share of each word in its score, and what puts it above the next one. The first hit"
            " need not be the right one; then its words show why it is there."
        )
        documents = f"The same in documents of {CHAPTER} sentences: a hit is the best passage of its document."
        return [paragraph(sentences), *self.hits.fragments(), paragraph(documents), *self.documents.fragments()]

    def _meaning_fragments(self) -> list[str]:
        text = (
            "How high a cosine is depends on the model and the corpus. Here, that of unrelated sentences is lower than"
        )
        rows = [(f"{score:.1f}", f"in {share:.1%} of pairs") for score, share in self._meanings]
        return [paragraph(f"{text}:"), table(("cosine", ""), rows)]

    def _near_miss_fragments(self) -> list[str]:
        texts = " / ".join(words.words.text for words in (self.near_miss.left_words, self.near_miss.right_words))
        cosine = f"The cosine of these two is {1 - self.near_miss.distance:.3f}, though they mean different things."
        cure = "likewise lint finds such pairs in your own data, by six rules."
        return [paragraph(texts), paragraph(f"{cosine} {cure}"), *self.near_miss.fragments()]

    def _model_fragments(self) -> list[str]:
        read = self.inspection.texts[0]
        tokens = [(token.token, token.id, "special" if token.special else "") for token in read.tokens]
        agreement = (
            f"On {self.sts.n} built-in pairs with scores given by hand, Spearman's correlation is"
            f" {self.sts.agreement['spearman'].value:.3f}. Near-misses cost most: negations, numbers and swapped roles"
            " change the meaning and hardly the vector."
        )
        header = ("kind of pair", "pairs", "mean score, 0 to 5", "mean cosine")
        return [
            paragraph(agreement), table(header, self.kinds), paragraph("Cosine of every pair of sentence vectors:"),
            matrix_svg(self.similarity, self.texts, self.texts), paragraph(read.text),
            table(("token", "id", ""), tokens),
        ]  # fmt: skip


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
    read, similarity = inspect(encoder, texts[:1]), encoder.similarity(texts, texts)
    searches = _searches(encoder)
    return Demo(texts, read, similarity, result, by_cosine, why, *searches, _near_miss(encoder, pairs, result))


def _searches(encoder: Encoder) -> tuple[Hits, Hits, Calibration]:
    """The hits of the query among sentences and among documents, and what the scores of sentences mean."""
    sentences = sample_sentences()
    index = Index.from_texts(encoder, sentences)
    calibration = index.calibrate()
    chapters = [
        (f"chapter {number}", " ".join(sentences[start : start + CHAPTER]))
        for number, start in enumerate(range(0, len(sentences), CHAPTER), start=1)
    ]
    documents = Index.from_texts(encoder, chapters, passages=PassageSettings())
    return index.search(QUERY, 3, explain=True), documents.search(QUERY, 1, explain=True), calibration


def _near_miss(encoder: Encoder, pairs: Sequence[ScoredPair], result: StsResult) -> Differences:
    """Where the two texts differ that score highest among near-misses with a low score by hand."""
    rows = zip(pairs, result.predicted.tolist(), strict=True)
    wrong = [row for row in rows if row[0].meta["kind"] in NEAR_MISSES and row[0].score <= LOW_SCORE]
    pair, _ = max(wrong, key=lambda row: row[1])
    return differences(encoder, pair.left, pair.right)
