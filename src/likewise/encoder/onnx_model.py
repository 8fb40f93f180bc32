"""A ready-made ONNX file of a cross-encoder: run as it is, or its weights as floating-point numbers.

An exporter gives the matrices of products anonymous names. The bias that is added to a product names its layer, so the
graph says which matrix is which. Weights of 8 bits become (number - zero point) x scale.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.encoder.config import CLASSIFIER, CONFIG, ONNX_FILE
from likewise.encoder.tokens import TokenizedText
from likewise.encoder.weights import PICKLE, WEIGHTS, convert, write_tensors
from likewise.errors import MissingExtra, ModelError, first_line
from likewise.storage import atomic_write, file_hash

Array = NDArray[Any]
MOST_TOKENS = 512  # The limit of a folder whose tokenizer names none
QUANTIZED, SCALE, ZERO = "_quantized", "_scale", "_zero_point"
BETWEEN = ("Cast", "Mul")  # Steps from an 8-bit product to the sum with its bias


def onnx_file(folder: Path) -> Path:
    """The ONNX file of a folder."""
    found = [path for path in (folder / ONNX_FILE, folder / "onnx" / ONNX_FILE) if path.exists()]
    if not found:
        raise ModelError(f"{folder} has no {ONNX_FILE}; use the backend torch, or add the file")
    return found[0]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A model that ONNX Runtime runs: token ids, types and mask in, logits out."""

    path: Path
    session: Any
    max_positions: int = MOST_TOKENS

    @classmethod
    def open(cls, folder: Path) -> OnnxModel:
        """Open the file of a folder."""
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtra("onnxruntime", "onnx") from error
        path, options = onnx_file(folder), onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime's errors have no common base class
            raise ModelError(f"{path} cannot be run ({first_line(error)}); fetch it again") from error
        return cls(path, session)

    @property
    def hash(self) -> str:
        """The sha256 of the file."""
        return file_hash(self.path)

    @cached_property
    def outputs(self) -> int:
        """The number of logits of a pair."""
        shape = self.session.get_outputs()[0].shape
        if len(shape) != 2 or not isinstance(shape[1], int):
            raise ModelError(f"{self.path} gives no logits but an output of shape {shape}; give a cross-encoder's file")
        return shape[1]

    def logits(self, batch: Sequence[TokenizedText]) -> Array:
        """The logits (B, L) of pairs, one call each: in 8 bits a scale depends on the whole batch."""
        names = [each.name for each in self.session.get_inputs()]

        def run(pair: TokenizedText) -> Array:
            given = {"input_ids": pair.ids, "token_type_ids": pair.types, "attention_mask": (1,) * len(pair)}
            inputs = {name: np.array([given[name]], dtype=np.int64) for name in names}
            logits = self.session.run(None, inputs)[0]
            first: Array = logits[0].astype(np.float32)
            return first

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            return np.stack(list(pool.map(run, batch)))


def convert_folder(folder: Path) -> list[Path]:
    """Convert a folder's old pickles to safetensors, or else the weights of its ONNX file."""
    if any(folder.rglob(PICKLE)) or not any((folder / name / ONNX_FILE).exists() for name in ("", "onnx")):
        return convert(folder)
    return converted_onnx(folder)


def converted_onnx(folder: Path) -> list[Path]:
    """Write the weights of a folder's ONNX file as safetensors, and a ``config.json`` if there is none."""
    target, config = folder / WEIGHTS, folder / CONFIG
    if target.exists():
        raise ModelError(f"{target} exists already; remove it to convert again")
    graph = Graph.read(onnx_file(folder))
    tensors = {name: torch.from_numpy(value) for name, value in graph.weights().items()}
    written = [target]
    if not config.exists():
        made = json.dumps(graph.bert_config(), indent=2) + "\n"
        atomic_write(config, lambda draft: draft.write_text(made, encoding="utf-8"))
        written.append(config)
    atomic_write(target, lambda draft: write_tensors(draft, tensors, {"format": "pt"}))
    return written


@dataclass(frozen=True, eq=False)
class Graph:
    """The steps of an ONNX file and its constants, by name."""

    path: Path
    nodes: Sequence[Any]
    constants: Mapping[str, Array]

    @classmethod
    def read(cls, path: Path) -> Graph:
        """Read a file; nothing in it is run."""
        try:
            import onnx
            from onnx import numpy_helper
        except ImportError as error:
            raise MissingExtra("onnx", "onnx") from error
        try:
            graph = onnx.load(str(path)).graph
            found = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
            for node in graph.node:
                if node.op_type == "Constant" and node.attribute[0].name == "value":
                    found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        except Exception as error:  # protobuf's and onnx's errors have no common base class
            raise ModelError(f"{path} cannot be read as ONNX ({first_line(error)}); fetch it again") from error
        return cls(path, list(graph.node), found)

    @cached_property
    def _consumers(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for node in self.nodes:
            for name in node.input:
                found.setdefault(name, []).append(node)
        return found

    def weights(self) -> dict[str, Array]:
        """Every named weight as float32, in torch's layout."""
        found = {name: array for name, array in self.constants.items() if _is_weight(name, array)}
        for name in self.constants:
            if name.endswith(f".weight{QUANTIZED}"):
                found[name.removesuffix(QUANTIZED)] = self._floats(name.removesuffix(QUANTIZED))
        for node in self.nodes:
            if node.op_type in ("MatMul", "MatMulInteger"):
                found |= self._product(node)
        if not found:
            raise ModelError(f"{self.path} names none of its weights; export the model again, with their names")
        return {name: np.array(array, np.float32, order="C") for name, array in found.items()}

    def _product(self, node: Any) -> dict[str, Array]:
        """The matrix of a product (in, out), as the weight (out, in) of the layer whose bias is added next."""
        stored = node.input[1]
        name = stored.removesuffix(QUANTIZED)
        if stored not in self.constants or self.constants[stored].ndim != 2:
            return {}
        bias = next(self._biases(node.output[0]), None)
        if bias is None:
            raise ModelError(f"{self.path}: no bias names the layer of {name}; export the model again, with its biases")
        return {bias.removesuffix("bias") + "weight": self._floats(name).T}

    def _biases(self, output: str) -> Iterator[str]:
        """The names of biases that are added to an output."""
        for node in self._consumers.get(output, []):
            if node.op_type == "Add":
                yield from (name for name in node.input if name.endswith(".bias") and name in self.constants)
            if node.op_type in BETWEEN:
                yield from self._biases(node.output[0])

    def _floats(self, name: str) -> Array:
        """A weight, from 8 bits if it is stored so; scales are those of columns, or one for all."""
        if name in self.constants:
            return self.constants[name]
        number, scale = self.constants[name + QUANTIZED], self.constants[name + SCALE]
        zero = self.constants.get(name + ZERO, np.zeros((), number.dtype))
        # Wider than 8 bits: the difference of two such numbers has nine.
        difference: Array = number.astype(np.float64) - zero.astype(np.float64)
        return difference * scale

    def bert_config(self) -> dict[str, Any]:
        """The ``config.json`` of a BERT, from the shapes of its weights and the steps of its graph."""
        try:
            return self._bert_config(self.weights())
        except KeyError as error:
            raise ModelError(f"{self.path} is no BERT (no {error}); add its {CONFIG}") from error

    def _bert_config(self, found: Mapping[str, Array]) -> dict[str, Any]:
        prefix = next((name.removesuffix(WORDS) for name in found if name.endswith(WORDS)), None)
        if prefix not in ("", "bert."):
            raise ModelError(f"{self.path} is no BERT, whose settings its graph shows; add its {CONFIG}")
        layers = {name.split(".layer.")[1].split(".")[0] for name in found if ".layer." in name}
        words, hidden = found[prefix + WORDS].shape
        last = found.get("classifier.weight")
        labels = {} if last is None else {"id2label": {str(each): f"LABEL_{each}" for each in range(len(last))}}
        return {
            "architectures": [f"Bert{CLASSIFIER}" if labels else "BertModel"], "model_type": "bert",
            "vocab_size": words, "hidden_size": hidden, "num_hidden_layers": len(layers),
            "num_attention_heads": self._heads(hidden), "hidden_act": "gelu",
            "intermediate_size": found[f"{prefix}encoder.layer.0.intermediate.dense.weight"].shape[0],
            "max_position_embeddings": found[f"{prefix}embeddings.position_embeddings.weight"].shape[0],
            "type_vocab_size": found[f"{prefix}embeddings.token_type_embeddings.weight"].shape[0],
            "layer_norm_eps": self._eps(), "pad_token_id": 0, **labels,
        }  # fmt: skip

    def _heads(self, hidden: int) -> int:
        """The number of heads: states are reshaped to (B, T, heads, width)."""
        for node in self.nodes:
            if node.op_type == "Concat" and len(node.input) == 4:
                ends = [self.constants.get(name) for name in node.input[-2:]]
                if all(end is not None and end.size == 1 for end in ends):
                    heads, width = (int(np.ravel(end)[0]) for end in ends if end is not None)
                    if heads * width == hidden and heads > 1:
                        return heads
        raise ModelError(f"{self.path} does not show the number of attention heads; add its {CONFIG}")

    def _eps(self) -> float:
        """What the first norm adds to a variance."""
        means = {node.output[0] for node in self.nodes if node.op_type == "ReduceMean"}
        for node in self.nodes:
            if node.op_type == "Add" and means & set(node.input):
                added = [self.constants[name] for name in node.input if name in self.constants]
                if added:
                    return float(f"{np.ravel(added[0])[0]:.6g}")
        return 1e-12


WORDS = "embeddings.word_embeddings.weight"


def _is_weight(name: str, array: Array) -> bool:
    return name.endswith((".weight", ".bias")) and array.dtype.kind == "f"
