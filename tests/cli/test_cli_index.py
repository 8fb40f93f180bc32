"""``likewise index``: built, kept, replaced, added to, deleted from; every refusal is one line with its cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from answers import one_document, refusal
from conftest import save_classic
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import Cancelled
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings

pytest_plugins = ("command_line",)

TEXTS = ["the cat sat on it", "a man is out", "the sea is blue", "a volcano erupted", "the bank cut rates"]
MORE = ["a second cat", "a second man"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "texts.csv", TEXTS)


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return written(tmp_path / "more.csv", MORE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def built(run_tiny: Any, file: Path, folder: Path) -> Path:
    assert run_tiny("index", file, "--out", folder).code == 0
    return folder


def written(path: Path, texts: list[str]) -> Path:
    path.write_text("id,text\n" + "".join(f"{place},{text}\n" for place, text in enumerate(texts)))
    return path


def texts_of(folder: Path, tiny: Encoder) -> dict[str, str]:
    corpus = Index.open(folder, tiny).corpus()
    return dict(zip(corpus.ids, corpus.texts, strict=True))


class TestBuild:
    def test_as_the_library_builds_it(
        self, run_tiny: Any, tiny: Encoder, tiny_folder: Path, file: Path, folder: Path, tmp_path: Path
    ) -> None:
        answer = run_tiny("index", file, "--out", folder, "--json")
        assert answer.err == ""
        plain = Index.build(tiny, [(str(place), text) for place, text in enumerate(TEXTS)], tmp_path / "plain")
        assert one_document(answer) == plain.info.to_dict() | {"index": str(folder)}
        made = Index.open(folder)
        assert made.search("the cat").hits == plain.search("the cat").hits
        assert made.info.to_dict()["model"] == str(tiny_folder.resolve())

    def test_shown_as_a_table_with_the_choice(self, run_tiny: Any, file: Path, folder: Path) -> None:
        out = run_tiny("index", file, "--out", folder).out
        for words in (str(folder), "exact", "chosen for 5 vectors; up to 1,000,000 are searched one by one", "mean"):
            assert words in out

    def test_the_choice_goes_by_the_number(
        self, run_tiny: Any, file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("likewise.search.engines.EXACT_UP_TO", 3)
        found = one_document(run_tiny("index", file, "--out", folder, "--json"))
        assert (found["engine"], found["recall"]) == ("hnsw", 1.0)
        assert found["note"] == "chosen for 5 vectors, more than 3"

    @pytest.mark.parametrize(
        ("options", "engine"),
        [
            (("--engine", "hnsw"), "hnsw"), (("--engine", "ivf"), "ivf"), (("--bits", 8), "exact, 8 bits"),
            (("--engine", "hnsw", "--bits", "8"), "hnsw, 8 bits"), (("--engine", "exact"), "exact"),
        ],
        ids=str,
    )  # fmt: skip
    def test_engines(self, run_tiny: Any, file: Path, folder: Path, options: tuple[object, ...], engine: str) -> None:
        found = one_document(run_tiny("index", file, "--out", folder, *options, "--json"))
        assert found["engine"] == engine and (found["recall"] is None) == (engine == "exact")

    def test_all_settings_reach_the_index(
        self, run_tiny: Any, tiny: Encoder, file: Path, folder: Path, tmp_path: Path
    ) -> None:
        encoder = tiny.with_pooling(pooling="max", layer=(0, 1), special_tokens=False)
        post = fit_postprocessing("whitening", encoder.encode(sample_sentences()[:40]), 6)
        post.save(tmp_path / "post.safetensors")
        pooling_config = (
            "--pooling",
            "max",
            "--layer",
            "0,1",
            "--no-special-tokens",
            "--post",
            tmp_path / "post.safetensors",
        )
        own = ("--similarity", "dot", "--query-prompt", "the ", "--document-prompt", "a ")
        found = one_document(run_tiny("index", file, "--out", folder, *pooling_config, *own, "--json"))
        settings = IndexSettings(similarity="dot", query_prompt="the ", document_prompt="a ")
        items = [(str(place), text) for place, text in enumerate(TEXTS)]
        plain = Index.build(encoder.with_postprocessing(post), items, tmp_path / "plain", settings)
        assert found == plain.info.to_dict() | {"index": str(folder)}
        assert Index.open(folder).search("the cat").hits == plain.search("the cat").hits

    def test_columns_names_and_bad_rows(self, run_tiny: Any, folder: Path, tmp_path: Path, tiny: Encoder) -> None:
        (tmp_path / "odd.csv").write_text("key,body,other\nx,the cat,1\ny,,2\nz,the sea,3\n")
        columns = ("--text-column", "body", "--id-column", "key")
        assert "line 3" in refusal(run_tiny("index", tmp_path / "odd.csv", "--out", folder, *columns))
        assert not folder.exists()
        answer = run_tiny("index", tmp_path / "odd.csv", "--out", folder, *columns, "--skip-bad", "--json")
        assert one_document(answer)["texts"] == 2 and answer.err.startswith("likewise: skipped 1 bad row (first: ")
        assert texts_of(folder, tiny) == {"x": "the cat", "z": "the sea"}

    def test_cut_texts_are_told(self, run_tiny: Any, folder: Path, tmp_path: Path) -> None:
        answer = run_tiny("index", written(tmp_path / "long.csv", ["it " * 50, "it"]), "--out", folder, "--json")
        assert one_document(answer)["texts"] == 2
        cut = "likewise: cut at the model's limit of 32 tokens: 1 of 2 texts"
        assert answer.err == f"{cut}; --passages keeps the whole of each text\n"


class TestAgain:
    def test_nothing_to_do(self, run_tiny: Any, built: Path, file: Path) -> None:
        before = (built / "index.json").read_bytes()
        answer = run_tiny("index", file, "--out", built, "--json")
        assert one_document(answer)["texts"] == 5 and (built / "index.json").read_bytes() == before
        assert answer.err == f"likewise: {built} already holds this index; nothing to do\n"

    def test_other_texts_and_settings(self, run_tiny: Any, built: Path, file: Path, more: Path) -> None:
        words = f"{built} already holds an index of other texts or settings; use --add, --replace or another --out"
        assert words in refusal(run_tiny("index", more, "--out", built))
        for options in (("--pooling", "cls"), ("--similarity", "dot"), ("--query-prompt", "x")):
            assert words in refusal(run_tiny("index", file, "--out", built, *options))

    @pytest.mark.parametrize("options", [("--engine", "hnsw"), ("--bits", "8")], ids=str)
    def test_another_engine(self, run_tiny: Any, built: Path, file: Path, options: tuple[str, ...]) -> None:
        assert "use --add, --replace" in refusal(run_tiny("index", file, "--out", built, *options))

    def test_replace(self, run_tiny: Any, built: Path, more: Path, tiny: Encoder) -> None:
        found = one_document(run_tiny("index", more, "--out", built, "--replace", "--engine", "hnsw", "--json"))
        assert (found["texts"], found["engine"]) == (2, "hnsw")
        assert list(texts_of(built, tiny).values()) == MORE

    def test_replace_what_is_not_there_yet(self, run_tiny: Any, file: Path, folder: Path) -> None:
        assert one_document(run_tiny("index", file, "--out", folder, "--replace", "--json"))["texts"] == 5

    def test_a_cancelled_build_goes_on(
        self, run_tiny: Any, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, tiny: Encoder
    ) -> None:
        monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 10)
        file = written(tmp_path / "many.csv", [f"it is {n}" for n in range(40)])
        encoded: list[str] = []
        original = Encoder.encode_with_stats

        def dies(self: Encoder, texts: list[str], **options: Any) -> Any:
            if len(encoded) == 20:
                encoded.append("no more")
                raise Cancelled
            encoded.extend(texts)
            return original(self, texts, **options)

        monkeypatch.setattr(Encoder, "encode_with_stats", dies)
        assert run_tiny("index", file, "--out", folder).code == 130
        assert "is unfinished; run the same likewise index again" in refusal(run_tiny("search", folder, "it"))
        assert one_document(run_tiny("index", file, "--out", folder, "--json"))["texts"] == 40
        assert len(encoded) == 41, "none twice"


class TestChange:
    def test_shown_without_a_file(self, run: Any, built: Path) -> None:
        found = one_document(run("index", "--out", built, "--json"))
        assert (found["texts"], found["index"]) == (5, str(built))
        assert "5" in run("index", "--out", built).out

    def test_add(self, run: Any, built: Path, more: Path, tiny: Encoder) -> None:
        words = "the id '0' is already in the index with another text; delete it first, or put a prefix"
        assert words in refusal(run("index", more, "--out", built, "--add"))
        assert len(texts_of(built, tiny)) == 5
        assert one_document(run("index", more, "--out", built, "--add", "--prefix", "m", "--json"))["texts"] == 7
        assert list(texts_of(built, tiny))[5:] == ["m0", "m1"]
        assert one_document(run("index", more, "--out", built, "--add", "--prefix", "m", "--json"))["texts"] == 7

    def test_skipped_rows_of_an_addition(self, run: Any, built: Path, tmp_path: Path) -> None:
        (tmp_path / "bad.csv").write_text("id,text\nx,the cat\ny,\n")
        assert "line 3" in refusal(run("index", tmp_path / "bad.csv", "--out", built, "--add"))
        answer = run("index", tmp_path / "bad.csv", "--out", built, "--add", "--skip-bad", "--json")
        assert one_document(answer)["texts"] == 6 and "skipped 1 bad row" in answer.err

    def test_delete(self, run: Any, built: Path, tiny: Encoder) -> None:
        found = one_document(run("index", "--out", built, "--delete", "0", "--delete", "3", "--json"))
        assert found["texts"] == 3 and list(texts_of(built, tiny)) == ["1", "2", "4"]
        assert "'3' is not in the index; nothing was deleted" in refusal(
            run("index", "--out", built, "--delete", "1", "--delete", "3")
        )
        assert list(texts_of(built, tiny)) == ["1", "2", "4"]

    def test_a_second_writer(self, run: Any, run_tiny: Any, built: Path, file: Path, more: Path) -> None:
        with FileLock(built / ".lock"):
            for change in (
                ("--add", "--prefix", "m"), ("--delete", "0"),
            ):  # fmt: skip
                given = (more,) if "--add" in change else ()
                said = refusal(run("index", *given, "--out", built, *change))
                assert f"another process is writing to {built}; wait for it to end" in said
            assert "another process is writing" in refusal(run_tiny("index", file, "--out", built, "--replace"))
            assert run("search", built, "cat").code == 0, "readers are let in"

    @pytest.mark.parametrize(
        "options",
        [("--engine", "hnsw"), ("--bits", "8"), ("--similarity", "dot"), ("--query-prompt", "x"),
         ("--document-prompt", "x")],
        ids=str,
    )  # fmt: skip
    def test_settled_options_are_refused(self, run: Any, built: Path, more: Path, options: tuple[str, ...]) -> None:
        words = f"{options[0]} does not go with an existing index: it keeps the settings it was made with; leave it"
        assert words in refusal(run("index", more, "--out", built, "--add", *options))
        assert words in refusal(run("index", "--out", built, "--delete", "0", *options))
        assert words in refusal(run("index", "--out", built, *options))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("options", "words"),
        [(("--model", "x"), "no folder 'x'"), (("--pooling", "cls"), 'was made with pooling "mean", not "cls"'),
         (("--layer", "1"), "was made with layer -1, not 1"), (("--no-heads",), "was made with heads true, not false"),
         (("--truncate-dim", "8"), "was made with truncate_dim null, not 8"),
         (("--post", "x"), "x is not a post-processing file"),
         (("--no-special-tokens",), "was made with special_tokens true, not false")],
        ids=str,
    )  # fmt: skip
    def test_another_model_or_reading(
        self, run: Any, built: Path, more: Path, options: tuple[str, ...], words: str
    ) -> None:
        assert words in refusal(run("index", more, "--out", built, "--add", *options))
        unheard = f"{options[0].replace('--no-', '--')} does not go with --delete or a look at the index"
        assert unheard in refusal(run("index", "--out", built, "--delete", "0", *options))
        assert unheard in refusal(run("index", "--out", built, *options))

    @pytest.mark.slow
    def test_the_model_is_gone_or_moved(self, run: Any, file: Path, more: Path, folder: Path, tmp_path: Path) -> None:
        other = save_classic(tmp_path / "other", seed=4)
        assert run("index", file, "--out", folder, "--model", other, "--pooling", "max").code == 0
        other.rename(tmp_path / "moved")
        assert run("index", "--out", folder, "--delete", "0").code == 0, "no model is needed for that"
        assert str(other) in refusal(run("index", more, "--out", folder, "--add", "--prefix", "m"))
        moved = ("--model", tmp_path / "moved")
        assert run("index", more, "--out", folder, "--add", "--prefix", "m", *moved).code == 0
        assert run("search", folder, "cat", *moved).code == 0, "the pooling is the index's own"


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("FILE",), "say where the index is: --out FOLDER, or --store ADDRESS"),
            ((), "say where the index is"),
            (("FILE", "--out", "OUT", "--add", "--replace"), "--add does not go with --replace; leave one of them out"),
            (("FILE", "--out", "OUT", "--delete", "0"), "--delete goes without a FILE; delete first, then add"),
            (("FILE", "--out", "OUT", "--add", "--delete", "0"), "--delete goes without a FILE"),
            (("--out", "OUT", "--add"), "--add and --replace need the FILE of texts"),
            (("--out", "OUT", "--replace"), "--add and --replace need the FILE of texts"),
            (("FILE", "--out", "OUT", "--prefix", "x"), "--prefix goes with --add"),
            (("--out", "OUT", "--delete", "0", "--prefix", "x"), "--prefix goes with --add"),
            (("FILE", "--out", "OUT", "--add"), "does not exist; make an index with: likewise index FILE --out"),
            (("--out", "OUT", "--delete", "0"), "does not exist; make an index with"),
            (("--out", "OUT"), "does not exist; make an index with"),
            (("FILE", "--store", "sqlite:x.db"), "unknown store 'sqlite:x.db'; give milvus://HOST:PORT/COLLECTION"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("output", [(), ("--json",)], ids=["text", "json"])
    def test_combinations(
        self, run: Any, file: Path, folder: Path, arguments: tuple[str, ...], words: str, output: tuple[str, ...],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setattr(Encoder, "load", lambda *_, **__: pytest.fail("the model was loaded before"))
        given = [{"FILE": file, "OUT": folder}.get(part, part) for part in arguments]
        assert words in refusal(run("index", *given, *output))
        assert not folder.exists()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--engine", "annoy"), "unknown engine 'annoy'; choose from auto, exact, hnsw, ivf"),
            (("--bits", "4"), "vectors of 4 bits are not supported; choose 32 or 8"),
            (("--similarity", "l2"), "unknown similarity 'l2'; choose from"),
            (("--pooling", "avg"), "unknown pooling 'avg'"),
        ],
        ids=str,
    )
    def test_settings(self, run_tiny: Any, file: Path, folder: Path, options: tuple[str, ...], words: str) -> None:
        assert words in refusal(run_tiny("index", file, "--out", folder, *options))
        assert not folder.exists()

    def test_folders_of_others(self, run_tiny: Any, file: Path, tmp_path: Path) -> None:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "thesis.txt").write_text("precious")
        for options in ((), ("--replace",)):
            said = refusal(run_tiny("index", file, "--out", tmp_path / "full", *options))
            assert "already holds thesis.txt; give a new or empty folder as --out" in said
        assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]
        assert "cannot be made" in refusal(run_tiny("index", file, "--out", file))

    def test_no_file_and_an_empty_file(self, run_tiny: Any, folder: Path, tmp_path: Path) -> None:
        assert "check the path" in refusal(run_tiny("index", "none.csv", "--out", folder))
        (tmp_path / "empty.csv").write_text("")
        assert "is empty" in refusal(run_tiny("index", tmp_path / "empty.csv", "--out", folder))
        assert not folder.exists()

    def test_a_damaged_index(self, run_tiny: Any, run: Any, built: Path, file: Path) -> None:
        (built / "index.json").write_text("{}")
        assert "is damaged" in refusal(run("index", "--out", built))
        assert "is damaged" in refusal(run_tiny("index", file, "--out", built))


class TestDocuments:
    """``--passages``, ``--metadata``, ``--where`` and ``--aggregate``."""

    @pytest.fixture
    def documents(self, tmp_path: Path) -> Path:
        rows = [
            ("a", "the cat sat on it. " * 12, 2020),
            ("b", "a man is out at sea. " * 9, 1999),
            ("c", "a volcano", ""),
        ]
        path = tmp_path / "documents.csv"
        path.write_text("id,text,year\n" + "".join(f"{name},{text},{year}\n" for name, text, year in rows))
        return path

    def test_an_index_of_passages(self, run_tiny: Any, tiny: Encoder, documents: Path, folder: Path) -> None:
        answer = run_tiny("index", documents, "--out", folder, "--passages", "--overlap", "0", "--json")
        found = one_document(answer)
        assert (found["documents"], found["overlap"], found["metadata"]) == (3, 0, {"year": ["number"]})
        assert found["passages"] > 6 and "cut at" not in answer.err
        with Index.open(folder, tiny) as index:
            assert index.document("a") == "the cat sat on it. " * 12
        assert "3 documents in" in run_tiny("search", folder, "cat").err

    @pytest.mark.slow
    def test_where_and_aggregate(self, run_tiny: Any, documents: Path, folder: Path) -> None:
        assert run_tiny("index", documents, "--out", folder, "--passages").code == 0
        for ranker in ("dense", "bm25", "hybrid"):
            how = ("search", folder, "the cat on the sea", "--json", "--ranker", ranker)
            every = {hit["id"]: hit["score"] for hit in one_document(run_tiny(*how))["hits"]}
            [hit] = one_document(run_tiny(*how, "--where", "year >= 2000"))["hits"]
            assert hit["id"] == "a" and hit["score"] == every["a"] and hit["metadata"] == {"year": 2020}
            assert hit["passage"]["of"] > 2
        mean = one_document(run_tiny("search", folder, "the cat", "--json", "--aggregate", "mean-top-3"))["hits"]
        best = one_document(run_tiny("search", folder, "the cat", "--json"))["hits"]
        assert {hit["id"] for hit in mean} == {"a", "b", "c"} and mean[0]["score"] <= best[0]["score"]

    def test_where_on_a_file(self, run_tiny: Any, documents: Path) -> None:
        plain = one_document(run_tiny("search", documents, "the cat", "--json"))["hits"]
        for ranker in ("dense", "bm25"):
            how = ("search", documents, "the cat on the sea", "--json", "--ranker", ranker)
            assert "metadata" not in one_document(run_tiny(*how))["hits"][0]
            [hit] = one_document(run_tiny(*how, "--where", "year > 2000"))["hits"]
            assert hit["metadata"] == {"year": 2020}
        [same] = one_document(run_tiny("search", documents, "the cat", "--json", "--where", "year > 2000"))["hits"]
        assert same["score"] == next(hit["score"] for hit in plain if hit["id"] == "a")

    def test_a_folder_of_documents(self, run_tiny: Any, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "b.txt").write_text("the sea is blue. " * 20)
        (tmp_path / "docs" / "a.html").write_text("<p>a volcano erupted")
        (tmp_path / "docs" / "c.pdf").write_text("no")
        answer = run_tiny("index", tmp_path / "docs", "--out", folder, "--passages", "--json")
        assert one_document(answer)["documents"] == 2
        assert "docs: files that are no documents: 1 (first: c.pdf)" in answer.err
        again = run_tiny("index", tmp_path / "docs", "--out", folder, "--passages", "--json")
        assert "already holds this index" in again.err
        (tmp_path / "docs" / "empty.md").write_text("")
        assert "docs/empty.md: holds no text" in refusal(
            run_tiny("index", tmp_path / "docs", "--out", folder, "--passages", "--replace")
        )
        answer = run_tiny("index", tmp_path / "docs", "--out", folder, "--passages", "--replace", "--skip-bad")
        assert answer.code == 0 and "skipped 1 bad row" in answer.err

    @pytest.mark.parametrize(
        ("options", "flaw"),
        [
            (("--where", "yeer > 1"), "--where: no column 'yeer'; the columns are year (number)"),
            (("--where", "year > 'x'"), "--where: column 'year' holds number, but \"x\" is text"),
            (("--where", "year >"), "--where: expected a text in quotes"),
            (("--aggregate", "sum"), "unknown aggregate 'sum'; choose from max, mean-top-3"),
            (("--aggregate", "mean-top-3", "--explain"), "leave --aggregate out"),
            (("--passages",), "--passages does not go with an index"),
        ],
    )
    def test_refusals_of_a_search(
        self, run_tiny: Any, documents: Path, folder: Path, options: tuple[str, ...], flaw: str
    ) -> None:
        assert run_tiny("index", documents, "--out", folder, "--passages").code == 0
        assert flaw in refusal(run_tiny("search", folder, "cat", *options))

    @pytest.mark.parametrize(
        ("options", "flaw"),
        [
            (("--overlap", "2"), "have no effect without --passages; give it too"),
            (
                ("--passages", "--passage-tokens", "33"),
                "passages of 33 tokens exceed the model's limit of 32; lower it",
            ),
            (("--passages", "--passage-tokens", "5"), "leaves no tokens for a text"),
        ],
    )
    def test_refusals_of_an_index(
        self, run_tiny: Any, documents: Path, folder: Path, options: tuple[str, ...], flaw: str
    ) -> None:
        assert flaw in refusal(run_tiny("index", documents, "--out", folder, *options))
        assert not (folder / "index.json").exists()

    def test_metadata_of_texts_that_are_not_cut(self, run_tiny: Any, documents: Path, folder: Path) -> None:
        found = one_document(run_tiny("index", documents, "--out", folder, "--metadata", "--json"))
        assert (found["texts"], found["metadata"]) == (3, {"year": ["number"]})
        [hit] = one_document(run_tiny("search", folder, "cat", "--json", "--where", "year == null"))["hits"]
        assert hit["id"] == "c" and "passage" not in hit
