"""Integrated Jacobians against a slow sum, the baselines by their definitions, and shares split by embedding part."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ledgers import contributions, explain
from likewise.encoder import Encoder
from likewise.encoder.forward import Batch
from likewise.encoder.pooling import Dense, ModulesConfig
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import UsageError
from likewise.explain.linear_map import METHODS, is_complete, method_named, reference_embeddings, reference_parts
from likewise.explain.settings import Settings, rule_names
from likewise.explain.texts import Contributions
from plain_models import embeddings_of, hugging_face
from tiny_models import BIASES, CONFIGS, spelling_tokenizer, tiny_encoder

LEFT, RIGHT = "the man is out", "a dog, the"


@cache
def encoder_of(name: str, seed: int = 0) -> Encoder:
    return tiny_encoder(name, seed, config=BIASES if name == "modernbert" else None)


@cache
def calm_encoder(name: str, seed: int = 0) -> Encoder:
    """Weaker layers, whose derivatives along a path are smooth enough for few points."""
    encoder = tiny_encoder(name, seed, config=BIASES if name == "modernbert" else None)
    with torch.no_grad():
        for key, weight in encoder.model.named_parameters():
            if weight.ndim == 2 and not {"wte", "wpe"} & set(key.split(".")) and "embed" not in key:
                weight *= 0.3
    return encoder


def ids_of(encoder: Encoder, text: str) -> Tensor:
    return torch.tensor(encoder.tokenize([text])[0].ids)


def silent(ids: Tensor) -> Tensor:
    """The reference by hand: [CLS] and [SEP] stay, every other token becomes [PAD]."""
    return torch.where((ids == 2) | (ids == 3), ids, 0)


def hugging_face_vector(encoder: Encoder, ids: Tensor) -> np.ndarray:
    with torch.no_grad():
        x = embeddings_of(encoder.model, ids)
        return hugging_face(encoder.model, ids)(x).mean(0).numpy()


def one(encoder: Encoder, text: str = LEFT, **options: Any) -> Contributions:
    return contributions(encoder, [text], **options)[0]


class TestIntegratedJacobians:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_equal_a_slow_sum_of_midpoints(self, seed: int) -> None:
        encoder = calm_encoder("bert", seed)
        ids = ids_of(encoder, "the man")
        begin, end = embeddings_of(encoder.model, silent(ids)), embeddings_of(encoder.model, ids)
        live, points = hugging_face(encoder.model, ids), 60
        total = torch.zeros(len(ids), 32, dtype=torch.float64)
        for point in range(points):
            x = begin + (point + 0.5) / points * (end - begin)
            jacobian = torch.autograd.functional.jacobian(lambda x: live(x).mean(0), x, vectorize=True)
            total += torch.einsum("kte,te->tk", jacobian, end - begin) / points
        found = one(encoder, "the man", method="integrated-jacobian", steps=12)
        assert np.abs(found.values - total.numpy()).max() < 2e-5
        assert np.abs(total.numpy()).max() > 0.1
        assert found.values[0] == pytest.approx(0), "[CLS] is the same in the reference"

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["bert", "gpt_neo", "modernbert", "qwen3", "albert"])
    def test_many_steps_leave_no_gap(self, name: str) -> None:
        encoder = calm_encoder(name)
        few, many = (explain(encoder, "the man", "a dog", "integrated-jacobian", steps=steps) for steps in (2, 20))
        # A Qwen3's embeddings have no norm of their own, and its first one sees a sharp turn of the path.
        assert abs(many.gap) < (1e-4 if name == "qwen3" else 1e-8)
        assert abs(few.gap) > 100 * abs(many.gap)
        assert not many.metadata.complete, "its completeness is a limit, so it is shown with its gap"

    def test_gap_is_the_quadrature_error(self) -> None:
        encoder = encoder_of("bert")
        found = explain(encoder, LEFT, RIGHT, "integrated-jacobian", steps=2, similarity="dot")
        sums = [one(encoder, text, method="integrated-jacobian", steps=2) for text in (LEFT, RIGHT)]
        left, right = (each.values.sum(0) + each.bias for each in sums)
        assert found.explained == pytest.approx(float(left @ right), abs=1e-10)
        assert found.gap == pytest.approx(float(sums[0].vector @ sums[1].vector - left @ right), abs=1e-10)
        assert abs(found.gap) > 1e-6

    @pytest.mark.parametrize("similarity", ["cosine", "dot"])
    def test_reference_terms(self, similarity: str) -> None:
        encoder = calm_encoder("bert")
        found = explain(encoder, LEFT, RIGHT, "integrated-jacobian", steps=16, similarity=similarity)
        texts = [ids_of(encoder, text) for text in (LEFT, RIGHT)]
        x, y = (hugging_face_vector(encoder, ids) for ids in texts)
        r, s = (hugging_face_vector(encoder, silent(ids)) for ids in texts)
        scale = np.linalg.norm(x) * np.linalg.norm(y) if similarity == "cosine" else 1
        assert found.reference["f(r,r)"] == pytest.approx(r @ s / scale, abs=1e-10)
        assert found.reference["f(r,y)"] == pytest.approx(r @ y / scale, abs=1e-9)
        assert found.reference["f(x,r)"] == pytest.approx(x @ s / scale, abs=1e-9)
        assert found.similarity == pytest.approx(x @ y / scale, abs=1e-10)
        terms = found.reference
        both = terms["f(r,y)"] + terms["f(x,r)"] - terms["f(r,r)"]
        assert found.relevance.sum() + both == pytest.approx(found.similarity, abs=1e-9)
        assert found.to_dict()["reference"] == dict(terms) | {"quadrature_error": found.gap}
        assert "reference" not in explain(encoder, LEFT, RIGHT).to_dict()

    @pytest.mark.parametrize("name", ["bert", "gpt_neo", "albert"])
    def test_start_layer(self, name: str) -> None:
        encoder = calm_encoder(name)
        last = encoder.model_view.layers
        ids = ids_of(encoder, LEFT)
        with torch.no_grad():
            end, begin = (
                hugging_face(encoder.model, each)(embeddings_of(encoder.model, each)) for each in (ids, silent(ids))
            )
        found = one(encoder, method="integrated-jacobian", steps=1, start_layer=last)
        assert np.abs(found.values - ((end - begin) / len(ids)).numpy()).max() < 1e-10, "from there on all is linear"
        assert found.missing < 1e-10
        middle = one(encoder, method="integrated-jacobian", steps=20, start_layer=1)
        assert middle.missing < 1e-8
        assert np.abs(middle.values - found.values).max() > 1e-3

    def test_held_lengths_are_the_texts(self) -> None:
        """A model that normalises: phi(r) is divided by the length of phi(x), so that the ledger stays a sum."""
        torch.manual_seed(3)
        head = Dense(torch.randn(10, 32).double() / 4, torch.randn(10).double(), "Tanh")
        plain = replace(calm_encoder("bert"), modules_config=ModulesConfig(heads=(head,)))
        normed = replace(plain, modules_config=ModulesConfig(heads=(head,), normalizes=True)).with_pooling(
            normalize=True
        )
        raw, unit = (one(encoder, method="integrated-jacobian", steps=8) for encoder in (plain, normed))
        length = np.linalg.norm(raw.vector)
        assert np.allclose(unit.values * length, raw.values, atol=1e-10)
        assert np.allclose(unit.bias * length, raw.bias, atol=1e-10)
        assert np.linalg.norm(unit.vector) == pytest.approx(1)

    @pytest.mark.parametrize("pooling_config", [{"pooling": "max"}, {"layer": [0, -1]}, {"truncate_dim": 3}])
    def test_other_readings(self, pooling_config: dict[str, Any]) -> None:
        encoder = calm_encoder("bert").with_pooling(**pooling_config)
        found = one(encoder, method="integrated-jacobian", steps=20)
        # Winners change along the path, and no quadrature is exact across a kink.
        assert found.missing < (0.05 * np.linalg.norm(found.vector) if pooling_config.get("pooling") == "max" else 1e-8)
        assert np.allclose(found.vector, encoder.encode(LEFT), atol=1e-5)

    @pytest.mark.parametrize(
        ("pooling_config", "start", "lowest"),
        [({}, -1, 3), ({}, 4, 3), ({"layer": [1, -1]}, 2, 1), ({"layer": 0}, 1, 0)],
    )
    def test_wrong_start_is_refused(self, pooling_config: dict[str, Any], start: int, lowest: int) -> None:
        encoder = encoder_of("bert").with_pooling(**pooling_config)
        with pytest.raises(UsageError, match=f"start at layers 0 to {lowest} here, not {start}"):
            explain(encoder, LEFT, RIGHT, "integrated-jacobian", start_layer=start)

    def test_reference_keeps_special_tokens(self) -> None:
        encoder = encoder_of("bert")
        ids = ids_of(encoder, LEFT)[None]
        assert reference_parts(encoder, Batch(ids))[0].ids.tolist() == [[2, *[0] * (ids.shape[1] - 2), 3]]
        other = tiny_encoder(tokenizer=spelling_tokenizer())
        assert reference_parts(other, Batch(torch.tensor([[2, 7, 1, 3]])))[0].ids.tolist() == [[2, 0, 0, 3]]

    def test_a_given_reference_takes_the_first_positions(self) -> None:
        encoder = encoder_of("bert")
        ids = ids_of(encoder, LEFT)[None]
        given = encoder.tokenize(["the dog"])[0].ids[1:-1]
        found = reference_parts(encoder, Batch(ids), "the dog")[0].ids[0].tolist()
        assert found == [2, *given, *[0] * (ids.shape[1] - 2 - len(given)), 3]

    def test_the_mean_word_where_there_is_no_filler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder = encoder_of("bert")
        batch = Batch(ids_of(encoder, LEFT)[None])
        monkeypatch.setattr(type(encoder.tokenizer), "role_id", lambda *_: None)
        _, words = reference_parts(encoder, batch)
        table = encoder.model.embeddings.word_embeddings.weight
        assert torch.allclose(words[0, 1:-1], table.mean(0).expand_as(words[0, 1:-1]))
        assert torch.equal(words[0, 0], table[2]) and torch.equal(words[0, -1], table[3])
        assert not torch.equal(reference_embeddings(encoder, batch)[0, 1], reference_embeddings(encoder, batch)[0, 2])


class TestBaselines:
    @pytest.mark.parametrize("name", ["bert", "albert", "gpt_neo"])
    def test_embedding(self, name: str) -> None:
        encoder = encoder_of(name)
        x, y = (embeddings_of(encoder.model, ids_of(encoder, text)).numpy() for text in (LEFT, RIGHT))
        lengths = np.linalg.norm(x.sum(0)) * np.linalg.norm(y.sum(0))
        found = explain(encoder, LEFT, RIGHT, "embedding")
        assert np.allclose(found.relevance, x @ y.T / lengths, atol=1e-12)
        assert found.similarity == pytest.approx(float(encoder.similarity(LEFT, RIGHT)[0, 0]), abs=1e-5)
        assert not found.metadata.complete
        assert np.allclose(explain(encoder, LEFT, RIGHT, "embedding", similarity="dot").relevance, x @ y.T, atol=1e-12)

    def test_embedding_squared(self) -> None:
        encoder = encoder_of("bert")
        plain, squared = (explain(encoder, LEFT, RIGHT, method) for method in ("embedding", "embedding-squared"))
        assert np.allclose(squared.relevance, plain.relevance**2, atol=1e-12)
        assert (squared.relevance >= 0).all()

    def test_by_word(self) -> None:
        encoder = encoder_of("bert")
        tokens, words = (explain(encoder, LEFT, RIGHT, "embedding", granularity) for granularity in ("token", "word"))
        assert words.relevance.sum() == pytest.approx(tokens.relevance.sum(), abs=1e-10)
        assert words.relevance.shape < tokens.relevance.shape

    def test_narrower_vectors_than_embeddings(self) -> None:
        encoder = encoder_of("bert").with_pooling(truncate_dim=4)
        found = explain(encoder, LEFT, RIGHT, "embedding")
        assert np.allclose(found.relevance, explain(encoder_of("bert"), LEFT, RIGHT, "embedding").relevance)

    def test_random_depends_on_the_seed_and_the_texts(self) -> None:
        encoder = encoder_of("bert")
        first, again = (explain(encoder, LEFT, RIGHT, "random", seed=4) for _ in range(2))
        assert np.array_equal(first.relevance, again.relevance)
        assert first.relevance.std() > 0
        for changed in (
            explain(encoder, LEFT, RIGHT, "random", seed=5),
            explain(encoder, LEFT, "a cat, the", "random", seed=4),
            explain(encoder, "the man is cut", RIGHT, "random", seed=4),
        ):
            cut = tuple(map(min, changed.relevance.shape, first.relevance.shape))
            assert not np.allclose(changed.relevance[: cut[0], : cut[1]], first.relevance[: cut[0], : cut[1]])


class TestSplit:
    @pytest.mark.parametrize("name", CONFIGS)
    def test_parts_sum_to_the_shares(self, name: str) -> None:
        encoder = encoder_of(name)
        for granularity in ("token", "word"):
            plain, split = (
                explain(encoder, LEFT, RIGHT, granularity=granularity, split=split) for split in (False, True)
            )
            assert np.allclose(plain.relevance, split.relevance, atol=1e-10)
            # The bias row of the other side is in its vector, so the parts sum to the whole shares.
            assert np.allclose(sum(split.left.parts.values()), split.left_shares, atol=1e-10)
            assert np.allclose(sum(split.right.parts.values()), split.right_shares, atol=1e-10)
            assert not plain.left.parts
        assert split.to_dict()["left"]["parts"].keys() == split.left.parts.keys()

    @pytest.mark.parametrize(
        ("name", "parts"),
        [
            ("bert", {"word", "type", "position", "bias"}),
            ("distilbert", {"word", "position", "bias"}),
            ("gpt_neo", {"word", "position"}),
            ("modernbert", {"word", "bias"}),
            ("qwen3", {"word"}),
        ],
    )
    def test_names(self, name: str, parts: set[str]) -> None:
        assert set(one(encoder_of(name), split=True).parts) == parts

    def test_backward_route_and_rules_split_alike(self) -> None:
        encoder = encoder_of("bert")
        whole, narrow = one(encoder, split=True), one(encoder.with_pooling(truncate_dim=4), split=True)
        for name, part in whole.parts.items():
            assert np.allclose(part[:, :4], narrow.parts[name], atol=1e-10)
        some = one(encoder, split=True, rules=("norm",))
        assert np.allclose(sum(some.parts.values()), one(encoder, rules=("norm",)).values, atol=1e-10)

    def test_postprocessing(self) -> None:
        encoder = encoder_of("bert")
        texts = ["a", "the man", LEFT, RIGHT]
        encoder = encoder.with_postprocessing(fit_postprocessing("standardisation", encoder.encode(texts)))
        found = explain(encoder, LEFT, RIGHT, split=True)
        assert np.allclose(sum(found.left.parts.values()), found.left_shares, atol=1e-9)

    @pytest.mark.parametrize("method", ["hxp", "integrated-jacobian", "embedding"])
    def test_other_methods_are_refused(self, method: str) -> None:
        with pytest.raises(UsageError, match="only bilrp"):
            explain(encoder_of("bert"), LEFT, RIGHT, method, split=True)


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"rules": ("attention", "dropout")}, "unknown rule 'dropout'; choose from attention, norm, activation"),
            ({"bias": "none"}, "unknown bias 'none'; choose from separate, local, traced, shared"),
            ({"steps": 0}, "whole number of steps from 1 on"),
            ({"memory": 0}, "above 0"),
            ({"memory": float("nan")}, "above 0"),
            ({"split": True, "bias": "shared"}, "split does not go with bias='shared'"),
        ],
    )
    def test_refused(self, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(UsageError, match=words) as caught:
            explain(encoder_of("bert"), LEFT, RIGHT, **settings)
        assert "\n" not in str(caught.value)

    def test_names_of_rules(self) -> None:
        assert rule_names("all") == ("attention", "norm", "activation")
        assert rule_names("none") == ()
        assert rule_names("norm, activation") == ("norm", "activation")

    def test_complete_methods(self) -> None:
        assert is_complete("bilrp", Settings())
        assert is_complete("bilrp", Settings(rules=("norm", "activation", "attention")))
        assert not any(is_complete(name, Settings()) for name in METHODS if name != "bilrp")
        with pytest.raises(UsageError, match="unknown method 'lime'; choose from bilrp, hxp"):
            method_named("lime")
