"""Explanations by columns: the same ledgers as by rows, shares alone, the strongest units, and who chooses the way."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.encoder import Encoder
from likewise.encoder.modes import Recorder
from likewise.errors import ModelError, UsageError
from likewise.explain import Explanation, PairShares, explain, explain_many, pairs
from likewise.explain.linear_map import LinearMap, Replayed
from tiny_models import CONFIGS, tiny_encoder

LONG = "A man is playing the flute, quietly! The dog ran."
SHORT = "the dog"
SETTINGS: list[dict[str, Any]] = [
    {},
    {"bias": "separate", "reference": "none"},
    {"bias": "local", "reference": "none"},
    {"bias": "traced"},
    {"split": True, "reference": "none"},
    {"granularity": "word", "fold_special": True},
]


@cache
def encoder_of(name: str = "bert") -> Encoder:
    return tiny_encoder(name)


def by_rows(monkeypatch: pytest.MonkeyPatch, *given: Any, **options: Any) -> Explanation:
    """Rows of both texts, be they more than the vector has dimensions."""
    with monkeypatch.context() as patch:
        patch.setattr(pairs, "COLUMN_COST", 1e9)
        patch.setattr(LinearMap, "rows", lambda self: Replayed(self.vectors, *self._rows_in_chunks()))
        return explain(*given, **options)


def assert_equal(one: Explanation, other: Explanation, close: float = 1e-10) -> None:
    for name in ("relevance", "bias_left", "bias_right", "bias_both", "similarity"):
        assert np.allclose(getattr(one, name), getattr(other, name), atol=close, rtol=0), name
    for side, twin in ((one.left, other.left), (one.right, other.right)):
        assert side.units == twin.units and side.ids == twin.ids and side.text == twin.text
        assert side.parts.keys() == twin.parts.keys()
        for name, part in side.parts.items():
            assert np.allclose(part, twin.parts[name], atol=close, rtol=0)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("texts", [(SHORT, LONG), (LONG, SHORT)], ids=["left", "right"])
@pytest.mark.parametrize("options", SETTINGS, ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_columns_equal_rows(
    name: str, options: dict[str, Any], texts: tuple[str, str], similarity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = encoder_of(name)
    calls: list[int] = []
    plain = LinearMap.columns
    monkeypatch.setattr(LinearMap, "columns", lambda *given: calls.append(1) or plain(*given))
    found = explain(encoder, *texts, similarity=similarity, **options)
    assert calls, "a short text beside a long one goes by columns"
    scale = max(1.0, abs(found.similarity))
    assert abs(found.gap) < 1e-9 * scale
    calls.clear()
    assert_equal(found, by_rows(monkeypatch, encoder, *texts, similarity=similarity, **options), 1e-10 * scale)
    assert not calls


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_shares_alone_are_those_of_the_ledger(options: dict[str, Any]) -> None:
    whole = explain(encoder_of(), LONG, SHORT, **options)
    alone = explain(encoder_of(), LONG, SHORT, shares_only=True, **options)
    assert isinstance(alone, PairShares)
    assert np.allclose(alone.left_shares, whole.left_shares, atol=1e-10)
    assert np.allclose(alone.right_shares, whole.right_shares, atol=1e-10)
    assert alone.left_bias == pytest.approx(whole.left_bias, abs=1e-10)
    assert alone.right_bias == pytest.approx(whole.right_bias, abs=1e-10)
    assert abs(alone.gap) < 1e-10
    for side, twin in ((alone.left, whole.left), (alone.right, whole.right)):
        for name, part in side.parts.items():
            assert np.allclose(part, twin.parts[name], atol=1e-10)
    summary = alone.to_dict()
    assert summary["shares"]["left"] == alone.left_shares.tolist() and "relevance" not in summary


def test_shares_that_miss_are_not_shown() -> None:
    found = explain(encoder_of(), LONG, SHORT, shares_only=True)
    with pytest.raises(ModelError, match="the ledger misses the score"):
        PairShares(
            found.left, found.right, found.left_shares, found.right_shares, found.left_bias + 1, found.right_bias,
            found.similarity, found.metadata,
        )  # fmt: skip


@pytest.mark.parametrize("top", [1, 3, 100])
@pytest.mark.parametrize("options", SETTINGS[:4], ids=str)
def test_the_strongest_units_and_the_rest(top: int, options: dict[str, Any]) -> None:
    whole = explain(encoder_of(), LONG, SHORT, **options)
    found = explain(encoder_of(), LONG, SHORT, top=top, **options)
    assert abs(found.gap) < 1e-10
    assert found.similarity == pytest.approx(whole.similarity, abs=1e-12)
    for side, twin, shares in (
        (found.left, whole.left, whole.left_shares),
        (found.right, whole.right, whole.right_shares),
    ):
        if len(twin.units) <= top + 1:
            assert side.units == twin.units
            continue
        assert [unit.kind for unit in side.units].count("rest") == 1 and side.labels[-1] == "(rest)"
        strongest = sorted(np.argsort(-np.abs(shares), kind="stable")[:top])
        assert list(side.units[:-1]) == [twin.units[place] for place in strongest]
        tokens = sorted(token for unit in side.units for token in unit.tokens)
        assert tokens == list(range(len(twin.ids)))
    rows = [whole.left.units.index(unit) for unit in found.left.units if unit.kind != "rest"]
    columns = [whole.right.units.index(unit) for unit in found.right.units if unit.kind != "rest"]
    named = found.relevance[: len(rows), : len(columns)]
    assert np.allclose(named, whole.relevance[np.ix_(rows, columns)], atol=1e-10)


def test_the_strongest_units_take_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 2 K + 4 passes a text: one recorded, one transposed, and the rows."""
    passes: list[int] = []
    plain, back = Encoder.vectors_from, Encoder.directions_from

    def forward(self: Encoder, x: Any, *rest: Any, **more: Any) -> Any:
        passes.append(x.shape[1] if x.ndim == 4 else len(x))
        return plain(self, x, *rest, **more)

    def backward(self: Encoder, directions: Any, *rest: Any) -> Any:
        passes.append(directions.shape[1])
        return back(self, directions, *rest)

    monkeypatch.setattr(Encoder, "vectors_from", forward)
    monkeypatch.setattr(Encoder, "directions_from", backward)
    explain(encoder_of(), LONG, LONG + " It rains.", top=3)
    assert sum(passes) <= 2 * (2 * 3 + 4)


def test_many_pairs_go_the_way_that_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [(SHORT, LONG), ("a dog", LONG), (LONG, "rain"), ("a dog", "a cat"), ("the man", LONG + " A cat.")]
    together = list(explain_many(encoder_of(), texts))
    for pair, found in zip(texts, together, strict=True):
        assert_equal(found, by_rows(monkeypatch, encoder_of(), *pair))
    strongest = list(explain_many(encoder_of(), texts, top=2))
    for pair, found in zip(texts, strongest, strict=True):
        assert_equal(found, explain(encoder_of(), *pair, top=2))


def test_rows_that_many_pairs_share_are_computed() -> None:
    assert pairs.columns_pay(4, 20) and not pairs.columns_pay(4, 20, uses=10)
    assert not pairs.columns_pay(20, 20)


@pytest.mark.parametrize("options", [{"method": "hxp"}, {"rules": ("norm",)}, {"bias": "shared"}])
def test_what_has_no_columns_is_refused(options: dict[str, Any]) -> None:
    for more in ({"top": 2}, {"shares_only": True}):
        with pytest.raises(UsageError, match="go with bilrp and all its rules"):
            explain(encoder_of(), LONG, SHORT, **options, **more)
    with pytest.raises(UsageError, match="go with bilrp and all its rules"):
        explain_many(encoder_of(), [], top=2, **options)


def test_no_units_at_the_top() -> None:
    for top in (0, 2.5):
        with pytest.raises(UsageError, match=f"from 1 on, got {top}"):
            explain(encoder_of(), LONG, SHORT, top=top)
    with pytest.raises(UsageError, match="leave top or shares_only out"):
        explain(encoder_of(), LONG, SHORT, top=2, shares_only=True)


def test_a_reference_moves_its_part_into_the_bias() -> None:
    """By its definition: J (e - r) for each token, and J r + b in the bias row."""
    encoder = encoder_of()
    plain = explain(encoder, LONG, SHORT, reference="none")
    same = explain(encoder, LONG, SHORT, reference=LONG)
    assert np.abs(same.relevance).max() < 1e-10, "relative to itself a text adds nothing"
    assert same.left_bias == pytest.approx(plain.similarity, abs=1e-10)
    filler = explain(encoder, LONG, SHORT)
    assert filler.metadata.relative_to == "filler" and filler.matrix[1][-1] == "(reference)"
    special = [place for place, unit in enumerate(filler.left.units) if unit.kind == "special"]
    assert np.abs(filler.relevance[special]).max() < 1e-12, "special tokens are those of any text"


@pytest.mark.parametrize("reference", ["", "  ", None])
def test_an_empty_reference_is_refused(reference: Any) -> None:
    with pytest.raises(UsageError, match=r"no reference .*; choose none, filler, or give a text"):
        explain(encoder_of(), LONG, SHORT, reference=reference)


def test_only_bilrp_takes_a_reference_text() -> None:
    with pytest.raises(UsageError, match="a reference text goes with bilrp"):
        explain(encoder_of(), LONG, SHORT, method="hxp", reference="a dog")
    assert explain(encoder_of(), LONG, SHORT, method="hxp").metadata.relative_to == "none"


def test_a_record_keeps_only_layer_inputs_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Recorder] = []
    plain = Recorder.__init__

    def watched(self: Recorder, *given: Any, **options: Any) -> None:
        plain(self, *given, **options)
        records.append(self)

    monkeypatch.setattr(Recorder, "__init__", watched)
    explain(encoder_of(), LONG, SHORT, memory=1e-6, shares_only=True)
    assert any(not record.keep for record in records)
    assert max(len(record.constants) for record in records if not record.keep) == encoder_of().model_view.layers


@pytest.mark.parametrize("texts", [(SHORT, LONG), (LONG, SHORT)], ids=["left", "right"])
def test_a_single_wrong_column_is_refused(texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The bias row takes what the columns leave, so the sum alone would not show it."""
    plain = LinearMap.columns

    def wrong(self: LinearMap, directions: Any) -> Any:
        shares, bias = plain(self, directions)
        shares[:, 0, 0] += 1e-2
        return shares, bias

    monkeypatch.setattr(LinearMap, "columns", wrong)
    with pytest.raises(ModelError, match="the ledger misses"):
        explain(encoder_of(), *texts)


@pytest.mark.parametrize("texts", [(SHORT, LONG), (LONG, SHORT)], ids=["left", "right"])
def test_a_single_wrong_row_is_refused(texts: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = LinearMap.rows

    def wrong(self: LinearMap) -> Replayed:
        found = plain(self)
        found.values[:, 0] += 1e-2
        return found

    monkeypatch.setattr(LinearMap, "rows", wrong)
    with pytest.raises(ModelError, match="the ledger misses"):
        explain(encoder_of(), *texts)


@pytest.mark.data
@pytest.mark.parametrize("swap", [False, True])
def test_terms_that_nearly_cancel_leave_no_gap(mpnet_folder: Path, swap: bool) -> None:
    """The bias row of all-mpnet-base-v2, and the sum of its rows, are many times as long as its vectors."""
    encoder = Encoder.load(mpnet_folder, device="cpu", threads=1)
    texts = ["A man plays.", "A man in a red shirt is playing a large brown guitar in front of a small crowd."]
    found = explain(encoder, *(reversed(texts) if swap else texts))
    assert abs(found.bias_both) > 20
    assert abs(found.gap) < 1e-5
