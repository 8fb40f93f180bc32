"""A query-key score by pairs of input tokens equals plain Jacobians of the queries and keys, in every family."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder
from likewise.encoder.attention import queries_and_keys
from likewise.encoder.forward import Batch, embed, layers
from likewise.encoder.model_view import norm
from likewise.encoder.modes import Detached
from likewise.errors import UsageError
from likewise.explain import explain_attention
from likewise.explain.attention_score import token_index
from tiny_models import BIASES, CONFIGS, tiny_encoder

TEXT = "the man is out"
ADAPTED = {"modernbert": BIASES, "qwen3": {"attention_bias": True}, "qwen3-sliding": {"attention_bias": True}}


@cache
def encoder_of(name: str, seed: int = 0) -> Encoder:
    return tiny_encoder(name, seed, config=ADAPTED.get(name))


def query_and_key(encoder: Encoder, x: torch.Tensor, layer: int, head: int, i: int, j: int) -> Any:
    """The query at i and the key at j of a head, each (W,), with all factors held."""
    mode, block = Detached(), encoder.model_view.blocks[layer - 1]
    *_, before = islice(layers(encoder.model_view, x, mode=mode), layer)
    inner = norm(block.attention_norm, before.states, mode) if block.pre_norm else before.states
    query, key = queries_and_keys(block.attention, inner, mode)
    return query[0, head - 1, i], key[0, head - 1, j]


def jacobian_of(encoder: Encoder, x: torch.Tensor, which: int, where: tuple[int, int, int, int]) -> torch.Tensor:
    """(W, T, E)."""
    found = torch.autograd.functional.jacobian(lambda x: query_and_key(encoder, x, *where)[which], x)
    return found[:, 0]


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("name", CONFIGS)
def test_equals_plain_jacobians(name: str, layer: int) -> None:
    encoder = encoder_of(name)
    ids = torch.tensor([encoder.tokenize([TEXT])[0].ids])
    last = ids.shape[1] - 1
    for head, i, j in ((1, last, last - 1), (3, last - 1, last - 2)):
        found = explain_attention(encoder, TEXT, layer, head, i, j)
        x = embed(encoder.model_view, Batch(ids)).detach()
        parts = []
        for which in (0, 1):
            whole = query_and_key(encoder, x, layer, head, i, j)[which].detach()
            jacobian = jacobian_of(encoder, x, which, (layer, head, i, j))
            rows = torch.einsum("wte,te->tw", jacobian, x[0])
            parts.append((rows, whole - rows.sum(0)))
        (query, query_bias), (key, key_bias) = parts
        scale = encoder.model_view.blocks[layer - 1].attention.scale
        assert np.abs(found.relevance - (query @ key.T * scale).numpy()).max() < 1e-10
        assert np.abs(found.bias_query - (query @ key_bias * scale).numpy()).max() < 1e-10
        assert np.abs(found.bias_key - (key @ query_bias * scale).numpy()).max() < 1e-10
        assert found.bias_both == pytest.approx(float(query_bias @ key_bias * scale), abs=1e-10)
        assert abs(found.gap) < 1e-10
        by_part = sum(value for row in found.by_part.values() for value in row.values())
        assert by_part + found.distance == pytest.approx(found.score, abs=1e-10)
        assert (found.distance != 0) == (name in ("mpnet", "t5", "mt5", "deberta-v2"))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_weight_is_the_models_own(name: str) -> None:
    encoder = encoder_of(name)
    maps = encoder.states([TEXT])[0].attention
    found = explain_attention(encoder, TEXT, 2, 2, 4, 3)
    assert found.weight == pytest.approx(maps[1, 1, 4, 3], abs=1e-6)


def test_units_are_sums_of_tokens() -> None:
    encoder = encoder_of("bert")
    tokens, words = (
        explain_attention(encoder, TEXT, 2, 1, 1, 2, granularity=granularity) for granularity in ("token", "word")
    )
    for row, first in enumerate(words.text.units):
        for column, second in enumerate(words.text.units):
            cells = tokens.relevance[np.ix_(first.tokens, second.tokens)]
            assert words.relevance[row, column] == pytest.approx(cells.sum(), abs=1e-10)


def test_what_a_causal_token_does_not_see() -> None:
    with pytest.raises(UsageError, match="token 1 does not see token 3 in this layer"):
        explain_attention(encoder_of("qwen3"), TEXT, 1, 1, 1, 3)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ((0, 1, 1, 1), "no layer 0; bert has layers 1 to 3"),
        ((1, 5, 1, 1), "no head 5; bert has heads 1 to 4"),
        ((1, 1, 99, 1), "no token 99; the text has tokens 0 to"),
        ((1, 1, 1, -1), "no token -1"),
    ],
)
def test_refused(place: tuple[int, int, int, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        explain_attention(encoder_of("bert"), TEXT, *place)


def test_tokens_by_name(tiny: Encoder) -> None:
    (tokens,) = tiny.tokenize(["The man is"])
    assert token_index(tiny, "The man is", "the") == 1 and token_index(tiny, "The man is", "2") == 2
    assert token_index(tiny, "The man is", tokens.tokens[-1]) == len(tokens) - 1
    with pytest.raises(UsageError, match="no token 'cat'; the text has"):
        token_index(tiny, "The man is", "cat")


def test_shown_in_every_way() -> None:
    found = explain_attention(encoder_of("mpnet"), TEXT, 2, 1, 1, 2)
    summary = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert summary["score"] == found.score and sum(summary["ledger"].values()) == pytest.approx(found.score)
    assert np.shape(summary["relevance"]) == (len(summary["units"]), len(summary["units"]))
    assert found.to_html().startswith("<!doctype html>") and "by_part" in summary
    assert len(found.plot().get_yticklabels()) == len(summary["units"]) + 1
    assert len(found.strongest(3)) == 3
