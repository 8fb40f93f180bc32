"""Proof: the quick methods on all pairs, the slow one on fewer, and conservation on their texts."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from likewise.data import Pair
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError
from likewise.evaluation.conservation import conservation
from likewise.evaluation.faithfulness import PerturbationSettings, faithfulness
from likewise.evaluation.faithfulness_study import Proof, prove
from tiny_models import tiny_encoder

PAIRS = [
    Pair("the man is out", "a dog, the", "1"),
    Pair("red", "green is the sea", "2"),
    Pair("the man is out", "it is red", "3"),
]


@cache
def bert() -> Encoder:
    return tiny_encoder("bert")


def run(*variants: str, slow_pairs: int = 2, sentences: int = 0, **settings: Any) -> Proof:
    chosen = PerturbationSettings(variants, steps=2, **settings)
    return prove(bert(), PAIRS, chosen, slow_pairs, sentences)


def test_quick_methods_only() -> None:
    found = run("bilrp", "random", second_order=True)
    assert found.slow is None and found.conservation is None
    expected = faithfulness(bert(), PAIRS, PerturbationSettings(("bilrp", "random"), second_order=True))
    for name in ("bilrp", "random"):
        np.testing.assert_array_equal(found.faithfulness.curves[name], expected.curves[name])
        np.testing.assert_array_equal(found.faithfulness.deletion[name], expected.deletion[name])


def test_slow_method_has_fewer_pairs_and_company() -> None:
    found = run("bilrp", "hxp", "integrated-jacobian", second_order=True)
    assert list(found.faithfulness.curves) == ["bilrp", "hxp"]
    assert found.slow is not None and set(found.slow.curves) == {"bilrp", "random", "integrated-jacobian"}
    assert {len(curve) for curve in found.faithfulness.curves.values()} == {3}
    assert {len(curve) for curve in found.slow.curves.values()} == {2}
    np.testing.assert_allclose(found.slow.curves["bilrp"], found.faithfulness.curves["bilrp"][:2], atol=1e-6)
    assert set(found.slow.insertion) == set(found.slow.curves)
    expected = faithfulness(bert(), PAIRS[:2], PerturbationSettings(("integrated-jacobian",), steps=2))
    np.testing.assert_allclose(found.slow.curves["integrated-jacobian"], expected.curves["integrated-jacobian"], atol=1e-6)


def test_slow_method_alone_is_the_proof() -> None:
    found = run("integrated-jacobian")
    assert found.slow is None
    assert set(found.faithfulness.curves) == {"bilrp", "random", "integrated-jacobian"}
    assert len(found.faithfulness.curves["integrated-jacobian"]) == 2


@pytest.mark.parametrize(("sentences", "expected"), [(2, 2), (3, 3), (300, 5)])
def test_conservation_is_on_the_first_different_texts(sentences: int, expected: int) -> None:
    found = run("embedding", sentences=sentences).conservation
    assert found is not None
    texts = ["the man is out", "a dog, the", "red", "green is the sea", "it is red"][:expected]
    for panel, wanted in zip(found.panels, conservation(bert(), texts).panels, strict=True):
        np.testing.assert_allclose(panel.components, wanted.components)
        np.testing.assert_allclose(panel.relevance, wanted.relevance)


def test_json() -> None:
    whole = json.loads(json.dumps(run("bilrp", "integrated-jacobian", sentences=3).to_dict(), allow_nan=False))
    assert whole["methods"].keys() == {"bilrp"} and whole["n"] == 3
    assert whole["slow"]["n"] == 2 and "integrated-jacobian" in whole["slow"]["methods"]
    assert whole["conservation"]["n"] == 3
    assert run("bilrp").to_dict().keys() & {"slow", "conservation"} == set()


def test_no_pairs() -> None:
    with pytest.raises(DataError, match="at least one pair"):
        prove(bert(), [], PerturbationSettings(("bilrp",)), sentences=0)


def test_progress_and_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)
    seen: list[tuple[int, int | None, str]] = []
    settings = PerturbationSettings(("embedding",))
    prove(bert(), PAIRS, settings, 2, 3, lambda *call: seen.append(call))
    assert (3, 3, "pairs") in seen and seen[-1] == (9, 9, "texts")

    def cancel(_done: int, _total: int | None, note: str) -> None:
        if note == "texts":
            raise Cancelled

    with pytest.raises(Cancelled):
        prove(bert(), PAIRS, settings, 2, 3, cancel)
