"""Recall, MRR and nDCG against their definitions in plain Python; what a result and a table show."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from likewise.errors import DataError, UsageError
from likewise.metrics import Interval
from likewise.plotting.axes import save_figure
from likewise.search.recall import (
    KS,
    Relevant,
    RetrievalResult,
    RetrievalTable,
    Setting,
    checked_ks,
    labels,
    measures,
    retrieval_result,
)

SEEDS = (0, 1, 2)


def random_case(seed: int, queries: int = 40) -> tuple[list[dict[int, float]], list[list[int]]]:
    """Gains by text, and distinct places of the same texts, query by query."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 15, queries)
    gains = [{text: float(rng.integers(1, 4)) for text in range(count)} for count in counts]
    return gains, [rng.choice(30, count, replace=False).tolist() for count in counts]


def plain_measures(gains: list[float], places: list[int], ks: list[int]) -> list[float]:
    """One query, from the definitions."""
    recalls = [sum(place < k for place in places) / len(places) for k in ks]
    reciprocal = 1 / (min(places) + 1) if min(places) < 10 else 0.0
    found = dict(zip(places, gains, strict=True))
    dcg = sum(found.get(place, 0.0) / math.log2(place + 2) for place in range(10))
    best = sorted(gains, reverse=True)[:10]
    return [*recalls, reciprocal, dcg / sum(gain / math.log2(place + 2) for place, gain in enumerate(best))]


@pytest.mark.parametrize("seed", SEEDS)
def test_measures_are_those_of_the_definitions(seed: int) -> None:
    gains, places = random_case(seed)
    ks = [1, 3, 10, 25]
    found = measures(np.concatenate(places), Relevant.of(gains), ks)
    plain = [plain_measures(list(gain.values()), place, ks) for gain, place in zip(gains, places, strict=True)]
    np.testing.assert_allclose(found.T, plain, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_perfect_ranking_is_perfect(seed: int) -> None:
    gains, _ = random_case(seed)
    places = [sorted(gain, key=lambda text: -gain[text]).index(text) for gain in gains for text in gain]
    *_, reciprocal, ndcg = measures(np.array(places), Relevant.of(gains), [100])
    assert reciprocal.tolist() == [1.0] * len(gains)
    np.testing.assert_allclose(ndcg, 1.0, atol=1e-12)


@pytest.mark.parametrize("gains", [[], [{0: 1.0}, {}]], ids=["no query", "no answer"])
def test_every_query_needs_an_answer(gains: list[dict[int, float]]) -> None:
    judged = Relevant.of(gains)
    with pytest.raises(DataError, match="each query needs a relevant text"):
        measures(np.zeros(len(judged.rows), np.int64), judged, [1])


@pytest.mark.parametrize(("ks", "shown"), [([0, 5], "0"), ([-3], "-3"), ([], "none")])
def test_k_begins_at_one(ks: list[int], shown: str) -> None:
    with pytest.raises(UsageError, match=f"k from 1 on, not {shown}; give 1,5,10"):
        checked_ks(ks)


def result_of(setting: Setting, seed: int = 0, n: int = 50, kept: bool = False) -> RetrievalResult:
    places = np.random.default_rng(seed).integers(0, 60, n)
    metadata = {"texts": 60, "left_out": 1, "skipped": 2, "truncated": 3}
    found = retrieval_result("mine", setting, places, Relevant.single(np.arange(n)), KS, metadata)
    return RetrievalResult(**(vars(found) | {"cached": kept}))


def test_a_result_is_the_mean_of_its_queries() -> None:
    result = result_of(Setting("bm25"))
    assert result.values.shape == (7, 50) and result.n == 50
    means = [*(interval.value for interval in result.recall.values()), result.mrr.value, result.ndcg.value]
    np.testing.assert_allclose(result.values.mean(1), means, atol=1e-12)
    assert all(one.low <= one.value <= one.high for one in result.recall.values())


def test_json() -> None:
    found = json.loads(json.dumps(result_of(Setting("dense", "minilm", "mean", (6,)), kept=True).to_dict()))
    metadata = {"data": "mine", "model": "minilm", "pooling": "mean", "layer": 6, "ranker": "dense", "n": 50}
    metadata |= {"texts": 60, "left_out": 1, "skipped": 2, "truncated": 3, "kept": True}
    assert {name: found[name] for name in metadata} == metadata
    assert found.keys() == metadata.keys() | {"recall", "mrr", "ndcg", "intervals", "ties"}
    assert list(found["recall"]) == ["1", "5", "10", "20", "50"] == list(found["intervals"]["recall"])
    for name in ("mrr", "ndcg"):
        assert found["intervals"][name][0] <= found[name] <= found["intervals"][name][1]
    assert "ties are in the query's favour" in found["ties"]


@pytest.mark.parametrize(("layers", "written"), [((6,), 6), ((1, 6), [1, 6]), ((), None)])
def test_layers_in_json(layers: tuple[int, ...], written: object) -> None:
    assert Setting("dense", "m", "mean", layers).to_dict()["layer"] == written


SETTINGS = [
    Setting("dense", "a/minilm", "mean", (6,)),
    Setting("dense", "a/minilm", "mean", (1, 6)),
    Setting("dense", "b/e5", "cls", (12,)),
    Setting("input-embeddings", "b/e5"),
    Setting("hybrid", "b/e5", "cls", (12,)),
    Setting("bm25"),
]


@pytest.fixture
def table() -> RetrievalTable:
    return RetrievalTable(tuple(result_of(setting, seed) for seed, setting in enumerate(SETTINGS)))


def test_a_table_of_one_is_that_one(table: RetrievalTable) -> None:
    one = table.results[0]
    assert RetrievalTable((one,)).to_dict() == one.to_dict()
    assert table.to_dict() == {"results": [each.to_dict() for each in table.results]}


def test_rows(table: RetrievalTable) -> None:
    shown = table.tables()["recall"]
    assert shown.headings == [
        "model", "pooling", "layer", "ranker", "n", "R@1", "R@5", "R@10", "R@20", "R@50", "MRR@10", "nDCG@10",
    ]  # fmt: skip
    assert shown.rows[1][:5] == ("a/minilm", "mean", "1,6", "dense", 50)
    assert shown.rows[5][:4] == ("", "", "", "bm25")
    assert all(len(row) == len(shown.columns) and isinstance(row[-1], Interval) for row in shown.rows)


def test_names_say_what_differs(table: RetrievalTable) -> None:
    assert labels(table.results) == [
        "minilm, mean, layer 6", "minilm, mean, layer 1,6", "e5, cls, layer 12", "input-embeddings, e5",
        "hybrid, e5, cls, layer 12", "bm25",
    ]  # fmt: skip
    assert labels(table.results[2:3]) == ["cls"]
    assert labels(table.results[:1] * 2) == ["mean (1)", "mean (2)"]
    assert labels((result_of(Setting()),)) == ["dense"]


def test_figures(table: RetrievalTable, tmp_path: Path) -> None:
    axes = table.figures()["recall"].draw()
    assert [text.get_text() for text in axes.texts] == labels(table.results)
    assert axes.get_title() == "mine, n = 50" and not axes.collections
    save_figure(axes, tmp_path / "table.png")
    [line] = table.results[0].figures()["recall"].draw().lines
    np.testing.assert_allclose(line.get_ydata(), [one.value for one in table.results[0].recall.values()])
    assert len(table.results[0].figures()["recall"].draw().collections) == 1


def test_a_notebook_shows_a_table() -> None:
    shown = result_of(Setting("dense", "<b>", "mean", (6,)))._repr_html_()
    assert "&lt;b&gt;" in shown and "ties are in the query" in shown
