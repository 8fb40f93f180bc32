"""ONNX Runtime gives torch's vectors, in any batch; a model that 8 bits distort is refused."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from conftest import randomise
from likewise.encoder import Encoder, onnx_backend
from likewise.encoder.onnx_backend import Int8Check, attach_backend, exported, int8_check, top_overlap
from likewise.encoder.pooling import ModulesConfig, PoolingConfig
from likewise.encoder.tokens import Tokenizer, Vocabulary
from likewise.encoder.weights import model_view
from likewise.errors import ModelError, UsageError
from likewise.sample import sample_sentences
from tiny_models import CONFIGS, model_class

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

# Of one token, of several, of one length twice, longer than any window, and cut.
TEXTS = [
    " ".join(f"w{(7 * row + place * place) % 60}" for place in range(length))
    for row, length in enumerate((1, 2, 3, 9, 9, 20, 38, 50))
]
FAST = {"bert"}
"""What is not marked slow: an export takes some seconds."""


def make_encoder(name: str) -> Encoder:
    """One of the tiny models, with a tokenizer of 60 words."""
    torch.manual_seed(0)
    config = CONFIGS[name]()
    model = model_class(config)(config)
    randomise(model)
    backend = Backend(models.WordLevel({f"w{number}": number for number in range(60)}, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    return Encoder(
        name, model.eval(), model_view=model_view(model), tokenizer=Tokenizer(Vocabulary.of(words), 38),
        modules_config=ModulesConfig(), pooling_config=PoolingConfig(),
    )  # fmt: skip


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def gap(left: np.ndarray, right: np.ndarray) -> float:
    assert left.shape == right.shape
    return float(np.abs(left - right).max())


# Families


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in CONFIGS]
)
def test_every_family_equals_torch(name: str, own_cache: Path) -> None:
    encoder = make_encoder(name)
    onnx = attach_backend(encoder, "onnx")
    expected = encoder.encode(TEXTS)
    assert gap(onnx.encode(TEXTS), expected) < 1e-5
    assert gap(np.stack([onnx.encode(text) for text in TEXTS]), expected) < 1e-5


def test_equal_weights_in_another_set_up_are_another_export(own_cache: Path) -> None:
    gelu, relu = make_encoder("bert"), make_encoder("bert-relu")
    assert gelu.hash == relu.hash
    assert exported_name(gelu) != exported_name(relu), "relu would run as gelu"


def test_another_dtype_is_another_export_or_refused(tiny: Encoder, tiny_folder: Path, own_cache: Path) -> None:
    double = Encoder.load(str(tiny_folder), device="cpu", dtype="float64")
    try:
        attach_backend(double, "onnx")
    except UsageError:
        return
    assert exported_name(tiny) != exported_name(double), "float32 would run as float64"


def exported_name(encoder: Encoder) -> Path:
    """Where an export would lie, without making it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_backend, "_export", lambda encoder, path: path.write_bytes(b""))
        path = exported(encoder, "onnx")
    path.unlink()
    return path


# The bundled model


@pytest.fixture(scope="session")
def minilm_onnx(minilm: Encoder) -> Encoder:
    return attach_backend(minilm, "onnx")


@pytest.fixture(scope="session")
def minilm_int8(minilm: Encoder, minilm_onnx: Encoder) -> Encoder:
    return attach_backend(minilm, "onnx-int8")


TEXTS_OF_ALL_LENGTHS = [*sample_sentences()[:16], "", "a", "😀", "the cat " * 30]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["minilm_onnx", "minilm_int8"])
def test_neighbours_and_order_do_not_matter(which: str, request: pytest.FixtureRequest) -> None:
    encoder: Encoder = request.getfixturevalue(which)
    alone = np.stack([encoder.encode(text) for text in TEXTS_OF_ALL_LENGTHS])
    for budget in (1, 64, 4096):
        order = list(range(len(alone)))
        random.Random(budget).shuffle(order)
        texts = [TEXTS_OF_ALL_LENGTHS[place] for place in order]
        assert gap(encoder.encode_with_stats(texts, budget=budget).vectors, alone[order]) < 1e-6


@pytest.mark.slow
def test_minilm_equals_torch(minilm: Encoder, minilm_onnx: Encoder) -> None:
    for pooling_config in ({}, {"pooling": "cls"}, {"special_tokens": False}, {"truncate_dim": 5, "normalize": True}):
        ours, theirs = (encoder.encode(TEXTS_OF_ALL_LENGTHS, **pooling_config) for encoder in (minilm_onnx, minilm))  # type: ignore[arg-type]
        assert gap(ours, theirs) < 1e-5
    assert minilm_onnx.encode([]).shape == (0, 384)


@pytest.mark.slow
def test_threads_do_not_matter(minilm_onnx: Encoder) -> None:
    one = minilm_onnx.encode(TEXTS_OF_ALL_LENGTHS)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert gap(minilm_onnx.encode(TEXTS_OF_ALL_LENGTHS), one) < 1e-6
    finally:
        torch.set_num_threads(before)


# Layers


@pytest.mark.slow
def test_layers_have_exports_of_their_own(tiny: Encoder) -> None:
    texts = sample_sentences()[:10]
    onnx = attach_backend(tiny, "onnx")
    assert gap(onnx.encode(texts, layer=[0, 1]), tiny.encode(texts, layer=[0, 1])) < 1e-5
    assert gap(onnx.encode(texts), tiny.encode(texts)) < 1e-5


# 8 bits


@pytest.fixture(scope="module")
def tiny_int8(tiny: Encoder) -> Encoder:
    """The tiny encoder in 8 bits, unchecked: exported and quantised once for this file."""
    exported(tiny, "onnx-int8")
    return replace(tiny, backend=onnx_backend.OnnxBackend("onnx-int8"))


def forget_check(encoder: Encoder) -> Path:
    cached = exported(encoder, "onnx-int8").with_name(f"check-{onnx_backend._pooling_key(encoder)}.json")
    cached.unlink(missing_ok=True)
    return cached


def test_a_model_that_8_bits_distort_is_refused_with_the_numbers(
    tiny: Encoder, tiny_int8: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_check(tiny_int8)
    check = int8_check(tiny_int8)
    monkeypatch.setattr(onnx_backend, "MIN_COSINE", 1.1)
    with pytest.raises(ModelError) as raised:
        attach_backend(tiny, "onnx-int8")
    message = str(raised.value)
    assert f"in 8 bits has mean cosine {check.mean_cosine:.3f} with float32" in message
    assert f"top-10 overlap {check.top10_overlap:.2f} (needed: 1.1 and 0.85); use --backend onnx" in message


def test_a_model_that_8_bits_keep_is_taken(tiny: Encoder, tiny_int8: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_backend, "MIN_COSINE", 0.5)
    monkeypatch.setattr(onnx_backend, "MIN_OVERLAP", 0.0)
    taken = attach_backend(tiny, "onnx-int8")
    texts = sample_sentences()[:20]
    assert taken.backend is not None and taken.backend.kind == "onnx-int8"
    assert 0 < gap(taken.encode(texts), tiny.encode(texts)) < 0.5


def test_the_check_is_cached(tiny_int8: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = forget_check(tiny_int8)
    first = int8_check(tiny_int8)
    assert json.loads(cached.read_text()) == vars(first)
    monkeypatch.setattr(onnx_backend, "sample_sentences", lambda: pytest.fail("the check was made again"))
    assert int8_check(tiny_int8) == first


@pytest.mark.parametrize("rubbish", ["", "[]", '{"mean_cosine": 1}'])
def test_a_damaged_cache_is_written_again(rubbish: str, tiny_int8: Encoder) -> None:
    cached = forget_check(tiny_int8)
    cached.write_text(rubbish)
    assert json.loads(cached.read_text() or "0") != vars(int8_check(tiny_int8))
    assert json.loads(cached.read_text()) == vars(int8_check(tiny_int8))


def test_another_pooling_is_another_check(tiny_int8: Encoder) -> None:
    keys = {
        onnx_backend._pooling_key(replace(tiny_int8, pooling_config=replace(tiny_int8.pooling_config, **change)))
        for change in ({}, {"truncate_dim": 2}, {"special_tokens": False}, {"pooling": "cls"})
    }
    assert len(keys) == 4


def test_a_damaged_export_is_told_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "int8.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"int8\.onnx is damaged .*remove it"):
        onnx_backend._open_session(tmp_path / "int8.onnx")


def test_the_check_compares_with_float32(tiny: Encoder, tiny_int8: Encoder) -> None:
    forget_check(tiny_int8)
    texts = sample_sentences()
    ours, theirs = tiny.encode(texts), tiny_int8.encode(texts)
    check = int8_check(tiny_int8)
    assert check.mean_cosine == pytest.approx(float((ours * theirs).sum(1).mean()), abs=1e-5)
    assert check.top10_overlap == pytest.approx(top_overlap(ours, theirs), abs=1e-5)


@pytest.mark.parametrize(("cosine", "overlap"), [(0.97, 0.99), (0.999, 0.8)])
def test_either_number_is_enough_to_refuse(cosine: float, overlap: float) -> None:
    with pytest.raises(ModelError, match=f"mean cosine {cosine:.3f} .* top-10 overlap {overlap:.2f}"):
        Int8Check(cosine, overlap).require("model")
    Int8Check(0.985, 0.86).require("model")


def test_overlap_on_known_sets() -> None:
    # Points on a quarter circle: the nearest of each are its neighbours in angle.
    def circle(angles: Any) -> np.ndarray:
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    pairs = np.array([0.0, 0.01, 0.5, 0.51, 1.0, 1.01])
    swapped = pairs[[0, 2, 1, 4, 3, 5]]
    assert top_overlap(circle(pairs), circle(pairs), top=1) == 1
    # Only the nearest of each is asked for, and each point's nearest is another one now.
    assert top_overlap(circle(pairs), circle(swapped), top=1) == 0
    assert top_overlap(circle(pairs), circle(swapped), top=5) == 1
    half = pairs[[0, 1, 2, 4, 3, 5]]
    assert top_overlap(circle(pairs), circle(half), top=1) == pytest.approx(2 / 6)


# What is refused, what comes and goes


def test_an_unknown_backend_names_the_known(tiny: Encoder, tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="unknown backend 'tensorrt'; choose from torch, onnx, onnx-int8"):
        attach_backend(tiny, "tensorrt")
    with pytest.raises(UsageError, match="unknown backend 'jax'"):
        Encoder.load(str(tiny_folder), backend="jax")


def test_torch_takes_the_backend_off(tiny: Encoder) -> None:
    attached = replace(tiny, backend=onnx_backend.OnnxBackend("onnx"))
    assert attach_backend(attached, "torch").backend is None


def test_another_device_is_refused(tiny: Encoder) -> None:
    elsewhere = make_encoder("bert")
    elsewhere.model.to("meta")
    with pytest.raises(UsageError, match="backend onnx runs on the cpu; add --device cpu"):
        attach_backend(elsewhere, "onnx")


def test_a_failed_export_leaves_nothing_behind(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(encoder: Encoder, path: Path) -> None:
        path.write_bytes(b"half a file")
        raise RuntimeError("no space left")

    monkeypatch.setattr(onnx_backend, "_export", fail)
    with pytest.raises(RuntimeError, match="no space left"):
        exported(make_encoder("bert"), "onnx")
    assert [path for path in own_cache.rglob("*") if path.is_file()] == []


def test_the_export_is_kept(tiny_int8: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_backend, "_export", lambda *_: pytest.fail("the export was made again"))
    assert exported(tiny_int8, "onnx").exists()
