"""Cross-encoders: the scores of sentence-transformers, labels, activations, limits and prompts; what is rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder as Theirs
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn

from conftest import save_tiny
from likewise.encoder import CrossEncoder, Encoder, load_scoring, pair_scores
from likewise.encoder.config import holds_cross_encoder
from likewise.encoder.cross_encoder import is_cross_encoder
from likewise.errors import DataError, ModelError, UsageError
from tiny_cross_encoders import FAMILIES, PAIRS, save_cross_encoder, tiny_classifier
from tiny_models import NoDowncast

EAGER: dict[str, Any] = {"attn_implementation": "eager"}


def theirs(folder: Path, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    return Theirs(str(folder), device="cpu", model_kwargs={"dtype": dtype, **EAGER}, **options)


def their_logits(model: Any, pairs: list[tuple[str, str]] = PAIRS) -> Any:
    with NoDowncast():
        found = model.predict(pairs, activation_fn=nn.Identity(), convert_to_tensor=True)
    return found.reshape(len(pairs), -1).numpy()


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    def save(name: str = "bert", seed: int = 0, labels: int = 1, types: bool = False, **settings: Any) -> Path:
        return save_cross_encoder(tmp_path / "model", tiny_classifier(name, seed, labels, **settings), types)

    return save


# For Qwen 2 transformers makes a tokenizer of its own kind from any file; its logits are compared by the slow twin.
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "qwen2"])
def test_logits_are_those_of_sentence_transformers(name: str, seed: int, saved: Callable[..., Path]) -> None:
    folder = saved(name, seed, labels=1 if seed else 3)
    model = theirs(folder)
    wanted = their_logits(model)
    assert wanted.std() > 1e-3
    found = CrossEncoder.load(folder, device="cpu", dtype="float64").logits(PAIRS)
    assert found.dtype == np.float64 and np.abs(found - wanted).max() < 1e-10
    assert np.abs(CrossEncoder.load(model).logits(PAIRS) - wanted).max() < 1e-10
    # Scores in single precision, with the model's own activation; rounding grows with their size.
    single, scores = (
        one.predict(PAIRS) for one in (CrossEncoder.load(folder, device="cpu"), theirs(folder, torch.float32))
    )
    assert np.abs(single - scores).max() < 1e-5 * max(1.0, np.abs(scores).max())


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_modernbert_pools_as_its_config_says(pooling: str, saved: Callable[..., Path]) -> None:
    folder = saved("modernbert", classifier_pooling=pooling, classifier_bias=True, norm_bias=True)
    found = CrossEncoder.load(folder, device="cpu", dtype="float64")
    assert np.abs(found.logits(PAIRS) - their_logits(theirs(folder))).max() < 1e-10


def test_types_of_tokens_count_where_the_tokenizer_names_them(saved: Callable[..., Path]) -> None:
    with_types = CrossEncoder.load(saved(types=True), device="cpu", dtype="float64")
    wanted = their_logits(theirs(saved(types=True)))
    assert np.abs(with_types.logits(PAIRS) - wanted).max() < 1e-10
    without = CrossEncoder.load(saved(types=False), device="cpu", dtype="float64")
    assert np.abs(without.logits(PAIRS) - wanted).max() > 1e-3


def test_weights_of_sentence_transformers_are_shared(saved: Callable[..., Path]) -> None:
    model = theirs(saved())
    ours = CrossEncoder.load(model)
    before = ours.logits(PAIRS)
    with torch.no_grad():
        model[0].model.classifier.weight.mul_(2)
        model[0].model.bert.embeddings.word_embeddings.weight.add_(0.1)
    assert np.abs(ours.logits(PAIRS) - before).max() > 1e-2
    assert np.abs(ours.logits(PAIRS) - their_logits(model)).max() < 1e-10


def test_long_pairs_are_cut_as_there(saved: Callable[..., Path], caplog: pytest.LogCaptureFixture) -> None:
    folder, pairs = saved("roberta", max_position_embeddings=66), [("a b c " * 40, "d e " * 3), ("x", "y z " * 90)]
    assert CrossEncoder.load(folder, device="cpu").tokenizer.limit == 64
    found = CrossEncoder.load(folder, device="cpu", dtype="float64").logits(pairs)
    assert np.abs(found - their_logits(theirs(folder), pairs)).max() < 1e-10
    assert "2 of 2 texts" in caplog.text


def test_prompts_limits_and_activations_of_a_saved_cross_encoder(saved: Callable[..., Path], tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "find it "}, "default_prompt_name": "query"}
    model = theirs(saved(), activation_fn=nn.Tanh(), max_length=12, **prompts)
    model.save(str(tmp_path / "again"))
    ours = CrossEncoder.load(tmp_path / "again", device="cpu", dtype="float64")
    assert ours.activation == "Tanh" and ours.tokenizer.limit == 12
    (alone,), (pair,) = ours.tokenizer.tokenize(["find it"]), ours.tokenize(PAIRS[:1])
    assert pair.prompt.count(True) == len(alone) - 2
    assert np.abs(ours.predict(PAIRS) - model.predict(PAIRS, convert_to_tensor=True).numpy()).max() < 1e-10
    assert np.abs(ours.predict(PAIRS, prompt="") - ours.predict(PAIRS)).max() > 1e-3
    assert np.abs(CrossEncoder.load(model).predict(PAIRS) - ours.predict(PAIRS)).max() < 1e-10


@pytest.mark.parametrize(
    ("settings", "labels", "wanted"),
    [
        ({}, 1, "Sigmoid"),
        ({}, 3, "Identity"),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, 1, "Identity"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}, 1, "Tanh"),
        ({"sentence_transformers": {"activation_fn": "mine.Own"}}, 1, "Sigmoid"),
    ],
)
def test_activation_of_older_folders(
    settings: dict[str, Any], labels: int, wanted: str, saved: Callable[..., Path]
) -> None:
    folder = saved(labels=labels)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    ours = CrossEncoder.load(folder, device="cpu")
    assert ours.activation == wanted == type(theirs(folder).activation_fn).__name__


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_modules_of_version_six(pooling: str, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path / "base")
    width = Encoder.load(folder, device="cpu").model_view.hidden_size
    torch.manual_seed(1)
    parts = [Transformer(str(folder)), Pooling(width, pooling_mode=pooling), Dense(width, 6),
             Dense(6, 1, activation_function=nn.Identity(), module_output_name="scores")]  # fmt: skip
    model = Theirs(modules=parts, device="cpu")
    model.save(str(tmp_path / "saved"))
    ours = CrossEncoder.load(tmp_path / "saved", device="cpu")
    assert holds_cross_encoder(tmp_path / "saved") and ours.labels == ("LABEL_0",)
    assert np.abs(ours.predict(PAIRS) - model.predict(PAIRS)).max() < 1e-6
    assert np.abs(CrossEncoder.load(model).predict(PAIRS) - model.predict(PAIRS)).max() < 1e-6
    # As an encoder it has the vectors before the scores.
    assert Encoder.load(tmp_path / "saved", device="cpu").dimension == 6


class TestLabels:
    def test_names_come_from_the_config(self, saved: Callable[..., Path]) -> None:
        names = {0: "contradiction", 1: "entailment", 2: "neutral"}
        folder = saved(labels=3, id2label=names, label2id={name: number for number, name in names.items()})
        model = CrossEncoder.load(folder, device="cpu", label="entailment")
        assert model.labels == tuple(names.values()) and "labels contradiction" in repr(model)
        assert (model.score(PAIRS) == model.predict(PAIRS)[:, 1]).all()
        assert (model.with_label("neutral").score(PAIRS) == model.predict(PAIRS)[:, 2]).all()
        with pytest.raises(UsageError, match="has no label 'maybe'; choose from contradiction, entailment, neutral"):
            model.with_label("maybe")
        with pytest.raises(UsageError, match="labels contradiction, entailment, neutral; choose one"):
            model.with_label(None).score(PAIRS)

    def test_one_label_needs_no_choice(self, saved: Callable[..., Path]) -> None:
        model = CrossEncoder.load(saved(), device="cpu")
        assert model.score(PAIRS).shape == (4,) and repr(model).startswith("<CrossEncoder ")


def test_ranks_are_by_score(saved: Callable[..., Path]) -> None:
    model, texts = CrossEncoder.load(saved(), device="cpu"), ["the cat", "a dog ran", "", "fire and rain"]
    ranked = model.rank("a cat", texts)
    scores = model.score([("a cat", text) for text in texts])
    assert [row for row, _ in ranked] == sorted(range(4), key=lambda row: -scores[row])
    assert [score for _, score in ranked] == sorted(scores.tolist(), reverse=True)


def test_score_does_not_depend_on_neighbours_or_order(saved: Callable[..., Path]) -> None:
    model = CrossEncoder.load(saved(), device="cpu", dtype="float64")
    alone = np.concatenate([model.score([pair]) for pair in PAIRS])
    assert np.abs(model.score(PAIRS[::-1])[::-1] - alone).max() < 1e-12
    assert model.score([]).shape == (0,)


class TestScoring:
    def test_folders_are_told_apart(self, saved: Callable[..., Path], tmp_path: Path, tiny_folder: Path) -> None:
        cross, plain = saved(), save_tiny(tmp_path / "plain")
        assert is_cross_encoder(cross) and not is_cross_encoder(plain) and not is_cross_encoder(tiny_folder)
        assert isinstance(load_scoring(cross, device="cpu"), CrossEncoder)
        encoder = load_scoring(plain, device="cpu")
        assert isinstance(encoder, Encoder) and load_scoring(encoder) is encoder
        with pytest.raises(UsageError, match="has no labels"):
            load_scoring(plain, label="entailment")

    def test_scores_of_either_kind(self, saved: Callable[..., Path], tiny: Encoder) -> None:
        cosines = pair_scores(tiny, PAIRS)
        assert np.abs(cosines - [tiny.similarity(left, right)[0, 0] for left, right in PAIRS]).max() < 1e-6
        model = CrossEncoder.load(saved(), device="cpu")
        assert (pair_scores(model, PAIRS) == model.score(PAIRS)).all()


class TestRejected:
    def test_a_folder_without_a_head(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"classifier\.weight is missing; give the folder of a cross-encoder"):
            CrossEncoder.load(save_tiny(tmp_path / "plain"), device="cpu")

    def test_a_family_without_a_known_head(self, saved: Callable[..., Path]) -> None:
        folder = saved()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"model_type": "t5"}))
        with pytest.raises(ModelError, match="of the family 't5' are not supported"):
            CrossEncoder.load(folder, device="cpu")

    def test_code_in_the_folder(self, saved: Callable[..., Path]) -> None:
        folder = saved()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoModel": "mine.Model"}}))
        with pytest.raises(ModelError, match="has its own code"):
            CrossEncoder.load(folder, device="cpu")

    def test_an_unknown_activation(self, saved: Callable[..., Path]) -> None:
        folder = saved(sbert_ce_default_activation_function="torch.nn.modules.activation.Softmax")
        with pytest.raises(ModelError, match="scores by Softmax are not supported; supported are Identity"):
            CrossEncoder.load(folder, device="cpu")

    def test_a_backend_without_a_file(self, saved: Callable[..., Path]) -> None:
        pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed (extra: onnx)")
        with pytest.raises(ModelError, match=r"has no model\.onnx; use the backend torch"):
            CrossEncoder.load(saved(), backend="onnx")
        with pytest.raises(UsageError, match="torch or onnx, not 'onnx-int8'"):
            CrossEncoder.load(saved(), backend="onnx-int8")

    def test_an_encoder_made_of_it(self, saved: Callable[..., Path]) -> None:
        model = theirs(saved())
        for one in (model, CrossEncoder.load(model)):
            with pytest.raises(UsageError, match="a CrossEncoder has no vectors of texts; use it as a likewise"):
                Encoder.load(one)

    def test_a_language_model_as_reranker(self, saved: Callable[..., Path]) -> None:
        folder = saved()
        kinds = [{"idx": 0, "path": "", "type": "x.Transformer"}, {"idx": 1, "path": "1", "type": "x.LogitScore"}]
        (folder / "modules.json").write_text(json.dumps(kinds))
        with pytest.raises(ModelError, match="module LogitScore is not supported; supported are Transformer"):
            CrossEncoder.load(folder, device="cpu")

    def test_what_is_no_pair(self, saved: Callable[..., Path]) -> None:
        with pytest.raises(DataError, match="a pair is two texts, got 3"):
            CrossEncoder.load(saved(), device="cpu").score([("a", "b", "c")])
