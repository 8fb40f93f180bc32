"""Ledgers of every ranker: each sums to the shown score, and its terms are those of a plain twin."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.encoder.similarity import unit
from likewise.errors import ModelError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Corpus, Hybrid, Index, RankedCorpus, baseline, ranked
from likewise.search.hits import ExplainedHit, Hits
from likewise.search.ledger import LedgerDifference, ScoreLedger, Term
from likewise.search.word_rankers import Bm25, TfIdf
from likewise.search.words import words

pytest.importorskip("bm25s", reason="bm25s is not installed (extra: search)")
SENTENCES = sample_sentences()[:80]
QUERIES = ["the storm and the bridge", "a new mayor of the city", "volcano", "The the THE fire"]


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


def corpus_of(texts: list[str]) -> Corpus:
    return Corpus([str(row) for row in range(len(texts))], texts)


def random_texts(seed: int, number: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{rank}" for rank in rng.zipf(1.4, rng.integers(1, 15)) if rank < 30) for _ in range(number)]


def searched(name: str, texts: list[str], query: str, k: int = 10, **given: Any) -> Hits:
    return RankedCorpus(baseline(name, texts, **given), corpus_of(texts)).search(query, k, explain=True)


def check_sums(found: Hits, tolerance: float) -> None:
    """Every ledger sums to the shown score, every margin to the difference of two shown scores."""
    for hit in found:
        assert isinstance(hit, ExplainedHit)
        for ledger in (hit.ledger, hit.ledgers.by_query):
            assert ledger.score == hit.score
            assert abs(sum(term.value for term in ledger.terms) + ledger.rest - hit.score) <= tolerance
    for hit, after in pairwise(found):
        assert abs(sum(value for _, value in hit.margin_terms) - (hit.score - after.score)) <= 2 * tolerance


class TestScoreLedger:
    def test_refuses_terms_that_miss_the_score(self) -> None:
        with pytest.raises(ModelError, match="misses the score"):
            ScoreLedger(0.5, (Term("cat", 0.4),), 0.1 + 2e-9)
        assert ScoreLedger(0.5, (Term("cat", 0.4),), 0.1 + 2e-9, tolerance=1e-8).gap == pytest.approx(-2e-9, rel=1e-3)

    def test_a_number_that_is_none_is_refused(self) -> None:
        with pytest.raises(ModelError):
            ScoreLedger(math.nan, ())

    def test_differences_of_ledgers_with_other_ends(self) -> None:
        one, two = (ScoreLedger(score, terms) for score, terms in (
            (0.5, (Term("a", 0.3), Term("b", 0.2))), (0.1, (Term("a", 0.1),))))  # fmt: skip
        for difference in (LedgerDifference(one, two), LedgerDifference(two, one)):
            assert abs(difference.gap) < 1e-12 and {name for name, _ in difference.terms} == {"a", "b"}


class TestBm25:
    @staticmethod
    def plain_terms(query: str, text: str, texts: list[str], k1: float, b: float) -> dict[str, float]:
        """From Lucene's formula, word by word."""
        tokens = [one.split() for one in texts]
        average = sum(map(len, tokens)) / len(tokens)
        found = {}
        for word, times in Counter(query.split()).items():
            held = sum(word in one for one in tokens)
            if held:
                often, rarity = text.split().count(word), math.log(1 + (len(texts) - held + 0.5) / (held + 0.5))
                length = 1 - b + b * len(text.split()) / average
                found[word] = times * rarity * often / (often + k1 * length) if often else 0.0
        return found

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (0.0, 0.0), (2.0, 1.0)])
    def test_terms_are_those_of_the_formula(self, seed: int, k1: float, b: float) -> None:
        texts = random_texts(seed, 60)
        ranker = Bm25(texts, k1, b)
        for query in [*(f"w1 {text}" for text in random_texts(seed + 100, 10)), "w1 unknown w1 w2"]:
            found = RankedCorpus(ranker, corpus_of(texts)).search(query, 12, explain=True)
            check_sums(found, 1e-9)
            for hit in found:
                plain = self.plain_terms(query, hit.text, texts, k1, b)
                assert {term.name: term.value for term in hit.ledger.terms} == pytest.approx(plain, abs=1e-12)
                for term in hit.ledger.terms:
                    assert [hit.text[start:end] for start, end in term.spans] == [term.name] * term.detail["tf"]

    def test_scores_are_those_of_bm25s_in_single_precision(self) -> None:
        import bm25s

        peer = bm25s.BM25(method="lucene")
        peer.index([words(text) for text in SENTENCES], show_progress=False)
        known = set().union(*map(words, SENTENCES))
        for query in QUERIES:
            found = searched("bm25", SENTENCES, query)
            expected = peer.get_scores([word for word in words(query) if word in known])
            for hit in found:
                assert hit.score == pytest.approx(float(expected[int(hit.id)]), abs=1e-5)

    def test_factors_give_the_value(self) -> None:
        (hit, *_) = searched("bm25", SENTENCES, QUERIES[0])
        for term in hit.ledger.terms:
            factors = term.detail
            saturated = factors["tf"] / (factors["tf"] + factors["norm"])
            assert term.value == pytest.approx(factors["in_query"] * factors["idf"] * saturated, abs=1e-12)


class TestCosinesOfWords:
    @pytest.mark.parametrize("name", ["bow", "tfidf"])
    @pytest.mark.parametrize("seed", range(3))
    def test_terms_are_those_of_the_plain_twin(self, name: str, seed: int) -> None:
        texts = random_texts(seed, 50)
        held = Counter(word for text in texts for word in set(text.split()))
        rarity = {word: 1 + math.log((1 + len(texts)) / (1 + count)) for word, count in held.items()}

        def vector(text: str) -> dict[str, float]:
            weights = {word: count * (rarity[word] if name == "tfidf" else 1.0)
                       for word, count in Counter(text.split()).items() if word in held}  # fmt: skip
            length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
            return {word: weight / length for word, weight in weights.items()}

        for query in (f"w2 {text}" for text in random_texts(seed + 100, 8)):
            found = searched(name, texts, query)
            check_sums(found, 1e-9)
            asked = vector(query)
            for hit in found:
                own = vector(hit.text)
                plain = {word: weight * own.get(word, 0.0) for word, weight in asked.items()}
                assert {term.name: term.value for term in hit.ledger.terms} == pytest.approx(plain, abs=1e-12)

    def test_stop_words_are_no_terms(self) -> None:
        texts = ["the cat sat", "the dog ran"]
        found = RankedCorpus(TfIdf(texts, "english"), corpus_of(texts)).search("the cat", explain=True)
        assert [[term.name for term in hit.ledger.terms] for hit in found] == [["cat"]]


class TestAverages:
    def test_of_input_embeddings(self, tiny: Encoder) -> None:
        table = tiny.model_view.embeddings.word.weight.detach().double().numpy()
        special = set(tiny.tokenizer.special_ids())
        for query in QUERIES[:2]:
            found = searched("input-embeddings", SENTENCES, query, encoder=tiny)
            check_sums(found, 1e-5)
            for hit in found:
                one, two = ([token for token in tiny.tokenizer.ids([text])[0][0] if token not in special]
                            for text in (query, hit.text))  # fmt: skip
                average = unit(table[one].mean(0)[None])[0]
                plain = table[two] @ average / (len(two) * np.linalg.norm(table[two].mean(0)))
                np.testing.assert_allclose([term.value for term in hit.ledger.terms], plain, atol=1e-6)

    def test_of_word_vectors(self, tmp_path: Path) -> None:
        known = sorted(set().union(*map(words, SENTENCES)))[::2]
        vectors = np.random.default_rng(0).normal(size=(len(known), 5)).round(4)
        lines = [" ".join([word, *map(str, row)]) for word, row in zip(known, vectors.tolist(), strict=True)]
        (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
        found = searched("static", SENTENCES, QUERIES[0], vectors=tmp_path / "vectors.txt")
        check_sums(found, 1e-5)
        for hit in found:
            named = [hit.text[start:end].lower() for term in hit.ledger.terms for start, end in term.spans]
            assert named == [word for word in words(hit.text) if word in known]

    def test_a_text_without_known_words(self, tmp_path: Path) -> None:
        (tmp_path / "vectors.txt").write_text("cat 1 0\ndog 0 1\n")
        found = searched("static", ["cat", "zebra"], "cat", vectors=tmp_path / "vectors.txt")
        assert [(hit.id, hit.score, hit.words) for hit in found] == [("0", 1.0, [(0, 3, 1.0)]), ("1", 0.0, [])]

    def test_chance_is_refused(self) -> None:
        with pytest.raises(UsageError, match="the ranker random cannot be explained"):
            searched("random", SENTENCES, "cat")


class TestHybrid:
    @pytest.mark.parametrize("query", QUERIES)
    def test_each_part_has_its_rank_and_share(self, tiny: Encoder, query: str) -> None:
        index = Index.from_texts(tiny, SENTENCES)
        found = RankedCorpus.hybrid(index).search(query, 12, explain=True)
        rankers = {"bm25": baseline("bm25", SENTENCES), index.name: index}
        scores = {name: np.concatenate([block for _, block in ranker.score_blocks([query])])[0]
                  for name, ranker in rankers.items()}  # fmt: skip
        for hit in found:
            assert hit.score == sum(term.value for term in hit.ledger.terms), "exactly, to the last bit"
            row = int(hit.id) - 1
            for term in hit.ledger.terms:
                own = float(scores[term.name][row])
                if term.name == "bm25" and own == 0:
                    assert term.value == 0 and not term.detail and term.name not in hit.ledgers.parts
                    continue
                rank = 1 + int((scores[term.name] > own + 1e-6).sum())
                assert term.detail["rank"] == rank and term.value == pytest.approx(61 / (60 + rank) / 2, abs=1e-15)
                part = hit.ledgers.parts[term.name]
                assert part.by_text.score == pytest.approx(own, abs=1e-5)
        check_sums(found, 0.0 if len(found) < 2 else 1e-12)

    def test_hits_are_those_without_an_explanation(self, tiny: Encoder) -> None:
        search = RankedCorpus.hybrid(Index.from_texts(tiny, SENTENCES))
        for query in QUERIES:
            plain, found = search.search(query, 9), search.search(query, 9, explain=True)
            assert [(hit.id, hit.score) for hit in plain] == [(hit.id, hit.score) for hit in found]

    def test_two_of_one_name(self) -> None:
        rankers = [baseline("bm25", SENTENCES), baseline("bm25", SENTENCES)]
        (hit, *_) = RankedCorpus(Hybrid(rankers), corpus_of(SENTENCES)).search("the fire", explain=True)
        assert [term.name for term in hit.ledger.terms] == ["bm25", "bm25 (2)"]

    def test_depth(self) -> None:
        search = RankedCorpus(Hybrid([baseline("bm25", SENTENCES), baseline("tfidf", SENTENCES)], depth=3),
                              corpus_of(SENTENCES))  # fmt: skip
        for hit in search.search("the fire in the city", 20, explain=True):
            assert {term.name for term in hit.ledger.terms if term.value} == hit.ledgers.parts.keys()


class TestShown:
    def test_ordering_is_that_of_the_scores(self) -> None:
        for name in ("bm25", "tfidf", "bow"):
            ranker = baseline(name, SENTENCES)
            for query in QUERIES:
                found = ranked(ranker, [query], 10)
                shown = RankedCorpus(ranker, corpus_of(SENTENCES)).search(query, 10, explain=True)
                above = [str(row) for row, score in zip(found.rows[0], found.scores[0], strict=True) if score > 0]
                assert [hit.id for hit in shown] == above
                assert [hit.score for hit in shown] == sorted((hit.score for hit in shown), reverse=True)

    def test_json(self, tiny: Encoder) -> None:
        (hit, *_) = searched("bm25", SENTENCES, QUERIES[0], 3).to_dict()["hits"]
        why = json.loads(json.dumps(hit))["explanation"]
        assert why.keys() == {"measure", "words", "terms", "bias", "gap", "sentences", "pairs", "above_next"}
        assert sum(word["share"] for word in why["words"]) == pytest.approx(hit["score"], abs=1e-9)
        assert sum(one["share"] for one in why["sentences"]) == pytest.approx(hit["score"], abs=1e-9)
        for word in why["words"]:
            assert hit["text"][word["start"] : word["end"]].lower() == word["text"]
        (both, *_) = RankedCorpus.hybrid(Index.from_texts(tiny, SENTENCES)).search(QUERIES[0], 3, explain=True)
        why = both.to_dict()["explanation"]
        assert sum(term["value"] for term in why["terms"]) == both.score and why["words"] == []
        for part in why["parts"]:
            total = sum(word["share"] for word in part["words"]) + part["bias"]
            assert total == pytest.approx(part["score"], abs=1e-5)

    def test_one_drawing(self, tiny: Encoder) -> None:
        both = RankedCorpus.hybrid(Index.from_texts(tiny, SENTENCES)).search(QUERIES[0], 2, explain=True)
        for found in (searched("bm25", SENTENCES, QUERIES[0], 2), both):
            page, lines = found.to_html(), "\n".join(line.plain for line in found.lines())
            assert "<mark" in page and "above the next by" in page and "score: " in page
            assert "score: " in lines and "above the next by" in lines
        assert f"bm25 (rank {found[0].ledger.terms[0].detail['rank']})" in lines
        assert f"\n      bm25 {found[0].ledgers.parts['bm25'].by_text.score:.4f}: " in lines

    def test_many_words_of_a_query_are_summed_up(self) -> None:
        query = " ".join(dict.fromkeys(words(" ".join(SENTENCES[:3]))))
        (hit, *_) = searched("bm25", SENTENCES, query, 1)
        assert len(hit.ledgers.sums) == 9 and hit.ledgers.sums[-1][0] == "others"
        assert sum(value for _, value in hit.ledgers.sums) == pytest.approx(hit.score, abs=1e-9)
