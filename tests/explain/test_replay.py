"""Replay equals plain backward passes through plainly written detached models, and its ledger is complete."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ledgers import contributions, explain
from likewise.encoder import Encoder
from likewise.encoder.forward import Batch, embed
from likewise.encoder.modes import RULES, Detached
from likewise.encoder.pooling import POOLERS, Dense, ModulesConfig
from likewise.encoder.postprocessing import POSTPROCESSORS, fit_postprocessing
from likewise.errors import UsageError
from likewise.explain import linear_map
from likewise.explain.texts import Contributions
from plain_models import PLAIN, embeddings_of, hugging_face, products_by_backward_passes
from tiny_models import BIASES, CONFIGS, tiny_encoder

LEFT, RIGHT = "A man is playing the flute, quietly!", "the xylophone"
POOLED = {"mean": lambda states: states.mean(0), "cls": lambda states: states[0]}
SUBSETS = [rules for count in (1, 2) for rules in combinations(RULES, count)]
ADAPTED = {"modernbert": BIASES, "qwen3": {"attention_bias": True}, "qwen3-sliding": {"attention_bias": True}}


@cache
def encoder_of(name: str, seed: int = 0) -> Encoder:
    return tiny_encoder(name, seed, config=ADAPTED.get(name))


def ids_of(encoder: Encoder, text: str) -> Tensor:
    return torch.tensor(encoder.tokenize([text])[0].ids)


def one(encoder: Encoder, text: str = LEFT, **options: Any) -> Contributions:
    return contributions(encoder, [text], **options)[0]


class TestSlowTwins:
    @pytest.mark.parametrize("pooling", POOLED)
    @pytest.mark.parametrize("seed", [0, 1, 2])
    @pytest.mark.parametrize("name", PLAIN)
    def test_contributions_equal_backward_passes_through_a_plain_model(
        self, name: str, seed: int, pooling: str
    ) -> None:
        encoder = encoder_of(name, seed).with_pooling(pooling=pooling)
        found = one(encoder)
        x = embeddings_of(encoder.model, ids_of(encoder, LEFT))
        plain = PLAIN[name](encoder.model)
        slow = products_by_backward_passes(lambda x: POOLED[pooling](plain(x)), x).numpy()
        assert found.values.shape == slow.shape == (len(x), 32)
        assert np.abs(found.values - slow).max() < 1e-10
        whole = POOLED[pooling](plain(x)).detach().numpy()
        assert np.abs(found.vector - whole).max() < 1e-10
        assert np.abs(found.bias - (whole - slow.sum(0))).max() < 1e-10

    @pytest.mark.parametrize("name", CONFIGS)
    def test_contributions_equal_backward_passes_through_held_hugging_face(self, name: str) -> None:
        encoder = encoder_of(name)
        ids = ids_of(encoder, LEFT)
        x = embeddings_of(encoder.model, ids)
        held, live = (hugging_face(encoder.model, ids, rules) for rules in (RULES, ()))
        assert torch.allclose(held(x), live(x), atol=1e-10)
        slow = products_by_backward_passes(lambda x: held(x).mean(0), x).numpy()
        assert np.abs(one(encoder).values - slow).max() < 1e-10

    @pytest.mark.parametrize("name", CONFIGS)
    def test_hxp_equals_the_true_jacobian(self, name: str) -> None:
        encoder = encoder_of(name)
        ids = ids_of(encoder, LEFT)
        x = embeddings_of(encoder.model, ids)
        live = hugging_face(encoder.model, ids)
        slow = products_by_backward_passes(lambda x: live(x).mean(0), x).numpy()
        found = one(encoder, method="hxp")
        assert np.abs(found.values - slow).max() < 1e-10
        assert np.abs(found.values - one(encoder).values).max() > 1e-3, "held and live would look the same"
        assert not found.bias.any()

    @pytest.mark.parametrize("name", PLAIN)
    def test_input_is_the_embedding_layers_output(self, name: str) -> None:
        encoder = encoder_of(name)
        ids = ids_of(encoder, LEFT)
        assert torch.allclose(embed(encoder.model_view, Batch(ids[None]))[0], embeddings_of(encoder.model, ids))


class TestRules:
    @pytest.mark.parametrize("name", CONFIGS)
    def test_no_rule_is_hxp(self, name: str) -> None:
        encoder = encoder_of(name)
        assert np.abs(one(encoder, rules=()).values - one(encoder, method="hxp").values).max() < 1e-12

    @pytest.mark.slow
    @pytest.mark.parametrize("name", CONFIGS)
    def test_all_rules_by_forward_mode_equal_replay(self, name: str) -> None:
        encoder = encoder_of(name)
        ids = ids_of(encoder, LEFT)[None]
        pooling_mask = encoder.pooling_mask_of(ids)
        with torch.no_grad():
            x = embed(encoder.model_view, Batch(ids))

            def vector(x: Tensor) -> Tensor:
                return encoder.vectors_from(x, pooling_mask, Detached(RULES))[0]

            rows = torch.eye(x.shape[1], dtype=x.dtype)[:, None, :, None] * x
            forward = torch.stack([torch.func.jvp(vector, (x,), (row,))[1] for row in rows])
        assert np.abs(forward.numpy() - one(encoder).values).max() < 1e-10

    @pytest.mark.parametrize("name", ["bert", "bert-relu", "albert", "gpt_neo", "modernbert", "qwen3"])
    @pytest.mark.parametrize("rules", SUBSETS, ids="+".join)
    def test_some_rules_equal_backward_passes_through_held_hugging_face(
        self, rules: tuple[str, ...], name: str
    ) -> None:
        encoder = encoder_of(name)
        ids = ids_of(encoder, RIGHT)
        held, x = hugging_face(encoder.model, ids, rules), embeddings_of(encoder.model, ids)
        slow = products_by_backward_passes(lambda x: held(x).mean(0), x).numpy()
        assert np.abs(one(encoder, RIGHT, rules=rules).values - slow).max() < 1e-10

    @pytest.mark.parametrize("rules", SUBSETS, ids="+".join)
    def test_each_subset_is_of_its_own(self, rules: tuple[str, ...]) -> None:
        encoder = encoder_of("bert")
        found = one(encoder, rules=rules)
        others = [one(encoder), one(encoder, rules=()), one(encoder, rules=tuple(set(RULES) - set(rules)))]
        assert all(np.abs(found.values - other.values).max() > 1e-3 for other in others)
        shown = explain(encoder, LEFT, RIGHT, rules=rules)
        assert not shown.metadata.complete
        assert shown.metadata.rules == rules


def assert_ledger(encoder: Encoder, **options: Any) -> None:
    found = explain(encoder, LEFT, RIGHT, **options)
    assert abs(found.gap) < 1e-9 * max(1.0, abs(found.similarity))
    left, right = contributions(encoder, [LEFT, RIGHT])
    for each in (left, right):
        assert each.missing < 1e-9 * max(1.0, float(np.linalg.norm(each.vector)))
        shown = encoder.encode([each.text])[0]
        assert np.allclose(each.vector, shown, atol=1e-5 * max(1.0, float(np.abs(shown).max())))


def dense(activation: str, width: int, out: int = 12, bias: bool = True) -> Dense:
    torch.manual_seed(width)
    weight = torch.randn(out, width, dtype=torch.float64) / 4
    return Dense(weight, torch.randn(out, dtype=torch.float64) / 2 if bias else None, activation)


class TestLedger:
    @pytest.mark.parametrize("name", CONFIGS)
    def test_every_family_and_pooling(self, name: str) -> None:
        encoder = encoder_of(name)
        poolings = [*POOLERS, "cls+mean", *(["pooler", "pooler+max"] if encoder.model_view.pooler is not None else [])]
        for pooling in poolings:
            for similarity in ("cosine", "dot"):
                assert_ledger(encoder.with_pooling(pooling=pooling), similarity=similarity)

    def test_poolers_are_covered(self) -> None:
        with_pooler = {name for name in CONFIGS if encoder_of(name).model_view.pooler is not None}
        assert {"bert", "roberta", "mpnet", "albert"} <= with_pooler

    @pytest.mark.parametrize("name", ["bert", "albert", "electra", "gpt_neo", "modernbert", "qwen3"])
    @pytest.mark.parametrize("layer", [[0, -1], "first-last", 1, 0, [1, 2, -1]])
    def test_layers(self, name: str, layer: Any) -> None:
        encoder = encoder_of(name)
        if encoder.model_view.projection is not None and layer == 0:
            assert encoder.with_pooling(layer=0).encode(LEFT).shape == (32,)
        assert_ledger(encoder.with_pooling(layer=layer))
        assert_ledger(encoder.with_pooling(layer=layer, pooling="max"), similarity="dot")

    def test_embedding_layer_alone_is_the_embedding(self) -> None:
        encoder = encoder_of("bert").with_pooling(layer=0)
        found = one(encoder)
        x = embeddings_of(encoder.model, ids_of(encoder, LEFT)).numpy()
        assert np.allclose(found.values, x / len(x), atol=1e-12)
        assert not found.bias.any()

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize("activation", ["Tanh", "Sigmoid", "ReLU", "Identity", "GELU", "SiLU"])
    def test_dense_heads(self, activation: str, bias: bool) -> None:
        modules_config = ModulesConfig(heads=(dense(activation, 32, bias=bias), dense("Tanh", 12, 7)), normalizes=True)
        encoder = replace(encoder_of("bert"), modules_config=modules_config)
        for normalize in (True, False, None):
            for similarity in ("cosine", "dot"):
                assert_ledger(encoder.with_pooling(normalize=normalize), similarity=similarity)
        assert_ledger(encoder.with_pooling(heads=False))

    @pytest.mark.parametrize("kind", POSTPROCESSORS)
    def test_postprocessing(self, kind: str) -> None:
        encoder = encoder_of("gpt_neo")
        corpus = [f"{first} {second}" for first in ["the", "man", "xylophone", "is"] for second in "abcdefghij"]
        encoder = encoder.with_postprocessing(fit_postprocessing(kind, encoder.encode(corpus)))
        for normalize in (True, False, None):
            assert_ledger(encoder.with_pooling(normalize=normalize))
        assert_ledger(encoder, similarity="dot")
        assert np.abs(one(encoder).bias).max() > 1e-3, "the shift belongs to the bias"

    @pytest.mark.parametrize("cut", [1, 5, 32])
    def test_dimension_cut(self, cut: int) -> None:
        encoder = encoder_of("bert").with_pooling(truncate_dim=cut)
        assert_ledger(encoder)
        assert np.allclose(one(encoder).values, one(encoder_of("bert")).values[:, :cut], atol=1e-12)

    @pytest.mark.parametrize("normalize", [True, False, None])
    def test_normalizing(self, normalize: bool | None) -> None:
        encoder = replace(encoder_of("bert"), modules_config=ModulesConfig(normalizes=True)).with_pooling(
            normalize=normalize
        )
        assert_ledger(encoder)
        assert_ledger(encoder, similarity="dot")
        length = np.linalg.norm(one(encoder).vector)
        assert (abs(length - 1) < 1e-12) == (normalize is not False)
        raw = one(encoder_of("bert"))
        scaled = one(encoder).values * (np.linalg.norm(raw.vector) if normalize is not False else 1)
        assert np.allclose(scaled, raw.values, atol=1e-11), "the length is held, so only the scale changes"

    @pytest.mark.parametrize("pooling", ["mean", "cls", "weighted", "max"])
    @pytest.mark.parametrize("include", [True, False])
    def test_prompts(self, pooling: str, include: bool) -> None:
        modules_config = ModulesConfig(pooling, include, prompts={"ask": "a question is "}, default_prompt="ask")
        encoder = replace(encoder_of("bert"), modules_config=modules_config).with_pooling(pooling=pooling)
        for prompts in ((None, None), ("a question is ", ""), ("", "the answer: ")):
            found = explain(encoder, LEFT, RIGHT, left_prompt=prompts[0], right_prompt=prompts[1])
            assert abs(found.gap) < 1e-9
            left, right = (
                encoder.encode(text, prompt=prompt) for text, prompt in zip((LEFT, RIGHT), prompts, strict=True)
            )
            assert found.similarity == pytest.approx(float(encoder.similarity([left], [right])[0, 0]), abs=1e-5)
            opening = "a question is " if prompts[0] is None else prompts[0]
            wanted = len(encoder.tokenizer.backend.encode(opening, add_special_tokens=False).ids)
            assert [unit.kind for unit in found.left.units].count("prompt") == wanted
            words = explain(encoder, LEFT, RIGHT, granularity="word", left_prompt=prompts[0], right_prompt=prompts[1])
            assert [unit.kind for unit in words.left.units].count("prompt") == min(1, wanted)
            assert abs(words.gap) < 1e-9

    @pytest.mark.parametrize("pooling", [*POOLERS, "cls+mean"])
    def test_special_tokens_do_not_count(self, pooling: str) -> None:
        encoder = encoder_of("bert").with_pooling(special_tokens=False, pooling=pooling)
        assert_ledger(encoder)
        assert np.abs(one(encoder).values[0]).max() > 1e-3, "[CLS] still mixes into the others"
        assert not one(encoder.with_pooling(layer=0)).values[0].any(), "without layers it has no way to the vector"

    @pytest.mark.slow
    def test_bundled_model(self, minilm: Encoder) -> None:
        pairs = [
            ("Fire in hospital kills 38", "38 feared dead in hospital fire"),
            ("A man is playing a flute.", "Someone plays an instrument."),
            ("", "Café 😀 at noon?"),
        ]
        for left, right in pairs:
            for encoder in (minilm, minilm.with_pooling(pooling="cls"), minilm.with_pooling(layer="first-last")):
                found = explain(encoder, left, right)
                assert abs(found.gap) <= 1e-5
                assert found.similarity == pytest.approx(float(encoder.similarity(left, right)[0, 0]), abs=1e-5)
                dot = explain(encoder, left, right, similarity="dot", granularity="word")
                vectors = encoder.encode([left, right])
                assert dot.similarity == pytest.approx(float(vectors[0] @ vectors[1]), rel=1e-5, abs=1e-5)
                assert abs(dot.gap) <= 1e-5 * max(1.0, abs(dot.similarity))


class TestGroups:
    TEXT = "It rains. A man is playing, the flute! He is out."

    @pytest.mark.parametrize("granularity", ["word", "sentence", [(0, 2), (10, 24)]])
    @pytest.mark.parametrize(
        ("name", "method"),
        [
            *((name, "bilrp") for name in ("bert", "albert", "gpt_neo", "modernbert", "qwen3")),
            *(("bert", method) for method in ("hxp", "integrated-jacobian", "embedding")),
        ],
    )
    def test_groups_are_sums_of_tokens(self, name: str, granularity: Any, method: str) -> None:
        encoder = encoder_of(name)
        options = {"method": method, "steps": 2}
        tokens, groups = one(encoder, self.TEXT, **options), one(encoder, self.TEXT, granularity=granularity, **options)
        assert 1 < len(groups.units) < len(tokens.units)
        assert sorted(place for unit in groups.units for place in unit.tokens) == list(range(len(tokens.units)))
        for unit, value in zip(groups.units, groups.values, strict=True):
            assert np.abs(tokens.values[list(unit.tokens)].sum(0) - value).max() < 1e-10
        assert np.allclose(tokens.bias, groups.bias, atol=1e-10)

    def test_folded_special_tokens(self) -> None:
        encoder = encoder_of("bert")
        tokens, folded = one(encoder), one(encoder, fold_special=True)
        special = [unit for unit in folded.units if unit.kind == "special"]
        assert [unit.tokens for unit in special] == [(0, len(tokens.units) - 1)]
        assert np.allclose(folded.values[folded.units.index(special[0])], tokens.values[[0, -1]].sum(0), atol=1e-12)
        assert abs(explain(encoder, LEFT, RIGHT, granularity="word", fold_special=True).gap) < 1e-9

    @pytest.mark.parametrize("name", CONFIGS)
    @pytest.mark.parametrize("method", ["bilrp", "hxp"])
    def test_backward_route_equals_forward_rows(self, name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder, calls = encoder_of(name), []
        where, which = (linear_map.LinearMap, "columns") if method == "bilrp" else (linear_map, "backward_products")
        plain = getattr(where, which)
        monkeypatch.setattr(where, which, lambda *given: calls.append(1) or plain(*given))
        forward = one(encoder, method=method)
        assert not calls
        backward = one(encoder.with_pooling(truncate_dim=4), method=method)
        assert calls
        assert np.abs(forward.values[:, :4] - backward.values).max() < 1e-10
        assert np.abs(forward.bias[:4] - backward.bias).max() < 1e-10

    def test_backward_route_in_a_narrow_model(self) -> None:
        encoder = tiny_encoder(config={"hidden_size": 16})
        text = "the man is playing a flute and the dog ran over the hill ."
        assert len(encoder.tokenize([text])[0]) > 16
        assert one(encoder, text).missing < 1e-10
        token_groups = one(encoder, text, granularity=[(0, 25)], split=True)
        assert token_groups.missing < 1e-10
        tokens = one(encoder, text)
        for unit, value in zip(token_groups.units, token_groups.values, strict=True):
            assert np.abs(tokens.values[list(unit.tokens)].sum(0) - value).max() < 1e-10

    @pytest.mark.slow
    @pytest.mark.parametrize("size", [1, 30, 100])
    def test_chunks_of_rows(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        cases = [(name, method) for name in ("bert", "qwen3") for method in ("bilrp", "hxp")]
        whole = [one(encoder_of(name), method=method) for name, method in cases]
        cut = [one(encoder_of(name).with_pooling(truncate_dim=4), method=method) for name, method in cases]
        monkeypatch.setattr(linear_map, "ROW_TOKENS", size)
        monkeypatch.setattr("likewise.explain.texts.ROW_TOKENS", size)
        for (name, method), expected, narrow in zip(cases, whole, cut, strict=True):
            found = one(encoder_of(name), method=method)
            assert np.abs(found.values - expected.values).max() < 1e-11
            assert np.abs(found.bias - expected.bias).max() < 1e-11
            found = one(encoder_of(name).with_pooling(truncate_dim=4), method=method)
            assert np.abs(found.values - narrow.values).max() < 1e-11

    @pytest.mark.parametrize("name", CONFIGS)
    def test_maps_computed_again(self, name: str) -> None:
        for cut in (None, 4):
            encoder = encoder_of(name).with_pooling(truncate_dim=cut)
            kept, again = one(encoder), one(encoder, memory=1e-9)
            assert np.abs(kept.values - again.values).max() < 1e-11
            assert np.abs(kept.bias - again.bias).max() < 1e-11

    @pytest.mark.parametrize("cut", [None, 3])
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"method": "hxp"},
            {"method": "integrated-jacobian", "steps": 2},
            {"granularity": "word", "rules": ("norm",), "split": True},
        ],
    )
    def test_batches_equal_one_by_one(
        self, options: dict[str, Any], cut: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.check_batches(encoder_of("bert").with_pooling(truncate_dim=cut), options, monkeypatch)

    def test_batches_that_share_their_biases(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.check_batches(encoder_of("bert"), {"bias": "shared"}, monkeypatch)

    def test_batches_of_a_model_that_normalises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lengths are recorded text by text."""
        encoder = replace(encoder_of("bert"), modules_config=ModulesConfig(heads=(dense("Tanh", 32),), normalizes=True))
        for options in ({}, {"method": "integrated-jacobian", "steps": 2}, {"method": "hxp"}):
            self.check_batches(encoder.with_pooling(pooling="max", normalize=True), options, monkeypatch)

    def check_batches(self, encoder: Encoder, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        texts = ["the man is", "a dog ran", RIGHT, "the dog is", "a", "", LEFT, "a dog ran"]
        sizes, plain = [], Encoder.vectors_from

        def pooling_mask(self: Encoder, x: Tensor, *rest: Any, **more: Any) -> Tensor:
            sizes.append(len(x))
            return plain(self, x, *rest, **more)

        with monkeypatch.context() as patch:
            patch.setattr(Encoder, "vectors_from", pooling_mask)
            together = contributions(encoder, texts, **options)
        assert max(sizes) > 1
        for text, found in zip(texts, together, strict=True):
            alone = one(encoder, text, **options)
            assert found.text == text
            assert found.units == alone.units
            assert np.abs(found.values - alone.values).max() < 1e-11
            assert np.abs(found.bias - alone.bias).max() < 1e-11
            assert np.abs(found.vector - alone.vector).max() < 1e-11
            assert all(np.abs(part - alone.parts[name]).max() < 1e-11 for name, part in found.parts.items())
        assert together[1] is together[7]


def shared_twin(model: Any, x: Tensor) -> Tensor:
    """A BERT over rows of parts, each bias dealt out at each position by |<v_i, v>| / sum_j |<v_j, v>|: (T, D)."""

    def dealt(rows: list[Tensor], bias: Tensor) -> list[Tensor]:
        out = [row.clone() for row in rows]
        for place in range(len(x)):
            whole = sum(row[place] for row in rows)
            weights = [abs(float(row[place] @ whole)) for row in rows]
            for row, weight in zip(out, weights, strict=True):
                row[place] += bias * (weight / sum(weights) if sum(weights) else 1 / len(rows))
        return out

    def linear(rows: list[Tensor], module: Any) -> list[Tensor]:
        return dealt([row @ module.weight.T for row in rows], module.bias)

    def normed(rows: list[Tensor], module: Any) -> list[Tensor]:
        centred = [row - row.mean(-1, keepdim=True) for row in rows]
        scale = 1 / (sum(centred) ** 2).mean(-1, keepdim=True).add(module.eps).sqrt()
        return dealt([row * scale * module.weight for row in centred], module.bias)

    def heads(x: Tensor) -> Tensor:
        return x.reshape(len(x), 4, -1).transpose(0, 1)

    rows = [torch.zeros_like(x) for _ in x]
    for place, row in enumerate(rows):
        row[place] = x[place]
    for layer in model.encoder.layer:
        own, after = layer.attention.self, layer.attention.output
        whole = sum(rows)
        scores = heads(own.query(whole)) @ heads(own.key(whole)).transpose(1, 2)
        maps = torch.softmax(scores / 8**0.5, -1)
        mixed = [(maps @ heads(row)).transpose(0, 1).flatten(1) for row in linear(rows, own.value)]
        rows = [row + new for row, new in zip(rows, linear(mixed, after.dense), strict=True)]
        rows = normed(rows, after.LayerNorm)
        inner = linear(rows, layer.intermediate.dense)
        gate = 0.5 * (1 + torch.erf(sum(inner) / 2**0.5))
        down = linear([row * gate for row in inner], layer.output.dense)
        rows = normed([row + new for row, new in zip(rows, down, strict=True)], layer.output.LayerNorm)
    return torch.stack([row.mean(0) for row in rows])


class TestSharedBias:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_equals_its_slow_twin(self, seed: int) -> None:
        encoder = encoder_of("bert", seed)
        x = embeddings_of(encoder.model, ids_of(encoder, "the flute, quietly"))
        with torch.no_grad():
            slow = shared_twin(encoder.model, x).numpy()
        found = one(encoder, "the flute, quietly", bias="shared")
        assert np.abs(found.values - slow).max() < 1e-10
        assert not found.bias.any()

    @pytest.mark.parametrize("name", CONFIGS)
    def test_tokens_alone_sum_to_the_similarity(self, name: str) -> None:
        for pooling in ("mean", "cls", "max"):
            found = explain(encoder_of(name).with_pooling(pooling=pooling), LEFT, RIGHT, bias="shared")
            assert found.relevance.sum() == pytest.approx(found.similarity, abs=1e-10)
            assert not found.bias_left.any() and not found.bias_right.any() and found.bias_both == 0
            assert found.metadata.bias_mode == "shared"

    def test_heads_and_postprocessing_share_theirs(self) -> None:
        encoder = replace(
            encoder_of("bert"), modules_config=ModulesConfig(heads=(dense("Sigmoid", 32, 20),), normalizes=True)
        )
        encoder = encoder.with_postprocessing(
            fit_postprocessing("standardisation", encoder.encode(["a", "the man", LEFT, RIGHT]))
        )
        found = explain(encoder, LEFT[:20], RIGHT[:9], bias="shared")
        assert found.relevance.sum() == pytest.approx(found.similarity, abs=1e-10)

    def test_groups_are_summed_afterwards(self) -> None:
        encoder = encoder_of("bert")
        tokens, words = (one(encoder, bias="shared", granularity=granularity) for granularity in ("token", "word"))
        for unit, value in zip(words.units, words.values, strict=True):
            assert np.abs(tokens.values[list(unit.tokens)].sum(0) - value).max() < 1e-12

    def test_refused_where_it_does_not_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder = encoder_of("bert")
        assert abs(one(encoder.with_pooling(truncate_dim=5), bias="shared", granularity="word").missing) < 1e-9
        monkeypatch.setattr(linear_map, "MOST_SHARED", 20)
        with pytest.raises(UsageError, match="21 tokens would run side by side, at most 20 can; choose --bias local"):
            contributions(encoder, ["a " * 19], bias="shared", granularity="word")

    def test_refused_where_the_memory_is_short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(linear_map, "GIGABYTE", 1)
        with pytest.raises(UsageError, match=r"about \d+\.0 GB; choose --bias local, or allow a larger --memory"):
            one(encoder_of("bert"), bias="shared", memory=1e-9)
        one(encoder_of("bert"), bias="shared", memory=0.1)
