"""Loading: a folder's files -> weights under Hugging Face's names, and the views on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from likewise.encoder.config import CONFIG, read_config
from likewise.encoder.families import model_view
from likewise.encoder.model_view import POOLER, ModelView, Transformer
from likewise.encoder.weights import weight_files
from likewise.errors import ModelError, first_line

PREFIXES = ("0.auto_model.", "auto_model.", "albert.", "bert.", "distilbert.", "electra.", "model.", "mpnet.",
            "roberta.", "transformer.")  # fmt: skip
"""What stands before the encoder's names in files of a model with a head, or of a whole pipeline."""


def load_transformer(folder: Path, dtype: str = "float32") -> tuple[Transformer, ModelView]:
    """A folder's weights and the views on them; safetensors only, no code of the folder's own.

    Only a pooler may be missing; there is none in the views then.
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
    """The wanted weights of files, by their usual names."""
    found: dict[str, Tensor] = {}
    try:
        for name, weight in _weights(files, wanted):
            if weight.shape != wanted[name].shape:
                shapes = tuple(weight.shape), tuple(wanted[name].shape)
                raise ModelError(f"{name} has the shape {shapes[0]}, by {CONFIG} {shapes[1]}; save the model again")
            if not weight.is_floating_point():
                raise ModelError(f"{name} holds {weight.dtype}, not floating-point numbers; use the plain weights")
            # A copy: tensors of a file may be unaligned in memory, and products of unaligned rows round differently.
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
    """What a tensor of a file is called in the encoder; None for what is no part of it, such as a head.

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
