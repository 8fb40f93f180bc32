"""Texts and queries of a comparison: files, pairs, indexes, judgements; what is refused before models are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from likewise.data import Columns, Dataset
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.search import Index
from likewise.search.comparison_result import ComparisonSettings
from likewise.search.comparison_source import ComparedModel, ComparisonSource, compare_sources

ROWS = [("a", "the cat sat"), ("b", "a man is out"), ("c", "the sea is blue"), ("d", "a volcano erupted")]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


@pytest.fixture
def corpus(tmp_path: Path) -> Dataset:
    path = tmp_path / "texts.csv"
    path.write_text("id,text\n" + "".join(f"{name},{text}\n" for name, text in ROWS))
    return Dataset(str(path))


@pytest.fixture
def queries(tmp_path: Path) -> str:
    path = tmp_path / "queries.csv"
    path.write_text("id,query\nq1,a cat\nq2,the sea\nq3,fire\n")
    return str(path)


@pytest.fixture
def models(tiny: Encoder) -> list[ComparedModel]:
    return [ComparedModel("one", lambda: tiny), ComparedModel("two", lambda: tiny.with_pooling(layer=1))]


@pytest.fixture
def unloaded() -> list[ComparedModel]:
    def refuse() -> Encoder:
        pytest.fail("a model is loaded before the mistake is found")

    return [ComparedModel("one", refuse), ComparedModel("two", refuse)]


def qrels(tmp_path: Path, *rows: str) -> str:
    path = tmp_path / "qrels.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{row}\n" for row in rows))
    return str(path)


def compared(source: ComparisonSource, models: list[ComparedModel], **how: Any) -> Any:
    return compare_sources(source, models, ComparisonSettings((1, 2), 2), **how)


class TestFiles:
    def test_queries_without_judgements(self, corpus: Dataset, queries: str, models: Any, own_cache: Path) -> None:
        found = compared(ComparisonSource(corpus, file=queries), models)
        assert [query.id for query in found.queries] == ["q1", "q2", "q3"] and found.quality is None
        assert found.names == ("one", "two") and found.data == corpus.name
        assert len(list(own_cache.iterdir())) == 2

    def test_judgements(self, corpus: Dataset, queries: str, models: Any, tmp_path: Path) -> None:
        judged = qrels(tmp_path, "q1\ta\t1", "q2\tc\t2", "q2\tb\t0")
        found = compared(ComparisonSource(corpus, file=queries, qrels=judged), models)
        assert found.quality.first.n == 2 and found.quality.left_out == 1
        assert found.quality.first.relevant.rows.tolist() == [0, 2]

    def test_pairs_bring_their_queries(self, models: Any, tmp_path: Path) -> None:
        path = tmp_path / "pairs.csv"
        path.write_text("sentence1,sentence2\nthe cat sat,a cat\nthe sea is blue,the sea\na man is out,he left\n")
        found = compared(ComparisonSource(Dataset(str(path))), models)
        assert [query.text for query in found.queries] == ["a cat", "the sea", "he left"]
        assert found.quality.first.relevant.rows.tolist() == [0, 1, 2] and found.texts == 3

    def test_a_repeated_row_counts_once(self, models: Any, queries: str, tmp_path: Path) -> None:
        path = tmp_path / "twice.csv"
        path.write_text("id,text\na,the cat sat\na,the cat sat\nc,the sea is blue\n")
        judged = qrels(tmp_path, "q2\tc\t1")
        found = compared(ComparisonSource(Dataset(str(path)), file=queries, qrels=judged), models)
        assert found.texts == 2 and found.quality.first.relevant.rows.tolist() == [1]

    def test_a_limit_keeps_the_first_queries(self, corpus: Dataset, queries: str, models: Any, tmp_path: Path) -> None:
        judged = qrels(tmp_path, "q1\ta\t1", "q3\td\t1")
        found = compared(ComparisonSource(corpus, file=queries, qrels=judged, limit=2), models)
        assert [query.id for query in found.queries] == ["q1", "q2"] and found.quality.first.n == 1

    def test_bad_rows_are_counted(self, models: Any, queries: str, tmp_path: Path) -> None:
        path = tmp_path / "bad.csv"
        path.write_text("id,text\na,the cat sat\nb,\nc,the sea is blue\n")
        judged = qrels(tmp_path, "q2\tc\t1", "q9\tc\t1")
        source = ComparisonSource(Dataset(str(path), skip_bad=True), file=queries, qrels=judged)
        found = compared(source, models)
        assert [line.partition(" (")[0] for line in found.remarks] == ["skipped 1 bad row", "skipped 1 bad row"]
        assert "no query 'q9'" in found.remarks[0] and "the text is empty" in found.remarks[1]

    def test_changes_of_a_model(self, corpus: Dataset, tiny: Encoder) -> None:
        models = [ComparedModel("one", lambda: tiny), ComparedModel("two", lambda: tiny, {"query_prompt": "a dog "})]
        found = compared(ComparisonSource(corpus, texts=["cat", "sea"]), models)
        assert found.rbo.min() < 1


class TestIndexes:
    @pytest.fixture
    def index(self, tiny: Encoder, tmp_path: Path) -> Dataset:
        return Dataset(str(Index.build(tiny, ROWS, tmp_path / "index").store.address))

    def test_its_vectors_are_used(self, index: Dataset, models: Any, own_cache: Path, tmp_path: Path) -> None:
        found = compared(ComparisonSource(index, is_index=True, texts=["cat"]), models)
        assert found.texts == 4 and len(list(own_cache.iterdir())) == 1

    def test_its_own_model_is_the_first(self, index: Dataset, models: Any, tiny_folder: Path) -> None:
        loaded = []

        def load(name: str, **options: Any) -> Encoder:
            loaded.append(name)
            return Encoder.load(name, device="cpu", **options)

        found = compared(ComparisonSource(index, is_index=True, texts=["cat"]), models[1:], load=load)
        assert loaded == [str(tiny_folder)] and found.names == (str(tiny_folder), "two")

    def test_judgements_name_its_ids(self, index: Dataset, models: Any, queries: str, tmp_path: Path) -> None:
        judged = qrels(tmp_path, "q2\tc\t1")
        found = compared(ComparisonSource(index, is_index=True, file=queries, qrels=judged), models)
        assert found.quality.first.relevant.rows.tolist() == [2]

    def test_an_empty_one(self, tiny: Encoder, unloaded: Any, tmp_path: Path) -> None:
        index = Index.build(tiny, ROWS, tmp_path / "emptied")
        index.delete([name for name, _ in ROWS])
        with pytest.raises(DataError, match="at least one text"):
            compared(ComparisonSource(Dataset(str(tmp_path / "emptied")), is_index=True, texts=["cat"]), unloaded)


class TestRefused:
    def test_without_queries(self, corpus: Dataset, unloaded: Any) -> None:
        with pytest.raises(UsageError, match="holds no queries; give --queries FILE or --query TEXT"):
            compared(ComparisonSource(corpus), unloaded)

    def test_an_unknown_id(self, corpus: Dataset, queries: str, unloaded: Any, tmp_path: Path) -> None:
        for row, flaw in (("q1\tzz\t1", "no text 'zz'"), ("q9\ta\t1", "no query 'q9'")):
            source = ComparisonSource(corpus, file=queries, qrels=qrels(tmp_path, row))
            with pytest.raises(DataError, match=f"{flaw}.*skip it with --skip-bad"):
                compared(source, unloaded)

    def test_more_first_texts_than_texts(self, corpus: Dataset, unloaded: Any) -> None:
        with pytest.raises(UsageError, match="9 first texts of a corpus of 4"):
            compare_sources(ComparisonSource(corpus, texts=["cat"]), unloaded, ComparisonSettings((9,)))

    def test_options_that_exclude_each_other(self, corpus: Dataset, queries: str) -> None:
        with pytest.raises(UsageError, match="--query does not go with --queries"):
            ComparisonSource(corpus, file=queries, texts=["cat"])
        with pytest.raises(UsageError, match="--qrels judges the queries of a file"):
            ComparisonSource(corpus, texts=["cat"], qrels="qrels.tsv")

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_a_wrong_number_of_models(self, corpus: Dataset, unloaded: Any, count: int) -> None:
        with pytest.raises(UsageError, match="give two models"):
            compared(ComparisonSource(corpus, texts=["cat"]), (unloaded * 2)[:count])

    def test_a_folder_and_a_missing_file(self, unloaded: Any, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="give an index as --index"):
            compared(ComparisonSource(Dataset(str(tmp_path)), texts=["cat"]), unloaded)
        with pytest.raises(DataError, match="no file"):
            compared(ComparisonSource(Dataset(str(tmp_path / "no.csv")), texts=["cat"]), unloaded)

    def test_an_empty_query(self, corpus: Dataset, unloaded: Any) -> None:
        with pytest.raises(UsageError, match="at least one word"):
            compared(ComparisonSource(corpus, texts=["  "]), unloaded)


def test_a_named_text_column_is_no_pair(tmp_path: Path, unloaded: Any) -> None:
    path = tmp_path / "texts.csv"
    path.write_text("headline\none\ntwo\n")
    with pytest.raises(UsageError, match="holds no queries"):
        compared(ComparisonSource(Dataset(str(path), Columns(text="headline"))), unloaded)
