"""Explained hits of other systems: the same shares as a search of ours, checked scores, cautions, long texts."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import likewise
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings, explain_hits
from likewise.search.explained_hits import TOLERANCE, known_measures
from tiny_models import tiny_encoder

SENTENCES = sample_sentences()[:40]
QUERY = "the storm and the bridge of the city"


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


def returned(index: Index, k: int = 6, measure: Any = float) -> list[dict[str, Any]]:
    """What a system with the same vectors returns, with another measure of the score."""
    hits = index.search(QUERY, k)
    return [{"id": hit.id, "score": float(measure(hit.score)), "payload": {"text": hit.text}} for hit in hits]


class TestTwin:
    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    @pytest.mark.parametrize("options", [{}, {"granularity": "token", "pairs_per_hit": 2}, {"reference": "none"}])
    def test_the_same_as_an_explained_search(self, tiny: Encoder, similarity: str, options: dict[str, Any]) -> None:
        settings = IndexSettings(similarity=similarity, query_prompt="query: ", document_prompt="text: ")
        index = Index.from_texts(tiny, SENTENCES, settings)
        twin = index.search(QUERY, 6, explain=True, **options)
        prompts = {"query_prompt": "query: ", "document_prompt": "text: "}
        found = explain_hits(tiny, QUERY, returned(index), similarity=similarity, **prompts, **options)
        assert len(found) == 6 and found.cautions == ()
        for hit, other in zip(found, twin, strict=True):
            assert (hit.id, hit.text, hit.snippet) == (other.id, other.text, other.snippet)
            assert hit.score == pytest.approx(other.score, abs=1e-6) and hit.returned.agrees
            assert [word[:2] for word in hit.words] == [word[:2] for word in other.words]
            np.testing.assert_allclose([word[2] for word in hit.words], [word[2] for word in other.words], atol=1e-6)
            assert [pair[:2] for pair in hit.pairs] == [pair[:2] for pair in other.pairs]
        for hit, other in list(zip(found, twin, strict=True))[:-1]:
            assert hit.margin == pytest.approx(other.margin, abs=1e-6)
            assert dict(hit.margin_terms) == pytest.approx(dict(other.margin_terms), abs=1e-6)
        assert found[5].next is None, "nobody returned a seventh hit"

    def test_the_method_and_names(self, tiny: Encoder, tiny_folder: Path) -> None:
        texts = SENTENCES[:3]
        one = likewise.Encoder.load(str(tiny_folder), device="cpu").explain_hits(QUERY, texts).to_dict()
        assert one == likewise.explain_hits(str(tiny_folder), QUERY, texts).to_dict()
        assert "returned" not in one["hits"][0] and "cautions" not in one

    @pytest.mark.slow
    def test_long_texts_have_snippets_and_are_cut_as_in_search(
        self, minilm: Encoder, caplog: pytest.LogCaptureFixture
    ) -> None:
        long = " ".join(SENTENCES[:30])
        with caplog.at_level(logging.WARNING, "likewise"):
            (hit,) = explain_hits(minilm, "a storm", [long])
        assert "cut at the model's limit of 256 tokens: 1 of 1 texts" in caplog.text
        (twin,) = Index.from_texts(minilm, [long]).search("a storm", 1, explain=True)
        assert hit.words == twin.words and hit.snippet == twin.snippet != [(0, len(long))]
        assert max(end for _, end, _ in hit.words) < len(long)


class TestScores:
    def test_measures_by_their_definitions(self) -> None:
        rng = np.random.default_rng(0)
        for scale in (1.0, 3.0):
            q, t = rng.normal(size=8) * scale, rng.normal(size=(5, 8))
            found = known_measures(q, t)
            for row, text in enumerate(t):
                cosine = sum(q * text) / (sum(q * q) ** 0.5 * sum(text * text) ** 0.5)
                squared = sum((a - b) ** 2 for a, b in zip(q, text, strict=True))
                a, b = q / np.linalg.norm(q), text / np.linalg.norm(text)
                wanted = {
                    "cosine": cosine, "dot": sum(q * text), "1 - cosine": 1 - cosine, "squared L2 distance": squared,
                    "L2 distance": squared**0.5, "squared L2 distance of unit vectors": sum((a - b) ** 2),
                    "1 / (1 + squared L2 distance)": 1 / (1 + squared),
                }  # fmt: skip
                assert {name: found[name][row] for name in wanted} == pytest.approx(wanted, abs=1e-12)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "measure"),
        [
            ("1 - cosine", lambda c: 1 - c),
            ("squared L2 distance", lambda c: 2 - 2 * c),
            ("L2 distance", lambda c: (2 - 2 * c) ** 0.5),
            ("minus the dot product", lambda c: -c),
            ("(1 + cosine) / 2", lambda c: (1 + c) / 2),
            ("1 / (1 + squared L2 distance)", lambda c: 1 / (3 - 2 * c)),
            ("1 / (2 - cosine)", lambda c: 1 / (2 - c)),
            ("1 - L2 distance / sqrt(2)", lambda c: 1 - (1 - c) ** 0.5),
        ],
    )
    def test_another_measure_is_named(self, minilm: Encoder, name: str, measure: Any) -> None:
        found = explain_hits(minilm, QUERY, returned(Index.from_texts(minilm, SENTENCES), 4, measure))
        assert {(hit.returned.measure, hit.returned.agrees) for hit in found} == {(name, False)}
        assert found.cautions == (f"4 of 4 returned scores are {name}; the cosine is explained",)
        shown = "\n".join(line.plain for line in found.lines())
        assert shown.count(f"{name} by this model, and not what is explained") == 4
        assert found.cautions[0] in found.to_html() and found.cautions[0] in found._repr_html_()

    @pytest.mark.slow
    def test_rounded_scores_agree(self, minilm: Encoder) -> None:
        found = explain_hits(minilm, QUERY, returned(Index.from_texts(minilm, SENTENCES), 4, lambda c: round(c, 3)))
        assert all(hit.returned.agrees for hit in found) and found.cautions == ()

    def test_dot_of_vectors_of_any_length(self) -> None:
        encoder = tiny_encoder(seed=3)
        assert not encoder.pooling_config.normalize
        dots = returned(Index.from_texts(encoder, SENTENCES, IndexSettings(similarity="dot")))
        other = explain_hits(encoder, QUERY, dots)
        assert {hit.returned.measure for hit in other} == {"dot"} and "the cosine is explained" in other.cautions[0]
        assert explain_hits(encoder, QUERY, dots, similarity="dot").cautions == ()

    def test_a_missing_prompt_is_named(self, tiny: Encoder) -> None:
        hits = returned(Index.from_texts(tiny, SENTENCES, IndexSettings(document_prompt="the sea of ")))
        found = explain_hits(tiny, QUERY, hits, query_prompt="a man is ", document_prompt="the sea of ")
        assert {hit.returned.measure for hit in found} == {"cosine without the query prompt"}
        assert "cosine without the query prompt; the cosine is explained" in found.cautions[0]

    def test_another_model_fits_nothing(self, tiny: Encoder) -> None:
        hits = returned(Index.from_texts(tiny_encoder(seed=9), SENTENCES))
        found = explain_hits(tiny, QUERY, hits)
        assert [hit.returned.measure for hit in found].count("") > 3
        assert any("by any known measure: another model, metric, prompt or text" in one for one in found.cautions)
        assert found[0].to_dict()["returned"] == {"score": hits[0]["score"], "measure": None, "agrees": False}

    @pytest.mark.slow
    def test_one_changed_text_among_good_ones(self, minilm: Encoder) -> None:
        hits = returned(Index.from_texts(minilm, SENTENCES), 5)
        hits[2]["payload"]["text"] += " But the cat slept through all of it."
        found = explain_hits(minilm, QUERY, hits)
        assert [hit.returned.agrees for hit in found] == [True, True, False, True, True]
        assert found.cautions[0].startswith("1 returned score is not minilm's by any known measure")

    @pytest.mark.slow
    def test_another_order_is_said(self, minilm: Encoder) -> None:
        hits = returned(Index.from_texts(minilm, SENTENCES), 3)[::-1]
        found = explain_hits(minilm, QUERY, hits)
        assert [hit.id for hit in found] == [hit["id"] for hit in hits] and found[0].margin < -TOLERANCE
        assert found.cautions[0].startswith("the order is not that of the cosine: hit 2 scores")
        shown = "\n".join(line.plain for line in found.lines())
        assert f"below the next by {-found[0].margin:.4f}" in shown and "above the next" not in shown


class TestEdges:
    def test_no_hits(self, tiny: Encoder) -> None:
        found = explain_hits(tiny, QUERY, [])
        assert len(found) == 0 and found.to_dict()["hits"] == [] and found.lines()[-1].plain == "no hits"

    def test_duplicates_are_equal(self, tiny: Encoder) -> None:
        found = explain_hits(tiny, QUERY, [SENTENCES[0], SENTENCES[1], SENTENCES[0]])
        first, _, last = found
        assert [hit.id for hit in found] == ["1", "2", "3"]
        assert first.score == last.score and first.words == last.words

    def test_tables_and_json(self, tiny: Encoder) -> None:
        found = explain_hits(tiny, QUERY, [("the cat sat", 0.2), ("a man", None)])
        assert list(found.to_dataframe()) == ["query", "rank", "id", "score", "margin", "text"]
        json.dumps(found.to_dict(), allow_nan=False)
        assert found[1].returned is None

    def test_refusals(self, tiny: Encoder) -> None:
        with pytest.raises(UsageError, match="an empty query"):
            explain_hits(tiny, " ", ["a"])
        with pytest.raises(UsageError, match="unknown similarity 'l2'; choose from cosine, dot"):
            explain_hits(tiny, "a", ["a"], similarity="l2")
        with pytest.raises(DataError, match="hit 1 has no text"):
            explain_hits(tiny, "a", [{}])
        with pytest.raises(UsageError, match="cannot explain by 'letter'"):
            explain_hits(tiny, "a", ["a"], granularity="letter")
