"""Why a text is not among the hits of a query: its rank and score, and the exact difference to the last hit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from likewise.plotting.html import hits_fragment, paragraph
from likewise.plotting.terminal import DrawnHit, hits_lines, one_line, signed
from likewise.results import Result, Table
from likewise.search.hits import ROUNDING, STRONGEST, ExplainedHit
from likewise.search.ledger import LedgerDifference

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True, eq=False, repr=False)
class WhyNot(Result):
    """The rank and score of a text, the last hit of its query, and what sets them apart, word by word.

    ``last`` is None if the text is a hit itself, or if there are no hits.
    """

    query: str
    ranker: str
    k: int
    hit: ExplainedHit  # the text in question
    rank: int  # from 1, among all texts
    of: int  # the number of texts
    hits: int  # the number of hits: k, or fewer
    last: ExplainedHit | None = None  # the last hit; the text in question is its next one
    full: bool = False

    @property
    def is_hit(self) -> bool:
        """Whether the text is among the hits."""
        return self.last is None and self.hits > 0

    @property
    def difference(self) -> LedgerDifference | None:
        """What the last hit has more, by the query's words."""
        return None if self.last is None else self.last.above_next

    @property
    def held_down(self) -> list[tuple[int, int, float]]:
        """The words of the text that lower its score, the strongest first: start, end, share."""
        return sorted((word for word in self.hit.words if word[2] < -ROUNDING), key=lambda word: word[2])

    @property
    def missing(self) -> list[tuple[str, float]]:
        """The words of the query by which the last hit is ahead, the strongest first."""
        terms = [] if self.difference is None else self.difference.terms
        return [(name, value) for name, value in terms if value > 0]

    @property
    def headline(self) -> str:
        """The rank and the score in one line."""
        name = f"{self.hit.id} is"
        if self.is_hit:
            return f"{name} a hit: rank {self.rank} of {self.of}, {self.hit.score:.4f}"
        found = f"{name} at rank {self.rank} of {self.of}, {self.hit.score:.4f}"
        if not any(term.value for term in self.hit.ledger.terms):
            found += ", with nothing in common with the query"
        if self.difference is None:
            return f"{found}; the query has no hits"
        return f"{found}; {self.difference.difference:.4f} below hit {self.hits}"

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Why not {self.hit.id}: {self.query}"

    @property
    def cautions(self) -> list[str]:
        """A text that an approximate engine did not find."""
        missed = not self.is_hit and self.hits and self.rank <= self.hits
        return (
            ["the text belongs among the hits by its exact score; the engine of the index missed it"] if missed else []
        )

    def to_dict(self) -> dict[str, Any]:
        """The rank, both texts with their ledgers, and the difference."""
        text = self.hit.text
        held = [{"text": text[start:end], "start": start, "end": end, "share": share}
                for start, end, share in self.held_down]  # fmt: skip
        found = {
            "query": self.query, "ranker": self.ranker, "k": self.k, "id": self.hit.id, "is_hit": self.is_hit,
            "rank": self.rank, "of": self.of, "score": self.hit.score, "hit": self.hit.to_dict(),
        }  # fmt: skip
        if self.last is None or self.difference is None:
            return found | {"last": None, "difference": None, "held_down": held}
        last = {"rank": self.hits} | self.last.to_dict()
        return found | {"last": last, "difference": self.difference.to_dict(), "held_down": held}

    def tables(self) -> dict[str, Table]:
        """The difference by the query's words, and the words that lower the score."""
        terms = [] if self.difference is None else self.difference.terms
        words = [(self.hit.text[start:end], start, end, share) for start, end, share in self.hit.words]
        return {
            "difference": Table.of(["query_word", "difference"], terms, "what the last hit has more", detail=True),
            "words": Table.of(["word", "start", "end", "share"], words, "words of the text", detail=True),
        }

    @property
    def _drawn(self) -> list[DrawnHit]:
        """The last hit and the text, or the text alone."""
        held = ", ".join(f"{one_line(self.hit.text[start:end])} {signed(share)}"
                         for start, end, share in self.held_down[:STRONGEST])  # fmt: skip
        own = replace(self.hit.drawn, rank=self.rank)
        own = replace(own, notes=[*own.notes, *([f"held down by: {held}"] if held else [])])
        shown = [own] if self.last is None else [replace(self.last.drawn, rank=self.hits, above=self.hit.id), own]
        return [replace(one, spans=None) for one in shown] if self.full else shown

    def lines(self, width: int = 0) -> list[Text]:  # noqa: ARG002
        """The rank, and both texts with their words coloured; a hit has one line."""
        from rich.text import Text

        head = Text(one_line(self.headline))
        return [head] if self.is_hit else [head, *hits_lines(self.query, self.ranker, self._drawn)]

    def fragments(self) -> list[str]:
        """The same as HTML."""
        return [paragraph(self.headline), hits_fragment(self.query, self.ranker, self._drawn)]

    def _repr_html_(self) -> str:
        return "".join(self.fragments())

    def __repr__(self) -> str:
        return f"<WhyNot {one_line(self.headline)}>"
