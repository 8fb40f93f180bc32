"""Explained search: which words carry a hit's score, and why it stands above the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from rich.text import Text

from likewise.drawing.hits import DrawnHit, hits_fragment, hits_lines
from likewise.drawing.html import page
from likewise.errors import ModelError
from likewise.explain.contributions import Contributions
from likewise.explain.differences import Contrast
from likewise.explain.explanation import Explanation
from likewise.explain.kept import KeptContributions
from likewise.explain.pairs import explanation, facts_of
from likewise.explain.settings import Settings
from likewise.explain.texts import Prompted, drawn_bias
from likewise.explain.units import check_by
from likewise.paths import user_cache
from likewise.progress import Progress
from likewise.retrieval.hits import Hits
from likewise.retrieval.index import Index, check_search
from likewise.retrieval.store import Hit

STRONGEST = 5


@dataclass(frozen=True, eq=False)
class ExplainedHit:
    """A hit, why it was found, and what puts it above the next one."""

    hit: Hit
    explanation: Explanation
    """the query is on the left, the text on the right"""
    above_next: Contrast | None = None

    @property
    def words(self) -> list[tuple[int, int, float]]:
        """Where each unit of the text begins and ends, and its share of the score."""
        shares = zip(self.explanation.right.units, self.explanation.right_shares.tolist(), strict=True)
        return [(unit.start, unit.end, share) for unit, share in shares if unit.kind == "text"]

    @property
    def pairs(self) -> list[tuple[str, str, float]]:
        """The strongest pairs of a query unit and a unit of the text, special tokens left out."""
        every = self.explanation.strongest(self.explanation.relevance.size)
        words = (pair for pair in every if pair[0].kind == pair[1].kind == "text")
        return [(left.text, right.text, value) for left, right, value in islice(words, STRONGEST)]

    @property
    def lead(self) -> float:
        """How much higher than the next hit it scores; 0 where there is none."""
        return 0.0 if self.above_next is None else self.above_next.difference

    @property
    def reasons(self) -> list[tuple[str, float]]:
        """What each query unit adds to the lead over the next hit, strongest first."""
        if self.above_next is None:
            return []
        named = [(unit.text, share) for unit, share in self.above_next.query]
        return sorted(named, key=lambda item: -abs(item[1]))

    def to_json(self) -> dict[str, Any]:
        """Shares, pairs and the lead, on the scale of the score."""
        found = self.explanation
        shares = zip(found.right.units, found.right_shares.tolist(), strict=True)
        words = [
            {"text": unit.text, "start": unit.start, "end": unit.end, "kind": unit.kind, "share": share}
            for unit, share in shares
        ]
        pairs = [{"query": left, "text": right, "relevance": value} for left, right, value in self.pairs]
        bias = float(found.bias_left.sum()) + found.bias_both
        facts = {"words": words, "bias": bias, "pairs": pairs, "gap": found.gap, "bias_mode": found.facts.bias_mode}
        if self.above_next is not None:
            by = [{"query": name, "difference": value} for name, value in self.reasons]
            lead = {"difference": self.above_next.difference, "by": by, "bias": self.above_next.query_bias}
            facts["above_next"] = lead | {"gap": self.above_next.gap}
        return facts


@dataclass(frozen=True, eq=False)
class ExplainedHits:
    """The hits of a query, each explained."""

    hits: Hits
    explained: tuple[ExplainedHit, ...]

    def to_json(self) -> dict[str, Any]:
        """As the hits, each with its explanation."""
        found = self.hits.to_json()
        rows = [row | {"explanation": one.to_json()} for row, one in zip(found["hits"], self.explained, strict=True)]
        return found | {"hits": rows}

    def drawn(self) -> list[DrawnHit]:
        """What the drawing room takes."""
        return [
            DrawnHit(one.hit.id, one.hit.score, one.hit.text, one.words, one.pairs, one.lead, one.reasons[:STRONGEST])
            for one in self.explained
        ]

    def _repr_html_(self) -> str:
        return hits_fragment(self.hits.query, self.hits.ranker, self.drawn())

    def lines(self) -> list[Text]:
        """For a terminal."""
        return hits_lines(self.hits.query, self.hits.ranker, self.drawn())

    def to_html(self) -> str:
        """A self-contained page."""
        return page(f"Why these were found: {self.hits.query}", [self._repr_html_()])

    def save_html(self, path: Path) -> Path:
        """Write the page; the folder is made where it is missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.to_html(), encoding="utf-8")
        return path


def explained_search(
    index: Index, query: str, k: int = 10, *, by: str = "word", bias: str = "drawn", progress: Progress | None = None
) -> ExplainedHits:
    """The k best hits, each explained exactly as it was scored: same model, prompts and similarity.

    ``bias`` is where the biases go: a share of their own (separate), dealt out to the words (shared), or shared where
    that can be had (drawn).

    >>> from likewise.encoder import Encoder
    >>> texts = [("1", "The volcano spat ash."), ("2", "The bank cut rates.")]
    >>> index = Index.build(Encoder.load("minilm", device="cpu"), texts, Path("news"))
    >>> found = explained_search(index, "volcano erupted", k=1).explained[0]
    >>> found.pairs[0][:2], found.reasons[0][0]
    (('volcano', 'volcano'), 'volcano')
    """
    check_search([query], k)
    check_by(by)
    # One more than asked for: the last one has a next one too.
    found = index.search(query, k + 1)
    texts = [Prompted(query, index.prompts[0], by), *(Prompted(hit.text, index.prompts[1], by) for hit in found)]
    settings = Settings(fold_special=True)
    settings = replace(settings, bias=drawn_bias(index.encoder, texts, settings) if bias == "drawn" else bias)
    kept = KeptContributions(index.encoder, settings, user_cache() / "contributions")
    asked, *others = kept.of(texts, progress)
    ledgers = [_ledger(index, asked, one, by, settings) for one in others]
    for hit, ledger in zip(found, ledgers, strict=True):
        _check_score(index, hit, ledger)
    leads = [Contrast(one, after) for one, after in pairwise(ledgers)]
    explained = [
        ExplainedHit(hit, ledger, leads[place] if place < len(leads) else None)
        for place, (hit, ledger) in enumerate(zip(found, ledgers, strict=True))
    ]
    return ExplainedHits(replace(found, hits=found.hits[:k]), tuple(explained[:k]))


def _ledger(index: Index, query: Contributions, text: Contributions, by: str, settings: Settings) -> Explanation:
    return explanation(query, text, facts_of(index.encoder, "bilrp", by, index.similarity, settings))


def _check_score(index: Index, hit: Hit, ledger: Explanation) -> None:
    """A hit is explained as it was scored, or not at all."""
    if not abs(hit.score - ledger.similarity) <= ledger.tolerance:
        raise ModelError(
            f"{hit.id} was scored {hit.score:.5f} in {index.store.address} but the model gives {ledger.similarity:.5f};"
            " build the index again"
        )
