"""Attributions: shares along a direction are products with contributions; directions; a whole file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from ledgers import contributions
from likewise.encoder import Encoder
from likewise.errors import Cancelled, DataError, ModelError, UsageError
from likewise.explain import Direction, attribute
from likewise.explain.attribution import (
    AttributedText,
    as_directions,
    axis_direction,
    centroid_direction,
    difference_direction,
    read_vectors,
    text_direction,
)
from likewise.explain.files import attribute_file
from tiny_models import CONFIGS, tiny_encoder

TEXTS = ["A man is playing the flute, quietly!", "the dog", "a dog ran", "", "the man is"]


@cache
def encoder_of(name: str = "bert") -> Encoder:
    return tiny_encoder(name)


@pytest.mark.parametrize("granularity", ["token", "word", "sentence"])
@pytest.mark.parametrize("options", [{}, {"bias": "separate", "reference": "none"}, {"bias": "local"}], ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_shares_are_products_with_contributions(name: str, options: dict[str, Any], granularity: str) -> None:
    encoder = encoder_of(name)
    directions = np.random.default_rng(0).standard_normal((3, 32))
    found = attribute(encoder, TEXTS, directions, granularity, **options)
    rows = contributions(encoder, TEXTS, granularity=granularity, **({"reference": "filler"} | options))
    assert found.directions == ("direction 1", "direction 2", "direction 3")
    for one, row in zip(found.texts, rows, strict=True):
        assert one.text.units == row.units and one.text.text == row.text
        assert np.abs(one.shares - directions @ row.values.T).max() < 1e-9
        assert np.abs(one.bias - directions @ row.bias).max() < 1e-9
        assert np.abs(one.scores - directions @ row.vector).max() < 1e-9
        assert np.abs(one.gaps).max() < 1e-9


def test_a_text_as_direction_and_the_cosine() -> None:
    encoder = encoder_of()
    found = attribute(encoder, TEXTS, "a dog", similarity="cosine")
    wanted = encoder.similarity(["a dog"], TEXTS)[0]
    assert np.allclose([one.scores[0] for one in found.texts], wanted, atol=1e-5)
    assert found.directions == ("a dog",)


def test_every_kind_of_direction() -> None:
    encoder = encoder_of()
    vectors = encoder.encode(TEXTS).astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.allclose(text_direction(encoder, TEXTS[0]).vector, unit[0], atol=1e-6)
    assert np.allclose(difference_direction(encoder, *TEXTS[:2]).vector, unit[0] - unit[1], atol=1e-6)
    assert np.allclose(centroid_direction(encoder, TEXTS).vector, unit.mean(0), atol=1e-6)
    axis = axis_direction(encoder, TEXTS, 2).vector
    covariance = np.cov(vectors.T)
    assert np.linalg.norm(axis) == pytest.approx(1) and axis[np.abs(axis).argmax()] > 0
    values, axes = np.linalg.eigh(covariance)
    assert abs(axes[:, -2] @ axis) == pytest.approx(1, abs=1e-5) and values[-2] > 0


def test_the_weights_of_linear_models() -> None:
    encoder = encoder_of()
    vectors = encoder.encode(TEXTS)
    two = LogisticRegression().fit(vectors, ["no", "yes", "yes", "no", "no"])
    found = attribute(encoder, TEXTS, two)
    assert found.directions == ("LogisticRegression yes",)
    scores = np.array([one.scores[0] for one in found.texts])
    assert np.allclose(scores + two.intercept_, two.decision_function(vectors), atol=1e-4)
    three = LogisticRegression().fit(vectors, [0, 1, 2, 0, 1])
    names = [one.name for one in as_directions(encoder, three)]
    assert names == [f"LogisticRegression {kind}" for kind in (0, 1, 2)]
    ridge = Ridge().fit(vectors, np.arange(5.0))
    assert [one.name for one in as_directions(encoder, [ridge, "a dog"])] == ["Ridge 1", "a dog"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones(31), r"has shape \(31,\), the model's vectors \(32,\)"),
        (np.ones((2, 3, 32)), "got 3 dimensions"),
        (np.full(32, np.nan), "not finite"),
        ([], "no direction given"),
        (3, "got 0 dimensions"),
        ({"a": 1}, "dict is no direction; give a text, a vector"),
        (["a dog", object()], "object is no direction"),
    ],
)
def test_wrong_directions(given: Any, words: str) -> None:
    with pytest.raises((DataError, UsageError), match=words):
        attribute(encoder_of(), TEXTS, given)


def test_tensors_and_lists_of_numbers() -> None:
    encoder = encoder_of()
    vector = np.random.default_rng(0).standard_normal(32).astype(np.float32)
    scores = [
        attribute(encoder, "the dog", given).texts[0].scores[0]
        for given in (vector, list(vector), vector.tolist(), torch.tensor(vector), [vector, "a"])
    ]
    assert np.allclose(scores, scores[0])


def test_what_has_no_columns_is_refused() -> None:
    with pytest.raises(UsageError, match="split goes with one direction"):
        attribute(encoder_of(), TEXTS, ["a", "b"], split=True)
    with pytest.raises(UsageError, match="cannot explain by 'page'"):
        attribute(encoder_of(), [], "a", "page")
    with pytest.raises(UsageError, match="not with bias='shared'"):
        attribute(encoder_of(), TEXTS, "a", bias="shared")
    with pytest.raises(UsageError, match="unknown similarity 'near'"):
        attribute(encoder_of(), TEXTS, "a", similarity="near")
    with pytest.raises(UsageError, match="principal axes 1 to 4, not 5"):
        axis_direction(encoder_of(), TEXTS, 5)
    with pytest.raises(DataError, match="a centroid needs at least one text"):
        centroid_direction(encoder_of(), [])


def test_a_sum_that_misses_is_not_shown() -> None:
    one = attribute(encoder_of(), "the dog", "a").texts[0]
    with pytest.raises(ModelError, match="the ledger misses the score"):
        AttributedText(one.text, one.shares, one.bias + 1, one.scores)


def test_json_and_page() -> None:
    found = attribute(encoder_of(), TEXTS, ["a dog", Direction("first", np.eye(32)[0])])
    summary = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert summary["directions"] == ["a dog", "first"] and len(summary["texts"]) == len(TEXTS)
    one = summary["texts"][0]
    assert {"text", "units", "spans", "kinds", "scores", "shares", "bias", "gap"} <= one.keys()
    assert np.shape(one["shares"]) == (2, len(one["units"]))
    scores = [hit.score for hit in found.drawn(1)]
    assert scores == sorted(scores, reverse=True)
    assert found.to_html().startswith("<!doctype html>") and found.to_html().count("likewise-hits>") >= 2


def test_vectors_of_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.ones(32, np.float32))
    assert read_vectors(tmp_path / "one.npy").dtype == np.float64
    np.save(tmp_path / "words.npy", np.array(["a"]))
    (tmp_path / "text.npy").write_text("no numbers")
    for name in ("words.npy", "text.npy", "none.npy"):
        with pytest.raises(DataError, match=r"cannot be read as numbers .*; save them with numpy\.save"):
            read_vectors(tmp_path / name)


def test_a_file_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("likewise.explain.attribution.WINDOW_TEXTS", 2)
    monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0)
    rows = [(f"t{place}", text) for place, text in enumerate(TEXTS)]
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert attribute_file(encoder_of(), rows, "a dog", whole, {}) == len(rows)
    lines = [json.loads(line) for line in whole.read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines] == [name for name, _ in rows]

    def stop(done: int, *_: Any) -> None:
        if done >= 3:
            raise Cancelled

    with pytest.raises(Cancelled):
        attribute_file(encoder_of(), rows, "a dog", out, {}, stop)
    assert not out.exists() and (tmp_path / "out.jsonl.part").read_text().count("\n") == 2
    assert attribute_file(encoder_of(), rows, "a dog", out, {}) == len(rows)
    assert out.read_bytes() == whole.read_bytes()
    with pytest.raises(UsageError, match=r"end 'out\.csv' with \.jsonl"):
        attribute_file(encoder_of(), rows, "a dog", tmp_path / "out.csv", {})
