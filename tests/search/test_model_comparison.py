"""Two indexes of the same texts: rankings by an exact search, judgements, explained changes, and indexes by others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Corpus, Index, IndexSettings, PassageSettings
from likewise.search.comparison_result import ComparisonSettings, ModelComparison
from likewise.search.evaluation import RetrievalTask, encoded_rankers, evaluate_ranker
from likewise.search.model_comparison import compare_models, indexed_by, texts_key
from likewise.search.recall import Relevant, Setting
from tiny_models import spelling_tokenizer, tiny_encoder

TEXTS = sample_sentences()[:40]
QUERIES = ["the volcano erupted", "a man is out", "prices rose again", "the team won"]
GAINS = [{3: 1.0, 7: 2.0}, {}, {11: 1.0}, {0: 1.0, 39: 1.0}]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "indexes"


@pytest.fixture(scope="module")
def encoders() -> tuple[Encoder, Encoder]:
    return tiny_encoder("bert", 0), tiny_encoder("mpnet", 1, tokenizer=spelling_tokenizer())


@pytest.fixture(scope="module")
def indexes(encoders: tuple[Encoder, Encoder]) -> list[Index]:
    return [Index.from_texts(one, TEXTS) for one in encoders]


@pytest.fixture(scope="module")
def found(indexes: list[Index]) -> ModelComparison:
    return compare_models(*indexes, QUERIES, ComparisonSettings((1, 5, 20), 10), GAINS)


def plain_ranking(encoder: Encoder, query: str) -> list[int]:
    """By the cosines of freshly encoded texts."""
    scores = encoder.similarity([query], TEXTS)[0]
    return sorted(range(len(TEXTS)), key=lambda row: -scores[row])


class TestRankings:
    def test_they_are_those_of_an_exact_search(self, found: ModelComparison, encoders: tuple[Encoder, Encoder]) -> None:
        for ranking, encoder in zip(found.rankings, encoders, strict=True):
            assert ranking.rows.tolist() == [plain_ranking(encoder, query)[:20] for query in QUERIES]

    def test_an_approximate_engine_is_searched_exactly(self, indexes: list[Index], encoders: Any) -> None:
        pytest.importorskip("faiss")
        graph = Index.from_texts(encoders[0], TEXTS, IndexSettings(engine="hnsw", bits=8))
        found = compare_models(indexes[0], graph, QUERIES)
        assert (found.rbo == 1).all() and found.explained == () and "nothing changes" in found.notes[2]

    def test_the_spread_is_the_deviation_over_all_texts(self, found: ModelComparison, encoders: Any) -> None:
        for ranking, encoder in zip(found.rankings, encoders, strict=True):
            plain = encoder.similarity(QUERIES, TEXTS).astype(np.float64).std(axis=1)
            np.testing.assert_allclose(ranking.spread, plain, atol=1e-6)

    def test_what_comes_and_goes(self, found: ModelComparison, encoders: tuple[Encoder, Encoder]) -> None:
        for query, change in zip(QUERIES, found.changes, strict=True):
            one, other = (plain_ranking(encoder, query)[:10] for encoder in encoders)
            assert list(change.came) == [row for row in other if row not in one]
            assert list(change.went) == [row for row in one if row not in other]
            assert all(found.documents[row] == (str(row + 1), TEXTS[row]) for row in (*change.came, *change.went))

    def test_blocks_of_one_query(self, indexes: list[Index], found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("likewise.search.ranker.BLOCK_BYTES", 1)
        again = compare_models(*indexes, QUERIES, ComparisonSettings((1, 5, 20), 10), GAINS)
        np.testing.assert_allclose(again.rbo, found.rbo, atol=1e-12)
        assert (
            again.quality is not None
            and again.quality.first.positions.tolist() == found.quality.first.positions.tolist()
        )


class TestJudged:
    @pytest.mark.parametrize("side", [0, 1])
    def test_measures_are_those_of_the_evaluation(
        self, found: ModelComparison, encoders: tuple[Encoder, Encoder], side: int
    ) -> None:
        corpus = Corpus([str(row) for row in range(len(TEXTS))], TEXTS)
        judged = [query for query, gains in zip(QUERIES, GAINS, strict=True) if gains]
        task = RetrievalTask("", corpus, judged, Relevant.of(gains for gains in GAINS if gains))
        [ranker], _ = encoded_rankers(encoders[side], [encoders[side].pooling_config], task)
        plain = evaluate_ranker(ranker, task, Setting(), (1, 5, 20))
        assert found.quality is not None
        mine = (found.quality.first, found.quality.second)[side]
        np.testing.assert_allclose(mine.values, plain.values, atol=1e-12)

    def test_differences_are_paired(self, found: ModelComparison) -> None:
        judged = found.quality
        assert judged is not None and judged.left_out == 1 and judged.first.n == 3
        values = judged.second.values - judged.first.values
        for (change, p), row in zip(judged.differences, values, strict=True):
            assert change.value == pytest.approx(row.mean()) and change.low <= change.value <= change.high
            assert p * 8 == pytest.approx(round(p * 8)) and 0 < p <= 1  # all eight signs of three queries
        assert "left out of recall, MRR and nDCG: 1" in found.cautions[0]

    def test_judgements_without_a_relevant_text(self, indexes: list[Index]) -> None:
        with pytest.raises(DataError, match="no query has a relevant text"):
            compare_models(*indexes, QUERIES, gains=[{}] * 4)


class TestExplained:
    def test_the_most_changed_queries_first(self, found: ModelComparison) -> None:
        order = np.argsort(found.rbo, kind="stable").tolist()
        assert [change.query for change in found.explained] == order

    def test_the_pair_has_turned(self, found: ModelComparison, encoders: tuple[Encoder, Encoder]) -> None:
        for change in found.explained:
            query = QUERIES[change.query]
            before, after = (plain_ranking(encoder, query) for encoder in encoders)
            assert before.index(change.came) > before.index(change.went)
            assert after.index(change.came) < after.index(change.went)
            assert change.first.value <= 0 <= change.second.value

    def test_margins_are_those_of_the_scores(self, found: ModelComparison, encoders: Any) -> None:
        for change in found.explained:
            texts = [TEXTS[change.came], TEXTS[change.went]]
            for one, encoder in zip((change.first, change.second), encoders, strict=True):
                came, went = encoder.similarity([QUERIES[change.query]], texts)[0]
                assert one.value == pytest.approx(float(came) - float(went), abs=1e-5)
                assert abs(one.gap) < 1e-5

    def test_hits_that_only_change_their_order(self, indexes: list[Index]) -> None:
        found = compare_models(*indexes, QUERIES, ComparisonSettings((40,), 40))
        assert all(not change.came for change in found.changes) and len(found.explained) == 4
        for change in found.explained:
            assert change.first.value <= 0 <= change.second.value and change.change > 0

    def test_none_are_wanted(self, indexes: list[Index]) -> None:
        assert compare_models(*indexes, QUERIES, ComparisonSettings(most_changed=0)).explained == ()

    def test_a_model_that_cannot_be_explained(self, indexes: list[Index], monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> None:
            raise UsageError("bilstm pooling cannot be explained")

        monkeypatch.setattr("likewise.search.model_comparison.margin", refuse)
        found = compare_models(*indexes, QUERIES)
        assert found.explained == () and found.rbo.min() < 1
        assert found.cautions == ["the words behind the changes are left out: bilstm pooling cannot be explained"]


class TestRefused:
    def test_no_queries(self, indexes: list[Index]) -> None:
        with pytest.raises(DataError, match="at least one query"):
            compare_models(*indexes, [])

    def test_other_texts(self, indexes: list[Index], encoders: tuple[Encoder, Encoder]) -> None:
        for texts in (TEXTS[:-1], TEXTS[::-1]):
            with pytest.raises(DataError, match="the same texts in the same order"):
                compare_models(indexes[0], Index.from_texts(encoders[1], texts), QUERIES)

    @pytest.mark.parametrize("settings", [ComparisonSettings((41,)), ComparisonSettings(top=41)])
    def test_more_first_texts_than_texts(self, indexes: list[Index], settings: ComparisonSettings) -> None:
        with pytest.raises(UsageError, match="41 first texts of a corpus of 40"):
            compare_models(*indexes, QUERIES, settings)

    def test_no_texts(self, encoders: tuple[Encoder, Encoder]) -> None:
        empty = [Index.from_texts(one, []) for one in encoders]
        with pytest.raises(DataError, match="at least one text"):
            compare_models(*empty, QUERIES)


class TestDocuments:
    """Documents in passages: each model cuts them at its own limit, and a document counts by its best passage."""

    DOCUMENTS = tuple((f"d{row}", " ".join(TEXTS[row : row + 6]), {"row": row}) for row in range(0, 34, 3))

    @pytest.fixture
    def cut(self, encoders: tuple[Encoder, Encoder]) -> list[Index]:
        first = Index.from_texts(encoders[0], self.DOCUMENTS, passages=PassageSettings(tokens=24, overlap=0))
        return [first, indexed_by(first.store, encoders[1])]

    def test_a_document_is_its_best_passage(self, cut: list[Index]) -> None:
        found = compare_models(*cut, QUERIES, ComparisonSettings((1, 5), 5))
        assert found.texts == len(self.DOCUMENTS) == len(cut[1])
        for index, ranking in zip(cut, found.rankings, strict=True):
            assert len(index.store) > len(index)
            for query, rows in zip(QUERIES, ranking.rows, strict=True):
                hits = index.search(query, k=5)
                assert [self.DOCUMENTS[row][0] for row in rows[:5]] == [hit.id for hit in hits]

    def test_words_are_those_of_the_best_passages(self, cut: list[Index]) -> None:
        found = compare_models(*cut, QUERIES, ComparisonSettings((1, 5), 5))
        assert found.explained and not found.remarks
        for change in found.explained:
            query = found.queries[change.query].text
            for index, one in zip(cut, (change.first, change.second), strict=True):
                scores = {hit.id: hit for hit in index.search(query, k=len(self.DOCUMENTS))}
                came, went = scores[change.came_text[0]], scores[change.went_text[0]]
                assert one.value == pytest.approx(came.score - went.score, abs=1e-5)
                assert one.contrast.better.right.text == came.text
        assert "rank" in found.to_html()

    def test_the_other_index_holds_the_same_documents(self, cut: list[Index]) -> None:
        assert [cut[1].document(name) for name, *_ in self.DOCUMENTS] == [text for _, text, _ in self.DOCUMENTS]
        assert texts_key(cut[0].store) == texts_key(cut[1].store)
        assert cut[1].search(QUERIES[0], k=1, where="row >= 3")[0].metadata["row"] >= 3


class TestIndexedBy:
    @pytest.fixture
    def index(self, encoders: tuple[Encoder, Encoder], tmp_path: Path) -> Index:
        return Index.build(encoders[0], TEXTS, tmp_path / "index", IndexSettings(query_prompt="the "))

    def test_the_model_that_made_it(self, index: Index, encoders: Any, own_cache: Path) -> None:
        assert indexed_by(index.store, encoders[0]).store is index.store
        assert not own_cache.exists()

    def test_another_model(self, index: Index, encoders: Any, own_cache: Path) -> None:
        found = indexed_by(index.store, encoders[1])
        assert found.corpus() == index.corpus() and len(list(own_cache.iterdir())) == 1
        vectors = np.concatenate([rows.vectors for rows in found.store.windows()])
        fresh = encoders[1].encode(TEXTS)
        np.testing.assert_allclose(vectors, fresh / np.linalg.norm(fresh, axis=1, keepdims=True), atol=1e-5)
        assert found.prompts == ("", "")

    def test_a_second_call_encodes_nothing(self, index: Index, encoders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        indexed_by(index.store, encoders[1])
        monkeypatch.setattr(Encoder, "encode_with_stats", lambda *_, **__: pytest.fail("texts are encoded again"))
        assert len(indexed_by(index.store, encoders[1])) == 40

    def test_a_call_that_was_cut_short_continues(
        self, index: Index, encoders: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, done = Encoder.encode_with_stats, []

        def cut(self: Encoder, texts: list[str], **options: Any) -> Any:
            if done:
                raise KeyboardInterrupt
            done.append(len(texts))
            return whole(self, texts, **options)

        monkeypatch.setattr("likewise.search.index.text_windows", lambda rows, _: _windows(list(rows), 16))
        monkeypatch.setattr(Encoder, "encode_with_stats", cut)
        with pytest.raises(KeyboardInterrupt):
            indexed_by(index.store, encoders[1])
        encoded: list[int] = []

        def counted(self: Encoder, texts: list[str], **options: Any) -> Any:
            encoded.append(len(texts))
            return whole(self, texts, **options)

        monkeypatch.setattr(Encoder, "encode_with_stats", counted)
        assert indexed_by(index.store, encoders[1]).corpus() == index.corpus()
        assert done == [16] and sum(encoded) == 24

    def test_a_damaged_copy_is_built_again(self, index: Index, encoders: Any, own_cache: Path) -> None:
        indexed_by(index.store, encoders[1])
        [vectors] = own_cache.rglob("*vectors.npy")
        vectors.write_bytes(vectors.read_bytes()[:-4] + b"oops")
        assert indexed_by(index.store, encoders[1]).corpus() == index.corpus()

    def test_the_same_weights_keep_the_prompts(self, index: Index, encoders: Any) -> None:
        assert indexed_by(index.store, encoders[0].with_pooling(layer=1)).prompts == ("the ", "")

    def test_changes(self, index: Index, encoders: Any) -> None:
        found = indexed_by(index.store, encoders[0], similarity="dot", query_prompt="")
        assert found.store is not index.store and (found.similarity, found.prompts) == ("dot", ("", ""))


def _windows(rows: list[Any], size: int) -> list[list[Any]]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def test_the_key_depends_on_ids_texts_and_order(encoders: tuple[Encoder, Encoder]) -> None:
    items = [("a", "one"), ("b", "two")]
    changed = [[("b", "two"), ("a", "one")], [("a", "one"), ("c", "two")], [("a", "oneb"), ("", "two")]]
    keys = [texts_key(Index.from_texts(encoders[0], each).store) for each in (items, items, *changed)]
    assert keys[0] == keys[1] and len(set(keys)) == 4


def test_the_document(found: ModelComparison) -> None:
    document = json.loads(json.dumps(found.to_dict()))
    assert [one["query"] for one in document["queries"]] == QUERIES
    assert document["means"]["rbo"]["value"] == pytest.approx(found.rbo.mean())
    assert document["means"]["overlap_5"]["value"] == pytest.approx(found.overlap[:, 4].mean())
    assert list(document["quality"]["measures"]) == ["R@1", "R@5", "R@20", "MRR@10", "nDCG@10"]
    for one in document["explained"]:
        assert {"id", "query", "came", "went", "margins", "spreads", "gaps", "change", "words"} == one.keys()
        for side in (0, 1):
            total = sum(word["shares"][side] for word in one["words"])
            assert total + one["gaps"][side] == pytest.approx(one["margins"][side], abs=1e-9)
