"""Differences of explanations are exact: two hits of one query, and one pair through two models."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.explain import compare, contrast, explain
from likewise.explain.comparisons import aligned_contrasts
from tiny_models import spelling_tokenizer, tiny_encoder

QUERY, BETTER, WORSE = "the man's flute", "A man is playing.", "It rains, quietly"


@cache
def bert() -> Encoder:
    return tiny_encoder("bert")


@cache
def other() -> Encoder:
    """Another family with another tokenizer."""
    return tiny_encoder("gpt_neo", 1, tokenizer=spelling_tokenizer())


class TestContrast:
    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    @pytest.mark.parametrize("granularity", ["token", "word", "sentence"])
    def test_sums_are_exact(self, granularity: str, similarity: str) -> None:
        found = contrast(bert(), QUERY, BETTER, WORSE, granularity, similarity)
        first, second = (
            explain(bert(), QUERY, text, granularity=granularity, similarity=similarity) for text in (BETTER, WORSE)
        )
        assert found.difference == pytest.approx(first.similarity - second.similarity, abs=1e-12)
        assert sum(share for _, share in found.query) + found.query_bias == pytest.approx(found.difference, abs=1e-9)
        assert abs(found.gap) < 1e-9
        for place, (unit, share) in enumerate(found.query):
            assert unit == first.left.units[place]
            assert share == pytest.approx(first.left_shares[place] - second.left_shares[place], abs=1e-12)
        assert (found.better.right.text, found.worse.right.text) == (BETTER, WORSE)

    def test_shared_bias_leaves_none(self) -> None:
        found = contrast(bert(), QUERY, BETTER, WORSE, bias="shared", reference="none")
        assert found.query_bias == 0
        assert sum(share for _, share in found.query) == pytest.approx(found.difference, abs=1e-10)

    def test_showing(self) -> None:
        found = contrast(bert(), "<b> man", BETTER, "<script>alert(1)</script>")
        shown = json.loads(json.dumps(found.to_dict()))
        assert [row["unit"] for row in shown["query"]] == [unit.text for unit, _ in found.query]
        total = sum(row["difference"] for row in shown["query"]) + shown["query_bias"] + shown["gap"]
        assert total == pytest.approx(shown["difference"], abs=1e-12)
        assert shown["better"]["similarity"] - shown["worse"]["similarity"] == pytest.approx(shown["difference"])
        page = found._repr_html_()
        assert "<script>" not in page and "&lt;script&gt;" in page
        assert "(reference)" in page

    def test_the_same_text_twice_makes_no_difference(self) -> None:
        found = contrast(bert(), QUERY, BETTER, BETTER)
        assert found.difference == 0
        assert all(share == 0 for _, share in found.query)

    def test_bundled_model(self, minilm: Encoder) -> None:
        found = contrast(minilm, "volcano erupted", "The volcano spat ash.", "The bank cut rates.")
        assert max(found.query, key=lambda item: item[1])[0].text == "volcano"
        assert found.difference > 0.2
        assert abs(found.gap) < 1e-5


class TestCompare:
    @pytest.mark.parametrize("granularity", ["token", "word", "sentence"])
    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    def test_two_readings(self, granularity: str, similarity: str) -> None:
        found = compare(bert(), bert().with_pooling(pooling="cls"), BETTER, WORSE, granularity, similarity)
        first, second = (
            explain(
                bert().with_pooling(pooling=pooling),
                BETTER,
                WORSE,
                granularity=granularity,
                similarity=similarity,
                fold_special=True,
            )
            for pooling in ("mean", "cls")
        )
        assert found.change == pytest.approx(second.similarity - first.similarity, abs=1e-12)
        assert found.difference.sum() == pytest.approx(found.change, abs=1e-9)
        assert abs(found.gap) < 1e-9
        order = [first.left.units.index(unit) for unit in found.left]
        across = [first.right.units.index(unit) for unit in found.right]
        wanted = second.relevance - first.relevance
        assert np.allclose(found.difference[:-1, :-1], wanted[np.ix_(order, across)], atol=1e-12)
        assert np.allclose(found.difference[:-1, -1], (second.bias_left - first.bias_left)[order], atol=1e-12)
        assert np.allclose(found.difference[-1, :-1], (second.bias_right - first.bias_right)[across], atol=1e-12)
        assert found.difference[-1, -1] == pytest.approx(second.bias_both - first.bias_both, abs=1e-12)

    def test_two_tokenizers_by_word(self) -> None:
        found = compare(bert(), other(), QUERY, BETTER, reference="none")
        text = [unit.text for unit in found.left if unit.kind == "text"]
        assert text == ["the", "man's", "flute"]
        assert [unit.text for unit in found.left if unit.kind == "special"] == ["[CLS] [SEP]", "<s> </s>"]
        assert found.before.shape == found.after.shape == (len(found.left) + 1, len(found.right) + 1)
        assert found.before.sum() == pytest.approx(found.first.similarity, abs=1e-9)
        assert found.after.sum() == pytest.approx(found.second.similarity, abs=1e-9)
        assert abs(found.gap) < 1e-9
        ours, theirs = (found.labels[0].index(name) for name in ("[CLS] [SEP]", "<s> </s>"))
        assert not found.after[ours].any() and found.before[ours].any()
        assert not found.before[theirs].any() and found.after[theirs].any()
        row, column = found.labels[0].index("man's"), found.labels[1].index("playing")
        assert (
            found.before[row, column]
            == found.first.relevance[found.first.left.labels.index("man's"), found.first.right.labels.index("playing")]
        )

    def test_two_tokenizers_by_token(self) -> None:
        """What only one of them knows stands in rows of its own."""
        found = compare(bert(), other(), "the man", "a man", granularity="token")
        spans = [(unit.start, unit.end) for unit in found.left if unit.kind == "text"]
        assert spans == sorted(spans)
        assert len(spans) == len(set(spans))
        assert (0, 3) in spans and (0, 1) in spans, "one spells what the other knows whole"
        assert abs(found.gap) < 1e-9
        assert found.before.sum() == pytest.approx(found.first.similarity, abs=1e-9)

    @pytest.mark.parametrize("options", [{"bias": "shared", "reference": "none"}, {"fold_special": False}])
    def test_settings_are_handed_on(self, options: dict[str, Any]) -> None:
        found = compare(bert(), bert().with_pooling(layer=1), BETTER, WORSE, **options)
        assert abs(found.gap) < 1e-9
        if "bias" in options:
            assert not found.before[-1].any() and not found.after[:, -1].any()
        else:
            assert [unit.text for unit in found.left if unit.kind == "special"] == ["[CLS]", "[SEP]"]

    def test_texts_that_one_model_cuts(self) -> None:
        narrow = tiny_encoder("bert", 2, config={"max_position_embeddings": 12})
        long = "the man is playing a flute and it rains out there ."
        found = compare(bert(), narrow, long, BETTER)
        assert found.second.left.truncated and not found.first.left.truncated
        assert abs(found.gap) < 1e-9
        unseen = [place for place, unit in enumerate(found.left) if unit.text == "rains"]
        assert found.before[unseen].any() and not found.after[unseen].any()

    def test_before_and_after_equal_weights(self) -> None:
        found = compare(bert(), bert(), BETTER, WORSE)
        assert not found.difference.any()
        assert found.change == 0

    def test_showing(self) -> None:
        plt = pytest.importorskip("matplotlib.pyplot")
        found = compare(bert(), other(), "<i> man", "<script>")
        shown = json.loads(json.dumps(found.to_dict()))
        assert np.allclose(shown["difference"], found.difference)
        assert shown["units"]["left"][-1] == "(reference)"
        assert shown["units"]["right"] == found.labels[1]
        assert (shown["first"]["model"], shown["second"]["model"]) == ("bert", "gpt_neo")
        assert shown["change"] - shown["gap"] == pytest.approx(found.difference.sum(), abs=1e-12)
        assert "gpt_neo minus bert" in found.plot().get_title()
        assert "<script>" not in found._repr_html_()
        plt.close("all")

    def test_unknown_choices(self) -> None:
        with pytest.raises(UsageError, match="choose from token, word, sentence"):
            compare(bert(), other(), "a", "b", granularity="letter")


def test_units_of_one_span_are_added_up(minilm: Encoder) -> None:
    """The tokenizer makes several tokens of one Korean syllable, all with its span."""
    found = compare(minilm, minilm.with_pooling(pooling="cls"), "한국 is nice", "한국", granularity="token")
    assert abs(found.gap) < 1e-5
    assert len(found.left) < len(found.first.left.units)


def test_contrast_takes_prompts(tiny: Encoder) -> None:
    plain = contrast(tiny, "a cat", "the cat", "a dog")
    asked = contrast(tiny, "a cat", "the cat", "a dog", query_prompt="find ", document_prompt="text ")
    assert asked.difference != plain.difference and abs(asked.gap) < 1e-4
    assert {"prompt"} == {unit.kind for unit in asked.better.right.units} - {"text", "special"}


class TestAlignedContrasts:
    @pytest.mark.parametrize("query", [QUERY, "dogs 🐕‍🦺 run", "שלום man", "na\u0308chste Katze"])
    def test_columns_sum_to_the_differences(self, query: str) -> None:
        both = [contrast(one, query, BETTER, WORSE) for one in (bert(), other())]
        rows = aligned_contrasts(*both)
        for column, one in enumerate(both, start=1):
            total = sum(float(row[column]) for row in rows)
            assert total == pytest.approx(one.difference, abs=1e-9)

    def test_words_are_in_the_order_of_the_text(self) -> None:
        rows = aligned_contrasts(contrast(bert(), QUERY, BETTER, WORSE), contrast(other(), QUERY, BETTER, WORSE))
        assert [label for label, _, _ in rows] == ["the", "man's", "flute", "(special tokens)", "(reference)"]

    def test_a_prompt_that_one_model_has(self) -> None:
        both = [contrast(bert(), QUERY, BETTER, WORSE, query_prompt=prompt) for prompt in ("", "query: ")]
        found = {label: values for label, *values in aligned_contrasts(*both)}
        assert found["(prompt)"][0] == 0 and found["(prompt)"][1] != 0
