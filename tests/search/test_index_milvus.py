"""The index in Milvus: what the folder's index does, Milvus's does too, from the library and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal

pytest.importorskip("pymilvus")
pytest.importorskip("milvus_lite")

from conftest import save_classic
from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import DataError, ModelError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings
from likewise.search.baselines import RankedCorpus, stored_corpus
from likewise.search.indexed_files import index_file
from likewise.search.searcher import explained_search
from likewise.search.stores import milvus
from likewise.search.stores.milvus import _USERS

pytest_plugins = ("command_line",)

ITEMS = [(f"t{place}", text) for place, text in enumerate(sample_sentences()[:40])]
MORE = [(f"m{place}", text) for place, text in enumerate(sample_sentences()[40:60])]
BRUTE = "Milvus Lite compares a query with every row; a Milvus server builds a graph"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """All connections of a test, closed after it: the command line leaves that to its process's end."""
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    opened: list[Any] = []

    class Counted(milvus.MilvusConnection):
        def __init__(self, where: Any) -> None:
            self._client = None
            super().__init__(where)
            opened.append(self)

    monkeypatch.setattr(milvus.MilvusStore, "connection_type", Counted)
    yield opened
    for one in opened:
        one.close()


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"milvus:{tmp_path / 'index.db'}"


@pytest.fixture
def index(tiny: Encoder, address: str) -> Iterator[Index]:
    with Index.build(tiny, ITEMS, address) as made:
        yield made


@pytest.fixture
def folder_index(tiny: Encoder, tmp_path: Path) -> Index:
    return Index.build(tiny, ITEMS, tmp_path / "folder")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "texts.jsonl", ITEMS)


def written(path: Path, items: list[tuple[str, str]]) -> Path:
    path.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in items))
    return path


def assert_same_hits(one: Index, other: Index, k: int = 10) -> None:
    for query in ("the cat sat", "rates", "a volcano erupted"):
        found, expected = one.search(query, k), other.search(query, k)
        assert [(hit.id, hit.text) for hit in found] == [(hit.id, hit.text) for hit in expected]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-5)


class TestLikeTheFolders:
    def test_searches(self, index: Index, folder_index: Index, tiny: Encoder, address: str) -> None:
        assert_same_hits(index, folder_index)
        assert_same_hits(index, folder_index, 99)
        assert len(index) == 40 and list(index.corpus().ids) == [name for name, _ in ITEMS]
        with Index.open(address, tiny) as opened:
            assert_same_hits(opened, folder_index)

    def test_changes(self, index: Index, folder_index: Index, tiny: Encoder, address: str) -> None:
        for one in (index, folder_index):
            one.add(MORE)
            one.add(MORE[:3])
            one.delete(["t0", "t7", "m3"])
        assert_same_hits(index, folder_index)
        assert list(index.corpus().ids) == list(folder_index.corpus().ids) and len(index) == 57
        with pytest.raises(DataError, match="'x' is not in the index, so nothing was deleted"):
            index.delete(["t1", "x"])
        with pytest.raises(DataError, match="'t1' is already in the index with another text"):
            index.add([("t1", "something else")])
        index.delete([name for name, _ in [*ITEMS, *MORE] if name not in ("t0", "t7", "m3")])
        assert len(index) == 0 and len(index.search("cat")) == 0

    @pytest.mark.parametrize(
        "settings",
        [IndexSettings(similarity="dot"), IndexSettings(query_prompt="the ", document_prompt="a ")],
        ids=["dot", "prompts"],
    )
    def test_settings(self, tiny: Encoder, address: str, tmp_path: Path, settings: IndexSettings) -> None:
        encoder = tiny.with_pooling(normalize=False)
        plain = Index.build(encoder, ITEMS, tmp_path / "folder", settings)
        with Index.build(encoder, ITEMS, address, settings) as made:
            assert_same_hits(made, plain)
            assert (made.similarity, made.prompts) == (plain.similarity, plain.prompts)

    def test_explained(self, index: Index, folder_index: Index) -> None:
        found, plain = (explained_search(one, "the cat sat", 4) for one in (index, folder_index))
        for here, there in zip(found, plain, strict=True):
            assert here.score == pytest.approx(here.shares.similarity, abs=1e-5)
            why = here.to_dict()["explanation"]
            total = sum(word["share"] for word in why["words"]) + why["bias"]
            assert total == pytest.approx(here.score, abs=1e-5)
            assert here.shares.relevance == pytest.approx(there.shares.relevance, abs=1e-6)
            assert here.margin == pytest.approx(there.margin, abs=1e-6)

    def test_hybrid_and_texts(self, index: Index, folder_index: Index, address: str) -> None:
        found, plain = (RankedCorpus.hybrid(one).search("the cat sat", 5) for one in (index, folder_index))
        assert [hit.id for hit in found] == [hit.id for hit in plain]
        assert list(stored_corpus(address).ids) == [name for name, _ in ITEMS]

    def test_says_how_it_searches(self, index: Index) -> None:
        assert index.summary() == f"40 texts, engine FLAT ({BRUTE})" and index.info.to_dict()["note"] == BRUTE
        assert (index.info.to_dict()["engine"], index.info.to_dict()["recall"]) == ("FLAT", None)

    def test_built_again_goes_on(self, tiny: Encoder, address: str) -> None:
        Index.build(tiny, ITEMS[:20], address).close()
        with Index.build(tiny, ITEMS, address) as made:
            assert list(made.corpus().ids) == [name for name, _ in ITEMS]

    def test_replaced(self, index: Index, tiny: Encoder, address: str) -> None:
        index.close()
        with Index.build(tiny, MORE, address, replace=True) as made:
            assert list(made.corpus().ids) == [name for name, _ in MORE]

    def test_replaced_where_nothing_is_yet(self, tiny: Encoder, address: str) -> None:
        assert len(Index.build(tiny, MORE, address, replace=True)) == 20

    def test_other_texts_are_refused(self, index: Index, tiny: Encoder, address: str, tmp_path: Path) -> None:
        source = Dataset(str(written(tmp_path / "more.jsonl", MORE)))
        with pytest.raises(UsageError, match="already holds an index"):
            index_file(tiny, source, address, IndexSettings())

    def test_all_of_an_addition_or_none(self, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("likewise.encoder.forward.WINDOW_TEXTS", 10)
        with pytest.raises(DataError, match="already in the index"):
            index.add([*MORE, ("t1", "something else")])
        assert len(index) == 40


class TestModels:
    def test_another_is_refused_with_both_names(
        self, index: Index, tiny: Encoder, address: str, tmp_path: Path
    ) -> None:
        other = Encoder.load(str(save_classic(tmp_path / "other", seed=5)), device="cpu")
        with pytest.raises(ModelError) as caught:
            Index.open(address, other)
        assert tiny.name in str(caught.value) and other.name in str(caught.value)
        with pytest.raises(ModelError, match='was made with pooling "mean", not "cls"'):
            Index.open(address, tiny.with_pooling(pooling="cls"))
        with pytest.raises(UsageError, match="was begun with pooling 'mean', not 'cls'"):
            Index.build(tiny.with_pooling(pooling="cls"), ITEMS, address)

    def test_its_own_model_and_reading_are_loaded(self, tiny: Encoder, address: str) -> None:
        encoder = tiny.with_pooling(pooling="max", layer=(0, 1))
        with Index.build(encoder, ITEMS, address) as made:
            hits = made.search("the cat")
        with Index.open(address) as opened:
            assert opened.encoder.pooling_config.pooling == "max" and opened.search("the cat").hits == hits.hits

    def test_a_post_processing_has_to_be_given(self, tiny: Encoder, address: str) -> None:
        post = fit_postprocessing("whitening", tiny.encode([text for _, text in ITEMS]), 6)
        Index.build(tiny.with_postprocessing(post), ITEMS, address).close()
        with pytest.raises(UsageError, match="was made with a post-processing; give its file with --post"):
            Index.open(address)
        with Index.open(address, tiny.with_postprocessing(post)) as opened:
            assert len(opened.search("cat")) == 10

    def test_a_refusal_lets_go_of_the_database(
        self, index: Index, tiny: Encoder, address: str, connections: list[Any]
    ) -> None:
        index.close()
        with pytest.raises(ModelError):
            Index.open(address, tiny.with_pooling(pooling="cls"))
        assert _USERS[connections[0]._uri] == 0

    def test_reading_the_texts_lets_go_of_the_database(
        self, index: Index, address: str, connections: list[Any]
    ) -> None:
        index.close()
        stored_corpus(address)
        assert _USERS[connections[0]._uri] == 0

    def test_closing_lets_go_of_the_database(self, index: Index, connections: list[Any]) -> None:
        assert _USERS[connections[0]._uri] == 1
        index.close()
        index.close()
        assert _USERS[connections[0]._uri] == 0
        with pytest.raises(UsageError, match="is closed; open it again"):
            index.search("cat")

    def test_what_is_not_there(self, tiny: Encoder, address: str) -> None:
        with pytest.raises(DataError, match="holds no index; make one with: likewise index FILE --store"):
            Index.open(address, tiny)


class TestCommandLine:
    @pytest.mark.slow
    def test_built_and_searched(self, run_tiny: Any, run: Any, file: Path, address: str, folder_index: Index) -> None:
        made = one_document(run_tiny("index", file, "--store", address, "--json"))
        assert (made["index"], made["texts"], made["engine"], made["note"]) == (address, 40, "FLAT", BRUTE)
        answer = run("search", address, "the cat", "-k", 3, "--explain", "--json")
        assert answer.err == f"likewise: 40 texts, engine FLAT ({BRUTE})\n"
        found = one_document(answer)
        assert (found["engine"], found["recall"]) == ("FLAT", None)
        plain = explained_search(folder_index, "the cat", 3)
        assert [hit["id"] for hit in found["hits"]] == [hit.id for hit in plain.hits]
        assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in plain.hits], abs=1e-5)
        assert found["hits"][0]["explanation"]["above_next"]["difference"] == pytest.approx(plain[0].margin, abs=1e-5)
        assert BRUTE in run("search", address, "the cat").err

    @pytest.mark.slow
    def test_a_folder_that_points_there(
        self, run_tiny: Any, run: Any, file: Path, address: str, tmp_path: Path
    ) -> None:
        out = tmp_path / "pointer"
        made = one_document(run_tiny("index", file, "--store", address, "--out", out, "--json"))
        assert made["index"] == address and [path.name for path in out.iterdir()] == ["store.json"]
        direct, pointed = (run("search", where, "the cat", "--json") for where in (address, out))
        assert one_document(direct) == one_document(pointed) and BRUTE in pointed.err
        assert one_document(run("index", "--out", out, "--json"))["texts"] == 40
        more = written(tmp_path / "more.jsonl", ITEMS[:5])
        assert one_document(run("index", more, "--out", out, "--add", "--prefix", "x-", "--json"))["texts"] == 45
        assert one_document(run("index", "--out", out, "--delete", "x-t0", "--json"))["texts"] == 44
        assert one_document(run("search", out, "cat", "--ranker", "bm25", "--json"))["ranker"] == "bm25"
        assert one_document(run("search", out, "the cat", "--ranker", "hybrid", "--json"))["hits"]
        replaced = run_tiny("index", more, "--out", out, "--replace", "--json")
        assert one_document(replaced)["texts"] == 5 and one_document(replaced)["index"] == f"{address}#likewise"

    def test_mistakes(self, run_tiny: Any, run: Any, file: Path, address: str, tmp_path: Path) -> None:
        assert run_tiny("index", file, "--store", address).code == 0
        said = refusal(run_tiny("search", address, "cat", "--pooling", "cls"))
        assert 'was made with pooling "mean", not "cls"' in said
        assert "--engine does not go with an index" in refusal(run("search", address, "cat", "--engine", "hnsw"))
        assert "an empty query" in refusal(run("search", address, " "))
        assert "holds no index; make one with" in refusal(run("search", f"milvus:{tmp_path}/none.db", "cat"))
        assert "is not an address of Milvus" in refusal(run("search", "milvus:none", "cat"))
        assert "was begun with pooling" in refusal(run_tiny("index", file, "--store", address, "--pooling", "cls"))
        assert not (tmp_path / "none.db").exists()

    @pytest.mark.parametrize("options", [("--engine", "hnsw"), ("--bits", "8")], ids=str)
    def test_an_engine_of_ones_own(self, run_tiny: Any, file: Path, address: str, options: tuple[str, ...]) -> None:
        refusal(run_tiny("index", file, "--store", address, *options))

    def test_a_taken_folder_is_told_before_the_work(
        self, run_tiny: Any, file: Path, address: str, folder_index: Index, tmp_path: Path
    ) -> None:
        said = refusal(run_tiny("index", file, "--store", address, "--out", folder_index.store.address))
        assert "already holds an index of its own" in said and not (tmp_path / "index.db").exists()
