from __future__ import annotations

import dataclasses

import pytest

import likewise.data
from likewise.data import LabelledPair, LabelledText, Pair, ScoredPair, Text

EXAMPLES = [
    Text("a", "1"),
    LabelledText("a", "x", "1"),
    Pair("a", "b", "1"),
    ScoredPair("a", "b", 1.0, "1"),
    LabelledPair("a", "b", "x", "1"),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_examples_are_frozen_slotted_and_hashable(example: Text) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.id = "2"  # type: ignore[misc]
    assert not hasattr(example, "__dict__")
    assert hash(example) == hash(dataclasses.replace(example))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_meta_is_empty_by_default_and_not_compared(example: Text) -> None:
    assert example.meta == {}
    assert dataclasses.replace(example, meta={"genre": "news"}) == example


def test_every_public_name_is_there_and_documented() -> None:
    for name in likewise.data.__all__:
        assert ">>>" in (getattr(likewise.data, name).__doc__ or ""), name
