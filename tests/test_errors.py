"""The exception tree."""

from __future__ import annotations

import inspect
import pickle

import pytest

from likewise import errors
from likewise.errors import (
    Cancelled,
    DamagedIndex,
    DataError,
    LikewiseError,
    MissingExtra,
    ModelError,
    TrainingError,
    UsageError,
)

TREE = {UsageError, ModelError, DataError, TrainingError, MissingExtra, Cancelled}


def test_tree_is_shallow_and_complete() -> None:
    found = {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}
    assert found == {LikewiseError, DamagedIndex, *TREE}
    assert all(kind.__bases__ == (LikewiseError,) for kind in TREE)
    assert DamagedIndex.__bases__ == (DataError,)
    assert LikewiseError.__bases__ == (Exception,)


@pytest.mark.parametrize("kind", [LikewiseError, UsageError, ModelError, DataError, Cancelled])
def test_message_is_kept(kind: type[LikewiseError]) -> None:
    assert str(kind("no such thing; give another")) == "no such thing; give another"


def test_missing_extra_says_what_to_install() -> None:
    error = MissingExtra("faiss", "search")
    assert str(error) == 'faiss is not installed; run: pip install "likewise[search]"'


@pytest.mark.parametrize("error", [DataError("a.csv: bad"), MissingExtra("faiss", "search")], ids=["plain", "extra"])
def test_errors_cross_processes(error: LikewiseError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
