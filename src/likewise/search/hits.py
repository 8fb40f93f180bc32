"""Hits: what a search found, best first; explained ones with the words that carry the score and the margin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from likewise.plotting.hits import DrawnHit, hits_fragment, hits_lines
from likewise.plotting.text import one_line, shortened
from likewise.results import Comparable, Result, ResultSet, Table

if TYPE_CHECKING:
    from rich.text import Text

    from likewise.explain.differences import Contrast
    from likewise.explain.explanation import Explanation, PairShares

STRONGEST = 5
ROUNDING = 1e-6
"""What single precision leaves of a term that is zero."""


@dataclass(frozen=True)
class Hit:
    """One text that a query found.

    >>> Hit("7", "A cat sat.", 0.5)
    <Hit 7: 0.5000 'A cat sat.'>
    """

    id: str
    text: str
    score: float

    def to_dict(self) -> dict[str, Any]:
        """The id, the score and the text."""
        return {"id": self.id, "score": self.score, "text": self.text}

    @property
    def drawn(self) -> DrawnHit:
        """What pages and terminals show."""
        return DrawnHit(self.id, self.score, self.text)

    def __repr__(self) -> str:
        text = shortened(one_line(self.text), 60)
        return f"<{type(self).__name__} {one_line(self.id)}: {self.score:.4f} {text!r}>"


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedHit(Hit):
    """A hit, why it was found, and what puts it above the next one."""

    shares: Explanation | PairShares
    """the share of each unit in the score: the query is on the left, the text on the right"""
    above_next: Contrast | None = None
    most_pairs: int = STRONGEST

    @property
    def words(self) -> list[tuple[int, int, float]]:
        """The start and end of each unit of the text, and its share of the score."""
        shares = zip(self.shares.right.units, self.shares.right_shares.tolist(), strict=True)
        return [(unit.start, unit.end, share) for unit, share in shares if unit.kind == "text"]

    @property
    def pairs(self) -> list[tuple[str, str, float]]:
        """The strongest pairs of a query unit and a text unit, without special tokens; empty if not computed."""
        strongest = getattr(self.shares, "strongest", None)
        if strongest is None:
            return []
        every = strongest(len(self.shares.left.units) * len(self.shares.right.units))
        words = (pair for pair in every if pair[0].kind == pair[1].kind == "text")
        return [(left.text, right.text, value) for left, right, value in islice(words, self.most_pairs)]

    @property
    def margin(self) -> float:
        """How much higher than the next hit it scores; 0 for the last one."""
        return 0.0 if self.above_next is None else self.above_next.difference

    @property
    def margin_terms(self) -> list[tuple[str, float]]:
        """What each query unit adds to the margin over the next hit, strongest first."""
        if self.above_next is None:
            return []
        named = [(unit.text, share) for unit, share in self.above_next.query]
        return sorted(named, key=lambda item: -abs(item[1]))

    @property
    def shown_terms(self) -> list[tuple[str, float]]:
        """The strongest terms of the margin, and what the query's reference adds to it."""
        found = [(name, value) for name, value in self.margin_terms[:STRONGEST] if abs(value) > ROUNDING]
        if self.above_next is not None and self.above_next.query_bias:
            found.append((f"({self.shares.metadata.rest})", self.above_next.query_bias))
        return found

    @property
    def sums(self) -> list[tuple[str, float]]:
        """The terms of the score, if there are more than its words."""
        parts = [("words", float(self.shares.right_shares.sum())), (self.shares.metadata.rest, self.shares.right_bias)]
        return parts if self.shares.right_bias else []

    @property
    def drawn(self) -> DrawnHit:
        """What pages and terminals show."""
        why = self.words, self.pairs, self.margin, self.shown_terms, self.sums
        return DrawnHit(self.id, self.score, self.text, *why)

    def to_dict(self) -> dict[str, Any]:
        """As every hit; shares, pairs and the margin are under ``explanation``, on the scale of the score."""
        found = self.shares
        shares = zip(found.right.units, found.right_shares.tolist(), strict=True)
        why: dict[str, Any] = {
            "words": [
                {"text": unit.text, "start": unit.start, "end": unit.end, "kind": unit.kind, "share": share}
                for unit, share in shares
            ],
            "bias": found.right_bias,
            "pairs": [{"query": left, "text": right, "relevance": value} for left, right, value in self.pairs],
            "gap": found.gap, "bias_mode": found.metadata.bias_mode, "relative_to": found.metadata.relative_to,
        }  # fmt: skip
        if self.above_next is not None:
            terms = [{"query": name, "difference": value} for name, value in self.margin_terms]
            margin = {"difference": self.above_next.difference, "by": terms, "bias": self.above_next.query_bias}
            why["above_next"] = margin | {"gap": self.above_next.gap}
        return super().to_dict() | {"explanation": why}


@dataclass(frozen=True, repr=False)
class Hits(Comparable):
    """The best texts for one query, and what ranked them.

    >>> Hits("cats", (Hit("7", "A cat sat.", 0.5),), "minilm, exact")
    <Hits 'cats': 1 hit, minilm, exact>
    """

    query: str
    hits: tuple[Hit, ...]
    ranker: str

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]

    def __repr__(self) -> str:
        count = f"{len(self)} hit{'' if len(self) == 1 else 's'}"
        return f"<Hits {one_line(self.query)!r}: {count}, {one_line(self.ranker)}>"

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"{'Why these were found' if self._explained else 'Search'}: {self.query}"

    @property
    def _explained(self) -> list[tuple[int, ExplainedHit]]:
        return [(rank, hit) for rank, hit in enumerate(self.hits, start=1) if isinstance(hit, ExplainedHit)]

    def to_dict(self) -> dict[str, Any]:
        """The query and its hits with their ranks from 1."""
        rows = [{"rank": rank} | hit.to_dict() for rank, hit in enumerate(self.hits, start=1)]
        return {"query": self.query, "ranker": self.ranker, "hits": rows}

    def tables(self) -> dict[str, Table]:
        """The hits; of explained ones also the share of each word, the pairs and the terms of each margin."""
        explained, query = self._explained, self.query
        margins = {rank: hit.margin for rank, hit in explained}
        columns = ["query", "rank", "id", "score", *(["margin"] if explained else []), "text"]
        rows = [
            (query, rank, hit.id, hit.score, *([margins[rank]] if explained else []), hit.text)
            for rank, hit in enumerate(self.hits, start=1)
        ]
        found = {"hits": Table.of(columns, rows, detail=True)}
        if explained:
            words = [
                (query, rank, hit.id, hit.text[start:end], start, end, share)
                for rank, hit in explained for start, end, share in hit.words
            ]  # fmt: skip
            pairs = [(query, rank, hit.id, *pair) for rank, hit in explained for pair in hit.pairs]
            terms = [(query, rank, hit.id, *term) for rank, hit in explained for term in hit.margin_terms]
            own = ["query", "rank", "id"]
            found["words"] = Table.of([*own, "word", "start", "end", "share"], words, detail=True)
            found["pairs"] = Table.of([*own, "query_word", "text_word", "relevance"], pairs, detail=True)
            found["margin_terms"] = Table.of([*own, "query_word", "difference"], terms, detail=True)
        return found

    def lines(self, width: int = 0) -> list[Text]:  # noqa: ARG002
        """The hits for a terminal, with their words coloured if they are explained."""
        return hits_lines(self.query, self.ranker, [hit.drawn for hit in self.hits])

    def fragments(self) -> list[str]:
        """The hits as HTML, with their words coloured if they are explained."""
        return [self._repr_html_()]

    def _repr_html_(self) -> str:
        return hits_fragment(self.query, self.ranker, [hit.drawn for hit in self.hits])


@dataclass(frozen=True, repr=False)
class SearchResult(Result):
    """The hits of one or more queries, and how the index searched."""

    results: Sequence[Hits]
    engine: Mapping[str, Any] = field(default_factory=dict)
    """engine and recall, for the document of each query"""
    summary: str = ""

    @property
    def title(self) -> str:
        """The heading of the page."""
        return self.results[0].title if len(self.results) == 1 else f"Search: {len(self.results)} queries"

    @property
    def cautions(self) -> list[str]:
        """How the index searched: an approximate engine says how much it finds."""
        return [self.summary] if self.summary else []

    def to_dict(self) -> dict[str, Any]:
        """A single query as itself, several under ``results``."""
        found = [{**one.to_dict(), **self.engine} for one in self.results]
        return found[0] if len(found) == 1 else {"results": found}

    def tables(self) -> dict[str, Table]:
        """The rows of all queries."""
        return ResultSet(tuple(self.results)).tables()

    def lines(self, width: int) -> list[Text]:
        """The hits of all queries."""
        return [line for one in self.results for line in one.lines(width)]

    def fragments(self) -> list[str]:
        """The hits of all queries."""
        return [part for one in self.results for part in one.fragments()]
