"""Recall: how many of the texts that answer a query are found among the first k, with MRR@10 and nDCG@10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.errors import DataError, UsageError
from likewise.metrics import Interval, bootstrap_means
from likewise.plotting.curves import share_curves
from likewise.plotting.html import paragraph, table
from likewise.search.ranker import Rows
from likewise.search.ranks import TIES, Relevant, per_query

KS = (1, 5, 10, 20, 50)
DEPTH = 10
"""The first texts that MRR and nDCG look at."""


def checked_ks(ks: Sequence[int]) -> tuple[int, ...]:
    """The numbers of first texts to take the recall among, in order and each once; below 1 there is none.

    >>> checked_ks([10, 1, 10])
    (1, 10)
    """
    if not ks or min(ks) < 1:
        raise UsageError(
            f"recall is taken among the first k texts, k from 1 on, not {min(ks, default='none')}; give 1,5,10"
        )
    return tuple(sorted(set(ks)))


def measures(indices: Rows, judged: Relevant, ks: Sequence[int]) -> NDArray[np.float64]:
    """Places (m,) of the relevant texts -> each query's recall at each k, MRR@10 and nDCG@10: (len(ks) + 2, q).

    Recall@k is the share of a query's relevant texts among the first k. nDCG takes gains as they are (linear, as
    trec_eval does).

    >>> measures(np.array([0, 4]), Relevant.of([{3: 1.0, 7: 1.0}]), [1, 5]).round(3).tolist()
    [[0.5], [1.0], [1.0], [0.85]]
    """
    relevant = np.diff(judged.starts)
    if not len(judged) or relevant.min() < 1:
        raise DataError("each query needs a relevant text; leave out the others")
    recalls = [per_query(indices < k, judged) / relevant for k in ks]
    first = np.minimum.reduceat(indices, judged.starts[:-1])
    reciprocal = np.where(first < DEPTH, 1 / (first + 1), 0.0)
    strongest_first = np.lexsort((-judged.gains, judged.query_of))
    ideal = per_query(_discounted(judged.gains[strongest_first], judged.turn), judged)
    return np.array([*recalls, reciprocal, per_query(_discounted(judged.gains, indices), judged) / ideal])


def _discounted(gains: NDArray[np.float64], indices: Rows) -> NDArray[np.float64]:
    return np.where(indices < DEPTH, gains / np.log2(indices + 2), 0.0)


@dataclass(frozen=True)
class Setting:
    """What ranked the texts: a ranker and, where it needs one, a model and how its vectors were read.

    >>> Setting("dense", "minilm", "mean", (1, 6)).layer_name
    '1,6'
    """

    ranker: str = "dense"
    model: str | None = None
    pooling: str | None = None
    layers: tuple[int, ...] = ()
    """the layers that are averaged"""

    @property
    def layer_name(self) -> str:
        """The layers as they are written on the command line."""
        return ",".join(map(str, self.layers))

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Model, pooling, layer and ranker, as tables show them."""
        return self.model or "", self.pooling or "", self.layer_name, self.ranker

    def to_dict(self) -> dict[str, Any]:
        """One layer as a number, several as a list, null where there is none."""
        layers = self.layers[0] if len(self.layers) == 1 else list(self.layers) or None
        return {"model": self.model, "pooling": self.pooling, "layer": layers, "ranker": self.ranker}


@dataclass(frozen=True, eq=False)
class RetrievalResult:
    """How well one ranker finds the relevant texts of n queries: the mean over queries, with 95 % intervals.

    >>> judged = Relevant.single([0, 1])
    >>> result = retrieval_result("mine", Setting("bm25"), np.array([0, 3]), judged, [1, 5])
    >>> result.recall[1].value, result.recall[5].value, result.n
    (0.5, 1.0, 2)
    """

    data: str
    setting: Setting
    indices: Rows = field(repr=False)
    """the place of each relevant text (m,), from 0 on"""
    judged: Relevant = field(repr=False)
    recall: dict[int, Interval]
    mrr: Interval
    ndcg: Interval
    metadata: dict[str, Any] = field(default_factory=dict)
    """texts, queries left out for want of a relevant text, texts cut at the model's limit, bad rows skipped"""
    kept: bool = False
    """whether it was computed by an earlier run"""

    @property
    def n(self) -> int:
        """The number of queries."""
        return len(self.judged)

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Each query's own recall at each k, MRR@10 and nDCG@10: (len(recall) + 2, n)."""
        return measures(self.indices, self.judged, list(self.recall))

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
            **self.metadata, "kept": self.kept, "ties": TIES,
        }  # fmt: skip

    def _repr_html_(self) -> str:
        return RetrievalTable((self,))._repr_html_()

    def plot(self, ax: Any = None) -> Any:
        """Recall over k with its intervals."""
        return RetrievalTable((self,)).plot(ax)


def retrieval_result(
    data: str,
    setting: Setting,
    indices: Rows,
    judged: Relevant,
    ks: Sequence[int] = KS,
    metadata: dict[str, Any] | None = None,
) -> RetrievalResult:
    """Average the places of all relevant texts over the queries.

    >>> retrieval_result("mine", Setting("random"), np.array([9]), Relevant.single([0])).mrr.value
    0.1
    """
    *recall, mrr, ndcg = bootstrap_means(measures(indices, judged, ks))
    return RetrievalResult(
        data, setting, indices, judged, dict(zip(ks, recall, strict=True)), mrr, ndcg, metadata or {}
    )


@dataclass(frozen=True)
class RetrievalTable:
    """Several rankers on the same queries."""

    results: tuple[RetrievalResult, ...]

    @property
    def ks(self) -> tuple[int, ...]:
        """Where the recall is taken."""
        return tuple(self.results[0].recall)

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns."""
        return ("model", "pooling", "layer", "ranker", "n", *(f"R@{k}" for k in self.ks), "MRR@10", "nDCG@10")

    @property
    def rows(self) -> list[tuple[str | int | Interval, ...]]:
        """The cells, a row per result; measures are intervals."""
        return [
            (*result.setting.cells, result.n, *result.recall.values(), result.mrr, result.ndcg)
            for result in self.results
        ]

    def to_dict(self) -> dict[str, Any]:
        """A single result as itself, several under ``results``."""
        rows = [result.to_dict() for result in self.results]
        return rows[0] if len(rows) == 1 else {"results": rows}

    def _repr_html_(self) -> str:
        rows = [[one.value if isinstance(one, Interval) else one for one in row] for row in self.rows]
        return table(self.header, rows) + paragraph(f"{TIES}.", note=True)

    def plot(self, ax: Any = None) -> Any:
        """Recall over k, a line per result."""
        series = {}
        for name, result in zip(self.names, self.results, strict=True):
            ends = list(result.recall.values())
            # Many bands would hide one another.
            bounds = ([one.low for one in ends], [one.high for one in ends]) if len(self.results) <= 4 else (None, None)
            series[name] = ([one.value for one in ends], *bounds)
        first = self.results[0]
        title = f"{first.data}, n = {first.n}"
        return share_curves(self.ks, series, first.n, ("k", "recall among the first k"), title, ax)

    @property
    def names(self) -> list[str]:
        """What tells each result from the others."""
        settings = [result.setting for result in self.results]
        models, layers = {one.model for one in settings} - {None}, {one.layers for one in settings} - {()}
        names = []
        for one in settings:
            parts = [one.ranker] if one.ranker != "dense" else []
            parts += [PurePath(one.model).name] if one.model and len(models) > 1 else []
            parts += [one.pooling] if one.pooling else []
            parts += [f"layer {one.layer_name}"] if one.layers and len(layers) > 1 else []
            names.append(", ".join(parts) or one.ranker)
        return [f"{name} ({index})" if names.count(name) > 1 else name for index, name in enumerate(names, start=1)]
