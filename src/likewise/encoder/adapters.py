"""LoRA adapters: small matrices that change a model's weights; they are merged into the weights on loading.

An adapter is a PEFT folder, or one of the task adapters inside Jina v3 as it was first published.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from likewise.encoder.config import CONFIG, json_file, read_config, read_modules_config
from likewise.encoder.families import FAMILIES
from likewise.encoder.model_view import ModelView, Transformer
from likewise.encoder.pooling import ModulesConfig
from likewise.encoder.tokens import TOKENIZER, Vocabulary
from likewise.encoder.weights import load_transformer, locate, usual_names, weight_files
from likewise.errors import ModelError, first_line

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
UNSUPPORTED = ("use_dora", "use_bdlora", "arrow_config", "alora_invocation_tokens", "trainable_token_indices")
"""Settings that make an adapter more than a sum."""


@dataclass(frozen=True)
class Change:
    """What is added to a weight, ``scaling * b @ a``; or, without ``a``, the new weight ``b``."""

    name: str
    a: Tensor | None
    b: Tensor
    scaling: float = 1.0


def load_adapted(
    folder: Path, adapter: str | None, dtype: str
) -> tuple[Transformer, ModelView, Vocabulary, ModulesConfig]:
    """The parts of an encoder with adapters merged: of a model's folder, or of an adapter's folder and its base."""
    base = folder
    if (folder / ADAPTER_CONFIG).is_file() and not (folder / CONFIG).is_file():
        base = locate(_base_model(folder))
    modules = read_modules_config(base)
    within = base / modules.transformer
    model, views = load_transformer(within, dtype)
    for each in (str(folder) if base != folder else None, adapter):
        if each is not None:
            _merge(model, within, each)
    vocabulary = Vocabulary.read(folder if base != folder and (folder / TOKENIZER).is_file() else within)
    own = base != folder and (folder / "modules.json").is_file()
    return model, views, vocabulary, read_modules_config(folder) if own else modules


def _base_model(folder: Path) -> str:
    """The name or folder of the model that an adapter changes."""
    name = json_file(folder / ADAPTER_CONFIG).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise ModelError(f"{folder / ADAPTER_CONFIG} names no base model; set base_model_name_or_path")
    return name


def _merge(model: Transformer, folder: Path, adapter: str) -> None:
    """Merge an adapter into the weights of a model: a PEFT folder, one inside the model's folder, or a task's name."""
    tasks = read_config(folder).get("lora_adaptations") or []
    inside, own = folder / adapter, Path(adapter).expanduser()
    if adapter in tasks:
        changes = _task_changes(folder, tasks.index(adapter))
    elif found := next((path for path in (inside, own) if (path / ADAPTER_CONFIG).is_file()), None):
        changes = _peft_changes(found)
    else:
        known = ", ".join([*tasks, *sorted(path.parent.name for path in folder.glob(f"*/{ADAPTER_CONFIG}"))])
        raise ModelError(f"no adapter {adapter!r}; {f'this model has {known}' if known else 'give a PEFT folder'}")
    try:
        _apply(model, list(changes))
    except (OSError, TypeError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        said = first_line(error)
        raise ModelError(f"the adapter {adapter!r} cannot be merged ({said}); save it again") from error


def _apply(model: Transformer, changes: list[Change]) -> None:
    family, weights = FAMILIES[model.config["model_type"]], model.state_dict(keep_vars=True)
    if not changes:
        raise ValueError("it holds no weights")
    for change in changes:
        names = usual_names(change.name, weights, family)
        if not names:
            raise ValueError(f"the model has no {change.name}")
        whole = change.b if change.a is None else change.scaling * (change.b.float() @ change.a.float())
        for name, part in zip(names, whole.chunk(len(names)), strict=True):
            if part.shape != weights[name].shape:
                raise ValueError(f"{name} has the shape {tuple(weights[name].shape)}, the change {tuple(part.shape)}")
            with torch.no_grad():
                new = part if change.a is None else weights[name].float() + part
                weights[name].copy_(new)


def _peft_changes(folder: Path) -> Iterator[Change]:
    settings = json_file(folder / ADAPTER_CONFIG)
    if (kind := settings.get("peft_type")) != "LORA":
        raise ModelError(f"{folder}: adapters of type {kind} are not supported; merge it into the model with PEFT")
    if unknown := next((name for name in UNSUPPORTED if settings.get(name)), None):
        raise ModelError(f"{folder}: an adapter with {unknown} is not supported; merge it into the model with PEFT")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ModelError(f"{folder} has no {ADAPTER_WEIGHTS}; save the adapter again")
    tensors = _tensors(folder / ADAPTER_WEIGHTS)
    for stored, tensor in tensors.items():
        name = stored.removeprefix("base_model.model.")
        module, _, part = name.rpartition(".lora_")
        if part in ("A.weight", "embedding_A"):
            other = tensors[stored.replace("lora_A", "lora_B").replace("lora_embedding_A", "lora_embedding_B")]
            # Tables are stored the other way round, (rank, ids), and so are Conv1D layers.
            turned = part == "embedding_A" or settings.get("fan_in_fan_out")
            pair = (other.T, tensor.T) if turned else (tensor, other)
            yield Change(f"{module}.weight", *pair, _scaling(settings, module, tensor.shape[0]))
        elif not module:
            yield Change(name.replace(".base_layer.", "."), None, tensor)


def _scaling(settings: Mapping[str, Any], module: str, rank: int) -> float:
    """alpha / rank, by the pattern that fits the module; the rank is that of the stored matrix."""
    patterns = (settings.get("alpha_pattern") or {}).items()
    alpha = next((value for key, value in patterns if re.fullmatch(rf"(.*\.)?({key})", module)), settings["lora_alpha"])
    return float(alpha) / (math.sqrt(rank) if settings.get("use_rslora") else rank)


def _task_changes(folder: Path, task: int) -> Iterator[Change]:
    """The matrices (tasks, rank, in) and (tasks, out, rank) of one task."""
    config, ending = read_config(folder), ".parametrizations.weight.0.lora_A"
    scaling = float(config.get("lora_alpha", 1)) / float(config.get("lora_rank", 4))
    for path in weight_files(folder):
        tensors = _tensors(path, "lora_")
        for stored in (name for name in tensors if name.endswith(ending)):
            a, b = tensors[stored][task], tensors[stored.removesuffix("A") + "B"][task]
            # Tables: (ids, rank) and (rank, width).
            pair = (b, a) if "embeddings." in stored else (a, b)
            yield Change(stored.removesuffix(ending) + ".weight", *pair, scaling)


def _tensors(path: Path, part: str = "") -> dict[str, Tensor]:
    with safe_open(str(path), framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys() if part in name}  # noqa: SIM118
