"""Ranks of relevant texts, and the metrics that are computed from them: recall@k, MRR@10 and nDCG@10.

A text's rank is the number of texts that score more than ``TIE`` above it, so ties and rounding errors count in the
query's favour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from likewise.errors import DataError, UsageError
from likewise.metrics import Interval, bootstrap_means
from likewise.plotting.curves import share_curves
from likewise.progress import Progress, Ticker
from likewise.results import Column, Comparable, Figure, ResultSet, Table
from likewise.search.ranker import TIE, Rows, Scores

KS = (1, 5, 10, 20, 50)
DEPTH = 10  # The first texts that MRR and nDCG look at
TIES = f"a text's rank is the number of texts that score more than {TIE:g} above it: ties are in the query's favour"


@dataclass(frozen=True, eq=False)
class Relevant:
    """Which texts answer which of q queries, one after another: rows (m,), gains (m,), starts (q + 1,).

    The relevant texts of query i are ``rows[starts[i]:starts[i + 1]]``.
    """

    rows: Rows
    gains: NDArray[np.float64]
    starts: Rows

    @classmethod
    def of(cls, gains: Iterable[Mapping[int, float]]) -> Relevant:
        """The gain of each relevant row, query by query."""
        queries = list(gains)
        rows = [row for query in queries for row in query]
        values = [gain for query in queries for gain in query.values()]
        starts = np.cumsum([0, *map(len, queries)], dtype=np.int64)
        return cls(np.array(rows, np.int64), np.array(values, np.float64), starts)

    @classmethod
    def single(cls, rows: ArrayLike) -> Relevant:
        """One relevant text for each query, of gain 1."""
        wanted = np.asarray(rows, dtype=np.int64)
        return cls(wanted, np.ones(len(wanted)), np.arange(len(wanted) + 1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def query_of(self) -> Rows:
        """The query of each relevant text: (m,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    @cached_property
    def offset(self) -> Rows:
        """Each entry's number within its query, from 0 on: (m,)."""
        return np.arange(len(self.rows)) - self.starts[self.query_of]


def ranks(blocks: Iterable[tuple[int, Scores]], relevant: Relevant, progress: Progress | None = None) -> Rows:
    """The rank, from 0 on, of every relevant text (m,), counted in the blocks of any ranker."""
    found = np.zeros(len(relevant.rows), np.int64)
    ticker = Ticker(progress, len(relevant), "queries")
    for start, scores in blocks:
        first, last = relevant.starts[start], relevant.starts[start + len(scores)]
        for entry, query in enumerate(relevant.query_of[first:last] - start, start=first):
            row = scores[query]
            # A row at a time stays in the processor's cache, where comparing and counting are cheap.
            found[entry] = np.count_nonzero(row > row[relevant.rows[entry]] + np.float32(TIE))
        ticker.add(len(scores))
    ticker.close()
    if ticker.done != len(relevant):
        counts = f"scores of {ticker.done} queries for judgements of {len(relevant)}"
        raise DataError(f"{counts}; give the ranker all queries")
    return found


def positions(found: Rows, relevant: Relevant) -> Rows:
    """Ranks (m,) -> positions (m,) from 0 on that no two relevant texts of a query share.

    Two relevant texts that tie have one rank but cannot both be first. They are sorted by rank, then by gain; each
    takes its rank, or the next free position after the one before it. A query's only relevant text keeps its rank.
    """
    order = np.lexsort((-relevant.gains, found, relevant.query_of))
    # position_i = max(rank_i, position_(i-1) + 1) is i + max(rank_j - j) over j <= i. A step between queries that is
    # higher than any position restarts the running maximum with each query.
    step = relevant.query_of * (found.max(initial=0) + relevant.offset.max(initial=0) + 1)
    taken = np.empty_like(found)
    taken[order] = np.maximum.accumulate(found[order] - relevant.offset + step) - step + relevant.offset
    return taken


def per_query(values: ArrayLike, relevant: Relevant) -> NDArray[np.float64]:
    """The sum of the relevant texts' values (m,) for each query: (q,)."""
    return np.asarray(np.bincount(relevant.query_of, np.asarray(values, np.float64), len(relevant)), np.float64)


def checked_ks(ks: Sequence[int]) -> tuple[int, ...]:
    """The values of k for recall@k, in order and each once; a k below 1 raises UsageError."""
    if not ks or min(ks) < 1:
        given = min(ks, default="none")
        raise UsageError(f"recall is taken among the first k texts, k from 1 on, not {given}; give 1,5,10")
    return tuple(sorted(set(ks)))


def measures(positions: Rows, relevant: Relevant, ks: Sequence[int]) -> NDArray[np.float64]:
    """Positions (m,) of the relevant texts -> each query's recall at each k, MRR@10 and nDCG@10: (len(ks) + 2, q).

    Recall@k is the share of a query's relevant texts among the first k. nDCG takes gains as they are (linear, as
    trec_eval does).
    """
    counts = np.diff(relevant.starts)
    if not len(relevant) or counts.min() < 1:
        raise DataError("each query needs a relevant text; leave out the others")
    recalls = [per_query(positions < k, relevant) / counts for k in ks]
    first = np.minimum.reduceat(positions, relevant.starts[:-1])
    reciprocal = np.where(first < DEPTH, 1 / (first + 1), 0.0)
    strongest_first = np.lexsort((-relevant.gains, relevant.query_of))
    ideal = per_query(_discounted(relevant.gains[strongest_first], relevant.offset), relevant)
    return np.array([*recalls, reciprocal, per_query(_discounted(relevant.gains, positions), relevant) / ideal])


def _discounted(gains: NDArray[np.float64], positions: Rows) -> NDArray[np.float64]:
    return np.where(positions < DEPTH, gains / np.log2(positions + 2), 0.0)


@dataclass(frozen=True)
class Setting:
    """What ranked the texts: a ranker and, if it needs one, a model with its pooling and layers."""

    ranker: str = "dense"
    model: str | None = None
    pooling: str | None = None
    layers: tuple[int, ...] = ()  # averaged

    @property
    def layer_name(self) -> str:
        """The layers as the command line takes them."""
        return ",".join(map(str, self.layers))

    def to_dict(self) -> dict[str, Any]:
        """One layer as a number, several as a list, none as null."""
        layers = self.layers[0] if len(self.layers) == 1 else list(self.layers) or None
        return {"model": self.model, "pooling": self.pooling, "layer": layers, "ranker": self.ranker}


@dataclass(frozen=True, eq=False, repr=False)
class RetrievalResult(Comparable):
    """How well one ranker finds the relevant texts of n queries: the mean over queries, with 95 % intervals."""

    data: str
    setting: Setting
    positions: Rows  # the position of each relevant text (m,), from 0 on
    relevant: Relevant
    recall: dict[int, Interval]
    mrr: Interval
    ndcg: Interval
    metadata: dict[str, Any] = field(default_factory=dict)
    """texts, queries left out because they have no relevant text, texts cut at the model's limit, bad rows skipped"""
    cached: bool = False  # whether an earlier run computed it

    @property
    def n(self) -> int:
        """The number of queries."""
        return len(self.relevant)

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Retrieval: {self.data}"

    @property
    def cautions(self) -> list[str]:
        """Skipped rows, queries that were left out and texts that were cut."""
        skipped, left_out, cut = (self.metadata.get(name, 0) for name in ("skipped", "left_out", "truncated"))
        found = f"{self.data}: bad rows skipped: {skipped}, queries without a relevant text left out: {left_out}"
        limit = f"{self.data}: texts cut at the limit: {cut}"
        return [line for line, count in ((found, skipped or left_out), (limit, cut)) if count]

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Each query's own recall at each k, MRR@10 and nDCG@10: (len(recall) + 2, n)."""
        return measures(self.positions, self.relevant, list(self.recall))

    def to_dict(self) -> dict[str, Any]:
        """Means under ``recall``, ``mrr`` and ``ndcg``, their 95 % intervals under ``intervals``."""
        recall = {str(k): interval for k, interval in self.recall.items()}
        return {
            "data": self.data, **self.setting.to_dict(), "n": self.n,
            "recall": {k: interval.value for k, interval in recall.items()},
            "mrr": self.mrr.value, "ndcg": self.ndcg.value,
            "intervals": {
                "recall": {k: [interval.low, interval.high] for k, interval in recall.items()},
                "mrr": [self.mrr.low, self.mrr.high], "ndcg": [self.ndcg.low, self.ndcg.high],
            },
            **self.metadata, "kept": self.cached, "ties": TIES,
        }  # fmt: skip

    def tables(self) -> dict[str, Table]:
        """One row of measures."""
        measured = [Column(name, format=".3f") for name in (*(f"R@{k}" for k in self.recall), "MRR@10", "nDCG@10")]
        one = self.setting
        named = one.model or "", one.pooling or "", one.layer_name, one.ranker
        row = (*named, self.n, *self.recall.values(), self.mrr, self.ndcg)
        title = f"{self.data}: {self.metadata.get('texts', '?')} texts; with bootstrap 95 % intervals"
        return {
            "recall": Table.of(["model", "pooling", "layer", "ranker", "n", *measured], [row], title, f"A{TIES[1:]}.")
        }

    @classmethod
    def figures_of(cls, results: Sequence[RetrievalResult]) -> dict[str, Figure]:
        """Recall over k."""
        return {"recall": Figure(lambda: recall_figure(results), "Recall over k")}


def retrieval_result(
    data: str, setting: Setting, positions: Rows, relevant: Relevant, ks: Sequence[int] = KS,
    metadata: dict[str, Any] | None = None,
) -> RetrievalResult:  # fmt: skip
    """Average the measures of all relevant texts over the queries."""
    *recall, mrr, ndcg = bootstrap_means(measures(positions, relevant, ks))
    measured = dict(zip(ks, recall, strict=True))
    return RetrievalResult(data, setting, positions, relevant, measured, mrr, ndcg, metadata or {})


@dataclass(frozen=True, repr=False)
class RetrievalTable(ResultSet[RetrievalResult]):
    """Several rankers on the same queries."""

    @property
    def cautions(self) -> list[str]:
        """Those of the results, and which results come from an earlier run."""
        cached = [name for name, one in zip(labels(self.results), self.results, strict=True) if one.cached]
        count = f"{len(cached)} of {len(self.results)}; --fresh computes anew"
        return [*super().cautions, *([f"from the cache ({count}): {'; '.join(cached)}"] if cached else [])]

    def save(self, folder: Path | str, run: Mapping[str, Any] | None = None) -> Path:
        """As every result, and the table as Markdown in recall.md."""
        written, table = super().save(folder, run), self.tables()["recall"]
        lines = [table.headings, ["---"] * len(table.columns), *map(list, table.texts())]
        rows = [" | ".join(cell.replace("|", chr(92) + "|").replace("\n", ", ") for cell in line) for line in lines]
        paragraphs = [f"# {self.title}", table.title, table.note, f"    {(run or {}).get('command', '')}"]
        text = "\n\n".join([*paragraphs, "\n".join(f"| {row} |" for row in rows)])
        (written / "recall.md").write_text(f"{text}\n", encoding="utf-8")
        return written


def recall_figure(results: Sequence[RetrievalResult], ax: Any = None) -> Any:
    """Recall over k, a line for each result; returns the Axes."""
    series = {}
    for name, result in zip(labels(results), results, strict=True):
        ends = list(result.recall.values())
        # Many bands would hide one another.
        bounds = ([one.low for one in ends], [one.high for one in ends]) if len(results) <= 4 else (None, None)
        series[name] = ([one.value for one in ends], *bounds)
    first = results[0]
    title = f"{first.data}, n = {first.n}"
    return share_curves(tuple(first.recall), series, first.n, ("k", "recall among the first k"), title, ax)


def labels(results: Sequence[RetrievalResult]) -> list[str]:
    """A name for each result that tells it from the others."""
    settings = [result.setting for result in results]
    models, layers = {one.model for one in settings} - {None}, {one.layers for one in settings} - {()}
    names = []
    for one in settings:
        parts = [one.ranker] if one.ranker != "dense" else []
        parts += [PurePath(one.model).name] if one.model and len(models) > 1 else []
        parts += [one.pooling] if one.pooling else []
        parts += [f"layer {one.layer_name}"] if one.layers and len(layers) > 1 else []
        names.append(", ".join(parts) or one.ranker)
    return [f"{name} ({index})" if names.count(name) > 1 else name for index, name in enumerate(names, start=1)]
