"""Explanations of cross-encoders against slow twins, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from likewise.encoder import CrossEncoder, Encoder
from likewise.errors import ModelError, UsageError
from likewise.explain import CrossExplanation, explain, explain_cross_encoder
from likewise.explain.comparisons import compare_scorers
from likewise.explain.cross_encoder import explain_cross_encoder_many
from likewise.explain.settings import RULES
from plain_models import embeddings_of, held_gelu, held_norm, hugging_face
from tiny_cross_encoders import FAMILIES, PAIRS, save_cross_encoder, tiny_classifier

LEFT, RIGHT = "It rains , and the cat sleeps", "the cat sat on a volcano"
APART: dict[str, Any] = {"bias": "separate", "reference": "none"}


def held_tanh(z: Tensor) -> Tensor:
    return z * (torch.tanh(z) / z).detach()


def held_relu(z: Tensor) -> Tensor:
    return z * (z > 0)


def plain_head(model: Any) -> Callable[[Tensor], Tensor]:
    """States (T, D) -> logits (L,), by the equations of each head with its gates and scales held."""
    family = model.config.model_type
    if family == "bert":
        return lambda h: model.classifier(held_tanh(model.bert.pooler.dense(h[0])))
    if family == "albert":
        return lambda h: model.classifier(held_tanh(model.albert.pooler(h[0])))
    if family == "distilbert":
        return lambda h: model.classifier(held_relu(model.pre_classifier(h[0])))
    if family == "modernbert":
        return lambda h: model.classifier(held_norm(model.head.norm, held_gelu(model.head.dense(h[0]))))
    if family in ("gte", "nomic_bert"):
        return lambda h: model.classifier(held_tanh(model.base_model.pooler.dense(h[0])))
    if family == "deberta-v2":
        return lambda h: model.classifier(held_gelu(model.pooler.dense(h[0])))
    if family == "eurobert":
        return lambda h: model.classifier(held_gelu(model.dense(h.mean(0))))
    if hasattr(model, "score"):
        return lambda h: model.score(h[-1])
    gate = held_gelu if family == "electra" else held_tanh
    return lambda h: model.classifier.out_proj(gate(model.classifier.dense(h[0])))


def plain_shares(model: Any, ids: list[int], silent: list[int] | None, label: int) -> tuple[np.ndarray, float]:
    """The shares (T,) of tokens, <dlogit/dx_t, x_t - r_t>, by autograd through Hugging Face's model; the logit."""
    base, tokens = getattr(model, model.base_model_prefix), torch.tensor(ids)
    x = embeddings_of(base, tokens).requires_grad_()
    logit = plain_head(model)(hugging_face(base, tokens, RULES)(x))[label]
    (gradient,) = torch.autograd.grad(logit, x)
    reference = torch.zeros_like(x) if silent is None else embeddings_of(base, torch.tensor(silent))
    return (gradient * (x - reference)).sum(-1).detach().numpy(), float(logit.detach())


def by_token(found: CrossExplanation) -> np.ndarray:
    """The shares in the order of the sequence."""
    units = [*found.left.units, *found.right.units, *found.special.units]
    shares = np.concatenate([found.left_shares, found.right_shares, found.special_shares])
    return shares[np.argsort([unit.tokens[0] for unit in units])]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Any, CrossEncoder]]:
    """A tiny model of transformers and ours of the same weights, in float64."""
    known: dict[tuple[object, ...], tuple[Any, CrossEncoder]] = {}

    def made(name: str = "bert", seed: int = 0, labels: int = 1) -> tuple[Any, CrossEncoder]:
        key = (name, seed, labels)
        if key not in known:
            model = tiny_classifier(name, seed, labels)
            folder = save_cross_encoder(tmp_path_factory.mktemp("models") / name, model)
            known[key] = model, CrossEncoder.load(folder, device="cpu", dtype="float64")
        return known[key]

    return made


Models = Callable[..., tuple[Any, CrossEncoder]]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_shares_are_those_of_the_slow_twin(name: str, seed: int, models: Models) -> None:
    model, ours = models(name, seed, labels=3 if seed == 2 else 1)
    label = ours.labels[-1]
    (tokens,) = ours.tokenize([(LEFT, RIGHT)])
    pad = ours.tokenizer.role_id("pad")
    silent = [token if special else pad for token, special in zip(tokens.ids, tokens.special, strict=True)]
    for reference, ids in (("none", None), ("filler", silent)):
        shares, logit = plain_shares(model, list(tokens.ids), ids, len(ours.labels) - 1)
        found = explain_cross_encoder(ours, LEFT, RIGHT, label=label, bias="separate", reference=reference)
        assert found.logit == pytest.approx(logit, abs=1e-9)
        assert np.abs(by_token(found) - shares).max() < 1e-9
        # The bias is collected, not a remainder: the gap is a real check.
        assert found.bias == pytest.approx(logit - shares.sum(), abs=1e-9) and abs(found.gap) < 1e-9


@pytest.mark.parametrize("bias", ["separate", "local", "traced", "shared"])
@pytest.mark.parametrize("name", ["bert", "modernbert", "albert", "qwen3"])
def test_every_ledger_sums_to_its_logit(name: str, bias: str, models: Models) -> None:
    _, ours = models(name, 1)
    logits = ours.logits(PAIRS)[:, 0]
    for reference in ("none", "filler"):
        found = explain_cross_encoder_many(ours, PAIRS, bias=bias, reference=reference)
        for one, logit in zip(found, logits, strict=True):
            assert one.logit == pytest.approx(logit, abs=1e-10) and abs(one.gap) < 1e-9
            assert one.score == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-10)
            # Qwen3 has no biases.
            assert (one.bias == 0) == (reference == "none" and (bias != "separate" or name == "qwen3"))


def test_single_precision(tmp_path: Path) -> None:
    folder = save_cross_encoder(tmp_path / "model", tiny_classifier("roberta"))
    found = explain_cross_encoder_many(CrossEncoder.load(folder, device="cpu"), PAIRS)
    assert max(abs(one.gap) for one in found) < 1e-5


def test_words_sum_their_tokens(models: Models) -> None:
    _, ours = models()
    tokens, words = (explain_cross_encoder(ours, LEFT, RIGHT, by) for by in ("token", "word"))
    assert words.left.labels == ["It", "rains", ",", "and", "the", "cat", "sleeps"]
    assert len(words) < len(tokens)
    shares = dict(zip([unit.tokens[0] for unit in tokens.left.units], tokens.left_shares, strict=True))
    wanted = [sum(shares[token] for token in unit.tokens) for unit in words.left.units]
    assert np.abs(words.left_shares - wanted).max() < 1e-12
    folded = explain_cross_encoder(ours, LEFT, RIGHT, fold_special=True, **APART)
    alone = explain_cross_encoder(ours, LEFT, RIGHT, **APART)
    assert folded.special.labels == ["[CLS] [SEP]"] and alone.special.labels == ["[CLS]", "[SEP]", "[SEP]"]
    assert folded.special_shares[0] == pytest.approx(alone.special_shares.sum())


def test_parts_sum_to_shares(models: Models) -> None:
    _, ours = models()
    found = explain_cross_encoder(ours, LEFT, RIGHT, split=True, **APART)
    assert list(found.left.parts) == ["word", "type", "position", "bias"]
    for text, shares in ((found.left, found.left_shares), (found.right, found.right_shares)):
        assert np.abs(sum(text.parts.values()) - shares).max() < 1e-12
    assert abs(found.gap) < 1e-9 and "left_parts" in found.tables()


def test_prompt_is_a_part_of_the_left_text(models: Models) -> None:
    _, ours = models()
    found = explain_cross_encoder(ours, "the cat", "a dog", "word", prompt="find: ")
    assert [unit.kind for unit in found.left.units] == ["prompt", "text", "text"]
    assert found.left.units[1].text == "the" and found.logit != ours.logits([("the cat", "a dog")])[0, 0]


def test_labels_have_their_own_shares(models: Models) -> None:
    _, ours = models("roberta", 2, 3)
    found = [explain_cross_encoder(ours, LEFT, RIGHT, label=label) for label in ours.labels]
    assert [one.label for one in found] == list(ours.labels)
    assert np.abs([one.logit for one in found] - ours.logits([(LEFT, RIGHT)])[0]).max() < 1e-12
    assert np.abs(found[0].left_shares - found[1].left_shares).max() > 1e-3
    with pytest.raises(UsageError, match="choose one by label"):
        explain_cross_encoder(ours, LEFT, RIGHT)


def test_a_damaged_ledger_is_refused(models: Models) -> None:
    _, ours = models()
    found = explain_cross_encoder(ours, LEFT, RIGHT)
    values = vars(found) | {"left_shares": found.left_shares + 0.1}
    with pytest.raises(ModelError, match="misses the score"):
        CrossExplanation(**values)


class TestRejected:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"reference": "a text"}, "reference is filler or none"),
            ({"rules": ("norm",)}, "with all rules"),
            ({"granularity": "letter"}, "cannot explain by 'letter'"),
            ({"granularity": ([(0, 2)], [])}, "leave spans out"),
            ({"label": "LABEL_9"}, "has no label 'LABEL_9'"),
        ],
    )
    def test_one_line(self, options: dict[str, Any], words: str, models: Models) -> None:
        with pytest.raises(UsageError, match=words) as caught:
            explain_cross_encoder(models()[1], LEFT, RIGHT, **options)
        assert "\n" not in str(caught.value)


class TestShown:
    def test_as_json_terminal_page_and_folder(self, models: Models, tmp_path: Path) -> None:
        found = explain_cross_encoder(models()[1], "<b>the cat</b>", RIGHT, "word")
        document = json.loads(json.dumps(found.to_dict()))
        total = sum(sum(shares) for shares in document["shares"].values()) + document["bias"]
        assert document["logit"] == pytest.approx(total) and document["measure"] == "logit"
        lines = [line.plain for line in found.lines(80)]
        assert lines[0].startswith("score 0.") and "volcano" in lines[2] and "[CLS]" in lines[3]
        page = found.to_html()
        assert "<b>the" not in page and "volcano" in page and "<mark" in page
        written = {path.name for path in found.save(tmp_path / "out").iterdir()}
        assert {"ledger.csv", "shares.csv", "shares.png", "run.json", "index.html"} <= written

    def test_ledger_table_sums(self, models: Models) -> None:
        found = explain_cross_encoder(models()[1], LEFT, RIGHT)
        rows = dict(found.tables()["ledger"].rows)  # type: ignore[arg-type]
        terms = sum(rows[name] for name in ("left text", "right text", "special tokens", "reference", "gap"))
        assert rows["logit"] == pytest.approx(terms, abs=1e-12)


def test_side_by_side_with_an_encoder(models: Models, tiny: Encoder) -> None:
    _, ours = models()
    found = compare_scorers(ours, tiny, LEFT, RIGHT)
    cross, other = explain_cross_encoder(ours, LEFT, RIGHT, "word"), explain(tiny, LEFT, RIGHT, granularity="word")
    left = [row for row in found.rows if row[0] == "left"]
    assert [row[1] for row in left] == cross.left.labels
    assert np.allclose([row[2] for row in left], cross.left_shares)
    own = [share for unit, share in zip(other.left.units, other.left_shares, strict=True) if unit.kind == "text"]
    assert np.allclose([row[3] for row in left], own)
    parts = np.array([row[4:] for row in found.tables()["words"].rows], dtype=float)
    assert np.abs(parts).sum(0) == pytest.approx([1.0, 1.0])
    assert len(found.notes) == 2 and found.to_dict()["first"]["logit"] == cross.logit
