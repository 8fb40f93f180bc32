"""The result of a comparison: settings that fit the corpus, tables, notes, page and files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from likewise.data.annotations import Query
from likewise.errors import DataError, UsageError
from likewise.search import Index
from likewise.search.comparison_result import ComparedRanking, ComparisonSettings, ModelComparison
from likewise.search.model_comparison import compare_models
from tiny_models import tiny_encoder

HOSTILE = '<script>alert(1)</script> [bold]cat[/bold] "x" $x_1$'
TEXTS = [HOSTILE, "a man is out", "the sea is blue", "the cat sat", "a volcano erupted", "it rains"]


def comparison(first: list[list[int]], second: list[list[int]], top: int) -> ModelComparison:
    """A result with given rankings and without explanations."""
    depth = len(first[0])
    rankings = [ComparedRanking(np.array(rows), np.ones(len(rows))) for rows in (first, second)]
    queries = tuple(Query(f"query {number}", f"q{number}") for number in range(len(first)))
    settings = ComparisonSettings((1, depth), top).within(20)
    documents = {row: (f"d{row}", f"text {row}") for row in range(20)}
    return ModelComparison("news", ("one", "two"), 20, queries, (rankings[0], rankings[1]), settings, documents)


@pytest.fixture(scope="module")
def found() -> ModelComparison:
    indexes = [Index.from_texts(tiny_encoder("bert", seed), TEXTS) for seed in (0, 4)]
    return compare_models(*indexes, [HOSTILE, "the cat", "blue sea"], ComparisonSettings((1, 3), 2), [{0: 1.0}] * 3)


class TestSettings:
    def test_defaults_fit_the_corpus(self) -> None:
        assert ComparisonSettings().within(300).ks == (1, 5, 10, 20, 50)
        small = ComparisonSettings().within(7)
        assert (small.ks, small.top, small.depth) == ((1, 5), 7, 7)

    def test_given_ones_must_fit(self) -> None:
        with pytest.raises(UsageError, match="8 first texts of a corpus of 7; lower k or top to 7 or less"):
            ComparisonSettings((1, 8)).within(7)
        with pytest.raises(DataError, match="at least one text"):
            ComparisonSettings().within(0)
        with pytest.raises(UsageError, match="k from 1 on"):
            ComparisonSettings((0, 3)).within(7)

    @pytest.mark.parametrize("wrong", [{"persistence": 1.0}, {"persistence": 0.0}, {"top": 0}, {"most_changed": -1}])
    def test_wrong_ones(self, wrong: dict[str, float]) -> None:
        with pytest.raises(UsageError):
            ComparisonSettings(**wrong)  # type: ignore[arg-type]


class TestChanges:
    def test_hits_that_come_and_go(self) -> None:
        found = comparison([[1, 2, 3, 4], [5, 6, 7, 8]], [[9, 1, 2, 3], [5, 6, 7, 8]], 3)
        assert (found.changes[0].came, found.changes[0].went) == ((9,), (3,))
        assert (found.changes[1].came, found.changes[1].went) == ((), ())
        assert found.most_changed == [0] and found.turned_pair(0) == (9, 3)
        assert (found.rank(0, 0, 3), found.rank(1, 0, 3), found.rank(0, 0, 9)) == (3, 4, None)

    def test_the_first_place_that_differs(self) -> None:
        found = comparison([[1, 2, 3, 4]], [[1, 3, 2, 4]], 4)
        assert found.changes[0].came == () and found.turned_pair(0) == (3, 2)

    def test_documents_are_counted_over_queries(self) -> None:
        found = comparison([[1, 2], [1, 3], [4, 5]], [[2, 1], [3, 6], [5, 1]], 1)
        rows = found.tables()["documents"].rows
        assert [row[:3] for row in rows] == [("d1", 0, 2), ("d2", 1, 0), ("d3", 1, 0), ("d4", 0, 1), ("d5", 1, 0)]

    def test_notes(self) -> None:
        found = comparison([[1, 2, 3], [4, 5, 6]], [[1, 2, 3], [5, 4, 7]], 2)
        stays = "the first 2 hits stay the same for 2 of 2, in the same order for 1 to depth 3"
        assert found.notes == ["A: one", "B: two", f"2 queries to 20 texts of news: {stays}."]
        same = comparison([[1, 2]], [[1, 2]], 2)
        assert same.notes[2] == "1 query to 20 texts of news: nothing changes." and same.tables()["changed"].rows == []

    def test_no_shared_texts_have_no_order(self) -> None:
        found = comparison([[1, 2]], [[3, 4]], 2)
        assert found.rbo.tolist() == [0.0] and found.means["kendall"] is None
        assert found.to_dict()["means"]["kendall"] is None
        assert [row[0] for row in found.tables()["summary"].rows] == ["overlap at 1", "overlap at 2", "RBO (p = 0.9)"]


class TestShown:
    def test_tables(self, found: ModelComparison) -> None:
        tables = found.tables()
        shown = [name for name, table in tables.items() if not table.detail]
        assert shown == ["summary", "measures", "changed", "margins", "frequent"]
        assert len(tables["queries"].rows) == 3
        words = tables["words"].rows
        for change in found.explained:
            own = [row for row in words if row[0] == found.queries[change.query].id]
            assert sum(float(row[-1]) for row in own) == pytest.approx(change.change, abs=1e-4)  # type: ignore[arg-type]

    def test_the_page_is_safe(self, found: ModelComparison) -> None:
        page = found.to_html("likewise compare-models")
        assert "<script>" not in page and "Why: " in page and page.count("likewise-hits>") >= 2

    @pytest.mark.slow
    def test_files(self, found: ModelComparison, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        found.save(tmp_path, {"command": "x"})
        names = {path.name for path in tmp_path.iterdir()}
        tables = {"summary.csv", "measures.csv", "documents.csv", "queries.csv", "hits.csv", "words.csv"}
        assert names == tables | {"run.json", "index.html"} | {
            f"{name}.{kind}" for name in ("overlap", "rbo", "recall") for kind in ("png", "svg")
        }
        document = json.loads((tmp_path / "run.json").read_text())["results"]
        assert document["models"] == ["bert", "bert (2)"]
        with (tmp_path / "queries.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert [float(row["rbo"]) for row in rows] == pytest.approx(found.rbo.tolist())
