"""Batches are a partition into equal lengths within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from likewise.encoder import Encoder, forward
from likewise.encoder.attention import Packing, packing
from likewise.encoder.forward import Batch, TextDropout, exact_length_batches, windows
from likewise.encoder.model_view import Dropout, no_dropout
from tiny_models import CONFIGS, tiny_encoder

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


TEXTS = ("two dogs run", "a cat", "a dog", "the cat sat on the mat and slept", "the dog slept on the mat")
GROUPS = ([1, 2, 0], [4, 3])
CPU = torch.device("cpu")


def rows_of(encoder: Encoder) -> list[Tensor]:
    return [torch.tensor([text.ids]) for text in encoder.tokenize(TEXTS)]


def last_states(encoder: Encoder, x: Tensor, mask: Packing | None, dropout: Dropout = no_dropout) -> Tensor:
    *_, last = forward.layers(encoder.model_view, x, mask, dropout=dropout)
    return last.states


def laid(encoder: Encoder, rows: Sequence[Tensor], dropout: TextDropout | None = None) -> list[Tensor]:
    """The last states of all texts, each (T, D), from one packed pass; ``dropout`` is in the order of the packing."""
    order = [place for group in GROUPS for place in group]
    lengths = [[rows[place].shape[1] for place in group] for group in GROUPS]
    x = torch.cat([forward.embed(encoder.model_view, Batch(rows[place]))[0] for place in order])
    parts: list[Dropout] = [no_dropout] * 2 if dropout is None else [dropout.of(slice(0, 3)), dropout.of(slice(3, 5))]
    found = last_states(encoder, x, packing(lengths, parts, CPU), dropout or no_dropout)
    back = dict(zip(order, found.split([length for group in lengths for length in group]), strict=True))
    return [back[place] for place in range(len(rows))]


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_gives_what_each_text_gives_alone(family: str) -> None:
    encoder = tiny_encoder(family)
    rows = rows_of(encoder)
    with torch.no_grad():
        for row, found in zip(rows, laid(encoder, rows), strict=True):
            alone = last_states(encoder, forward.embed(encoder.model_view, Batch(row)), None)[0]
            assert torch.allclose(found, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("family", ["bert", "mpnet", "modernbert", "qwen3"])
def test_gradients_are_those_of_the_texts_alone(family: str) -> None:
    encoder = tiny_encoder(family)
    weights = [weight for weight in encoder.model.parameters() if weight.requires_grad]
    torch.manual_seed(1)
    slopes = [
        torch.randn(row.shape[1], encoder.model_view.hidden_size, dtype=torch.float64) for row in rows_of(encoder)
    ]

    def gradients(states: Sequence[Tensor]) -> list[Tensor | None]:
        total = sum(((one * slope).sum() for one, slope in zip(states, slopes, strict=True)), torch.tensor(0.0))
        return list(torch.autograd.grad(total, weights, allow_unused=True))

    rows = rows_of(encoder)
    alone = [last_states(encoder, forward.embed(encoder.model_view, Batch(row)), None)[0] for row in rows]
    pairs = list(zip(gradients(laid(encoder, rows)), gradients(alone), strict=True))
    assert sum(one is not None for one, _ in pairs) > 10
    for one, other in pairs:
        assert (one is None) == (other is None)
        assert one is None or other is None or torch.allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_text_loses_the_same_wherever_it_lies() -> None:
    encoder = tiny_encoder("bert")
    encoder = replace(encoder, model_view=encoder.model_view.with_dropout(0.3))
    rows = rows_of(encoder)
    order = [place for group in GROUPS for place in group]
    whole = TextDropout([(5, place) for place in order], [rows[place].shape[1] for place in order])
    with torch.no_grad():
        for place, found in enumerate(laid(encoder, rows, whole)):
            x = forward.embed(encoder.model_view, Batch(rows[place]))
            alone = last_states(encoder, x, None, TextDropout([(5, place)], [x.shape[1]]))[0]
            assert torch.allclose(found, alone, rtol=0, atol=1e-12)
            assert not torch.allclose(found, last_states(encoder, x, None)[0], atol=1e-2)


def test_where_tokens_lie() -> None:
    found = packing([[2, 2], [1, 4, 3]], [no_dropout] * 2, CPU)
    even, uneven = found.groups
    assert even.mask is None and even.indices.tolist() == [[0, 1], [2, 3]]
    assert uneven.indices.tolist() == [[4, 4, 4, 4], [5, 6, 7, 8], [9, 10, 11, 11]]
    assert uneven.mask is not None and uneven.mask.sum(1).tolist() == [1, 4, 3]
    states = torch.arange(12)
    rows = torch.cat([states[group.indices].flatten() for group in found.groups])
    assert torch.equal(rows[found.back], states)
