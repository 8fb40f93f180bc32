"""Search hits, best first; explained hits also hold the shares of words in the score and in the margin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from likewise.errors import UsageError
from likewise.explain.explanation import Explanation
from likewise.grammar.spans import Span
from likewise.metrics import ScoreMeaning as ScoreMeaning
from likewise.plotting.html import hits_fragment
from likewise.plotting.terminal import DrawnHit, hits_lines, one_line, shortened, signed
from likewise.results import Comparable, ResultSet, Table
from likewise.search.ledger import HitLedgers, LedgerDifference, ScoreLedger
from likewise.search.snippets import Shared, sentence_shares, snippet

if TYPE_CHECKING:
    from rich.text import Text

STRONGEST = 5
ROUNDING = 1e-6  # What single precision leaves of a term that is zero


@dataclass(frozen=True)
class Passage:
    """Where a passage is in its document: its number from 1, the number of passages, and its characters."""

    number: int
    of: int
    start: int
    end: int


@dataclass(frozen=True)
class Stage:
    """What one stage of a search made of a hit: its rank from 1, its score and, on request, why."""

    ranker: str
    rank: int
    score: float
    ledgers: HitLedgers | None = None

    def to_dict(self) -> dict[str, Any]:
        """The rank and the score; the ledgers where there are any."""
        found: dict[str, Any] = {"ranker": self.ranker, "rank": self.rank, "score": self.score}
        return found if self.ledgers is None else found | {"explanation": self.ledgers.to_dict()}

    def __str__(self) -> str:
        why = "" if self.ledgers is None else _terms_line(self.ledgers)
        return f"{self.ranker}: rank {self.rank}, {self.score:.4f}{why}"


@dataclass(frozen=True)
class ReturnedScore:
    """The score that another system returned for a hit, and what it is by the model.

    >>> str(ReturnedScore(0.6, "1 - cosine", False))
    'returned score 0.6: 1 - cosine by this model, and not what is explained'
    """

    score: float
    measure: str  # what it equals, such as cosine or squared L2 distance; empty if nothing known fits
    agrees: bool  # whether it is the score that is explained

    def to_dict(self) -> dict[str, Any]:
        """The score, the measure (null if none fits), and whether it is the explained score."""
        return {"score": self.score, "measure": self.measure or None, "agrees": self.agrees}

    def __str__(self) -> str:
        if self.agrees:
            meaning = f"{self.measure} by this model, as explained"
        elif self.measure:
            meaning = f"{self.measure} by this model, and not what is explained"
        else:
            meaning = "not this model's score for this text"
        return f"returned score {self.score:.4g}: {meaning}"


def _terms_line(ledgers: HitLedgers) -> str:
    """The strongest terms of a score, for one line: words, or of a hybrid its rankers with their ranks."""
    terms = ledgers.sums if ledgers.parts else ledgers.by_text.strongest(STRONGEST)
    shown = [f"{name} {signed(value)}" for name, value in terms if abs(value) > ROUNDING]
    return f": {', '.join(shown)}" if shown else ""


@dataclass(frozen=True)
class Hit:
    """One text, or the best passage of one document, that a query found.

    >>> Hit("7", "A cat sat.", 0.5)
    <Hit 7: 0.5000 'A cat sat.'>
    """

    id: str  # of the text or document
    text: str  # the whole text, or the passage
    score: float
    passage: Passage | None = field(default=None, kw_only=True)  # None in an index of single texts
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    meaning: ScoreMeaning | None = field(default=None, kw_only=True)  # None without a calibration
    stages: tuple[Stage, ...] = field(default=(), kw_only=True)  # of a search with a reranker
    returned: ReturnedScore | None = field(default=None, kw_only=True)  # by another system, of a hit that it found

    @property
    def snippet(self) -> list[Span]:
        """The characters of the text that are shown."""
        return snippet(self.text)

    @property
    def _document_spans(self) -> list[dict[str, int]]:
        """The snippet's characters in the document."""
        first = 0 if self.passage is None else self.passage.start
        return [{"start": first + start, "end": first + end} for start, end in self.snippet]

    def to_dict(self) -> dict[str, Any]:
        """The id, the score and the text; the snippet of a long one; all else where there is any."""
        found: dict[str, Any] = {"id": self.id, "score": self.score, "text": self.text}
        if self.snippet != [(0, len(self.text))]:
            found["snippet"] = self._document_spans
        if self.returned is not None:
            found["returned"] = self.returned.to_dict()
        if self.stages:
            found["stages"] = [stage.to_dict() for stage in self.stages]
        if self.passage is not None:
            found["passage"] = asdict(self.passage)
        if self.metadata:
            found["metadata"] = dict(self.metadata)
        return found if self.meaning is None else found | {"meaning": self.meaning.to_dict()}

    @property
    def drawn(self) -> DrawnHit:
        """What pages and terminals show."""
        location = "" if self.passage is None else f"passage {self.passage.number} of {self.passage.of}"
        notes = [*([] if self.returned is None else [str(self.returned)]), *map(str, self.stages)]
        return DrawnHit(
            self.id,
            self.score,
            self.text,
            spans=self.snippet,
            location=location,
            notes=notes,
            meaning=str(self.meaning or ""),
        )

    def __repr__(self) -> str:
        text = shortened(one_line(self.text), 60)
        return f"<{type(self).__name__} {one_line(self.id)}: {self.score:.4f} {text!r}>"


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedHit(Hit):
    """A hit, why it was found, and what puts it above the next one."""

    ledgers: HitLedgers
    next: ScoreLedger | None = None  # of the next hit, by the query's words
    most_pairs: int = STRONGEST

    @classmethod
    def of(cls, hit: Hit, ledgers: HitLedgers, after: ScoreLedger | None = None, most: int = STRONGEST) -> ExplainedHit:
        """A hit with its ledgers."""
        given = {name: value for name, value in vars(hit).items() if name in Hit.__dataclass_fields__}
        return cls(**given, ledgers=ledgers, next=after, most_pairs=most)

    @property
    def ledger(self) -> ScoreLedger:
        """The terms that sum to the score, by the words of the text; of a hybrid by its rankers."""
        return self.ledgers.by_text

    @property
    def shares(self) -> Any:
        """The model's own explanation of the hit; None for a ranker of words."""
        return self.ledgers.shown.shares

    @property
    def words(self) -> list[Shared]:
        """The start and end of each word of the text and its share of the score; of a hybrid, those of one part."""
        return self.ledgers.shown.by_text.words

    @property
    def sentences(self) -> list[Shared]:
        """The start and end of each sentence of the text, and its share of the score."""
        return sentence_shares(self.text, self.words)

    @property
    def snippet(self) -> list[Span]:
        """The characters of the text that are shown: the strongest sentences."""
        return snippet(self.text, self.sentences)

    @property
    def pairs(self) -> list[tuple[str, str, float]]:
        """The strongest pairs of a query unit and a text unit, without special tokens; empty if not computed."""
        if not isinstance(self.shares, Explanation):
            return []
        every = self.shares.strongest(self.shares.relevance.size)
        words = (pair for pair in every if pair[0].kind == pair[1].kind == "text")
        return [(left.text, right.text, value) for left, right, value in islice(words, self.most_pairs)]

    @property
    def above_next(self) -> LedgerDifference | None:
        """The difference to the next hit by the query's words; None for the last one."""
        return None if self.next is None else LedgerDifference(self.ledgers.by_query, self.next)

    @property
    def margin(self) -> float:
        """How much higher than the next hit it scores; 0 for the last one."""
        return 0.0 if self.above_next is None else self.above_next.difference

    @property
    def margin_terms(self) -> list[tuple[str, float]]:
        """What each query unit adds to the margin over the next hit, strongest first."""
        return [] if self.above_next is None else self.above_next.terms

    @property
    def shown_terms(self) -> list[tuple[str, float]]:
        """The strongest terms of the margin, and what the query's reference adds to it."""
        found = [(name, value) for name, value in self.margin_terms[:STRONGEST] if abs(value) > ROUNDING]
        if self.above_next is not None and self.above_next.rest:
            found.append((f"({self.ledgers.by_query.rest_name})", self.above_next.rest))
        return found

    @property
    def drawn(self) -> DrawnHit:
        """What pages and terminals show."""
        parts = [f"{name} {part.by_text.score:.4f}{_terms_line(part)}"
                 for name, part in self.ledgers.parts.items()]  # fmt: skip
        plain, measure = super().drawn, self.ledger.measure
        return replace(
            plain, words=self.words, pairs=self.pairs, margin=self.margin, margin_terms=self.shown_terms,
            sums=self.ledgers.sums, sums_name="logit" if measure == "logit" else "score", notes=[*plain.notes, *parts],
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """As every hit; shares, pairs and the margin are under ``explanation``, on the scale of the score."""
        why = self.ledgers.to_dict()
        why["sentences"] = [{"start": start, "end": end, "share": share} for start, end, share in self.sentences]
        why["pairs"] = [{"query": left, "text": right, "relevance": value} for left, right, value in self.pairs]
        if self.above_next is not None:
            why["above_next"] = self.above_next.to_dict()
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
    full: bool = False  # whether pages and terminals show whole texts, and not snippets
    cautions: tuple[str, ...] = ()  # of hits that another system returned

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
        found = {"query": self.query, "ranker": self.ranker, "hits": rows}
        return found | ({"cautions": list(self.cautions)} if self.cautions else {})

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
        return hits_lines(self.query, self.ranker, self._drawn)

    def fragments(self) -> list[str]:
        """The hits as HTML, with their words coloured if they are explained."""
        return [hits_fragment(self.query, self.ranker, self._drawn)]

    @property
    def _drawn(self) -> list[DrawnHit]:
        return [replace(hit.drawn, spans=None) if self.full else hit.drawn for hit in self.hits]

    def _repr_html_(self) -> str:
        return "".join([*self._note_fragments(), *self.fragments()])


@dataclass(frozen=True, repr=False)
class SearchResult(ResultSet[Hits]):
    """The hits of one or more queries, and how the index searched."""

    engine: Mapping[str, Any] = field(default_factory=dict)  # engine and recall, for the document of each query
    summary: str = ""

    @property
    def title(self) -> str:
        """The heading of the page."""
        return self.results[0].title if len(self.results) == 1 else f"Search: {len(self.results)} queries"

    @property
    def cautions(self) -> list[str]:
        """How the index searched: an approximate engine says how much it finds; and what the hits say."""
        return [*([self.summary] if self.summary else []), *super().cautions]

    def to_dict(self) -> dict[str, Any]:
        """A single query as itself, several under ``results``."""
        found = [{**one.to_dict(), **self.engine} for one in self.results]
        return found[0] if len(found) == 1 else {"results": found}

    def lines(self, width: int) -> list[Text]:
        """The hits of all queries."""
        return [line for one in self.results for line in one.lines(width)]

    def fragments(self) -> list[str]:
        """The hits of all queries."""
        return [part for one in self.results for part in one.fragments()]


def check_search(queries: Sequence[str], k: int) -> None:
    """Rejects a search that cannot find anything."""
    if k < 1:
        raise UsageError(f"a search brings 1 hit or more, got k = {k}")
    if any(not query.strip() for query in queries):
        raise UsageError("an empty query finds nothing; give at least one word")
