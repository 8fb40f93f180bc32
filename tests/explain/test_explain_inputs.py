"""What users may hand over by mistake: each gets an answer or one line that names the cure."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.errors import LikewiseError, UsageError
from likewise.explain import contributions, explain, explain_many
from likewise.grammar.spans import sentence_spans, word_spans


def test_one_string_is_one_text(tiny: Encoder) -> None:
    assert len(contributions(tiny, "a cat")) == 1


def test_pairs_may_be_lists(tiny: Encoder) -> None:
    (found,) = explain_many(tiny, [["a cat", "a dog"]])  # type: ignore[list-item]
    assert found.right.text == "a dog"


def test_mistakes_are_told_before_the_first_pair(tiny: Encoder) -> None:
    with pytest.raises(UsageError, match="unknown method"):
        explain_many(tiny, [], method="lime")


def test_random_takes_broken_text(tiny: Encoder) -> None:
    assert np.isfinite(explain(tiny, "a \ud800 cat", "a dog", method="random").relevance).all()


def test_a_baseline_claims_no_vector(tiny: Encoder) -> None:
    (found,) = contributions(tiny.with_pooling(truncate_dim=8), ["a cat"], method="embedding")
    assert np.isnan(found.missing)


@pytest.mark.parametrize(
    "options",
    [
        {"granularity": [(0, 1)]},
        {"granularity": ([(0, 1)],)},
        {"granularity": 3},
        {"granularity": ([(0, 1, 2)], [])},
        {"granularity": ([(0, float("nan"))], [])},
        {"granularity": ([(0, "1")], [])},
        {"steps": 2.5, "method": "integrated-jacobian"},
        {"rules": "norm"},
        {"seed": -1},
        {"method": "hxp", "bias": "shared"},
        {"method": "hxp", "split": True},
        {"rules": ("norm",), "bias": "shared"},
    ],
    ids=str,
)
def test_mistakes_are_one_line(tiny: Encoder, options: dict[str, Any]) -> None:
    with pytest.raises(LikewiseError) as summary:
        explain(tiny, "a cat", "a dog", **options)
    assert "\n" not in str(summary.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("👩‍👩‍👧 a", ["👩‍👩‍👧", "a"]),
        ("👍🏽!", ["👍🏽", "!"]),
        ("🇩🇪🇫🇷 x", ["🇩🇪", "🇫🇷", "x"]),
        ("हिन्दी नमस्ते", ["हिन्दी", "नमस्ते"]),
        ("don't 'say' 1,000.5,", ["don't", "'", "say", "'", "1,000.5", ","]),
    ],
)
def test_signs_stay_whole(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text)] == words


def test_hostile_texts_are_read_in_linear_time() -> None:
    start = time.process_time()
    sentence_spans("." * 50_000)
    word_spans("🇩🇪" * 2_000)
    assert time.process_time() - start < 5


def test_an_unknown_setting_is_told_at_the_call(tiny: Encoder) -> None:
    for options in ({"granularity": "page"}, {"bias": "drawn"}, {"method": "hxp", "bias": "shared"}):
        with pytest.raises(UsageError):
            explain_many(tiny, [], **options)


def test_a_ledger_apart_is_drawn_with_its_bias(tiny: Encoder) -> None:
    apart, shared = (explain(tiny, "a cat", "the dog", bias=bias, reference="none") for bias in ("separate", "shared"))
    cells, left, right = apart.matrix
    assert cells.shape == (len(left), len(right)) == (len(apart.left.units) + 1, len(apart.right.units) + 1)
    assert cells.sum() == pytest.approx(apart.explained) and left[-1] == "(bias)"
    assert shared.matrix[0].shape == shared.relevance.shape
