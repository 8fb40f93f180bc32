"""Classification heads: the states of a pair's tokens -> logits. No other file knows the names of their weights.

A head is a pooling and a few dense layers, the last of which gives a logit for each label. A new family is one entry of
``HEADS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from likewise.encoder.config import CONFIG, PIPELINE, optional_json, read_config
from likewise.encoder.model_view import Norm, norm, norm_transposed
from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.pooling import Dense
from likewise.encoder.weights import weight_files
from likewise.errors import ModelError, first_line

Weights = Mapping[str, Tensor]
Config = Mapping[str, Any]

ACTIVATION_NAMES = {
    "gelu": "GELU", "linear": "Identity", "relu": "ReLU", "sigmoid": "Sigmoid", "silu": "SiLU", "swish": "SiLU",
    "tanh": "Tanh",
}  # fmt: skip
"""Activations of Hugging Face's configs, by the names of torch's modules."""


@dataclass(frozen=True)
class Layer:
    """A dense layer of a head: the name of its weights, its activation, and a norm that follows it.

    An activation in lower case is the key of the config that names it, followed by its default.
    """

    name: str
    activation: str | tuple[str, str] = "Identity"
    norm: str | None = None


@dataclass(frozen=True)
class Names:
    """What a family's head pools, and its layers; a pair is a key of the config and its default."""

    pooling: str | tuple[str, str]
    layers: tuple[Layer, ...]


_POOLER = Names("pooler", (Layer("classifier"),))
_FIRST = Names("cls", (Layer("classifier.dense", "Tanh"), Layer("classifier.out_proj")))
_LAST = Names("last", (Layer("score"),))

HEADS: dict[str, Names] = {
    "albert": _POOLER,
    "bert": _POOLER,
    "camembert": _FIRST,
    "deberta-v2": Names("cls", (Layer("pooler.dense", ("pooler_hidden_act", "gelu")), Layer("classifier"))),
    "distilbert": Names("cls", (Layer("pre_classifier", "ReLU"), Layer("classifier"))),
    "electra": Names("cls", (Layer("classifier.dense", "GELU"), Layer("classifier.out_proj"))),
    "eurobert": Names(("classifier_pooling", "late"), (Layer("dense", "GELU"), Layer("classifier"))),
    "gemma3_text": _LAST,
    "gpt_neo": _LAST,
    "gte": Names("cls", (Layer("gte.pooler.dense", "Tanh"), Layer("classifier"))),
    "jina_embeddings_v3": _FIRST,
    "llama": _LAST,
    "mistral": _LAST,
    "modernbert": Names(
        ("classifier_pooling", "cls"),
        (Layer("head.dense", ("classifier_activation", "gelu"), norm="head.norm"), Layer("classifier")),
    ),
    "mpnet": _FIRST,
    "nomic_bert": Names("cls", (Layer("nomic_bert.pooler.dense", "Tanh"), Layer("classifier"))),
    "qwen2": _LAST,
    "qwen3": _LAST,
    "roberta": _FIRST,
    "xlm-roberta": _FIRST,
}
"""The heads of families, by ``model_type``."""


@dataclass(frozen=True, eq=False)
class NormedDense(Dense):
    """norm(activation(weight x + bias)), as in ModernBERT; the weights of the LayerNorm are (out,), or None."""

    norm_weight: Tensor
    norm_bias: Tensor | None
    eps: float

    @property
    def _norm(self) -> Norm:
        weights: Any = SimpleNamespace(weight=self.norm_weight, bias=self.norm_bias)
        return Norm(weights, "layer", self.eps)

    def __call__(self, x: Tensor, mode: Mode = LIVE) -> Tensor:
        """(..., in) -> (..., out)."""
        return norm(self._norm, super().__call__(x, mode), mode)

    def transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """(B, K, out) -> (B, K, in)."""
        return super().transposed(norm_transposed(self._norm, gradient, mode), mode)

    def to(self, device: torch.device, dtype: torch.dtype) -> NormedDense:
        """The same head on a device, in a dtype."""
        weights = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        moved: dict[str, Any] = {name: weight.to(device, dtype) for name, weight in weights.items()}
        return replace(self, **moved)


@dataclass(frozen=True, eq=False)
class Head:
    """A pooling, the dense layers after it, and the name of each logit."""

    pooling: str
    layers: tuple[Dense, ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, pooling: str, layers: Sequence[Dense]) -> Head:
        """The dense layers of sentence-transformers' modules; its labels have no names."""
        if not layers:
            raise ModelError("a cross-encoder without a Dense module has no score; save the model again")
        return cls(pooling, tuple(layers), label_names({}, layers[-1].weight.shape[0]))


def head_of(config: Config, weights: Weights) -> Head:
    """The head of a model with this config and these weights, whose memory it shares."""
    names = _names(config)
    layers = tuple(_dense(layer, config, weights) for layer in names.layers)
    pooling = _setting(names.pooling, config).replace("bos", "cls")  # EuroBERT's name for it
    if pooling not in ("cls", "last", "mean", "pooler"):
        raise ModelError(f"a head with {pooling} pooling is not supported; supported are cls and mean; fix {CONFIG}")
    return Head(pooling, layers, label_names(config, layers[-1].weight.shape[0]))


def _names(config: Config) -> Names:
    family = str(config["model_type"])
    if family not in HEADS:
        known = ", ".join(sorted(HEADS))
        raise ModelError(f"cross-encoders of the family {family!r} are not supported; supported are {known}")
    return HEADS[family]


def _setting(given: str | tuple[str, str], config: Config) -> str:
    return given if isinstance(given, str) else str(config.get(given[0]) or given[1])


def _dense(layer: Layer, config: Config, weights: Weights) -> Dense:
    activation = layer.activation
    if not isinstance(activation, str):
        named = _setting(activation, config)
        if named not in ACTIVATION_NAMES:
            known = ", ".join(ACTIVATION_NAMES)
            raise ModelError(f"a head with the activation {named!r} is not supported; supported are {known}")
        activation = ACTIVATION_NAMES[named]
    weight, bias = weights.get(f"{layer.name}.weight"), weights.get(f"{layer.name}.bias")
    if weight is None:
        raise ModelError(f"there is no head: {layer.name}.weight is missing; give the folder of a cross-encoder")
    if layer.norm is None:
        return Dense(weight, bias, activation)
    norm_weight, eps = weights[f"{layer.norm}.weight"], float(config.get("norm_eps", 1e-5))
    return NormedDense(weight, bias, activation, norm_weight, weights.get(f"{layer.norm}.bias"), eps)


def label_names(config: Config, count: int) -> tuple[str, ...]:
    """The name of each of ``count`` logits."""
    given = config.get("id2label") or {}
    names = {str(number): str(name) for number, name in given.items()} if isinstance(given, Mapping) else {}
    return tuple(names.get(str(number), f"LABEL_{number}") for number in range(count))


def read_head(folder: Path, dtype: torch.dtype) -> Head:
    """The head of a transformer folder, in a dtype."""
    config = read_config(folder)
    names = [name for layer in _names(config).layers for name in (layer.name, layer.norm) if name is not None]
    wanted = [f"{name}.{kind}" for name in names for kind in ("weight", "bias")]
    try:
        return head_of(config, _read(weight_files(folder), wanted, dtype))
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error


def _read(files: Iterable[Path], wanted: Iterable[str], dtype: torch.dtype) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    found: dict[str, Tensor] = {}
    try:
        for path in files:
            with safe_open(str(path), framework="pt") as file:
                stored = set(file.keys())
                # Copies: tensors of a file may be unaligned, and products of unaligned rows round differently.
                found |= {name: file.get_tensor(name).to(dtype, copy=True) for name in wanted if name in stored}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"its weights cannot be loaded ({first_line(error)}); save the model again") from error
    return found


def activation_of(folder: Path, config: Config, labels: int) -> str:
    """The activation that turns logits into scores: the folder's, else sigmoid for one label and none for several."""
    own = config.get("sentence_transformers")
    nested = own.get("activation_fn") if isinstance(own, Mapping) else None
    pipeline = optional_json(folder / PIPELINE).get("activation_fn")
    named = pipeline or nested or config.get("sbert_ce_default_activation_function")
    # As in sentence-transformers, a class from elsewhere is not imported: its code could do anything.
    if named is None or not str(named).startswith("torch."):
        return "Sigmoid" if labels == 1 else "Identity"
    return str(named).rsplit(".", 1)[-1]
