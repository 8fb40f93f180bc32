"""Static models: sentence-transformers' vectors, exact ledgers, saved folders, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from likewise import Encoder
from likewise.data import Dataset
from likewise.encoder.inspection import inspect
from likewise.encoder.learned_pooling import new_learned_pooling
from likewise.encoder.saving import save_encoder
from likewise.encoder.tokens import Tokenizer
from likewise.encoder.weights import available
from likewise.errors import ModelError, UsageError
from likewise.explain import explain
from likewise.explain.settings import Settings
from likewise.explain.texts import TextInput, TextMap, token_groups
from static_models import WIDTH, backend, save_model2vec, save_static, static_model

pytest_plugins = ("command_line",)

TEXTS = [
    "A man is playing a flute.",
    "a",
    "",
    " \n",
    "Ünknown 日本 wörds, and 😀!",
    "[CLS] a [UNK] [PAD] dog [SEP]",
    "the cat sat on the mat while the dog ran over the hill and the bird sang in the tree",
]
MODULES = [(), ("Normalize",), ("Dense",), ("Dense", "Normalize")]


def load(folder: Path, **options: Any) -> Encoder:
    return Encoder.load(folder, device="cpu", **options)


def gap(ours: Any, theirs: Any) -> float:
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_static(tmp_path_factory.mktemp("models") / "static", "Normalize")


@pytest.fixture(scope="module")
def potion(shared_models: Path) -> Path:
    """A real static model."""
    found = shared_models / "potion-base-8M"
    if not found.is_dir():
        pytest.skip("potion-base-8M is not beside the repository (../shared/models/potion-base-8M)")
    return found


# The same vectors as sentence-transformers


@pytest.mark.parametrize("names", MODULES, ids="-".join)
def test_vectors_of_a_folder_and_in_memory(names: tuple[str, ...], tmp_path: Path) -> None:
    theirs = SentenceTransformer(str(save_static(tmp_path / "static", *names)), device="cpu")
    for ours in (load(tmp_path / "static"), Encoder(theirs)):
        assert gap(ours.encode(TEXTS), theirs.encode(TEXTS)) < 1e-6


def test_a_text_without_tokens_is_the_zero_vector(folder: Path) -> None:
    assert not load(folder).encode(["", " \n"]).any()


def test_classic_layout(tmp_path: Path) -> None:
    save_static(tmp_path / "new")
    inner = tmp_path / "old" / "0_StaticEmbedding"
    inner.mkdir(parents=True)
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "new" / name).rename(inner / name)
    listed = [{"idx": 0, "name": "0", "path": inner.name, "type": "sentence_transformers.models.StaticEmbedding"}]
    (tmp_path / "old" / "modules.json").write_text(json.dumps(listed))
    theirs = SentenceTransformer(str(tmp_path / "old"), device="cpu")
    assert gap(load(tmp_path / "old").encode(TEXTS), theirs.encode(TEXTS)) < 1e-6


def test_prompts_and_truncated_dimensions(tmp_path: Path) -> None:
    options = {"prompts": {"ask": "the dog "}, "default_prompt_name": "ask", "truncate_dim": 7}
    theirs = SentenceTransformer(str(save_static(tmp_path / "static", **options)), device="cpu")
    assert gap(load(tmp_path / "static").encode(TEXTS), theirs.encode(TEXTS)) < 1e-6


def test_a_limit_of_the_tokenizer_counts(tmp_path: Path) -> None:
    cut = backend()
    cut.enable_truncation(3, direction="left")
    rows = torch.randn(cut.get_vocab_size(), WIDTH)
    theirs = SentenceTransformer(modules=[StaticEmbedding(cut, embedding_weights=rows)], device="cpu")
    theirs.save(str(tmp_path / "static"), create_model_card=False)
    for ours in (load(tmp_path / "static"), Encoder(theirs)):
        assert gap(ours.encode(TEXTS), theirs.encode(TEXTS)) < 1e-6
        assert ours.tokenizer.limit == 3


def model2vec_tensors(kind: str) -> dict[str, torch.Tensor]:
    size = backend().get_vocab_size()
    torch.manual_seed(3)
    rows = torch.randn(9, WIDTH).to(torch.float16 if "half" in kind else torch.float32)
    mapping, weights = torch.randint(9, (size,)), torch.rand(size)
    if "int8" in kind:
        return {"embeddings": (rows * 40).to(torch.int8), "mapping": mapping, "weights": weights}
    found = {"embeddings": rows, "mapping": mapping} if "mapping" in kind else {"embeddings": rows[mapping]}
    return found | ({"weights": weights} if "weights" in kind else {})


@pytest.mark.parametrize("kind", ["plain", "weights", "mapping", "mapping weights", "half mapping weights", "int8"])
def test_tensors_of_model2vec(kind: str, tmp_path: Path) -> None:
    made = save_model2vec(tmp_path / "static", model2vec_tensors(kind))
    theirs = SentenceTransformer(str(made), device="cpu")
    assert gap(load(made).encode(TEXTS), theirs.encode(TEXTS)) < 1e-5 * (1 + np.abs(theirs.encode(TEXTS)).max())


def test_weights_in_memory_are_shared() -> None:
    theirs = static_model()
    ours = Encoder(theirs)
    with torch.no_grad():
        theirs[0].embedding.weight.mul_(2)
    assert gap(ours.encode(TEXTS), theirs.encode(TEXTS)) < 1e-6


def test_real_vectors(potion: Path, shared_data: Path) -> None:
    """sentence-transformers sums a text's tokens one after the other, which rounds more the longer the text is."""
    pairs = Dataset("stsb/test", data_dir=shared_data).pairs()
    texts = [*dict.fromkeys(text for pair in pairs for text in (pair.left, pair.right))][:193]
    texts += ["", "҈ 日本 😀", "[CLS] a [UNK]", "x" * 500, " ".join(texts[:40])]
    long = [" ".join(texts * 10), "word " * 50_000]
    theirs, ours = SentenceTransformer(str(potion), device="cpu"), load(potion)
    assert len(texts + long) == 200
    assert gap(ours.encode(texts), theirs.encode(texts)) < 1e-6
    exact = theirs.double().encode(texts + long)
    assert gap(ours.encode(texts + long), exact) < 1e-6


# What follows


@pytest.mark.parametrize("names", MODULES, ids="-".join)
@pytest.mark.parametrize("bias", ["separate", "local", "traced", "shared"])
def test_ledgers_are_complete(bias: str, names: tuple[str, ...]) -> None:
    encoder = Encoder(static_model(*names).double())
    for reference in ("none", "filler"):
        found = explain(encoder, TEXTS[0], TEXTS[4], bias=bias, reference=reference)
        assert abs(found.gap) < 1e-12


@pytest.mark.parametrize("bias", ["separate", "local", "traced"])
def test_columns_are_rows(bias: str) -> None:
    encoder, settings = Encoder(static_model("Dense", "Normalize").double()), Settings(bias=bias)
    recorded = TextMap.of(encoder, token_groups(encoder, TextInput(TEXTS[6]), settings), settings)
    directions = np.random.default_rng(0).standard_normal((3, encoder.dimension))
    rows, columns = recorded.contributions(), recorded.shares(directions)
    assert np.abs(rows.values @ directions.T - columns.values.T).max() < 1e-12
    assert np.abs(rows.bias @ directions.T - columns.bias).max() < 1e-12


def test_contributions_are_the_vectors_of_tokens() -> None:
    model = static_model()
    found = explain(Encoder(model), "a cat", "the dog ran", reference="none", similarity="dot")
    table = model[0].embedding.weight.detach().numpy()
    left, right = (table[backend().encode(text, add_special_tokens=False).ids] for text in ("a cat", "the dog ran"))
    assert np.abs(found.relevance - left @ right.T / (len(left) * len(right))).max() < 1e-6


def test_real_ledgers_are_complete(potion: Path, shared_data: Path) -> None:
    encoder = load(potion)
    for pair in Dataset("stsb/test", data_dir=shared_data, limit=20).pairs():
        found = explain(encoder, pair.left, pair.right)
        assert abs(found.gap) < 1e-6
        assert abs(found.similarity - encoder.similarity(pair.left, pair.right)[0, 0]) < 1e-6


def test_one_layer(folder: Path) -> None:
    encoder = load(folder)
    (found,) = encoder.states(["a cat"], attention=False)
    assert found.hidden.shape == (1, len(encoder.tokenize(["a cat"])[0]), WIDTH)
    shown = inspect(encoder, ["a cat", "the dog ran"])
    assert (shown.model.layers, shown.model.heads) == (0, 0) and "attentions" not in shown.outputs


# Saving


@pytest.mark.parametrize("names", MODULES, ids="-".join)
def test_saved_vectors_are_the_same_everywhere(names: tuple[str, ...], tmp_path: Path) -> None:
    encoder = Encoder(static_model(*names))
    saved = save_encoder(encoder, tmp_path / "saved")
    assert np.array_equal(load(saved).encode(TEXTS), encoder.encode(TEXTS))
    assert gap(encoder.encode(TEXTS), SentenceTransformer(str(saved), device="cpu").encode(TEXTS)) < 1e-6


def test_saved_limit(tmp_path: Path) -> None:
    encoder = Encoder(static_model())
    encoder = replace(encoder, tokenizer=Tokenizer(encoder.tokenizer.vocabulary, 2))
    saved = save_encoder(encoder, tmp_path / "saved")
    for found in (load(saved), SentenceTransformer(str(saved), device="cpu")):
        assert gap(found.encode(TEXTS), encoder.encode(TEXTS)) < 1e-6


def test_saved_over_another_model(tiny: Encoder, tmp_path: Path) -> None:
    encoder = Encoder(static_model())
    for one in (tiny, encoder, tiny):
        saved = save_encoder(one, tmp_path / "saved")
        for found in (load(saved), SentenceTransformer(str(saved), device="cpu")):
            assert gap(found.encode(TEXTS), one.encode(TEXTS)) < 1e-6


def test_saved_learned_pooling(tmp_path: Path) -> None:
    encoder = Encoder(static_model()).with_learned_pooling(new_learned_pooling("qkv", WIDTH))
    saved = load(save_encoder(encoder, tmp_path / "saved"))
    assert np.array_equal(saved.encode(TEXTS), encoder.encode(TEXTS))


def test_another_pooling_is_not_saved(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a saved static model pools by mean, not max; save it with pooling='mean'"):
        save_encoder(load(folder, pooling="max"), tmp_path / "saved")


# What is refused


def test_attention_is_refused_in_one_line(folder: Path, run: Any, tmp_path: Path) -> None:
    message = "likewise: this model has no attention layers; choose a transformer, such as minilm\n"
    answer = run("explain-attention", "a cat sat", 0, 1, "--layer", 1, "--head", 1, "-m", folder)
    assert (answer.code, answer.err) == (2, message)
    answer = run("attention", "sample/pairs", "--limit", 50, "--out", tmp_path / "study", "-m", folder)
    assert answer.code == 2 and answer.err.endswith(message)
    with pytest.raises(UsageError, match="no attention layers"):
        load(folder).states(["a cat"])


def test_backends_are_refused(folder: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra: onnx)")
    with pytest.raises(UsageError, match=r"backend onnx runs layers, and .* has none; use --backend torch"):
        load(folder, backend="onnx")


def broken(name: str, folder: Path) -> Path:
    """A folder that cannot be loaded."""
    size = backend().get_vocab_size()
    tensors = {
        "quantized": {"embedding.weight": torch.ones(size, 4, dtype=torch.int8)},
        "strange": {"vectors": torch.ones(size, 4)},
        "flat": {"embedding.weight": torch.ones(size)},
        "short": {"embedding.weight": torch.ones(size - 1, 4)},
        "mapping": {"embeddings": torch.ones(3, 4), "mapping": torch.full((size,), 3)},
        "weights": {"embeddings": torch.ones(size, 4), "weights": torch.ones(3)},
    }
    made = save_model2vec(folder, tensors.get(name, {"embedding.weight": torch.ones(size, 4)}))
    if name == "no tokenizer":
        (made / "tokenizer.json").unlink()
    elif name == "bad tokenizer":
        (made / "tokenizer.json").write_text("{}")
    elif name == "no weights":
        (made / "model.safetensors").unlink()
    elif name == "damaged":
        (made / "model.safetensors").write_bytes(b"weights")
    elif name == "pooling":
        listed = json.loads((made / "modules.json").read_text())
        listed.append({"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})
        (made / "modules.json").write_text(json.dumps(listed))
    return made


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quantized", "its vectors are quantized to int8; use plain weights"),
        ("strange", r"model\.safetensors has no matrix embedding\.weight; save the model again"),
        ("flat", r"model\.safetensors has no matrix embedding\.weight"),
        ("short", r"the tokenizer has ids up to \d+, the weights only \d+ rows; save the model again"),
        ("mapping", r"mapping and weights do not fit the embeddings \(.*\); save the model again"),
        ("weights", "mapping and weights do not fit the embeddings"),
        ("no tokenizer", r"has no tokenizer; add its tokenizer\.json"),
        ("bad tokenizer", r"no tokenizer can be read \(.*\); add its tokenizer\.json"),
        ("no weights", r"has no model\.safetensors; give the folder of a saved model"),
        ("damaged", "its weights cannot be loaded"),
        ("pooling", "module Pooling is not supported; supported are StaticEmbedding, Dense, Normalize"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_line(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message) as raised:
        load(broken(name, tmp_path / "static"))
    assert "\n" not in str(raised.value)


def test_a_cached_model_is_listed_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A static model of the hub has no config.json, and its weights may be in a subfolder."""
    snapshot = tmp_path / "models--somebody--static" / "snapshots" / "1234"
    (snapshot / "0_StaticEmbedding").mkdir(parents=True)
    save_static(tmp_path / "made")
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "made" / name).rename(snapshot / "0_StaticEmbedding" / name)
    kind = "sentence_transformers.models.StaticEmbedding"
    (snapshot / "modules.json").write_text(json.dumps([{"idx": 0, "path": "0_StaticEmbedding", "type": kind}]))
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("1234")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert "somebody/static" in available()
    assert Encoder.load("somebody/static", device="cpu").dimension == WIDTH
