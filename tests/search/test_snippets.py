"""Snippets: what is shown of a long text always holds its strongest sentence, cut at the right characters."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from likewise.grammar.spans import sentence_spans, word_spans
from likewise.plotting.terminal import DrawnHit
from likewise.search.snippets import LIMIT, sentence_shares, snippet

PARTS = [
    "The cat sat on it.", "Cafe\u0301 na\u0308he!", "👩\u200d👩\u200d👧 laughed… ", "שלום עולם.", "مرحبا بالعالم؟",
    "東京は雨。", "x" * 900, "a " * 500, "\n\n", " ", "हिन्दी में।", "🇩🇪🇫🇷 won?", "e\u0301" * 300,
]  # fmt: skip


def random_text(seed: int) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(PARTS[index] for index in rng.integers(0, len(PARTS), rng.integers(0, 40)))


def shares_of(text: str, seed: int) -> list[tuple[int, int, float]]:
    rng = np.random.default_rng(seed)
    return [(start, end, float(rng.normal())) for start, end in word_spans(text)]


@pytest.mark.parametrize("seed", range(150))
def test_holds_the_strongest_sentence(seed: int) -> None:
    text = random_text(seed)
    words = shares_of(text, seed)
    sentences = sentence_shares(text, words)
    spans = snippet(text, sentences)
    assert sum(share for *_, share in sentences) == pytest.approx(sum(share for *_, share in words), abs=1e-9)
    if len(text.strip()) <= LIMIT:
        assert spans == [(0, len(text))]
        return
    start, end, _ = max(sentences, key=lambda one: one[2])
    core = text[start:end].strip()
    assert any(first <= text.index(core, start) and start + len(text[start:end].rstrip()) <= last
               for first, last in spans)  # fmt: skip
    assert 0 < sum(last - first for first, last in spans) <= LIMIT + 1
    assert spans == sorted(spans) and all(first < last for first, last in spans)
    for first, last in spans:
        assert text[first:last] == text[first:last].strip()
        for place in (first, last):
            if 0 < place < len(text):
                assert not unicodedata.category(text[place]).startswith("M"), "a mark is not torn off its letter"
                assert "\u200d" not in text[place - 1 : place + 1]


@pytest.mark.parametrize("seed", range(30))
def test_sentences_are_those_of_the_plain_twin(seed: int) -> None:
    """Each word belongs to the last sentence that begins at or before it; only long sentences are cut."""
    text = random_text(seed)
    words = shares_of(text, seed)
    found = sentence_shares(text, words)
    for start, end, share in found:
        after = [first for first, *_ in found if first > start]
        inside = [value for first, _, value in words if start <= first < min(after, default=len(text) + 1)]
        assert share == pytest.approx(sum(inside), abs=1e-9) and end - start <= LIMIT
    short = [span for span in sentence_spans(text) if span[1] - span[0] <= LIMIT]
    assert set(short) <= {(start, end) for start, end, _ in found}


def test_a_plain_text_shows_its_beginning() -> None:
    text = "The cat sat. " * 100
    ((start, end),) = snippet(text)
    assert start == 0 and LIMIT - 10 < end <= LIMIT and text[end - 1] in ".t"


def test_far_sentences_are_both_shown() -> None:
    text = "A fire broke out. " + "Nothing else happened here today. " * 20 + "The fire was put out."
    words = [(2, 6, 0.4), (text.rindex("fire"), text.rindex("fire") + 4, 0.3)]
    spans = snippet(text, sentence_shares(text, words))
    assert text[slice(*spans[0])].startswith("A fire broke out.") and text[slice(*spans[-1])] == "The fire was put out."
    drawn = "".join(piece for piece, _ in DrawnHit("1", 0.5, text, words, spans=spans).pieces)
    assert drawn.startswith("A fire") and " … The fire" in drawn and len(drawn) < LIMIT + 8


def test_pieces_colour_the_shown_words() -> None:
    text = "x. " * 200 + "A fire broke out."
    words = [(text.index("fire"), text.index("fire") + 4, 0.4)]
    hit = DrawnHit("1", 0.5, text, words, spans=snippet(text, sentence_shares(text, words)))
    assert [piece[start:end] for piece, own in hit.pieces for start, end, _ in own] == ["fire"]
    assert hit.pieces[0][0] == "… "
