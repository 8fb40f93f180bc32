"""Search hits, best first; explained hits also hold the shares of words in the score and in the margin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from likewise.errors import ModelError, UsageError
from likewise.explain.explanation import Contrast, Explanation, PairShares
from likewise.explain.linear_map import has_columns
from likewise.explain.pairs import explained_maps, explanation, metadata_of, pair_shares
from likewise.explain.settings import Settings
from likewise.explain.texts import ContributionCache, TextInput, TextMap, check_granularity, token_groups
from likewise.metrics import ScoreMeaning as ScoreMeaning
from likewise.plotting.html import hits_fragment
from likewise.plotting.terminal import DrawnHit, hits_lines, one_line, shortened
from likewise.progress import Progress, Ticker
from likewise.results import Comparable, ResultSet, Table
from likewise.storage import user_cache

if TYPE_CHECKING:
    from rich.text import Text

    from likewise.search.index import Index

STRONGEST = 5
ROUNDING = 1e-6  # What single precision leaves of a term that is zero
SHORT = 32  # Up to this many units, a text's rows are cached, and a query gets pairs of words by default
FIRST_HITS = 3  # Long hits that get pairs of words by default


@dataclass(frozen=True)
class Passage:
    """Where a passage is in its document: its number from 1, the number of passages, and its characters."""

    number: int
    of: int
    start: int
    end: int


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

    def to_dict(self) -> dict[str, Any]:
        """The id, the score and the text; the passage, the metadata and the meaning where there are any."""
        found: dict[str, Any] = {"id": self.id, "score": self.score, "text": self.text}
        if self.passage is not None:
            found["passage"] = asdict(self.passage)
        if self.metadata:
            found["metadata"] = dict(self.metadata)
        return found if self.meaning is None else found | {"meaning": self.meaning.to_dict()}

    @property
    def drawn(self) -> DrawnHit:
        """What pages and terminals show."""
        return DrawnHit(self.id, self.score, self.text, meaning=str(self.meaning or ""))

    def __repr__(self) -> str:
        text = shortened(one_line(self.text), 60)
        return f"<{type(self).__name__} {one_line(self.id)}: {self.score:.4f} {text!r}>"


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedHit(Hit):
    """A hit, why it was found, and what puts it above the next one."""

    shares: Explanation | PairShares  # the share of each unit in the score: query on the left, text on the right
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
        if not isinstance(self.shares, Explanation):
            return []
        every = self.shares.strongest(self.shares.relevance.size)
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
        return DrawnHit(self.id, self.score, self.text, *why, meaning=str(self.meaning or ""))

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
        """How the index searched: an approximate engine says how much it finds."""
        return [self.summary] if self.summary else []

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


def explained_search(
    index: Index, query: str, k: int = 10, *, granularity: str = "word", pairs_per_hit: int | None = None,
    progress: Progress | None = None, **settings: Any,
) -> Hits:  # fmt: skip
    """The k best hits, each explained exactly as it was scored: same model, prompts and similarity.

    The shares of a hit's words cost one transposed pass. Pairs of words cost one for each word of the query: by
    default short hits get them, and the first hits of a short query; ``pairs_per_hit`` gives every hit that many.
    """
    check_search([query], k)
    check_granularity(granularity)
    if pairs_per_hit is not None and pairs_per_hit < 0:
        raise UsageError(f"pairs_per_hit is a number from 0 on, got {pairs_per_hit}")
    # One more, so that the last hit has a next one too.
    found = index.search(query, k + 1)
    wanted = pairs_per_hit if pairs_per_hit is None else k if pairs_per_hit else 0
    how = Settings(**{"fold_special": True} | settings), Ticker(progress, len(found), "explained texts")
    asked = TextInput(query, index.prompts[0], granularity)
    shares = _shares(index, asked, [hit.text for hit in found], wanted, *how)
    for hit, one in zip(found, shares, strict=True):
        if not abs(hit.score - one.similarity) <= one.tolerance:
            scores = f"{hit.score:.5f} in {index.store.address} but the model gives {one.similarity:.5f}"
            raise ModelError(f"{hit.id} was scored {scores}; build the index again")
    margins = [*(Contrast(one, after) for one, after in pairwise(shares)), None][: len(shares)]
    most = STRONGEST if pairs_per_hit is None else pairs_per_hit
    explained = [
        ExplainedHit(hit.id, hit.text, hit.score, share, margin, most, meaning=hit.meaning)
        for hit, share, margin in zip(found, shares, margins, strict=True)
    ]
    return replace(found, hits=tuple(explained[:k]))


def _shares(
    index: Index, query: TextInput, texts: Sequence[str], with_pairs: int | None, settings: Settings, ticker: Ticker
) -> list[Explanation | PairShares]:
    """The first texts with pairs of words, the others with shares only; None depends on the length of the query.

    The rows of short texts are cached on disk for the next query. Long texts use columns: one pass for the shares, or
    one for each unit of the query for pairs of words.
    """
    encoder = index.encoder
    inputs = [query, *(TextInput(text, index.prompts[1], query.granularity) for text in texts)]
    asked, *groups = (token_groups(encoder, text, settings) for text in inputs)
    metadata = metadata_of(encoder, "bilrp", str(query.granularity), index.similarity, settings)
    is_short, no_columns = len(asked.units) <= SHORT, not has_columns("bilrp", settings)
    by_rows = [i for i, one in enumerate(groups) if no_columns or (is_short and len(one.units) <= SHORT)]
    cache = ContributionCache(encoder, settings, user_cache() / "contributions")
    rows = cache.of([query, *(inputs[1 + i] for i in by_rows)] if by_rows else [], ticker.part())
    cached = dict(zip(by_rows, rows[1:], strict=True))
    pairs = (FIRST_HITS if is_short else 0) if with_pairs is None else with_pairs
    recorded = None if len(cached) == len(groups) else TextMap.of(encoder, asked, settings)
    found: list[Explanation | PairShares] = []
    for position, group in enumerate(groups):
        if recorded is None or position in cached:
            found.append(explanation(rows[0], cached[position], metadata))
        else:
            explain = explained_maps if position < pairs else pair_shares
            found.append(explain(recorded, TextMap.of(encoder, group, settings), metadata))
            ticker.add()
    ticker.close()
    return found
