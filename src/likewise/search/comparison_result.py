"""The result of comparing two models in search: what they find for the same queries, and why that differs.

Scores of two models have no common scale, so scores are never compared across models. Two things are: ranks, and the
margin of one text over another in each model, in standard deviations of that model's scores for the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data.annotations import Query
from likewise.errors import DataError, UsageError
from likewise.metrics import Interval, bootstrap_means, sign_flip_test
from likewise.plotting.curves import curves
from likewise.plotting.distributions import histogram
from likewise.plotting.html import hits_fragment
from likewise.plotting.terminal import one_line, shortened, unique_labels
from likewise.results import Column, Figure, Result, Table
from likewise.results.result import table_section
from likewise.search.hits import ExplainedHit, Hit
from likewise.search.ledger import model_ledgers
from likewise.search.order_changes import OrderChange
from likewise.search.rank_overlap import PERSISTENCE, overlaps, rank_biased_overlap, shared_kendall
from likewise.search.ranker import TIE, Rows
from likewise.search.recall import KS, RetrievalResult, checked_ks, recall_figure

Array = NDArray[np.float64]
Columns = list[str | Column]
TOP = 10  # The hits that a user sees
MOST_CHANGED = 5  # Queries whose change is explained
SHOWN_WORDS, SHOWN_IDS, SHOWN_TEXT = 4, 5, 90  # In a row of a table for people: words, ids, characters of a text
SHOWN_DOCUMENTS = 10
UNCHANGED = 1 - 1e-9  # A rank-biased overlap above it means equal rankings
SIDES = ("A", "B")


@dataclass(frozen=True)
class ComparisonSettings:
    """How two models are compared.

    >>> ComparisonSettings().within(8).ks
    (1, 5)
    """

    ks: tuple[int, ...] | None = None  # the depths of overlap and recall; None: 1, 5, 10, 20 and 50, as far as they fit
    top: int | None = None  # a document comes or goes among this many hits; None: 10, or all texts if there are fewer
    persistence: float = PERSISTENCE  # of rank-biased overlap
    most_changed: int = MOST_CHANGED  # how many queries are explained

    def __post_init__(self) -> None:
        if not 0 < self.persistence < 1:
            flaw = f"the persistence of rank-biased overlap lies between 0 and 1, got {self.persistence:g}"
            raise UsageError(f"{flaw}; give 0.9")
        if self.most_changed < 0 or (self.top is not None and self.top < 1):
            raise UsageError("top is a number from 1 on and most_changed one from 0 on; give others")

    def within(self, texts: int) -> FittedSettings:
        """The same for a corpus of that many texts; a depth beyond it raises UsageError."""
        if texts < 1:
            raise DataError("a comparison of models needs at least one text; give or add some")
        ks = checked_ks([k for k in KS if k <= texts] if self.ks is None else self.ks)
        top = min(TOP, texts) if self.top is None else self.top
        if max(*ks, top) > texts:
            raise UsageError(f"{max(*ks, top)} first texts of a corpus of {texts}; lower k or top to {texts} or less")
        return FittedSettings(ks, top, self.persistence, self.most_changed)


@dataclass(frozen=True)
class FittedSettings:
    """The settings of one comparison."""

    ks: tuple[int, ...]
    top: int
    persistence: float
    most_changed: int

    @property
    def depth(self) -> int:
        """How many first texts of each query are compared."""
        return max(*self.ks, self.top)


@dataclass(frozen=True, eq=False)
class ComparedRanking:
    """What one model finds for q queries."""

    rows: Rows  # of the first texts (q, depth), best first
    spread: Array  # the standard deviation of the scores of all texts, (q,)


@dataclass(frozen=True)
class HitChange:
    """The rows of one query that come into the first hits and that go."""

    came: tuple[int, ...]  # in the order of the second model
    went: tuple[int, ...]  # in the order of the first model


@dataclass(frozen=True, eq=False)
class RetrievalQuality:
    """Recall, MRR and nDCG of both models, and the difference: its interval and its randomization test."""

    first: RetrievalResult
    second: RetrievalResult
    left_out: int = 0  # queries without a relevant text

    @cached_property
    def differences(self) -> list[tuple[Interval, float]]:
        """B minus A and its p-value, for each measure."""
        values = self.second.values - self.first.values
        return list(zip(bootstrap_means(values), sign_flip_test(values), strict=True))

    @property
    def rows(self) -> list[tuple[str, Interval, Interval, Interval, float]]:
        """Each measure with both values, the difference and its p-value."""
        names = [*(f"R@{k}" for k in self.first.recall), "MRR@10", "nDCG@10"]
        both = [(*one.recall.values(), one.mrr, one.ndcg) for one in (self.first, self.second)]
        found = zip(names, *both, self.differences, strict=True)
        return [(name, one, other, *difference) for name, one, other, difference in found]

    def to_dict(self) -> dict[str, Any]:
        """Value and interval of A, B and B - A, and the p-value, by measure."""
        measures = {
            name: {"A": _numbers(one), "B": _numbers(other), "difference": _numbers(change), "p": p}
            for name, one, other, change, p in self.rows
        }
        return {"n": self.first.n, "left_out": self.left_out, "measures": measures}


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(Result):
    """What two models find for the same queries among the same texts: A is the first model, B the second."""

    data: str
    names: tuple[str, str]
    texts: int
    queries: tuple[Query, ...]
    rankings: tuple[ComparedRanking, ComparedRanking]
    settings: FittedSettings
    documents: Mapping[int, tuple[str, str]] = field(default_factory=dict)  # id and text of all that come or go
    explained: tuple[OrderChange, ...] = ()
    quality: RetrievalQuality | None = None
    remarks: tuple[str, ...] = ()

    @cached_property
    def overlap(self) -> Array:
        """The shared part of the first d texts, for each query and depth d: (q, depth)."""
        return overlaps(self.rankings[0].rows, self.rankings[1].rows)

    @cached_property
    def rbo(self) -> Array:
        """The rank-biased overlap of each query: (q,)."""
        return rank_biased_overlap(self.overlap, self.settings.persistence)

    @cached_property
    def kendall(self) -> Array:
        """Kendall's tau of the shared texts of each query: (q,); nan if there are fewer than two."""
        return shared_kendall(self.rankings[0].rows, self.rankings[1].rows)

    @cached_property
    def changes(self) -> list[HitChange]:
        """The rows that come and go, query by query."""
        top, found = self.settings.top, []
        for one, other in zip(self.rankings[0].rows[:, :top], self.rankings[1].rows[:, :top], strict=True):
            came, went = (each[~np.isin(each, rest)].tolist() for each, rest in ((other, one), (one, other)))
            found.append(HitChange(tuple(came), tuple(went)))
        return found

    @property
    def most_changed(self) -> list[int]:
        """The queries of lowest rank-biased overlap, lowest first; none whose ranking is the same."""
        order = np.argsort(self.rbo, kind="stable")[: self.settings.most_changed]
        return [int(query) for query in order if self.rbo[query] < UNCHANGED]

    def turned_pair(self, query: int) -> tuple[int, int]:
        """Two rows that the rankings of a changed query have in opposite order; the first is the higher one in B.

        The first text that came and the first that went or, if the hits are the same, the first place that differs.
        """
        change = self.changes[query]
        if change.came:
            return change.came[0], change.went[0]
        one, other = (ranking.rows[query] for ranking in self.rankings)
        place = int(np.argmax(one != other))
        return int(other[place]), int(one[place])

    def rank(self, side: int, query: int, row: int) -> int | None:
        """The rank of a row, from 1; None beyond the compared depth."""
        found = np.flatnonzero(self.rankings[side].rows[query] == row)
        return int(found[0]) + 1 if len(found) else None

    @cached_property
    def means(self) -> dict[str, Interval | None]:
        """The mean over queries of overlap at each k (``overlap_K``), ``rbo`` and ``kendall``, with intervals.

        Kendall's tau is that of the queries that have one; None if no query has.
        """
        values = [*(self.overlap[:, k - 1] for k in self.settings.ks), self.rbo]
        *overlap, rbo = bootstrap_means(np.array(values))
        defined = self.kendall[np.isfinite(self.kendall)]
        kendall = bootstrap_means(defined[None])[0] if len(defined) else None
        named = {f"overlap_{k}": one for k, one in zip(self.settings.ks, overlap, strict=True)}
        return {**named, "rbo": rbo, "kendall": kendall}

    # Documents

    def to_dict(self) -> dict[str, Any]:
        """Means with intervals, every query with what came and went, and the explained changes."""
        means = {name: None if mean is None else _numbers(mean) for name, mean in self.means.items()}
        chosen = self.settings
        return {
            "data": self.data, "models": list(self.names), "texts": self.texts, "n": len(self.queries),
            "k": list(chosen.ks), "top": chosen.top, "persistence": chosen.persistence, "depth": chosen.depth,
            "means": means, "quality": None if self.quality is None else self.quality.to_dict(),
            "queries": [self._query_document(query) for query in range(len(self.queries))],
            "explained": [self._explained_document(change) for change in self.explained], "remarks": list(self.remarks),
        }  # fmt: skip

    def _query_document(self, query: int) -> dict[str, Any]:
        one, change = self.queries[query], self.changes[query]
        overlap = {str(k): float(self.overlap[query, k - 1]) for k in self.settings.ks}
        moved = {
            name: [self._hit_document(query, row) for row in rows]
            for name, rows in (("came", change.came), ("went", change.went))
        }
        scores = {"rbo": float(self.rbo[query]), "kendall": float(self.kendall[query]), "overlap": overlap}
        return {"id": one.id, "query": one.text} | scores | moved

    def _hit_document(self, query: int, row: int) -> dict[str, Any]:
        return {"id": self.documents[row][0], "ranks": [self.rank(side, query, row) for side in (0, 1)]}

    def _explained_document(self, change: OrderChange) -> dict[str, Any]:
        asked, found = self.queries[change.query], change.to_dict()
        for name, row, (text_id, text) in (
            ("came", change.came, change.came_text), ("went", change.went, change.went_text)
        ):  # fmt: skip
            ranks = [self.rank(side, change.query, row) for side in (0, 1)]
            found[name] = {"id": text_id, "ranks": ranks, "text": text}
        return {"id": asked.id, "query": asked.text} | found

    # What people see

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Two models in search: {self.names[0]} and {self.names[1]}"

    @property
    def notes(self) -> list[str]:
        """The models, and how much changes in one sentence."""
        n, top = len(self.queries), self.settings.top
        same = sum(not change.came for change in self.changes)
        equal = int((self.rbo >= UNCHANGED).sum())
        sizes = f"{n:,} {'query' if n == 1 else 'queries'} to {self.texts:,} texts of {self.data}"
        text = "nothing changes" if equal == n else f"the first {top} hits stay the same for {same:,} of {n:,}"
        order = "" if equal == n else f", in the same order for {equal:,} to depth {self.settings.depth}"
        return [f"A: {self.names[0]}", f"B: {self.names[1]}", f"{sizes}: {text}{order}."]

    @property
    def cautions(self) -> list[str]:
        """What could not be judged or explained, and bad rows."""
        left_out = 0 if self.quality is None else self.quality.left_out
        found = [f"queries without a relevant text, left out of recall, MRR and nDCG: {left_out}"] if left_out else []
        return [*found, *self.remarks]

    def tables(self) -> dict[str, Table]:
        """Means; measures by judgements; the most changed queries and documents; and everything in detail."""
        tables = {"summary": self._summary_table()}
        if self.quality is not None:
            tables["measures"] = self._measure_table(self.quality)
        tables |= {"changed": self._changed_table(), "margins": self._margin_table()}
        return tables | self._document_tables() | self._detail_tables()

    def _summary_table(self) -> Table:
        note = (
            f"Overlap: the share of the first k texts that A and B have in common. RBO: the same at all depths to"
            f" {self.settings.depth}, with more weight on the first. Scores within {TIE:g} are equal; then the earlier"
            " text comes first. With bootstrap 95 % intervals over queries."
        )
        names = {f"overlap_{k}": f"overlap at {k}" for k in self.settings.ks}
        names |= {"rbo": f"RBO (p = {self.settings.persistence:g})"}
        names |= {"kendall": f"Kendall's tau of shared texts, first {self.settings.depth}"}
        lowest = [*self.overlap.min(0)[np.array(self.settings.ks) - 1].tolist(), float(self.rbo.min())]
        lowest.append(float(np.min(self.kendall[np.isfinite(self.kendall)], initial=np.inf)))
        rows = [(names[name], mean, low) for (name, mean), low in zip(self.means.items(), lowest, strict=True)]
        columns: Columns = ["measure", Column("mean", format=".3f"), Column("lowest", format=".3f")]
        return Table.of(columns, [row for row in rows if row[1] is not None], "How alike A and B rank", note)

    def _measure_table(self, quality: RetrievalQuality) -> Table:
        columns = [Column(name, heading, ".3f") for name, heading in (
            ("a", "A"), ("b", "B"), ("difference", "B - A"), ("p", "p"),
        )]  # fmt: skip
        note = (
            f"{quality.first.n} queries; bootstrap 95 % intervals; p by a randomization test of the paired differences,"
            " not corrected for the number of measures."
        )
        return Table.of(["measure", *columns], quality.rows, "How good A and B are, by judgements", note)

    def _changed_table(self) -> Table:
        top, rows = self.settings.top, []
        for query in self.most_changed:
            change = self.changes[query]
            listed = [self._listed(each) for each in (change.came, change.went)]
            rows.append((self.queries[query].text, float(self.rbo[query]), top - len(change.came), *listed))
        columns: Columns = ["query", Column("rbo", "RBO", ".3f"), Column("shared", f"shared of {top}"), "came", "went"]
        return Table.of(columns, rows, "Queries that change most", summary=True)

    def _listed(self, rows: Sequence[int]) -> str:
        names = [self.documents[row][0] for row in rows[:SHOWN_IDS]]
        return ", ".join([*names, *([f"{len(rows) - SHOWN_IDS} more"] if len(rows) > SHOWN_IDS else [])])

    def _margin_table(self) -> Table:
        rows = []
        for change in self.explained:
            named = [
                f"{name} ({self._rank_text(0, change.query, row)} to {self._rank_text(1, change.query, row)})"
                for row, (name, _) in ((change.came, change.came_text), (change.went, change.went_text))
            ]
            words = ", ".join(f"{name} {value:+.2f}" for name, value in change.strongest(SHOWN_WORDS))
            margins = change.first.deviations, change.second.deviations, change.change
            rows.append((self.queries[change.query].text, *named, *margins, words))
        columns: Columns = [
            "query", Column("came", "B has higher (rank in A to B)"), Column("went", "A has higher"),
            Column("a", "margin in A", "+.2f"), Column("b", "in B", "+.2f"), Column("change", "change", "+.2f"),
            Column("words", "strongest words of the change"),
        ]  # fmt: skip
        note = (
            "The margin of the first text over the second in each model, in standard deviations of the query's scores"
            " with all texts. The words' terms sum to the change."
        )
        return Table.of(columns, rows, "Why, for the queries that change most", note, summary=True)

    def _rank_text(self, side: int, query: int, row: int) -> str:
        rank = self.rank(side, query, row)
        return f"> {self.settings.depth}" if rank is None else str(rank)

    def _document_tables(self) -> dict[str, Table]:
        came = Counter(row for change in self.changes for row in change.came)
        went = Counter(row for change in self.changes for row in change.went)
        order = sorted(came.keys() | went.keys(), key=lambda row: (-came[row] - went[row], row))
        rows = [(self.documents[row][0], came[row], went[row], self.documents[row][1]) for row in order]
        top = self.settings.top
        columns: Columns = ["document", Column("comes", "comes for"), Column("goes", "goes for"), "text"]
        short = [(*row[:3], shortened(one_line(str(row[3])), SHOWN_TEXT)) for row in rows[:SHOWN_DOCUMENTS]]
        title = f"Documents that come and go most often (number of queries, first {top} hits)"
        return {
            "documents": Table.of(columns, rows, detail=True),
            "frequent": Table.of(columns, short, title, summary=True),
        }

    def _detail_tables(self) -> dict[str, Table]:
        queries = [
            (one.id, one.text, float(self.rbo[index]), float(self.kendall[index]),
             *(float(self.overlap[index, k - 1]) for k in self.settings.ks))
            for index, one in enumerate(self.queries)
        ]  # fmt: skip
        hits = [
            (self.queries[query].id, self.documents[row][0], name, self.rank(0, query, row), self.rank(1, query, row))
            for query, change in enumerate(self.changes)
            for name, rows in (("came", change.came), ("went", change.went))
            for row in rows
        ]
        words = [
            (self.queries[change.query].id, change.came_text[0], change.went_text[0], *term, change.change_of(term))
            for change in self.explained
            for term in change.terms
        ]
        overlap = [f"overlap_{k}" for k in self.settings.ks]
        return {
            "queries": Table.of(["id", "query", "rbo", "kendall", *overlap], queries, detail=True),
            "hits": Table.of(["query", "document", "change", "rank_a", "rank_b"], hits, detail=True),
            "words": Table.of(["query", "came", "went", "word", "share_a", "share_b", "change"], words, detail=True),
        }

    def figures(self) -> dict[str, Figure]:
        """Overlap over depth, rank-biased overlap over queries and, with judgements, recall over k."""
        found = {
            "overlap": Figure(self._overlap_figure, "Overlap of the first texts"),
            "rbo": Figure(self._rbo_figure, "Rank-biased overlap of the queries"),
        }
        if self.quality is not None:
            both = self.quality.first, self.quality.second
            named = [
                replace(one, data=self.data, setting=replace(one.setting, pooling=f"{side}: {name}", model=None))
                for side, name, one in zip(SIDES, unique_labels(self.names), both, strict=True)
            ]
            found["recall"] = Figure(lambda: recall_figure(named), "Recall over k")
        return found

    def _overlap_figure(self) -> Any:
        means = bootstrap_means(self.overlap.T)
        series = {"": ([one.value for one in means], [one.low for one in means], [one.high for one in means])}
        title = ", ".join(f"{side}: {name}" for side, name in zip(SIDES, unique_labels(self.names), strict=True))
        depths = np.arange(1, self.settings.depth + 1)
        return curves(depths, series, ("first texts", "shared by A and B"), title, whole=True)

    def _rbo_figure(self) -> Any:
        labels = f"rank-biased overlap (p = {self.settings.persistence:g})", "queries"
        return histogram(self.rbo, (0.0, 1.0), labels, f"{len(self.queries):,} queries")

    def fragments(self) -> list[str]:
        """Figures and tables, then every explained change with its texts and all words."""
        return [*super().fragments(), *map(self._change_section, self.explained)]

    def _change_section(self, change: OrderChange) -> str:
        query = self.queries[change.query].text
        rows: list[tuple[str, float, float, float]] = [(*term, change.change_of(term)) for term in change.terms]
        rows.append(("all", change.first.value, change.second.value, change.change))
        columns = [Column(*each) for each in (
            ("word", "word of the query"), ("a", "margin in A", "+.4f"), ("b", "in B", "+.4f"),
            ("change", "change in standard deviations", "+.2f"),
        )]  # fmt: skip
        came, went = change.came_text[0], change.went_text[0]
        spreads = f"{change.first.spread:.4f} in A and {change.second.spread:.4f} in B"
        note = (
            f"What each word adds to the margin of {came}, which B has higher, over {went}, which A has higher. The"
            f" standard deviation of the query's scores with all texts is {spreads}."
        )
        table = table_section("", Table.of(columns, rows, f"Why: {query}", note))
        return table + "".join(self._drawn_texts(change, side) for side in (0, 1))

    def _drawn_texts(self, change: OrderChange, side: int) -> str:
        """Both texts as one model scores them, the higher one first, with their words coloured."""
        contrast = (change.first, change.second)[side].contrast
        both = [(change.came, change.came_text[0], contrast.better), (change.went, change.went_text[0], contrast.worse)]
        both = both if side else both[::-1]
        ledgers = [model_ledgers(one) for _, _, one in both]
        hits = [
            # Of a document, the passage that this model has highest.
            Hit(f"{name}, rank {self._rank_text(side, change.query, row)}", one.right.text, one.similarity)
            for row, name, one in both
        ]
        after = ledgers[1].by_query, None
        drawn = [ExplainedHit.of(*parts) for parts in zip(hits, ledgers, after, strict=True)]
        return hits_fragment(
            self.queries[change.query].text, f"{SIDES[side]}: {self.names[side]}", [hit.drawn for hit in drawn]
        )


def _numbers(interval: Interval) -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
