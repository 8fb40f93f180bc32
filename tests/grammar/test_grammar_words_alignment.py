from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.grammar import Word, align

Span = tuple[int, int]


def words_at(*spans: Span) -> list[Word]:
    return [Word("x" * (end - start), start, end, "X", "dep", 0, "x") for start, end in spans]


def slow_align(spans: list[Span], words: list[Word]) -> list[int | None]:
    """Every span against every word."""
    found: list[int | None] = []
    for start, end in spans:
        overlaps = [len(set(range(start, end)) & set(range(word.start, word.end))) for word in words]
        most = max(overlaps, default=0)
        found.append(overlaps.index(most) if most else None)
    return found


@st.composite
def disjoint_words(draw: st.DrawFn) -> list[Word]:
    spans, place = [], 0
    for gap, length in draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=12)):
        spans.append((place + gap, place + gap + length))
        place += gap + length
    return words_at(*spans)


any_spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20)


@given(any_spans, disjoint_words())
def test_equals_the_slow_twin(spans: list[Span], words: list[Word]) -> None:
    assert align(spans, words) == slow_align(spans, words)


def test_pieces_of_a_word_go_to_it() -> None:
    assert align([(0, 0), (0, 3), (3, 6), (7, 10), (0, 0)], words_at((0, 6), (7, 10))) == [None, 0, 0, 1, None]


def test_a_token_over_several_words_goes_to_the_largest_share() -> None:
    words = words_at((0, 2), (2, 7), (7, 9))
    assert align([(0, 9), (1, 3), (6, 9)], words) == [1, 0, 2]


def test_the_first_wins_a_tie() -> None:
    assert align([(0, 6)], words_at((0, 3), (3, 6))) == [0]


def test_a_leading_blank_does_not_matter() -> None:
    assert align([(3, 7)], words_at((0, 3), (4, 7))) == [1]


@pytest.mark.parametrize("span", [(3, 4), (9, 12), (2, 2), (5, 1)])
def test_none_without_overlap(span: Span) -> None:
    assert align([span], words_at((0, 3), (4, 9))) == [None]


def test_nothing_to_align() -> None:
    assert align([], words_at((0, 1))) == []
    assert align([(0, 1)], []) == [None]


def test_long_texts_take_no_quadratic_time() -> None:
    spans = [(place, place + 1) for place in range(0, 200_000, 2)]
    began = time.perf_counter()
    assert align(spans, words_at(*spans)) == list(range(100_000))
    assert time.perf_counter() - began < 20
