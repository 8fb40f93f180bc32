"""Alignments: links, words without a partner, offsets, and what is shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.explain.alignment import THRESHOLD, Alignment, align

LEFT, RIGHT = "Fire in hospital kills 38", "38 feared dead in hospital fire"


@pytest.fixture(scope="module")
def aligned(minilm: Encoder) -> Alignment:
    return align(minilm, LEFT, RIGHT, ledger=True)


def test_links_are_the_scores_from_the_threshold_on(aligned: Alignment) -> None:
    expected = {
        (i, j): aligned.scores[i, j]
        for i in range(len(aligned.left.units))
        for j in range(len(aligned.right.units))
        if aligned.scores[i, j] >= THRESHOLD
    }
    found = {
        (aligned.left.units.index(one.left), aligned.right.units.index(one.right)): one.score for one in aligned.links
    }
    assert found == pytest.approx(expected) and found
    best = {(one.left.text, one.right.text) for one in aligned.best_links()}
    assert {("Fire", "fire"), ("hospital", "hospital"), ("38", "38")} <= best


def test_every_word_is_linked_or_unlinked(aligned: Alignment) -> None:
    for side in ("left", "right"):
        linked = {getattr(link, side) for link in aligned.links}
        unlinked = set(getattr(aligned, f"{side}_unlinked"))
        assert linked | unlinked == set(getattr(aligned, side).units) and not linked & unlinked


def test_json_has_offsets_into_both_texts(aligned: Alignment) -> None:
    found = json.loads(json.dumps(aligned.to_dict()))
    for link, own in zip(found["links"], aligned.links, strict=True):
        assert set(link) == {"left", "right", "score"}
        assert LEFT[slice(*link["left"])] == own.left.text and RIGHT[slice(*link["right"])] == own.right.text
    assert [LEFT[slice(*span)] for span in found["unlinked"]["left"]] == [unit.text for unit in aligned.left_unlinked]
    assert found["similarity"] == pytest.approx(found["ledger"]["similarity"])


def test_the_ledger_is_that_of_explain(minilm: Encoder, aligned: Alignment) -> None:
    assert aligned.relevance is not None and aligned.explanation is not None
    for i, left in enumerate(aligned.left.units):
        for j, right in enumerate(aligned.right.units):
            row, column = aligned.explanation.left.units.index(left), aligned.explanation.right.units.index(right)
            assert aligned.relevance[i, j] == aligned.explanation.relevance[row, column]
    assert align(minilm, LEFT, RIGHT).relevance is None


def test_what_is_shown(aligned: Alignment) -> None:
    lines = [line.plain for line in aligned.lines(80)]
    assert lines[0].replace("[", "").replace("]", "") == LEFT
    assert lines[1].count("[") == len(aligned.right_unlinked)
    table = aligned.tables()["words"]
    assert len(table.rows) == len(aligned.left.units) + len(aligned.right.units)
    assert sum(row[4] for row in table.rows if row[0] == "left") == pytest.approx(
        sum(share for unit, share in zip(aligned.explanation.left.units, aligned.explanation.left_shares, strict=True)
            if unit.kind == "text")
    )  # fmt: skip
    frames = aligned.figures()["alignment"].draw().figure.axes[1].collections[0]
    assert len(frames.get_paths()) == len(aligned.links)
    assert "<svg" in aligned.to_html()


def test_order_of_the_texts_does_not_matter(minilm: Encoder, aligned: Alignment) -> None:
    np.testing.assert_allclose(align(minilm, RIGHT, LEFT).scores, aligned.scores.T, atol=1e-5)


def test_identical_texts_link_each_word_to_itself(minilm: Encoder) -> None:
    found = align(minilm, "The old bridge was closed for repairs.", "The old bridge was closed for repairs.")
    assert [link.left for link in found.best_links()] == [link.right for link in found.best_links()]
    assert [unit.text for unit in found.left_unlinked] == ["."] == [unit.text for unit in found.right_unlinked]


@pytest.mark.parametrize(("left", "right"), [("", "a cat"), ("a cat", "  "), ("", ""), ("?!", "a cat"), ("...", "!!")])
def test_texts_without_words(minilm: Encoder, left: str, right: str) -> None:
    found = align(minilm, left, right, ledger=True)
    assert found.links == () and found.best_links() == ()
    assert found.left_unlinked == found.left.units and found.right_unlinked == found.right.units
    assert found.to_html() and found.lines(80) and json.dumps(found.to_dict())


def test_single_words_and_scripts(minilm: Encoder) -> None:
    assert len(align(minilm, "cat", "cats").links) == 1
    found = align(minilm, "火事で病院が焼けた", "病院の火事")
    assert ("火", "火") in {(link.left.text, link.right.text) for link in found.links}
    arabic = align(minilm, "القط الأسود", "القط")
    assert arabic.left.text[arabic.left.units[0].start : arabic.left.units[0].end] == "القط"


def test_long_texts_are_cut_with_a_word(minilm: Encoder, caplog: pytest.LogCaptureFixture) -> None:
    found = align(minilm, "cat " * 600, "cat")
    assert "cut at the model's limit" in found.cautions[0] and "the left text" in found.cautions[0]
    assert "cut at the model's limit" in caplog.text
    assert found.tables()["words"].detail


def test_spans_and_other_methods(minilm: Encoder) -> None:
    spans = ([(0, 4), (5, 16)], [(18, 31)])
    found = align(minilm, LEFT, RIGHT, granularity=spans)
    assert [unit.text for unit in found.left.units] == ["Fire", "in hospital", "kills", "38"]
    layer = align(minilm, LEFT, RIGHT, "layer-3", threshold=0.5)
    assert layer.scores.max() <= 1 + 1e-6 and layer.method == "layer-3"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "layer-3"}, "has no threshold of its own; give one"),
        ({"method": "best", "threshold": 0.1}, "unknown method 'best'"),
        ({"threshold": float("nan")}, "a threshold is a number above -1"),
        ({"threshold": -1.0}, "a threshold is a number above -1"),
        ({"granularity": "letter"}, "cannot explain by 'letter'"),
    ],
)
def test_wrong_options(tiny: Encoder, options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        align(tiny, "a", "b", **options)  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(left=st.text(max_size=25), right=st.text(max_size=25))
def test_offsets_cut_the_words_out_of_any_text(tiny: Encoder, left: str, right: str) -> None:
    found = align(tiny, left, right)
    assert found.scores.shape == (len(found.left.units), len(found.right.units)) and np.isfinite(found.scores).all()
    for words, text in ((found.left, left), (found.right, right)):
        for unit in words.units:
            assert 0 <= unit.start < unit.end <= len(text)
