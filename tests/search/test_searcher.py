"""Rerankers and questions about texts that are not hits, by any ranker, of texts and of passages."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import CrossEncoder, Encoder
from likewise.encoder.cross_encoder import pair_scores
from likewise.errors import DataError, UsageError
from likewise.explain import explain
from likewise.explain.cross_encoder import explain_cross_encoder
from likewise.grammar.spans import sentence_spans
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings, PassageSettings, RankedCorpus, baseline, ranked
from likewise.search.hits import ExplainedHit
from likewise.search.reranking import Reranked
from likewise.search.searcher import RerankedSearcher, Searcher
from likewise.search.snippets import LIMIT
from tiny_cross_encoders import save_cross_encoder, tiny_classifier
from tiny_models import tiny_encoder

pytest.importorskip("bm25s", reason="bm25s is not installed (extra: search)")
SENTENCES = sample_sentences()[:60]
ITEMS = [(f"t{row}", text) for row, text in enumerate(SENTENCES)]
QUERY = "the storm and the bridge of the city"
SIGNS = [
    "👩\u200d👩\u200d👧 ran. ",
    "Cafe\u0301 — na\u0308he! ",
    "שלום לכולם. ",
    "مرحبا بكم! ",
    "a 🦊\ufe0f fox… ",
    "\n\n\t",
]


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoder:
    folder = save_cross_encoder(tmp_path_factory.mktemp("models") / "cross", tiny_classifier("bert", 4))
    return CrossEncoder.load(folder, device="cpu")


@pytest.fixture(scope="module")
def texts(tiny: Encoder) -> Index:
    return Index.from_texts(tiny, ITEMS)


def documents(count: int = 12) -> list[tuple[str, str]]:
    """Long documents with signs of several characters, from right to left too."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(count):
        parts = [*rng.choice(SENTENCES, 25), *rng.choice(SIGNS, 12)]
        rng.shuffle(parts)
        made.append((f"d{number}", "  " + " ".join(parts) + " \n"))
    return made


@pytest.fixture(scope="module")
def passages(minilm: Encoder) -> Index:
    return Index.from_texts(minilm, documents(), passages=PassageSettings(tokens=180))


def searchers(index: Index) -> dict[str, Searcher]:
    corpus = index.corpus()
    words = {name: RankedCorpus(baseline(name, corpus.texts), corpus) for name in ("bm25", "tfidf", "bow")}
    return {"dense": index, **words, "hybrid": RankedCorpus.hybrid(index)}


class TestReranked:
    def test_order_is_that_of_the_ranker_of_evaluations(self, texts: Index, reranker: CrossEncoder) -> None:
        bm25, corpus = baseline("bm25", SENTENCES), texts.corpus()
        for depth in (5, 12):
            found = RankedCorpus(bm25, corpus).search(QUERY, depth, rerank=reranker, rerank_depth=depth)
            twin = ranked(Reranked(bm25, reranker, SENTENCES, depth), [QUERY], depth)
            assert [hit.id for hit in found] == [f"t{row}" for row in twin.rows[0]]

    @pytest.mark.parametrize("name", ["dense", "bm25", "hybrid"])
    def test_stages_are_both_orders(self, texts: Index, reranker: CrossEncoder, name: str) -> None:
        search = searchers(texts)[name]
        first = search.search(QUERY, 20)
        found = search.search(QUERY, 20, rerank=reranker, rerank_depth=20)
        assert found.ranker == f"{first.ranker} + {reranker.name}" and {hit.id for hit in found} == {
            hit.id for hit in first
        }
        scores = pair_scores(reranker, [(QUERY, hit.text) for hit in found])
        for rank, (hit, score) in enumerate(zip(found, scores, strict=True), start=1):
            before, after = hit.stages
            assert (first[before.rank - 1].id, first[before.rank - 1].score) == (hit.id, before.score)
            assert (after.rank, after.score, hit.score) == (rank, hit.score, pytest.approx(float(score), abs=1e-6))
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)

    def test_a_cross_encoders_ledger_is_its_exact_shares(self, texts: Index, reranker: CrossEncoder) -> None:
        found = RankedCorpus(baseline("bm25", SENTENCES), texts.corpus()).search(
            QUERY, 6, explain=True, rerank=reranker
        )
        logits = reranker.logits([(QUERY, hit.text) for hit in found])[:, 0]
        for hit, logit in zip(found, logits, strict=True):
            plain = explain_cross_encoder(reranker, QUERY, hit.text, "word", fold_special=True)
            for ledger in (hit.ledger, hit.ledgers.by_query):
                assert abs(sum(term.value for term in ledger.terms) + ledger.rest - logit) <= 1e-5
            own = [term.value for term in hit.ledger.terms if term.kind == "text"]
            np.testing.assert_allclose(own, plain.right_shares, atol=1e-6)
            asked = [term.value for term in hit.ledgers.by_query.terms if term.kind == "query"][1:]
            np.testing.assert_allclose(asked, plain.left_shares, atol=1e-6)
            assert [hit.text[start:end] for start, end, _ in hit.words] == [
                unit.text for unit in plain.right.units if unit.kind == "text"
            ]
        for hit, after in pairwise(found):
            assert hit.margin == pytest.approx(hit.ledger.score - after.ledger.score, abs=1e-9)
            assert sum(value for _, value in hit.margin_terms) + hit.above_next.rest == pytest.approx(
                hit.margin, abs=1e-5
            )

    def test_an_encoders_ledger_is_its_exact_shares(self, texts: Index) -> None:
        other = tiny_encoder(seed=5)
        for hit in texts.search(QUERY, 4, explain=True, rerank=other):
            plain = explain(other, QUERY, hit.text, granularity="word", fold_special=True)
            np.testing.assert_allclose([term.value for term in hit.ledger.terms], plain.right_shares, atol=1e-5)
            assert hit.score == pytest.approx(plain.similarity, abs=1e-5)

    @pytest.mark.parametrize("name", ["dense", "bm25", "hybrid"])
    def test_the_first_stage_is_explained_too(self, texts: Index, reranker: CrossEncoder, name: str) -> None:
        found = searchers(texts)[name].search(QUERY, 3, explain=True, rerank=reranker)
        for hit in found:
            before, after = hit.stages
            assert after.ledgers is None, "it is the hit's own"
            assert before.ledgers.by_text.score == pytest.approx(before.score, abs=1e-5)
            document = json.loads(json.dumps(hit.to_dict()))
            assert [list(stage) for stage in document["stages"]] == [
                ["ranker", "rank", "score", "explanation"], ["ranker", "rank", "score"],
            ]  # fmt: skip
        lines, page = "\n".join(line.plain for line in found.lines()), found.to_html()
        for shown in (lines, page):
            assert f"rank {found[0].stages[0].rank}, {found[0].stages[0].score:.4f}: " in shown and "logit: " in shown

    def test_few_texts_and_no_hits(self, tiny: Encoder, reranker: CrossEncoder) -> None:
        index = Index.from_texts(tiny, ["the cat"])
        assert [hit.stages[0].rank for hit in index.search("a", 9, explain=True, rerank=reranker)] == [1]
        empty = RankedCorpus(baseline("bm25", ["the cat"]), index.corpus())
        assert (
            len(empty.search("zebra", rerank=reranker))
            == len(empty.search("zebra", rerank=reranker, explain=True))
            == 0
        )

    def test_refusals(self, texts: Index, reranker: CrossEncoder) -> None:
        with pytest.raises(UsageError, match="the first 3 texts cannot bring 4 hits; raise --rerank-depth"):
            texts.search(QUERY, 4, rerank=reranker, rerank_depth=3)
        with pytest.raises(UsageError, match="rerank_depth has no effect without rerank"):
            texts.search(QUERY, 4, rerank_depth=30)
        with pytest.raises(UsageError, match="granularity has no effect without explain"):
            texts.search(QUERY, 4, rerank=reranker, granularity="token")
        with pytest.raises(UsageError, match="granularity has no effect on the ranker bm25"):
            searchers(texts)["bm25"].search(QUERY, 4, explain=True, granularity="token")
        found = searchers(texts)["bm25"].search(QUERY, 4, explain=True, rerank=reranker, granularity="token")
        assert found[0].shares.metadata.granularity == "token"


def plain_ranking(searcher: Searcher, query: str) -> dict[str, tuple[int, float]]:
    """The rank and the score of every document, by its best passage, one by one."""
    best: dict[str, float] = {}
    for rows, scores in searcher.scored(query):
        for name, score in zip(rows.ids, scores.tolist(), strict=True):
            best[name] = max(score, best.get(name, -np.inf))
    order = sorted(best, key=lambda name: -best[name])
    return {name: (rank, best[name]) for rank, name in enumerate(order, start=1)}


class TestWhyNot:
    @pytest.mark.parametrize("kind", ["texts", "passages"])
    @pytest.mark.parametrize("name", ["dense", "bm25", "tfidf", "bow", "hybrid"])
    def test_rank_score_and_difference(self, request: pytest.FixtureRequest, kind: str, name: str) -> None:
        index: Index = request.getfixturevalue(kind)
        searcher = searchers(index)[name]
        expected, k = plain_ranking(searcher, QUERY), 3
        hits = searcher.search(QUERY, k)
        for own in list(expected)[::7]:
            found = searcher.why_not(QUERY, own, k, **{"pairs_per_hit": 0} if searcher.has_model else {})
            rank, score = expected[own]
            assert (found.rank, found.of) == (rank, len(expected)) and found.hit.score == pytest.approx(score, abs=1e-6)
            assert found.is_hit == (rank <= k)
            if found.is_hit:
                assert found.difference is None and len(found.lines()) == 1
                continue
            last = found.last
            assert (last.id, last.score) == (hits[-1].id, hits[-1].score)
            assert found.difference.difference == pytest.approx(last.score - found.hit.score, abs=1e-5)
            terms = sum(value for _, value in found.difference.terms) + found.difference.rest
            assert terms == pytest.approx(
                found.difference.difference, abs=1e-5 if name in ("dense", "hybrid") else 1e-9
            )
            for start, end, share in found.held_down:
                assert share < 0 and found.hit.text[start:end].strip()

    def test_words_that_hold_down_are_the_negative_shares(self, texts: Index) -> None:
        found = texts.why_not(QUERY, "t40", 2)
        plain = explain(texts.encoder, QUERY, SENTENCES[40], granularity="word", fold_special=True)
        shares = [
            share for unit, share in zip(plain.right.units, plain.right_shares, strict=True) if unit.kind == "text"
        ]
        lowest = sorted(share for share in shares if share < -1e-6)
        np.testing.assert_allclose([share for *_, share in found.held_down], lowest, atol=1e-6)

    def test_documents(self, texts: Index) -> None:
        found = texts.why_not(QUERY, "t40", 2)
        document = json.loads(json.dumps(found.to_dict()))
        assert document.keys() == {
            "query", "ranker", "k", "id", "is_hit", "rank", "of", "score", "hit", "last", "difference", "held_down",
        }  # fmt: skip
        assert document["last"]["rank"] == 2 and document["difference"].keys() == {"difference", "by", "bias", "gap"}
        page, lines = found.to_html(), [line.plain for line in found.lines()]
        assert f"above t40 by <i>{found.difference.difference:.4f}</i>" in page and "<mark" in page
        assert lines[0].startswith(f"t40 is at rank {found.rank} of 60") and "above t40 by" in "\n".join(lines)
        assert list(found.to_dataframe("difference")) == ["query_word", "difference"]

    def test_nothing_in_common(self, texts: Index) -> None:
        search = RankedCorpus(baseline("bm25", SENTENCES), texts.corpus())
        assert search.why_not("zebra", "t1").headline.endswith(
            "with nothing in common with the query; the query has no hits"
        )

    def test_refusals(self, texts: Index) -> None:
        for search in searchers(texts).values():
            with pytest.raises(DataError, match="the id 'nope' is not in the index; check it"):
                search.why_not(QUERY, "nope")
        with pytest.raises(UsageError, match="an empty query"):
            texts.why_not(" ", "t1")

    def test_filters(self, tiny: Encoder) -> None:
        items = [(name, text, {"year": 2000 + row}) for row, (name, text) in enumerate(ITEMS)]
        index = Index.from_texts(tiny, items, IndexSettings(metadata=True))
        found = index.why_not(QUERY, "t40", 3, where="year >= 2030")
        assert found.of == 30 and found.last.metadata["year"] >= 2030
        with pytest.raises(DataError, match="'t4' does not match --where"):
            index.why_not(QUERY, "t4", 3, where="year >= 2030")


class TestPassages:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["dense", "bm25", "tfidf", "hybrid"])
    def test_offsets_cut_the_original_document(self, passages: Index, name: str) -> None:
        originals, searcher = dict(documents()), searchers(passages)[name]
        how: dict[str, Any] = {"pairs_per_hit": 0} if searcher.has_model else {}
        cut = 0
        for query in (QUERY, "fox café שלום"):
            for explained in (False, True):
                for hit in searcher.search(query, 4, explain=explained, **how if explained else {}):
                    original, first = originals[hit.id], hit.passage.start
                    assert original[hit.passage.start : hit.passage.end] == hit.text
                    document = hit.to_dict()
                    cut += "snippet" in document
                    spans = document.get("snippet", [{"start": first, "end": hit.passage.end}])
                    assert [original[one["start"] : one["end"]] for one in spans] == [
                        hit.text[slice(*span)] for span in hit.snippet
                    ]
                    if not isinstance(hit, ExplainedHit):
                        continue
                    for start, end, _ in hit.words:
                        assert original[first + start : first + end] == hit.text[start:end] != ""
                    self.check_strongest(hit)
        assert cut > 4

    @staticmethod
    def check_strongest(hit: ExplainedHit) -> None:
        """The snippet holds the sentence with the highest sum of exact shares."""
        words = hit.words
        sums = {
            span: sum(share for start, _, share in words if span[0] <= start < span[1])
            for span in sentence_spans(hit.text) if span[1] - span[0] <= LIMIT
        }  # fmt: skip
        start, end = max(sums, key=lambda span: sums[span])
        core = hit.text[start:end]
        inner = start + len(core) - len(core.lstrip()), start + len(core.rstrip())
        assert any(first <= inner[0] and inner[1] <= last for first, last in hit.snippet)
        assert sum(last - first for first, last in hit.snippet) <= LIMIT + 1

    def test_a_hit_is_never_its_whole_long_text(self, tiny: Encoder) -> None:
        index = Index.from_texts(tiny, documents())  # cut at the model's limit, but stored whole
        for explained in (False, True):
            found = index.search(QUERY, 3, explain=explained)
            for hit, drawn in zip(found, found._drawn, strict=True):
                shown = "".join(piece for piece, _ in drawn.pieces)
                assert len(shown) < LIMIT + 20 < len(hit.text) and "…" in shown

            assert all(
                one.pieces[0][0] == hit.text for one, hit in zip(replace(found, full=True)._drawn, found, strict=True)
            )

    def test_reranked(self, passages: Index, reranker: CrossEncoder) -> None:
        found = passages.search(QUERY, 4, explain=True, rerank=reranker)
        scores = pair_scores(reranker, [(QUERY, hit.text) for hit in found])
        assert [hit.score for hit in found] == pytest.approx(scores.tolist(), abs=1e-6)
        assert all(hit.passage is not None and hit.words for hit in found)
        assert f"({found[0].id}" not in found.lines()[1].plain and "(passage " in found.lines()[1].plain

    def test_means_of_passages_are_not_explained(self, passages: Index) -> None:
        for search in searchers(passages).values():
            with pytest.raises(UsageError, match="mean-top-3 is the mean of several passages"):
                search.search(QUERY, 3, explain=True, aggregate="mean-top-3")


def test_every_searcher_has_one_interface(texts: Index) -> None:
    found: list[Any] = [*searchers(texts).values(), RerankedSearcher(texts, texts.encoder)]
    assert all(isinstance(one, Searcher) and one.name for one in found)
