"""Batches are a partition into equal lengths within the budget."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from likewise.encoder.batches import exact_length_batches, windows

lengths = st.lists(st.integers(0, 40), max_size=60)


@given(lengths, st.integers(1, 200))
def test_batches_are_a_partition_of_equal_lengths_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(exact_length_batches(lengths, budget))
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        assert batch, "no batch is empty"
        assert len({lengths[place] for place in batch}) == 1
        assert len(batch) == 1 or sum(lengths[place] for place in batch) <= budget


@given(lengths, st.integers(1, 200))
def test_longest_first_and_full(lengths: list[int], budget: int) -> None:
    batches = list(exact_length_batches(lengths, budget))
    firsts = [lengths[batch[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)
    for batch, following in pairwise(batches):
        length = lengths[batch[0]]
        if lengths[following[0]] == length > 0:
            assert (len(batch) + 1) * length > budget, "a batch with room is the last of its length"


@given(lengths, st.integers(1, 200), st.randoms())
def test_which_texts_share_a_length_does_not_depend_on_order(lengths: list[int], budget: int, random: object) -> None:
    order = list(range(len(lengths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    plain = [len(batch) for batch in exact_length_batches(lengths, budget)]
    mixed = [len(batch) for batch in exact_length_batches([lengths[place] for place in order], budget)]
    assert plain == mixed


@given(st.lists(st.integers()), st.integers(1, 10))
def test_windows_cut_a_stream(items: list[int], size: int) -> None:
    cut = list(windows(iter(items), size))
    assert [item for window in cut for item in window] == items
    assert all(len(window) == size for window in cut[:-1])
    assert all(0 < len(window) <= size for window in cut)
