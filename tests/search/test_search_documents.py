"""Documents in an index: rows, whole texts, changes, scores by their best passages, filters; in every kind of store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import Text
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings, PassageSettings, baseline
from likewise.search.baselines import RankedCorpus, ranked_hits, stored_corpus
from likewise.search.documents import Document, Origin, Selection, index_rows, joined_text
from likewise.search.filters import Filter
from likewise.search.passages import PassageCutter

CUT = PassageSettings(tokens=24)
STORES = ("memory", "folder", "hnsw", "milvus")
Make = Callable[..., Index]


def written(seed: int, count: int) -> list[tuple[str, str, dict[str, Any]]]:
    """Documents of 1 to 12 sentences with metadata; some values are missing."""
    source, found = random.Random(seed), []
    for number in range(count):
        sentences = source.sample(sample_sentences(), source.choice([1, 2, 5, 12]))
        text = "".join(sentence + source.choice([" ", "\r\n", "\n\n  "]) for sentence in sentences)
        metadata: dict[str, Any] = {"year": 1990 + number % 30, "lang": source.choice(["de", "en", "it's"])}
        metadata |= {"draft": number % 3 == 0} if number % 2 else {}
        found.append((f"d{number}", source.choice(["", "\n "]) + text, metadata))
    return found


DOCUMENTS = written(0, 40)
QUERIES = ["the cat sat", "a volcano erupted on an island", sample_sentences()[3], sample_sentences()[50]]


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest, tiny: Encoder, tmp_path: Path) -> Iterator[Make]:
    """A function that builds an index in a store."""
    made: list[Index] = []

    def build(items: Any = DOCUMENTS, passages: PassageSettings | None = CUT, **settings: Any) -> Index:
        if request.param == "memory":
            index = Index.from_texts(tiny, items, IndexSettings(**settings), passages=passages)
        else:
            engine = {"engine": "hnsw"} if request.param == "hnsw" else {}
            where: str | Path = tmp_path / f"index{len(made)}"
            if request.param == "milvus":
                pytest.importorskip("milvus_lite")
                where = f"milvus:{where}.db"
            index = Index.build(tiny, items, where, IndexSettings(**engine, **settings), passages=passages)
        made.append(index)
        return index

    yield build
    for index in made:
        index.close()


def by_definition(index: Index, query: str, k: int, selection: Selection) -> list[tuple[str, float]]:
    """The slow twin: all scores of all passages of all documents."""
    corpus = index.corpus()
    [(_, [scores])] = list(index.score_blocks([query]))
    found: dict[str, list[float]] = {}
    for name, score in zip(corpus.ids, scores.tolist(), strict=True):
        found.setdefault(name, []).append(score)
    metadata = {name: metadata for name, _, metadata in DOCUMENTS}
    chosen = {
        name: float(np.mean(sorted(values)[::-1][: selection.passages]))
        for name, values in found.items()
        if selection.where is None or selection.where.matches(metadata[name])
    }
    return sorted(chosen.items(), key=lambda item: -item[1])[:k]


class TestStored:
    def test_every_document_is_whole(self, make: Make) -> None:
        index = make()
        assert len(index) == 40 and len(index.store) > 80
        assert {name: index.document(name) for name, _, _ in DOCUMENTS} == {name: text for name, text, _ in DOCUMENTS}
        with pytest.raises(DataError, match="'nobody' is not in the index"):
            index.document("nobody")

    def test_hits_are_passages_of_the_text(self, make: Make) -> None:
        texts = {name: (text, metadata) for name, text, metadata in DOCUMENTS}
        for hit in make().search(QUERIES[1], 40):
            text, metadata = texts[hit.id]
            assert hit.passage is not None and text[hit.passage.start : hit.passage.end] == hit.text
            assert 1 <= hit.passage.number <= hit.passage.of and hit.metadata == metadata

    def test_info(self, make: Make) -> None:
        found = make().info.to_dict()
        columns = {"draft": ["boolean"], "lang": ["text"], "year": ["number"]}
        assert (found["documents"], found["metadata"], found["passage_tokens"]) == (40, columns, 24)
        assert found["passages"] > 80 and "texts" not in found

    def test_changes_are_by_document(self, make: Make) -> None:
        index = make(DOCUMENTS[:20])
        rows = len(index.store)
        index.delete(["d3", "d7"])
        assert len(index) == 18 and len(index.store) < rows
        assert not {"d3", "d7"} & {hit.id for hit in index.search(QUERIES[0], 40)}
        with pytest.raises(DataError, match="'d3' is"):
            index.delete(["d1", "d3"])
        index.add(DOCUMENTS[:25])  # those that are there are skipped
        assert len(index) == 25 and sorted(set(index.corpus().ids)) == sorted(name for name, _, _ in DOCUMENTS[:25])
        assert index.document("d3") == DOCUMENTS[3][1]

    def test_a_clash_adds_nothing(self, make: Make) -> None:
        index = make(DOCUMENTS[:5])
        name, text, metadata = DOCUMENTS[2]
        for other in ((name, "another text", metadata), (name, text, {**metadata, "year": 1})):
            with pytest.raises(DataError, match="'d2' is already in the index with another text or other metadata"):
                index.add([("new", "a new document. " * 30, {}), other])
        assert len(index) == 5 and "new" not in index.corpus().ids

    def test_plain_items_continue_the_count_of_documents(self, make: Make) -> None:
        index = make(["One sentence. " * 20, "Two."])
        index.add([Text("Three. " * 20, "x"), "Four."])
        assert sorted(set(index.corpus().ids)) == ["1", "2", "4", "x"]

    def test_passages_that_are_the_same_twice(self, make: Make) -> None:
        index = make([("a", "The cat sat on it today. " * 40, {}), ("b", "A dog. ", {})])
        assert [hit.id for hit in index.search("the cat", 2)] == ["a", "b"]
        index.add([("c", "The cat sat on it today. " * 40, {})])
        assert {hit.id for hit in index.search("the cat", 2)} == {"a", "c"} and len(index) == 3

    @pytest.mark.parametrize("value", [[1], {"a": 1}, float("inf"), 2**70, object()])
    def test_other_metadata_is_rejected(self, tiny: Encoder, value: object) -> None:
        with pytest.raises(DataError, match="a text, a finite number, true or false"):
            Index.from_texts(tiny, [("a", "text", {"x": value})], passages=CUT)


class TestSearch:
    @pytest.mark.slow
    @pytest.mark.parametrize("aggregate", ["max", "mean-top-3"])
    @pytest.mark.parametrize("where", [None, "year >= 2005", "lang == 'de' and not draft", "draft", 'lang == "it\'s"'])
    def test_as_the_definition(self, make: Make, aggregate: str, where: str | None) -> None:
        index, selection = make(), Selection.of(where, aggregate)
        for k in (1, 7, 100):
            for query, hits in zip(
                QUERIES, index.search_many(QUERIES, k, where=where, aggregate=aggregate), strict=True
            ):
                wanted = by_definition(index, query, k, selection)
                assert [hit.score for hit in hits] == pytest.approx([score for _, score in wanted], abs=1e-6)
                assert len({hit.id for hit in hits}) == len(hits)
                for hit, (name, score) in zip(hits, wanted, strict=True):
                    assert hit.id == name or any(
                        abs(score - other) < 1e-6 for other_id, other in wanted if other_id != name
                    )

    @pytest.mark.slow
    @pytest.mark.parametrize("aggregate", ["max", "mean-top-3"])
    def test_a_filter_never_changes_a_bit_of_a_score(self, make: Make, aggregate: str) -> None:
        index = make()
        queries = [*QUERIES, *sample_sentences()[60:90]]  # with 20 queries or more faiss multiplies matrices
        for some in (queries, queries[:3]):
            every = index.search_many(some, 40, aggregate=aggregate)
            chosen = index.search_many(some, 40, where="year >= 2005 and lang != 'en'", aggregate=aggregate)
            for all_hits, hits in zip(every, chosen, strict=True):
                scores = {hit.id: hit.score for hit in all_hits}
                assert hits and all(scores[hit.id] == hit.score for hit in hits)
                wanted = [name for name, _, data in DOCUMENTS if data["year"] >= 2005 and data["lang"] != "en"]
                assert sorted(hit.id for hit in hits) == sorted(wanted)

    def test_one_long_document_does_not_hide_the_others(self, make: Make) -> None:
        long = ("long", "The cat sat on the mat again. " * 200, {})
        index = make([long, *DOCUMENTS[:9]])
        assert len(index.search("the cat sat on the mat again", 10)) == 10

    def test_mistakes(self, make: Make) -> None:
        index = make(DOCUMENTS[:3])
        for where, flaw in {"yeer > 1": "no column 'yeer'; the columns are", "year > 'a'": "holds number"}.items():
            with pytest.raises(UsageError, match=flaw):
                index.search("cat", where=where)
        with pytest.raises(UsageError, match="unknown aggregate 'mean'; choose from max, mean-top-3"):
            index.search("cat", aggregate="mean")
        with pytest.raises(UsageError, match="leave --aggregate out"):
            index.search("cat", aggregate="mean-top-3", explain=True)

    def test_explained_hits_are_passages(self, make: Make) -> None:
        index = make(DOCUMENTS[:6])
        plain = index.search(QUERIES[1], 3, where="year > 1991")
        explained = index.search(QUERIES[1], 3, where="year > 1991", explain=True)
        assert [(hit.id, hit.passage, hit.metadata) for hit in explained] == [
            (hit.id, hit.passage, hit.metadata) for hit in plain
        ]

    def test_nothing_matches(self, make: Make) -> None:
        assert len(make().search("cat", where="year > 3000")) == 0


class TestRankers:
    @pytest.mark.parametrize("name", ["bm25", "tfidf", "bow"])
    @pytest.mark.parametrize("where", [None, "year >= 2005"])
    def test_baselines_rank_passages(self, make: Make, name: str, where: str | None) -> None:
        index = make()
        corpus = index.corpus()
        ranker = baseline(name, corpus.texts)
        [hits] = ranked_hits(ranker, corpus, [QUERIES[2]], 50, selection=Selection.of(where, "max"))
        [(_, [scores])] = list(ranker.score_blocks([QUERIES[2]]))
        best: dict[str, float] = {}
        for row, score in enumerate(scores.tolist()):
            assert corpus.origins is not None
            if score > 0 and (where is None or Filter.parse(where).matches(corpus.origins[row].metadata)):
                best[corpus.ids[row]] = max(score, best.get(corpus.ids[row], 0.0))
        assert {hit.id: hit.score for hit in hits} == best
        assert [hit.score for hit in hits] == sorted(best.values(), reverse=True)
        assert all(hit.passage is not None and hit.text in corpus.texts for hit in hits)

    def test_hybrid(self, make: Make) -> None:
        hits = RankedCorpus.hybrid(make()).search(QUERIES[2], 5, where="year >= 2000")
        assert len(hits) == 5 and len({hit.id for hit in hits}) == 5
        assert all(hit.metadata["year"] >= 2000 and hit.passage is not None for hit in hits)

    def test_the_corpus_of_a_folder(self, tiny: Encoder, tmp_path: Path) -> None:
        index = Index.build(tiny, DOCUMENTS, tmp_path / "index", passages=CUT)
        assert stored_corpus(tmp_path / "index") == index.corpus()


class TestMetadataWithoutPassages:
    def test_filters_texts_that_are_not_cut(self, make: Make) -> None:
        index, plain = make(passages=None, metadata=True), make(passages=None)
        assert len(index.store) == len(plain.store) == 40
        every = {hit.id: hit.score for hit in plain.search("the cat", 40)}
        hits = index.search("the cat", 40, where="lang == 'de'")
        assert {hit.id: hit.score for hit in hits} == {
            name: every[name] for name, _, metadata in DOCUMENTS if metadata["lang"] == "de"
        }
        assert all(hit.passage is None for hit in hits) and index.document("d5") == DOCUMENTS[5][1]
        with pytest.raises(UsageError, match="the index has no metadata"):
            plain.search("the cat", where="lang == 'de'")


def test_an_index_of_plain_texts_has_the_same_bytes_as_before(tiny: Encoder, tmp_path: Path) -> None:
    Index.build(tiny, [("a", "The cat sat."), ("b", "A dog ran.", {"year": 1})], tmp_path / "index")  # type: ignore[list-item]
    [rows] = list((tmp_path / "index").glob("*.rows.jsonl"))
    assert rows.read_text() == '["a", "The cat sat."]\n["b", "A dog ran."]\n'
    settings = Index.open(tmp_path / "index", tiny).store.settings
    assert "passages" not in settings and "metadata" not in settings


def test_blanks_and_overlaps_are_joined_again(tiny: Encoder) -> None:
    for overlap in (0, 1, 3):
        cutter = PassageCutter(tiny.tokenizer, PassageSettings(24, overlap))
        for name, text, metadata in [*DOCUMENTS, ("blank", " \n ", {}), ("empty", "", {})]:
            rows = index_rows(Document(name, text, metadata), cutter)
            stored = [(row.text, Origin.of(row.origin.to_dict(), row.origin.content)) for row in rows]
            assert joined_text(stored) == text and [origin for _, origin in stored] == [row.origin for row in rows]
            assert len({row.origin.key for row in rows}) == len(rows)
