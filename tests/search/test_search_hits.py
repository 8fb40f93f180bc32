"""Explained search: what is explained is the shown score, whatever model, prompts, similarity and engine made it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.encoder.postprocessing import PostProcessing, fit_postprocessing
from likewise.errors import DataError, ModelError, UsageError
from likewise.explain import contrast, explain
from likewise.explain import texts as cache_module
from likewise.sample import sample_sentences
from likewise.search import Index, IndexSettings
from likewise.search import searcher as searching
from likewise.search.hits import Hits
from likewise.search.searcher import explained_search

TEXTS = [(f"t{place}", text) for place, text in enumerate(sample_sentences()[:40])]
QUERY = "the man is out of the sea"
SHORT = [("1", "the cat sat on it"), ("2", "a man is out"), ("3", "the sea is blue"), ("4", "it is out. it is in it.")]


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "contributions"


def text_inputs(encoder: Encoder, include: bool = True) -> Encoder:
    prompts = {"query": "find the ", "document": "text: "}
    return replace(encoder, modules_config=replace(encoder.modules_config, prompts=prompts, include_prompt=include))


def whitened(encoder: Encoder) -> Encoder:
    return encoder.with_postprocessing(fit_postprocessing("whitening", encoder.encode([text for _, text in TEXTS]), 6))


Variant = tuple[Callable[[Encoder], Encoder], IndexSettings]


def own(encoder: Encoder) -> Encoder:
    return encoder


VARIANTS: dict[str, Variant] = {
    "as it is": (own, IndexSettings()),
    "prompts": (text_inputs, IndexSettings()),
    "prompts that are not pooled": (lambda encoder: text_inputs(encoder, False), IndexSettings()),
    "given prompts": (text_inputs, IndexSettings(query_prompt="", document_prompt="a man: ")),
    "whitened": (whitened, IndexSettings()),
    "whitened, dot": (whitened, IndexSettings(similarity="dot")),
    "dot": (lambda encoder: encoder.with_pooling(normalize=False), IndexSettings(similarity="dot")),
    "dot of normed vectors": (own, IndexSettings(similarity="dot")),
    "cls": (lambda encoder: encoder.with_pooling(pooling="cls"), IndexSettings()),
    "max": (lambda encoder: encoder.with_pooling(pooling="max", special_tokens=False), IndexSettings()),
    "layers": (lambda encoder: encoder.with_pooling(layer=(0, 2), truncate_dim=8), IndexSettings()),
    "exact, 8 bits": (own, IndexSettings("exact", 8)),
    "hnsw": (own, IndexSettings("hnsw")),
    "hnsw, 8 bits, dot": (lambda encoder: encoder.with_pooling(normalize=False), IndexSettings("hnsw", 8, "dot")),
    "ivf": (own, IndexSettings("ivf")),
}


def built(encoder: Encoder, folder: Path, variant: str) -> Index:
    changed, settings = VARIANTS[variant]
    return Index.build(changed(encoder), TEXTS, folder, settings)


def check_ledgers(found: Hits) -> None:
    """Everything that is shown sums to what is shown."""
    for one in found:
        size = max(1.0, abs(one.score))
        assert one.score == pytest.approx(one.shares.similarity, abs=1e-5 * size)
        shown = one.to_dict()["explanation"]
        total = sum(word["share"] for word in shown["words"]) + shown["bias"]
        assert total == pytest.approx(one.score, abs=1e-5 * size) and abs(shown["gap"]) < 1e-5 * size
        if one.above_next is not None:
            terms = sum(share for _, share in one.margin_terms) + one.above_next.rest
            assert terms == pytest.approx(one.margin, abs=1e-5 * size)
            margin = shown["above_next"]
            assert sum(row["difference"] for row in margin["by"]) + margin["bias"] == pytest.approx(
                margin["difference"], abs=1e-5 * size
            )
    for one, after in pairwise(found):
        assert one.margin == pytest.approx(one.score - after.score, abs=1e-5 * max(1.0, abs(one.score)))


@pytest.mark.parametrize("variant", VARIANTS)
class TestTheShownScoreIsExplained:
    def test_ledgers_add_up(self, tiny: Encoder, tmp_path: Path, variant: str) -> None:
        index = built(tiny, tmp_path / "index", variant)
        found = explained_search(index, QUERY, 6)
        plain = index.search(QUERY, 6)
        assert (found.query, found.ranker) == (plain.query, plain.ranker)
        assert [(hit.id, hit.text, hit.score) for hit in found] == [(hit.id, hit.text, hit.score) for hit in plain]
        check_ledgers(found)
        after = index.search(QUERY, 7)[6]
        last = found[5]
        assert last.margin == pytest.approx(last.score - after.score, abs=1e-5 * max(1.0, abs(after.score)))

    @pytest.mark.parametrize("bias", ["separate", "local", "shared"])
    def test_as_the_pair_alone_is(self, tiny: Encoder, tmp_path: Path, variant: str, bias: str) -> None:
        index = built(tiny, tmp_path / "index", variant)
        found = explained_search(index, QUERY, 4, bias=bias, pairs_per_hit=3)
        query_prompt, document_prompt = index.prompts
        for one in found:
            plain = explain(
                index.encoder, QUERY, one.text, granularity="word", similarity=index.similarity, fold_special=True,
                left_prompt=query_prompt, right_prompt=document_prompt, bias=bias,
            )  # fmt: skip
            size = max(1.0, float(np.abs(plain.matrix[0]).max()))
            np.testing.assert_allclose(one.shares.relevance, plain.relevance, atol=1e-6 * size)
            np.testing.assert_allclose(one.shares.bias_left, plain.bias_left, atol=1e-6 * size)
            assert one.shares.left.units == plain.left.units and one.shares.right.units == plain.right.units
            assert one.shares.metadata == plain.metadata
            for start, end, _ in one.words:
                assert 0 <= start < end <= len(one.text)


@pytest.fixture
def index(tiny: Encoder, tmp_path: Path) -> Index:
    return Index.build(tiny, SHORT, tmp_path / "index")


class TestHits:
    def test_leads_are_contrasts(self, index: Index, tiny: Encoder) -> None:
        first, second, *_ = explained_search(index, "the cat", 2, bias="separate")
        plain = contrast(tiny, "the cat", first.text, second.text, fold_special=True)
        assert first.margin == pytest.approx(plain.difference, abs=1e-6)
        expected = sorted(((unit.text, share) for unit, share in plain.query), key=lambda item: -abs(item[1]))
        assert [name for name, _ in first.margin_terms] == [name for name, _ in expected]
        np.testing.assert_allclose([s for _, s in first.margin_terms], [s for _, s in expected], atol=1e-6)

    def test_pairs_are_the_strongest_of_words(self, index: Index) -> None:
        one = explained_search(index, "the cat", 1)[0]
        cells = [
            (left.text, right.text, one.shares.relevance[row, column])
            for row, left in enumerate(one.shares.left.units)
            for column, right in enumerate(one.shares.right.units)
            if left.kind == right.kind == "text"
        ]
        strongest = sorted(cells, key=lambda cell: -abs(cell[2]))[:5]
        assert one.pairs == strongest and "[CLS]" not in str(one.pairs)

    def test_words_are_where_they_stand(self, tiny: Encoder, tmp_path: Path) -> None:
        index = Index.build(text_inputs(tiny), SHORT, tmp_path / "prompted")
        for one in explained_search(index, "the cat", 4):
            every = one.to_dict()["explanation"]["words"]
            shown = {(word["start"], word["end"]): word for word in every if word["kind"] == "text"}
            assert [one.text[start:end] for start, end, _ in one.words] == [word["text"] for word in shown.values()]
            assert "".join(one.text.split()) == "".join(word["text"] for word in shown.values())
            assert {word["kind"] for word in every} == {"text", "special", "prompt"}
            assert "text" not in [left for left, _, _ in one.pairs], "a prompt is no word of the text"

    def test_one_text_has_no_next(self, tiny: Encoder, tmp_path: Path) -> None:
        index = Index.build(tiny, SHORT[:1], tmp_path / "one")
        (one,) = explained_search(index, "cat", 3)
        assert one.above_next is None and one.margin == 0.0 and one.margin_terms == []
        assert (
            "above_next" not in one.to_dict()["explanation"]
            and "above the next" not in explained_search(index, "cat").to_html()
        )

    def test_more_hits_than_texts(self, index: Index) -> None:
        found = explained_search(index, "cat", 99)
        assert len(found.hits) == len(found) == 4
        assert [one.above_next is None for one in found] == [False, False, False, True]

    def test_no_texts_at_all(self, tiny: Encoder, tmp_path: Path) -> None:
        found = explained_search(Index.build(tiny, [], tmp_path / "none"), "cat")
        assert found.to_dict()["hits"] == [] and "no hits" in [line.plain for line in found.lines()]

    def test_identical_texts_lead_by_nothing(self, tiny: Encoder, tmp_path: Path) -> None:
        index = Index.build(tiny, [("a", "the cat"), ("b", "the cat"), ("c", "The  cat")], tmp_path / "same")
        found = explained_search(index, "the sea", 3)
        assert [one.id for one in found] == ["a", "b", "c"]
        check_ledgers(found)
        assert all(abs(one.margin) < 1e-7 for one in found) and "-0.0000" not in found.to_html()
        assert all(abs(share) < 1e-7 for one in found for _, share in one.margin_terms)

    def test_the_query_itself_is_a_text(self, index: Index) -> None:
        found = explained_search(index, SHORT[0][1], 2)
        assert found[0].id == "1" and found[0].score == pytest.approx(1, abs=1e-6)
        check_ledgers(found)

    @pytest.mark.parametrize("granularity", ["token", "word", "sentence"])
    def test_by(self, index: Index, tiny: Encoder, granularity: str) -> None:
        found = explained_search(index, "a volcano", 4, granularity=granularity)
        check_ledgers(found)
        last = next(one for one in found if one.id == "4")
        plain = explain(tiny, "a volcano", last.text, granularity=granularity, fold_special=True)
        assert last.shares.metadata.granularity == granularity and last.shares.right.units == plain.right.units
        if granularity == "sentence":
            assert [last.text[start:end] for start, end, _ in last.words] == ["it is out.", "it is in it."]

    @pytest.mark.parametrize("bias", ["separate", "local", "traced", "shared"])
    def test_biases(self, index: Index, bias: str) -> None:
        found = explained_search(index, "the cat", 4, bias=bias, reference="none")
        check_ledgers(found)
        assert {one.shares.metadata.bias_mode for one in found} == {bias}
        assert all((one.to_dict()["explanation"]["bias"] == 0) == (bias != "separate") for one in found)

    def test_long_hits_have_shares_and_the_first_ones_pairs(
        self, tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(searching, "SHORT", 9)
        texts = [(f"long {number}", f"{number} it is out " * 15) for number in range(6)]
        index = Index.build(tiny, [*SHORT, *texts], tmp_path / "long")
        by_default = explained_search(index, "the cat", 10)
        check_ledgers(by_default)
        long = [place for place, one in enumerate(by_default) if one.id in dict(texts)]
        assert [bool(by_default[place].pairs) for place in long] == [place < 3 for place in long]
        assert any(place >= 3 for place in long)
        for wanted in (0, 2):
            found = explained_search(index, "the cat", 10, pairs_per_hit=wanted)
            check_ledgers(found)
            assert {len(found[place].pairs) for place in long} == {wanted}
            for one, other in zip(found, by_default, strict=True):
                np.testing.assert_allclose(one.shares.right_shares, other.shares.right_shares, atol=1e-5)
                np.testing.assert_allclose(one.shares.left_shares, other.shares.left_shares, atol=1e-5)
                assert one.margin == pytest.approx(other.margin, abs=1e-5)
        wordy = explained_search(index, "it is out of the sea and the man is in it too", 10)
        check_ledgers(wordy)
        assert not any(one.pairs for one in wordy), "a long query is compared word by word on demand"
        with pytest.raises(UsageError, match="a number from 0 on, got -1"):
            explained_search(index, "the cat", 10, pairs_per_hit=-1)

    def test_any_text_can_be_a_hit(self, tiny: Encoder, tmp_path: Path) -> None:
        texts = ["", "two\nlines\u2028", 'say "no" <script>', "a fox 🦊 ran", "a \x00 here", "a \x1b[31m b"]
        index = Index.build(tiny, [(text, text) for text in texts], tmp_path / "any")
        found = explained_search(index, "fox", len(texts))
        check_ledgers(found)
        assert {one.text for one in found} == set(texts)
        assert next(one for one in found if one.text == "").words == []


class TestShown:
    def test_json(self, index: Index) -> None:
        found = explained_search(index, "the cat", 3)
        document = json.loads(json.dumps(found.to_dict()))
        assert document.keys() == {"query", "ranker", "hits"} and len(document["hits"]) == 3
        for row in document["hits"]:
            assert row.keys() == {"rank", "id", "score", "text", "explanation"}
            assert row["explanation"].keys() == {
                "words", "bias", "pairs", "gap", "bias_mode", "relative_to", "above_next", "measure",
                "terms", "sentences",
            }  # fmt: skip
            assert row["explanation"]["above_next"].keys() == {"difference", "by", "bias", "gap"}

    def test_page_and_lines(self, index: Index, tmp_path: Path) -> None:
        found = explained_search(index, "the <cat>", 3)
        page = (found.save(tmp_path / "new") / "index.html").read_text(encoding="utf-8")
        assert page == found.to_html() and page.startswith("<!doctype html>") and "the &lt;cat&gt;" in page
        assert not re.search(r"https?://|<link|<script|src=", page)
        lines = [line.plain for line in found.lines()]
        for place, one in enumerate(found, start=1):
            assert f"{place}. {one.score:.4f}" in page and f"above the next by <i>{one.margin:.4f}</i>" in page
            assert any(line.startswith(f"{place:2d}  {one.score:.4f}  {one.id}  ") for line in lines)
        assert sum("above the next by" in line for line in lines) == 3

    def test_at_most_five_reasons_are_shown(self, index: Index) -> None:
        query = "it is out of the sea and the man is in it too"
        found = explained_search(index, query, 1)
        assert len(found[0].margin_terms) > 5
        assert found[0].drawn.margin_terms[:-1] == found[0].margin_terms[:5]
        assert found[0].drawn.margin_terms[-1] == ("(reference)", found[0].above_next.rest)


class TestKept:
    def test_the_second_search_runs_only_the_query(
        self, index: Index, memory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = explained_search(index, "the cat", 2)
        assert len(list(memory.iterdir())) == 4, "the query, two hits and the next"
        streamed: list[str] = []
        stream = cache_module.contribution_stream

        def counting(encoder: Encoder, texts: Any, *rest: Any) -> Any:
            streamed.extend(one.text for one in texts)
            return stream(encoder, texts, *rest)

        monkeypatch.setattr(cache_module, "contribution_stream", counting)
        second = explained_search(index, "the cat", 2)
        assert streamed == [] and second.to_dict() == first.to_dict()
        explained_search(index, "a cat", 2)
        assert "a cat" in streamed and len(streamed) <= 2

    def test_a_changed_prompt_is_not_found_again(self, tiny: Encoder, tmp_path: Path) -> None:
        for place, prompt in enumerate(("", "the sea ", "it is ")):
            settings = IndexSettings(query_prompt=prompt, document_prompt=prompt)
            index = Index.build(tiny, SHORT, tmp_path / str(place), settings)
            check_ledgers(explained_search(index, "the cat", 4))


class TestRefusals:
    def test_vectors_that_the_model_does_not_make(
        self, tiny: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whole and with right checksums, but not what this model makes of these texts."""
        from likewise.search import index as module

        made = module.unit
        with monkeypatch.context() as patch:
            patch.setattr(module, "unit", lambda vectors: made(vectors)[:, ::-1])
            index = Index.build(tiny, SHORT, tmp_path / "index")
        index = Index.open(tmp_path / "index", tiny)
        assert len(index.search("the cat")) == 4
        with pytest.raises(ModelError, match=r"\d was scored -?\d\.\d{5} but the model gives .*; build"):
            explained_search(index, "the cat")

    @pytest.mark.parametrize("query", ["", " \n"])
    def test_empty_query(self, index: Index, query: str) -> None:
        with pytest.raises(UsageError, match="an empty query finds nothing"):
            explained_search(index, query)

    def test_unknown_units_biases_and_numbers(self, index: Index) -> None:
        with pytest.raises(UsageError, match="cannot explain by 'letter'; choose from token, word, sentence"):
            explained_search(index, "cat", granularity="letter")
        with pytest.raises(UsageError, match="unknown bias 'hidden'"):
            explained_search(index, "cat", bias="hidden")

    @pytest.mark.parametrize("k", [0, -1])
    def test_no_hits_wanted(self, index: Index, k: int) -> None:
        with pytest.raises(UsageError, match=f"k = {k}"):
            explained_search(index, "cat", k)

    def test_another_backend(self, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
        hits = index.search("cat", 3)
        blind = Index(replace(index.encoder, backend=SimpleNamespace(kind="onnx")), index.store)  # type: ignore[arg-type]
        monkeypatch.setattr(Index, "search_many", lambda *_, **__: [hits])
        with pytest.raises(UsageError, match="only the backend torch allows"):
            explained_search(blind, "cat", 2)

    def test_page_that_cannot_be_written(self, index: Index, tmp_path: Path) -> None:
        with pytest.raises(OSError, match=re.escape(str(tmp_path))):
            (tmp_path / "page").write_text("taken")
            explained_search(index, "cat", 1).save(tmp_path / "page")

    @pytest.mark.slow
    def test_long_vectors_may_round(self, tiny: Encoder, tmp_path: Path) -> None:
        plain = tiny.with_pooling(normalize=False)
        centred = fit_postprocessing("all-but-the-top", plain.encode([text for _, text in SHORT]), 2)
        longer = PostProcessing("centred", centred.center, centred.matrix * 200.0)
        index = Index.build(plain.with_postprocessing(longer), TEXTS, tmp_path / "i", IndexSettings(similarity="dot"))
        for query in ("the cat", "a", "the man is out", QUERY):
            assert len(explained_search(index, query, 40)) == 40

    def test_half_of_a_pair(self, tiny: Encoder, tmp_path: Path) -> None:
        index = Index.build(tiny, [("1", "a lone \ud83e here")], tmp_path / "index")
        assert (explained_search(index, "a").save(tmp_path / "page") / "index.html").exists()

    def test_a_damaged_index_is_told_before(self, index: Index, tiny: Encoder) -> None:
        vectors = next(Path(index.store.address).glob("*.vectors.npy"))
        vectors.write_bytes(vectors.read_bytes()[:-4] + b"abcd")
        with pytest.raises(DataError, match="is damaged"):
            explained_search(Index.open(index.store.address, tiny), "cat")
