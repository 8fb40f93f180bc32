"""Where two texts differ: exact weights, spans, kinds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.explain import explain
from likewise.explain.text_differences import Differences, differences, differences_of

PAIRS = [
    ("The flight to Rome leaves at 9", "The late flight to Rome leaves at 10"),
    ("Fire in hospital kills 38", "38 feared dead in hospital fire"),
    ("A cat sat.", "A cat sat."),
    ("", "A cat"),
    ("cat", "dog"),
    ("Nobody was hurt 🎉 in the fire!", "Nobody was hurt in the fire"),
]


@pytest.fixture(scope="module")
def found(minilm: Encoder) -> list[Differences]:
    return differences_of(minilm, PAIRS)


@pytest.mark.slow
def test_shares_are_those_of_two_ledgers(minilm: Encoder, found: list[Differences]) -> None:
    """The share in 1 - cos is the share in the cosine with the text itself, less that with the other text."""
    for (left, right), one in zip(PAIRS, found, strict=True):
        for text, other, own in ((left, right, one.left_words), (right, left, one.right_words)):
            with_itself, with_other = (explain(minilm, text, each, granularity="word") for each in (text, other))
            expected = [
                a - b
                for unit, a, b in zip(
                    with_itself.left.units, with_itself.left_shares, with_other.left_shares, strict=True
                )
                if unit.kind == "text"
            ]
            np.testing.assert_allclose(own.shares, expected, atol=2e-6)
            assert own.distance == pytest.approx(1 - with_other.similarity, abs=2e-6)


def test_sums_are_exact(found: list[Differences]) -> None:
    for one in found:
        for sums in one.to_dict()["sums"].values():
            assert sums["spans"] + sums["other_words"] + sums["rest"] == pytest.approx(one.distance, abs=1e-5)
            assert abs(sums["gap"]) < 1e-5


def test_spans_cut_the_texts_and_are_ranked(found: list[Differences]) -> None:
    for (left, right), one in zip(PAIRS, found, strict=True):
        for text, spans in ((left, one.left), (right, one.right)):
            assert all(text[span.start : span.end] == span.text for span in spans)
            weights = [span.weight for span in spans]
            assert weights == sorted(weights, reverse=True)
        assert json.loads(json.dumps(one.to_dict()))["left"] == [span.to_dict() for span in one.left]


def test_kinds(found: list[Differences]) -> None:
    sides = [[[(span.text, span.kind) for span in side] for side in (one.left, one.right)] for one in found]
    assert sides[0] == [[("9", "changed")], [("10", "changed"), ("late", "unmatched")]]
    assert sides[1] == [[("kills", "unmatched")], [("feared dead", "unmatched")]]
    assert sides[2] == [[], []]
    assert sides[3] == [[], [("A cat", "unmatched")]]
    assert sides[4] == [[("cat", "changed")], [("dog", "changed")]]


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        ("How do I reset my password?", "How do I not reset my password?", {"not"}),
        ("The invoice is due in March.", "The invoice is due in April.", {"March", "April"}),
        ("Shares rise in Tokyo", "Shares fall in Tokyo", {"rise", "fall"}),
        ("Maria sold the house to Tom", "Maria sold the boat to Tom", {"house", "boat"}),
    ],
)
def test_small_changes_of_near_duplicates_are_found(minilm: Encoder, left: str, right: str, words: set[str]) -> None:
    one = differences(minilm, left, right)
    assert {word for span in (*one.left, *one.right) for word in span.text.split()} == words


def test_many_pairs_are_each_pair_alone(minilm: Encoder, found: list[Differences]) -> None:
    for pair, one in zip(PAIRS, found, strict=True):
        alone = differences(minilm, *pair)
        assert [span.text for span in alone.left] == [span.text for span in one.left]
        np.testing.assert_allclose(alone.right_words.shares, one.right_words.shares, atol=1e-5)


def test_progress_counts_pairs(tiny: Encoder) -> None:
    seen: list[tuple[int, int | None]] = []
    differences_of(tiny, PAIRS[:3], progress=lambda done, total, _: seen.append((done, total)))
    assert seen[-1] == (3, 3)


def test_no_pairs(tiny: Encoder) -> None:
    assert differences_of(tiny, []) == []


def test_what_is_shown(found: list[Differences]) -> None:
    assert [line.plain for line in found[0].lines(80)] == [
        "The flight to Rome leaves at [9]",
        "The [late] flight to Rome leaves at [10]",
    ]
    assert [row[1] for row in found[0].tables()["differences"].rows] == ["9", "10", "late"]
    assert "late</mark>" in found[0].to_html()


def test_prompts_truncation_and_models_with_heads(minilm: Encoder) -> None:
    short = minilm.with_pooling(truncate_dim=64)
    one = differences(short, *PAIRS[0])
    assert one.distance == pytest.approx(1 - float(short.similarity([PAIRS[0][0]], [PAIRS[0][1]])[0, 0]), abs=1e-5)
    cut = differences(minilm, "cat " * 600, "cat")
    assert cut.cautions == ["cut at the model's limit: the left text"]
