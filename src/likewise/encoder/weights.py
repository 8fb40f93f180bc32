"""Weights on disk: a folder's files -> weights under Hugging Face's names; their hashes; old files -> safetensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from likewise.encoder.config import CONFIG, read_config
from likewise.encoder.families import model_view
from likewise.encoder.model_view import POOLER, ModelView, Transformer
from likewise.errors import ModelError, first_line
from likewise.storage import FileCache, atomic_write, content_key, file_hash, user_cache

WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a transformer folder, shards included; an old pickle is rejected."""
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if (folder / SHARDS).exists():
        try:
            index = json.loads((folder / SHARDS).read_text(encoding="utf-8"))
            return [folder / name for name in sorted(set(index["weight_map"].values()))]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{folder / SHARDS} lists no weights; save the model again") from error
    if (folder / PICKLE).exists():
        raise ModelError(f"{folder} holds only {PICKLE}, which is not loaded; run: likewise convert {folder}")
    raise ModelError(f"{folder} has no {WEIGHTS}; give the folder of a saved model")


def weights_hash(folder: Path) -> str:
    """The sha256 of a folder's weights, cached by path, size and time."""
    return combined_hash([_file_hash(path) for path in weight_files(folder)])


def combined_hash(hashes: list[str]) -> str:
    """One hash for several; a single one stays the same.

    >>> combined_hash(["ab"])
    'ab'
    """
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    real = path.resolve()
    state = real.stat()
    cache, key = FileCache(user_cache() / "hashes", ".txt"), content_key(str(real), state.st_size, state.st_mtime_ns)
    digest = cache.read(key, _read_hash)
    if digest is None:
        digest = computed = file_hash(real)
        cache.write(key, lambda draft: draft.write_text(computed, encoding="ascii"))
    return digest


def _read_hash(path: Path) -> str:
    found = path.read_text(encoding="ascii")
    if len(bytes.fromhex(found)) != hashlib.sha256().digest_size:
        raise ValueError("not a sha256")
    return found


def convert(folder: Path) -> list[Path]:
    """Convert each ``pytorch_model.bin`` of a folder (heads included) to safetensors; the old files stay.

    Pickles are read with ``weights_only=True``: tensors and plain containers, never code.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder; give the folder of a saved model")
    pickles = sorted(folder.rglob(PICKLE))
    if not pickles:
        raise ModelError(f"{folder} has no {PICKLE}; there is nothing to convert")
    if made := [path for path in pickles if path.with_name(WEIGHTS).exists()]:
        raise ModelError(f"{made[0].with_name(WEIGHTS)} exists already; remove it to convert again")
    return [_converted(path) for path in pickles]


def _converted(path: Path) -> Path:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises several kinds, one of them for code in the pickle
        raise ModelError(f"{path} is not a plain file of weights; it is not opened, since it could run code") from error
    state = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelError(f"{path} holds more than named tensors; only a plain state dict can be converted")
    # Copies: safetensors rejects tied weights, which share memory.
    state = {name: value.detach().clone().contiguous() for name, value in state.items()}
    target = path.with_name(WEIGHTS)
    atomic_write(target, lambda draft: save_file(state, str(draft), metadata={"format": "pt"}))
    return target


def tensors_hash(tensors: dict[str, Any]) -> str:
    """The sha256 of named tensors in memory."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        # As bytes: numpy does not know every dtype that torch does.
        flat = tensors[name].detach().cpu().contiguous().flatten()
        digest.update(name.encode() + flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def weights_version(model: Any) -> int:
    """A number that grows when a weight is changed in place, as by an optimizer step."""
    return sum(int(weight._version) for weight in model.parameters())


PREFIXES = ("0.auto_model.", "auto_model.", "albert.", "bert.", "distilbert.", "electra.", "model.", "mpnet.",
            "roberta.", "transformer.")  # fmt: skip
"""Prefixes of the encoder's names in files of a model with a head, or of a whole pipeline."""


def load_transformer(folder: Path, dtype: str = "float32") -> tuple[Transformer, ModelView]:
    """A folder's weights and the views on them; safetensors only, never code from the folder.

    Only a pooler may be missing; the views then have none.
    """
    model = Transformer(read_config(folder))
    try:
        views = model_view(model)
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        said = f"{CONFIG} does not fit a {model.config['model_type']} model ({first_line(error)})"
        raise ModelError(f"{folder}: {said}; save the model again") from error
    files = weight_files(folder)
    try:
        state = _read(files, dict(model.named_parameters()), getattr(torch, dtype))
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error
    missing = [name for name, _ in model.named_parameters() if name not in state]
    if strangers := sorted(name for name in missing if not name.startswith(POOLER)):
        raise ModelError(f"{folder} lacks weights, {strangers[0]} among {len(strangers)}; save the model again")
    if missing:
        del model._modules[POOLER]
        state = {name: weight for name, weight in state.items() if not name.startswith(POOLER)}
        views = replace(views, pooler=None)
    model.load_state_dict(state, assign=True)
    model.loaded = True
    return model.eval(), views


def _read(files: Sequence[Path], wanted: dict[str, nn.Parameter], dtype: torch.dtype) -> dict[str, Tensor]:
    """The wanted weights of files, by the encoder's names."""
    found: dict[str, Tensor] = {}
    try:
        for name, weight in _weights(files, wanted):
            if weight.shape != wanted[name].shape:
                shapes = tuple(weight.shape), tuple(wanted[name].shape)
                raise ModelError(f"{name} has the shape {shapes[0]}, by {CONFIG} {shapes[1]}; save the model again")
            if not weight.is_floating_point():
                raise ModelError(f"{name} holds {weight.dtype}, not floating-point numbers; use the plain weights")
            # A copy: tensors of a file may be unaligned, and products of unaligned rows round differently.
            found[name] = weight.to(dtype, copy=True).contiguous()
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        said = first_line(error)
        raise ModelError(f"its weights cannot be loaded ({said}); check the folder or save the model again") from error
    return found


def _weights(paths: Iterable[Path], wanted: dict[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for path in paths:
        with safe_open(str(path), framework="pt") as file:
            for stored in file.keys():  # noqa: SIM118
                name = usual_name(stored, wanted)
                if name is not None:
                    yield name, file.get_tensor(stored)


def usual_name(stored: str, wanted: Iterable[str]) -> str | None:
    """The encoder's name for a tensor of a file; None for a tensor that is not part of it, such as a head.

    >>> usual_name("bert.embeddings.LayerNorm.gamma", {"embeddings.LayerNorm.weight"})
    'embeddings.LayerNorm.weight'
    """
    name = stored
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        name = name.replace(old, new)
    while name not in wanted:
        prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
        if prefix is None:
            return None
        name = name.removeprefix(prefix)
    return name
