"""Queries, qrels and corpora as BEIR, TREC and the sample write them, and what is said of bad ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from likewise.data.annotations import (
    JudgedFiles,
    Judgement,
    Query,
    beir_files,
    read_documents,
    read_qrels,
    read_queries,
)
from likewise.data.columns import Columns
from likewise.errors import DataError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *lines: str) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return name


class TestDocuments:
    def test_titles_stand_before_texts(self) -> None:
        file = write(
            "corpus.jsonl",
            '{"_id": "d1", "title": "Cats", "text": "They purr.", "metadata": {}}',
            '{"_id": "d2", "title": "", "text": "No title."}',
            '{"_id": "d3", "title": " Only a title ", "text": ""}',
        )
        found = [(text.id, text.text) for text in read_documents(file)]
        assert found == [("d1", "Cats They purr."), ("d2", "No title."), ("d3", "Only a title")]

    def test_a_named_column_is_taken_alone(self) -> None:
        file = write("corpus.csv", "id,title,text", "d1,Cats,They purr.")
        assert next(read_documents(file, columns=Columns(text="text"))).text == "They purr."
        assert next(read_documents(file, columns=Columns(text="title"))).text == "Cats"

    def test_any_file_of_texts(self) -> None:
        assert [text.text for text in read_documents(write("a.txt", "one", "", "two"))] == ["one", "two"]
        assert len(list(read_documents("sample/sentences"))) == 300

    def test_bad_rows(self) -> None:
        file = write("corpus.jsonl", '{"_id": "d1", "text": ""}', '{"_id": "d2", "text": "good"}', "{")
        with pytest.raises(DataError, match=r"corpus\.jsonl, line 1, column 'text': the text is empty"):
            read_documents(file)
        bad: list[DataError] = []
        assert [text.id for text in read_documents(file, on_bad=bad.append)] == ["d2"]
        assert len(bad) == 2

    def test_no_good_row(self) -> None:
        with pytest.raises(DataError, match="no row can be used; skipped 1 bad row"):
            read_documents(write("corpus.jsonl", '{"text": ""}'), on_bad=lambda _: None)


class TestQueries:
    def test_the_sample(self) -> None:
        found = list(read_queries("sample/queries"))
        assert len(found) == 6
        assert found[0] == Query("volcano erupted", "1", ("s084", "s118", "s146", "s151"))

    def test_beir(self) -> None:
        file = write("queries.jsonl", '{"_id": "q1", "text": "what purrs?", "metadata": {"query": "no"}}')
        assert list(read_queries(file)) == [Query("what purrs?", "q1")]

    @pytest.mark.parametrize("relevant", ['"d1 d2"', '["d1", "d2"]'])
    def test_relevant_ids_in_json(self, relevant: str) -> None:
        file = write("queries.jsonl", f'{{"query": "cats", "relevant": {relevant}}}')
        assert list(read_queries(file)) == [Query("cats", "1", ("d1", "d2"))]

    def test_numbers_as_ids(self) -> None:
        file = write("queries.jsonl", '{"qid": 7, "question": "cats", "relevant": [12]}')
        assert list(read_queries(file)) == [Query("cats", "7", ("12",))]

    def test_named_columns_where_there_are_such(self) -> None:
        file = write("queries.csv", "query,other,nr", "cats,dogs,9")
        assert list(read_queries(file, columns=Columns(text="other", id="nr"))) == [Query("dogs", "9")]
        assert list(read_queries(file, columns=Columns(text="body", id="_id"))) == [Query("cats", "1")]

    def test_plain_text(self) -> None:
        assert [query.text for query in read_queries(write("q.txt", "cats", "dogs"))] == ["cats", "dogs"]

    def test_no_column_of_queries(self) -> None:
        with pytest.raises(DataError, match=r"queries\.csv: no column query or question or text; its columns are 'a'"):
            read_queries(write("queries.csv", "a,b", "1,2"))

    def test_bad_rows(self) -> None:
        file = write("queries.csv", "query,relevant", ",d1", "cats,d1")
        with pytest.raises(DataError, match=r"queries\.csv, line 2, column 'query': the text is empty"):
            read_queries(file)
        bad: list[DataError] = []
        assert [query.text for query in read_queries(file, on_bad=bad.append)] == ["cats"] and len(bad) == 1

    def test_rows_of_json_bring_their_own_names(self) -> None:
        file = write("queries.jsonl", '{"a": 1}', '{"query": "cats"}')
        bad: list[DataError] = []
        assert [query.text for query in read_queries(file, on_bad=bad.append)] == ["cats"]
        assert str(bad[0]).startswith("queries.jsonl, line 1: no column")


QRELS = [Judgement("q1", "d1", 2.0), Judgement("q1", "d2", 0.0), Judgement("q2", "d1", 1.0)]


class TestQrels:
    @pytest.mark.parametrize(
        ("name", "lines"),
        [
            ("test.tsv", ["query-id\tcorpus-id\tscore", "q1\td1\t2", "q1\td2\t0", "q2\td1\t1"]),
            ("test.csv", ["query_id,doc_id,relevance", "q1,d1,2", "q1,d2,0", "q2,d1,1"]),
            ("qrels.txt", ["q1 0 d1 2", "q1 0 d2 0", "", "q2 Q0 d1 1"]),
            ("qrels.trec8.part1", ["q1\t0\td1\t2", "q1\t0\td2\t0", "q2\t0\td1\t1"]),
            ("qrels.dev.tsv", ["q1\t0\td1\t2", "q1\t0\td2\t0", "q2\t0\td1\t1"]),
            (
                "qrels.jsonl",
                [
                    '{"query-id": "q1", "corpus-id": "d1", "score": 2}',
                    '{"query-id": "q1", "corpus-id": "d2", "score": 0}',
                    '{"query-id": "q2", "corpus-id": "d1", "score": 1}',
                ],
            ),
        ],
    )
    def test_forms(self, name: str, lines: list[str]) -> None:
        assert list(read_qrels(write(name, *lines))) == QRELS

    def test_gzip(self, folder: Path) -> None:
        (folder / "test.tsv.gz").write_bytes(gzip.compress(b"query-id\tcorpus-id\tscore\nq1\td1\t2\n"))
        assert list(read_qrels("test.tsv.gz")) == QRELS[:1]

    @pytest.mark.parametrize(
        ("name", "lines", "message"),
        [
            ("t.tsv", ["query-id\tcorpus-id\tscore", "q1\td1\tgood"], r"line 2, column 'score': expected a number"),
            ("t.tsv", ["query-id\tcorpus-id\tscore", "q1\t\t1"], r"line 2, column 'corpus-id': the value is missing"),
            ("t.txt", ["q1 0 d1 1", "q1 0 d1"], r"line 2: not four columns; write query id, 0, text id, gain"),
            ("t.txt", ["q1 0 d1 1", "q1 0 d1 1 x"], r"line 2: not four columns; write query id, 0, text id, gain"),
            ("t.txt", ["q1 0 d1 1", "q1 0 d1 high"], r"line 2, column 'gain': expected a number"),
            ("t.tsv", ["q1\td1\t1", "q2\td1\t1"], r"t\.tsv: no column query-id or qid or query; its columns are 'q1'"),
        ],
    )
    def test_bad_rows_name_their_place(self, name: str, lines: list[str], message: str) -> None:
        with pytest.raises(DataError, match=message):
            list(read_qrels(write(name, *lines)))

    def test_bad_rows_are_counted(self) -> None:
        bad: list[DataError] = []
        file = write("t.txt", "q1 0 d1 2", "q1 0", "q1 0 d2 0", "q2 0 d1 x")
        assert list(read_qrels(file, on_bad=bad.append)) == QRELS[:2] and len(bad) == 2

    def test_places_are_kept_for_later_errors(self) -> None:
        assert str(next(read_qrels(write("t.txt", "", "q1 0 d1 2"))).location) == "t.txt, line 2"


class TestBeirFolder:
    def beir(self, *splits: str, queries: bool = True) -> None:
        write("set/corpus.jsonl", '{"_id": "d1", "text": "cats"}')
        if queries:
            write("set/queries.jsonl", '{"_id": "q1", "text": "cats?"}')
        for split in splits:
            write(f"set/qrels/{split}.tsv", "query-id\tcorpus-id\tscore", "q1\td1\t1")

    def test_test_is_taken(self) -> None:
        self.beir("dev", "test", "train")
        files = JudgedFiles(Path("set/corpus.jsonl"), Path("set/queries.jsonl"), Path("set/qrels/test.tsv"))
        assert beir_files("set") == files

    def test_the_only_one_is_taken(self) -> None:
        self.beir("dev")
        assert beir_files("set") == JudgedFiles(
            Path("set/corpus.jsonl"), Path("set/queries.jsonl"), Path("set/qrels/dev.tsv")
        )

    def test_a_folder_of_data(self, folder: Path) -> None:
        self.beir("test")
        (folder / "data").mkdir()
        (folder / "set").rename(folder / "data" / "set")
        files = beir_files("set", data_dir=folder / "data")
        assert files is not None and files.qrels == folder / "data" / "set" / "qrels" / "test.tsv"

    def test_given_files_take_the_place_of_its_own(self) -> None:
        self.beir(queries=False)
        assert beir_files("set", None, "q.csv", "r.tsv") == JudgedFiles(Path("set/corpus.jsonl"), "q.csv", "r.tsv")

    def test_flaws_are_told(self) -> None:
        self.beir("dev", "train")
        with pytest.raises(DataError, match=r"set: has several qrels; name one of set/qrels/dev\.tsv, .* with --qrels"):
            beir_files("set")
        Path("set/queries.jsonl").unlink()
        with pytest.raises(DataError, match=r"has a corpus\.jsonl but no queries\.jsonl; add it, or give --queries"):
            beir_files("set")

    def test_no_qrels(self) -> None:
        self.beir()
        with pytest.raises(DataError, match=r"has no qrels/test\.tsv; add it, or give --qrels"):
            beir_files("set")

    @pytest.mark.parametrize("source", ["sample/pairs", "missing", "empty"])
    def test_what_is_no_such_folder(self, source: str, folder: Path) -> None:
        (folder / "empty").mkdir()
        assert beir_files(source) is None
