"""Explained search: which words carry a hit's score, and why it stands above the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from rich.text import Text

from likewise.errors import ModelError, UsageError
from likewise.explain.cache import ContributionCache
from likewise.explain.differences import Contrast
from likewise.explain.explanation import Explanation, PairShares
from likewise.explain.ledger import explained_maps, explanation, metadata_of, pair_shares
from likewise.explain.methods import has_columns
from likewise.explain.settings import Settings
from likewise.explain.texts import TextInput, TextMap, TokenGroups, token_groups
from likewise.explain.units import check_granularity
from likewise.paths import user_cache
from likewise.plotting.hits import DrawnHit, hits_fragment, hits_lines
from likewise.plotting.html import page
from likewise.progress import Progress, Ticker
from likewise.search.hits import Hits
from likewise.search.index import Index, check_search
from likewise.search.store import Hit

STRONGEST = 5
ROUNDING = 1e-6
"""What single precision leaves of a part that is nothing."""
SHORT = 32
"""Units up to which a text's rows are computed and kept, and a query is compared word by word unasked."""
FIRST_HITS = 3
"""Long hits that get their pairs of words unless asked otherwise."""


@dataclass(frozen=True, eq=False)
class ExplainedHit:
    """A hit, why it was found, and what puts it above the next one."""

    hit: Hit
    shares: Explanation | PairShares
    """what each unit makes of the score: the query is on the left, the text on the right"""
    above_next: Contrast | None = None
    most_pairs: int = STRONGEST

    @property
    def words(self) -> list[tuple[int, int, float]]:
        """Where each unit of the text begins and ends, and its share of the score."""
        shares = zip(self.shares.right.units, self.shares.right_shares.tolist(), strict=True)
        return [(unit.start, unit.end, share) for unit, share in shares if unit.kind == "text"]

    @property
    def pairs(self) -> list[tuple[str, str, float]]:
        """The strongest pairs of a query unit and a unit of the text, special tokens left out; empty where they were
        not computed."""
        if not isinstance(self.shares, Explanation):
            return []
        every = self.shares.strongest(self.shares.relevance.size)
        words = (pair for pair in every if pair[0].kind == pair[1].kind == "text")
        return [(left.text, right.text, value) for left, right, value in islice(words, self.most_pairs)]

    @property
    def margin(self) -> float:
        """How much higher than the next hit it scores; 0 where there is none."""
        return 0.0 if self.above_next is None else self.above_next.difference

    @property
    def margin_terms(self) -> list[tuple[str, float]]:
        """What each query unit adds to the lead over the next hit, strongest first."""
        if self.above_next is None:
            return []
        named = [(unit.text, share) for unit, share in self.above_next.query]
        return sorted(named, key=lambda item: -abs(item[1]))

    @property
    def shown_reasons(self) -> list[tuple[str, float]]:
        """The strongest reasons for the lead, and what the query's reference adds to it."""
        found = [(name, value) for name, value in self.margin_terms[:STRONGEST] if abs(value) > ROUNDING]
        if self.above_next is not None and self.above_next.query_bias:
            found.append((f"({self.shares.metadata.rest})", self.above_next.query_bias))
        return found

    @property
    def sums(self) -> list[tuple[str, float]]:
        """What the score is the sum of, where that is more than its words."""
        parts = [("words", float(self.shares.right_shares.sum())), (self.shares.metadata.rest, self.shares.right_bias)]
        return parts if self.shares.right_bias else []

    def to_dict(self) -> dict[str, Any]:
        """Shares, pairs and the lead, on the scale of the score."""
        found = self.shares
        shares = zip(found.right.units, found.right_shares.tolist(), strict=True)
        words = [
            {"text": unit.text, "start": unit.start, "end": unit.end, "kind": unit.kind, "share": share}
            for unit, share in shares
        ]
        pairs = [{"query": left, "text": right, "relevance": value} for left, right, value in self.pairs]
        metadata = {
            "words": words,
            "bias": found.right_bias,
            "pairs": pairs,
            "gap": found.gap,
            "bias_mode": found.metadata.bias_mode,
            "relative_to": found.metadata.relative_to,
        }
        if self.above_next is not None:
            terms = [{"query": name, "difference": value} for name, value in self.margin_terms]
            margin = {"difference": self.above_next.difference, "by": terms, "bias": self.above_next.query_bias}
            metadata["above_next"] = margin | {"gap": self.above_next.gap}
        return metadata


@dataclass(frozen=True, eq=False)
class ExplainedHits:
    """The hits of a query, each explained."""

    hits: Hits
    explained: tuple[ExplainedHit, ...]

    def to_dict(self) -> dict[str, Any]:
        """As the hits, each with its explanation."""
        found = self.hits.to_dict()
        rows = [row | {"explanation": one.to_dict()} for row, one in zip(found["hits"], self.explained, strict=True)]
        return found | {"hits": rows}

    def drawn(self) -> list[DrawnHit]:
        """What the drawing room takes."""
        return [
            DrawnHit(
                one.hit.id, one.hit.score, one.hit.text, one.words, one.pairs, one.margin, one.shown_reasons, one.sums
            )
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
    index: Index,
    query: str,
    k: int = 10,
    *,
    granularity: str = "word",
    pairs_per_hit: int | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ExplainedHits:
    """The k best hits, each explained exactly as it was scored: same model, prompts and similarity.

    What the words make of a score costs one transposed pass a hit. Pairs of words cost one for each word of the query:
    by default short hits get them, and the first ones where the query is short; ``pairs_per_hit`` gives all so many.

    >>> from likewise.encoder import Encoder
    >>> texts = [("1", "The volcano spat ash."), ("2", "The bank cut rates.")]
    >>> index = Index.build(Encoder.load("minilm", device="cpu"), texts, Path("news"))
    >>> found = explained_search(index, "volcano erupted", k=1).explained[0]
    >>> found.pairs[0][:2], found.margin_terms[0][0]
    (('volcano', 'volcano'), 'volcano')
    """
    check_search([query], k)
    check_granularity(granularity)
    if pairs_per_hit is not None and pairs_per_hit < 0:
        raise UsageError(f"pairs_per_hit is a number from 0 on, got {pairs_per_hit}")
    # One more than asked for: the last one has a next one too.
    found = index.search(query, k + 1)
    hits = _HitExplainer(
        index, TextInput(query, index.prompts[0], granularity), Settings(**{"fold_special": True} | settings)
    )
    wanted = pairs_per_hit if pairs_per_hit is None else k if pairs_per_hit else 0
    shares = hits.explained([hit.text for hit in found], wanted, progress)
    for hit, one in zip(found, shares, strict=True):
        _check_score(index, hit, one)
    margins = [*(Contrast(one, after) for one, after in pairwise(shares)), None][: len(shares)]
    most = STRONGEST if pairs_per_hit is None else pairs_per_hit
    explained = [ExplainedHit(*each, most) for each in zip(found, shares, margins, strict=True)]
    return ExplainedHits(replace(found, hits=found.hits[:k]), tuple(explained[:k]))


class _HitExplainer:
    """Explains texts beside one query.

    The rows of short texts are kept on disk, where the next query finds them. Long texts go by columns: one pass for
    the shares, or one for each unit of the query for pairs of words.
    """

    def __init__(self, index: Index, query: TextInput, settings: Settings) -> None:
        self.encoder, self.settings, self.prompt = index.encoder, settings, index.prompts[1]
        self.metadata = metadata_of(index.encoder, "bilrp", str(query.granularity), index.similarity, settings)
        self.cache = ContributionCache(index.encoder, settings, user_cache() / "contributions")
        self.asked, self.query = query, token_groups(self.encoder, query, settings)

    def explained(
        self, texts: Sequence[str], with_pairs: int | None, progress: Progress | None
    ) -> list[Explanation | PairShares]:
        """The first texts with pairs of words, the others with shares alone; None leaves it to the query's length."""
        asked = [TextInput(text, self.prompt, self.asked.granularity) for text in texts]
        groups = [token_groups(self.encoder, text, self.settings) for text in asked]
        is_short = self._is_short(self.query)
        pairs = (FIRST_HITS if is_short else 0) if with_pairs is None else with_pairs
        by_rows = {position for position, one in enumerate(groups) if is_short and self._is_short(one)}
        if not has_columns("bilrp", self.settings):
            by_rows = set(range(len(groups)))
        ticker = Ticker(progress, len(texts), "explained texts")
        needed = [self.asked, *(asked[position] for position in sorted(by_rows))] if by_rows else []
        rows = self.cache.of(needed, ticker.part())
        kept = dict(zip(sorted(by_rows), rows[1:], strict=True))
        found: list[Explanation | PairShares] = []
        for position, group in enumerate(groups):
            if position in kept:
                found.append(explanation(rows[0], kept[position], self.metadata))
                continue
            other = TextMap.of(self.encoder, group, self.settings)
            explain = explained_maps if position < pairs else pair_shares
            found.append(explain(self._recorded_query, other, self.metadata))
            ticker.add()
        ticker.close()
        return found

    @staticmethod
    def _is_short(text: TokenGroups) -> bool:
        return len(text.units) <= SHORT

    @cached_property
    def _recorded_query(self) -> TextMap:
        return TextMap.of(self.encoder, self.query, self.settings)


def _check_score(index: Index, hit: Hit, ledger: Explanation | PairShares) -> None:
    """A hit is explained as it was scored, or not at all."""
    if not abs(hit.score - ledger.similarity) <= ledger.tolerance:
        raise ModelError(
            f"{hit.id} was scored {hit.score:.5f} in {index.store.address} but the model gives {ledger.similarity:.5f};"
            " build the index again"
        )
