"""Variables: structures by the definition, and ranges to light up."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from likewise.attention.groups import Variables, dependency_labels, structures_of
from likewise.attention.settings import PUBLISHED_HIGHLIGHTS, Highlight
from likewise.errors import UsageError
from likewise.grammar import Grammar

LABELS = ("nsubj", "root", "obj", "det", "punct")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_structure_is_the_cosine_with_the_counts_of_the_most_frequent_one(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def drawn() -> tuple[str, ...]:
        return tuple(rng.choice(LABELS, rng.integers(1, 6)).tolist())

    often = (drawn(), drawn())
    pairs = [often if rng.random() < 0.3 else (drawn(), drawn()) for _ in range(40)]
    found = structures_of(pairs)
    assert found.most_frequent == often
    assert found.shared_by == sum(pair == often for pair in pairs) and found.distinct == len(set(pairs))
    for (first, second), cosine in zip(pairs, found.cosines, strict=True):
        one, other = Counter([*first, *second]), Counter([*often[0], *often[1]])
        dot = sum(one[label] * other[label] for label in LABELS)
        sizes = [math.sqrt(sum(counts[label] ** 2 for label in LABELS)) for counts in (one, other)]
        assert cosine == pytest.approx(dot / (sizes[0] * sizes[1]), abs=1e-12)


def test_the_order_of_labels_tells_structures_apart_but_not_their_counts() -> None:
    found = structures_of([(("a", "b"), ("c",)), (("b", "a"), ("c",)), (("a", "b"), ("c",))])
    assert found.distinct == 2 and found.shared_by == 2
    assert found.cosines.tolist() == pytest.approx([1, 1, 1])


def test_a_pair_without_words_is_like_nothing() -> None:
    found = structures_of([(("a",), ("a",)), ((), ()), (("a",), ("a",))])
    assert found.cosines.tolist() == pytest.approx([1, 0, 1])
    assert structures_of([((), ()), ((), ())]).cosines.tolist() == [0, 0]


def test_some_pairs_keep_the_structure_they_are_measured_against() -> None:
    structure = structures_of([(("a",), ("a",)), (("b",), ("b",)), (("a",), ("a",))])
    some = Variables(np.arange(3.0), np.arange(3.0) + 9, structure).of([1])
    assert some.names == ("similarity", "length", "structure")
    assert (some["similarity"].tolist(), some["length"].tolist(), some["structure"].tolist()) == ([1], [10], [0])


@pytest.mark.data
def test_labels_come_from_both_texts_in_order(english: Grammar) -> None:
    [(first, second)] = dependency_labels([("A man is playing a guitar.", "The dog runs.")], english)
    assert first == ("det", "nsubj", "aux", "root", "det", "obj", "punct")
    assert second == ("det", "nsubj", "root", "punct")


def test_ranges_are_read_and_hold_their_ends() -> None:
    lengths = Highlight.parse("length: 9-15, 20-22,60-81")
    assert lengths.ranges == ((9, 15), (20, 22), (60, 81))
    assert [mark.tolist() for mark in lengths.marks([9, 15, 16, 20])] == [
        [True, True, False, False], [False, False, False, True], [False, False, False, False],
    ]  # fmt: skip
    assert Highlight.parse("similarity:0,5").ranges == ((0, 0), (5, 5))
    assert Highlight.parse("structure:0.95-").marks([0.94, 0.95, 1.0, float("nan")])[0].tolist() == [
        False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("length", "cannot read the highlight"),
        ("length:", "cannot read the highlight"),
        ("length:a-b", "cannot read the highlight"),
        ("length:9--", "cannot read the highlight"),
        ("colour:1-2", "unknown variable 'colour'; choose from similarity, length, structure"),
        ("length:15-9", "put the smaller end first"),
    ],
)
def test_bad_ranges_name_the_cure(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Highlight.parse(text)


def test_the_published_figures_and_their_layers() -> None:
    assert [each.layers_of(12) for each in PUBLISHED_HIGHLIGHTS] == [[2, 7, 10, 12], [1, 4, 8, 12], [2, 3, 8, 12]]
    assert [each.layers_of(6) for each in PUBLISHED_HIGHLIGHTS] == [[1, 4, 5, 6], [1, 2, 4, 6], [1, 2, 4, 6]]
    assert [each.layers_of(1) for each in PUBLISHED_HIGHLIGHTS] == [[1], [1], [1]]
    assert PUBLISHED_HIGHLIGHTS[0].layers_of(24) == [2, 7, 10, 12]
    assert Highlight("length", ((1, 2),)).layers_of(3) == [1, 2, 3]
