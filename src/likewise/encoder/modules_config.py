"""The modules of an embedding model: what a sentence-transformers folder holds besides the transformer.

Two layouts are read: the classic one and that of sentence-transformers 6. A plain transformer folder gets mean pooling.
A learned pooling, which such a folder cannot express, is in ``likewise.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.encoder.modes import LIVE, Mode, Transposed
from likewise.encoder.pooling import LearnedPooling, learned_from
from likewise.encoder.primitives import HEAD_ACTIVATIONS, activate, activate_transposed
from likewise.errors import ModelError, first_line


@dataclass(frozen=True, eq=False)
class Dense:
    """activation(weight x + bias): weight (out, in), bias (out,) or None."""

    weight: Tensor
    bias: Tensor | None
    activation: str

    def __call__(self, x: Tensor, mode: Mode = LIVE) -> Tensor:
        """(..., in) -> (..., out)."""
        return activate(HEAD_ACTIVATIONS[self.activation], mode.add_bias(F.linear(x, self.weight), self.bias), mode)

    def transposed(self, gradient: Tensor, mode: Transposed) -> Tensor:
        """(B, K, out) -> (B, K, in)."""
        gradient = activate_transposed(HEAD_ACTIVATIONS[self.activation], gradient, mode)
        mode.collect(gradient, self.bias)
        return gradient @ self.weight

    def to(self, device: torch.device, dtype: torch.dtype) -> Dense:
        """The same head on a device, in a dtype."""
        bias = None if self.bias is None else self.bias.to(device, dtype)
        return Dense(self.weight.to(device, dtype), bias, self.activation)


MODULES = ("Transformer", "Pooling", "Dense", "Normalize")

# In the order in which sentence-transformers concatenates them.
POOLING_NAMES = {
    "cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len_tokens": "mean-sqrt-len", "weightedmean": "weighted",
    "lasttoken": "last",
}  # fmt: skip
CLASSIC_POOLING_KEYS = {
    "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}  # fmt: skip

OWN_SETTINGS, OWN_WEIGHTS, OWN_FORMAT = "likewise.json", "head.safetensors", 1
"""Files beyond those of sentence-transformers; other packages may add keys and tensors of their own."""
POOLING_PREFIX = "pooling."
"""The prefix of a learned pooling's weights."""


@dataclass(frozen=True)
class ModulesConfig:
    """What happens before and after the transformer."""

    pooling: str = "mean"
    include_prompt: bool = True
    """whether the prompt's tokens are pooled"""
    heads: tuple[Dense, ...] = ()
    normalizes: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    """the name of the prompt that ``encode`` uses"""
    max_length: int | None = None
    lower: bool = False
    truncate_dim: int | None = None
    transformer: str = ""
    """the subfolder of the transformer"""
    note: str = ""
    """a message for the user about the folder"""
    learned: LearnedPooling | None = None
    """a pooling with its own weights"""

    def __post_init__(self) -> None:
        for name, number in (("max_seq_length", self.max_length), ("truncate_dim", self.truncate_dim)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise ModelError(f"{name} must be a whole number from 1, not {number!r}; fix the model's settings")
        texts = self.prompts.items() if isinstance(self.prompts, Mapping) else [(None, None)]
        if not all(isinstance(part, str) for item in texts for part in item):
            raise ModelError("prompts must map names to texts; fix config_sentence_transformers.json")

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights of the dense heads and of a learned pooling, by name."""
        heads = {f"{index}.{head.activation}": head for index, head in enumerate(self.heads)}
        found = {f"{name}.weight": head.weight for name, head in heads.items()}
        found |= {f"{name}.bias": head.bias for name, head in heads.items() if head.bias is not None}
        if self.learned is not None:
            # Not state_dict, which detaches: these are the weights themselves.
            weights = self.learned.named_parameters()
            found |= {f"pooling.{self.learned.kind}.{name}": weight for name, weight in weights}
        return found

    def to(self, device: torch.device, dtype: torch.dtype) -> ModulesConfig:
        """With the heads on a device, in a dtype; a learned pooling is moved in place."""
        heads = tuple(head.to(device, dtype) for head in self.heads)
        return replace(self, heads=heads, learned=None if self.learned is None else self.learned.to(device, dtype))

    def prompt_for(self, role: str | None) -> str:
        """The prompt text for ``query``, ``document`` or None, the default.

        >>> ModulesConfig(prompts={"query": "query: "}).prompt_for("query")
        'query: '
        """
        names = {None: (self.default_prompt or "",), "query": ("query",)}.get(role, ("document", "passage", "corpus"))
        # The first that is not empty: version 6 writes an empty "document" next to a "passage".
        return next((self.prompts[name] for name in names if self.prompts.get(name)), "")


def read_modules_config(folder: Path) -> ModulesConfig:
    """Read a folder's pooling, heads, prompts and limits."""
    listed, learned = _listed_modules(folder), _learned(folder)
    return listed if learned is None else replace(listed, pooling=learned.kind, learned=learned, note="")


def _listed_modules(folder: Path) -> ModulesConfig:
    listing = folder / "modules.json"
    if not listing.exists():
        return ModulesConfig(note=f"{folder.resolve().name} names no pooling; mean pooling is used")
    entries = _json(listing, list)
    try:
        modules = [(str(entry["type"]).rsplit(".", 1)[-1], folder / entry["path"]) for entry in entries]
    except (TypeError, KeyError) as error:
        raise ModelError(f"{listing} is not a list of modules; save the model again") from error
    _check_modules([kind for kind, _ in modules], str(listing))
    paths = {kind: path for kind, path in modules if kind != "Dense"}
    settings: dict[str, Any] = {}
    if "Transformer" in paths:
        settings |= _transformer_settings(paths["Transformer"])
        settings["transformer"] = next(entry["path"] for entry in entries if entry["type"].endswith("Transformer"))
    if "Pooling" in paths:
        settings |= _pooling_settings(paths["Pooling"] / "config.json")
    return ModulesConfig(
        heads=tuple(_dense(path) for kind, path in modules if kind == "Dense"),
        normalizes="Normalize" in paths,
        **settings,
        **_pipeline_settings(folder / "config_sentence_transformers.json"),
    )


def _check_modules(kinds: list[str], where: str) -> None:
    """Reject unknown modules, and an order other than that of ``Encoder.finish``."""
    for kind in kinds:
        if kind not in MODULES:
            raise ModelError(f"{where}: module {kind} is not supported; supported are {', '.join(MODULES)}")
    if kinds != sorted(kinds, key=MODULES.index):
        raise ModelError(f"{where}: modules must be in the order {', '.join(MODULES)}, not {', '.join(kinds)}")


def modules_config_of(model: Any) -> ModulesConfig:
    """The modules of a SentenceTransformer in memory."""
    settings: dict[str, Any] = {"max_length": model.max_seq_length, "truncate_dim": model.truncate_dim}
    heads = []
    _check_modules([type(module).__name__ for module in model], "this model")
    for module in model:
        kind = type(module).__name__
        if kind == "Pooling":
            settings |= _pooling_from(module.get_config_dict())
        if kind == "Dense":
            heads.append(_dense_from(module.get_config_dict(), dict(module.state_dict())))
        settings["normalizes"] = settings.get("normalizes", False) or kind == "Normalize"
    settings["lower"] = bool(getattr(model[0], "do_lower_case", False))
    prompts = {name: text for name, text in (model.prompts or {}).items() if text}
    return ModulesConfig(heads=tuple(heads), prompts=prompts, default_prompt=model.default_prompt_name, **settings)


def _json(path: Path, kind: type = dict) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read ({error}); save the model again") from error
    if not isinstance(content, kind):
        raise ModelError(f"{path} holds no JSON {'list' if kind is list else 'object'}; save the model again")
    return content


def _transformer_settings(folder: Path) -> dict[str, Any]:
    path = folder / "sentence_bert_config.json"
    config = _json(path) if path.exists() else {}
    return {"max_length": config.get("max_seq_length"), "lower": bool(config.get("do_lower_case", False))}


def _pooling_settings(path: Path) -> dict[str, Any]:
    try:
        return _pooling_from(_json(path))
    except KeyError as error:
        raise ModelError(f"{path}: unknown pooling {error}; known are {', '.join(POOLING_NAMES)}") from error


def _pooling_from(config: Mapping[str, Any]) -> dict[str, Any]:
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in CLASSIC_POOLING_KEYS.items() if config.get(key)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else modes
    names = "+".join(POOLING_NAMES[mode] for mode in modes)
    return {"pooling": names, "include_prompt": config.get("include_prompt", True)}


def _learned(folder: Path) -> LearnedPooling | None:
    """The learned pooling of ``likewise.json``, if it has one."""
    path = folder / OWN_SETTINGS
    if not path.exists():
        return None
    settings = _json(path)
    if settings.get("format") != OWN_FORMAT:
        found = settings.get("format")
        raise ModelError(
            f"{path} has format {found!r}, known is {OWN_FORMAT}; save the model again, or update likewise"
        )
    if "pooling" not in settings:
        return None
    try:
        return learned_from(settings["pooling"], _own_weights(folder / OWN_WEIGHTS, POOLING_PREFIX))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _own_weights(path: Path, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors of a file under a prefix, by their names without it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
            return {name.removeprefix(prefix): file.get_tensor(name) for name in names}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path.name} cannot be read ({first_line(error)}); save the model again") from error


def _pipeline_settings(path: Path) -> dict[str, Any]:
    config = _json(path) if path.exists() else {}
    # Version 6 writes an empty prompt for every role that a model does not have.
    prompts = config.get("prompts") or {}
    if isinstance(prompts, dict):
        prompts = {name: text for name, text in prompts.items() if text}
    name = config.get("default_prompt_name")
    return {"prompts": prompts, "default_prompt": name, "truncate_dim": config.get("truncate_dim")}


def _dense(folder: Path) -> Dense:
    from safetensors.torch import load_file

    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ModelError(f"{folder} has no model.safetensors; run: likewise convert {folder}")
    # Copies: tensors of a file may be unaligned, and products of unaligned rows round differently.
    found = {name: tensor.clone() for name, tensor in load_file(str(weights)).items()}
    return _dense_from(_json(folder / "config.json"), found)


def _dense_from(config: Mapping[str, Any], weights: Mapping[str, Any]) -> Dense:
    activation = str(config.get("activation_function", "torch.nn.Tanh")).rsplit(".", 1)[-1]
    if activation not in HEAD_ACTIVATIONS:
        raise ModelError(f"Dense activation {activation} is not supported; known are {', '.join(HEAD_ACTIVATIONS)}")
    reads = config.get("module_input_name", "sentence_embedding")
    if config.get("use_residual") or reads != "sentence_embedding":
        raise ModelError("a Dense head with a residual, or on token vectors, is not supported; use a plain Dense")
    return Dense(weights["linear.weight"].detach(), _detached(weights.get("linear.bias")), activation)


def _detached(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach()
