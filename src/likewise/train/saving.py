"""Saved runs: a sentence-transformers folder with the tasks' heads beside it, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from likewise.encoder import Encoder
from likewise.encoder.modules_config import OWN_SETTINGS, OWN_WEIGHTS
from likewise.encoder.pooling import learned_from, learned_settings
from likewise.encoder.saving import ExtraFiles, save_encoder
from likewise.errors import ModelError
from likewise.train.card import model_card
from likewise.train.config import TrainConfig, config_from
from likewise.train.heads import new_head
from likewise.train.multitask import MultiTaskModel, head_name, hidings, main_task, require_torch, variants
from likewise.train.packed_encoder import Reader
from likewise.train.processes import Processes
from likewise.train.report import TrainReport
from likewise.train.tokens import TokenTable

HEADS_PREFIX, OTHERS_PREFIX = "heads.", "poolings."
"""Of the names of weights: heads, and learned poolings of tasks other than the main one."""


def save_run(multitask: MultiTaskModel, report: TrainReport, folder: Path) -> None:
    """Write the trained encoder, its heads and its card."""
    # The model's own Normalize stays: it was off for the heads alone.
    encoder = multitask.encoder(main_task(multitask.config)).with_pooling(normalize=None)
    weights = {f"{HEADS_PREFIX}{name}": tensor for name, tensor in multitask.heads.state_dict().items()}
    others = {
        learned.kind: learned
        for reader in multitask.readers.values()
        if (learned := reader.encoder.modules_config.learned) is not None
        and encoder.pooling_config.pooling != learned.kind == reader.encoder.pooling_config.pooling
    }
    for kind, learned in others.items():
        weights |= {f"{OTHERS_PREFIX}{kind}.{name}": tensor for name, tensor in learned.state_dict().items()}
    settings = {
        "train": multitask.config.to_dict(),
        "poolings": {name: reader.encoder.pooling_config.pooling for name, reader in multitask.readers.items()},
        "other_poolings": {kind: learned_settings(learned) for kind, learned in others.items()},
    }
    save_encoder(encoder, folder, model_card(report, encoder), ExtraFiles(settings, weights))


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A trained encoder with its heads, ready to judge texts."""

    multitask: MultiTaskModel
    config: TrainConfig


def load_run(folder: Path, **options: Any) -> SavedRun:
    """A saved run; ``options`` are those of ``Encoder.load``."""
    settings, weights = _settings(folder), _weights(folder)
    encoder = Encoder.load(str(folder), **options)
    require_torch(encoder)
    config = config_from(settings["train"], str(folder / OWN_SETTINGS))
    if missing := [task.name for task in config.tasks if task.name not in settings["poolings"]]:
        raise ModelError(f"{folder / OWN_SETTINGS} has no pooling of task {missing[0]}; train again")
    learned = {
        kind: learned_from(own, _under(f"{OTHERS_PREFIX}{kind}.", weights))
        for kind, own in settings["other_poolings"].items()
    }
    if encoder.modules_config.learned is not None:
        learned[encoder.modules_config.learned.kind] = encoder.modules_config.learned
    made = variants(encoder, settings["poolings"], learned)
    heads = nn.ModuleDict()
    for task in config.tasks:
        heads[head_name(config, task)] = new_head(task, config, made[task.name])
    heads.to(encoder.device, encoder.model_view.dtype)
    try:
        heads.load_state_dict(_under(HEADS_PREFIX, weights))
    except RuntimeError as error:
        raise ModelError(f"{folder / OWN_WEIGHTS} does not hold this run's heads; train again") from error
    tokens = TokenTable(encoder.tokenizer, encoder.modules_config.prompt_for(None))
    readers = {name: Reader(pooling_config, tokens, Processes()) for name, pooling_config in made.items()}
    return SavedRun(MultiTaskModel(config, readers, heads, frozenset(), hidings(encoder, config)), config)


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / OWN_SETTINGS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        settings: dict[str, Any] = {name: found[name] for name in ("train", "poolings", "other_poolings")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{folder} is no folder of a trained model with heads; give the out of: likewise train"
        ) from error
    if not all(isinstance(part, dict) for part in settings.values()):
        raise ModelError(f"{path} does not say how the model was trained; train again")
    return settings


def _weights(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (folder / OWN_WEIGHTS).exists():
        return {}  # a cosine has no weights
    try:
        return load_file(str(folder / OWN_WEIGHTS))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / OWN_WEIGHTS} cannot be read; train again") from error


def _under(prefix: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}
