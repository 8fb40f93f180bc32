"""Saved runs: a sentence-transformers folder with the tasks' heads beside it, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from likewise.encoder import Encoder
from likewise.encoder.recipe import OWN_SETTINGS, OWN_WEIGHTS
from likewise.encoder.saving import Beside, save_encoder
from likewise.errors import ModelError
from likewise.train.card import model_card
from likewise.train.config import TrainConfig, config_from
from likewise.train.heads import new_head
from likewise.train.processes import Processes
from likewise.train.reader import Reader
from likewise.train.report import TrainReport
from likewise.train.tasks import Task
from likewise.train.tokens import TokenTable
from likewise.train.trainee import Trainee, head_name, readings

HEADS_PREFIX = "heads."


def main_task(tasks: Sequence[Task]) -> Task:
    """The task whose reading of the encoder is saved: the first about pairs that are two vectors, else the first."""
    towers = [task for task in tasks if task.config.kind != "sentiment" and not task.config.joint]
    return (towers or list(tasks))[0]


def save_run(trainee: Trainee, tasks: Sequence[Task], report: TrainReport, folder: Path) -> None:
    """Write the trained encoder, its heads and its card."""
    task = main_task(tasks)
    # The model's own Normalize stays: it was off for the heads alone.
    encoder = trainee.encoder(task.config).with_reading(normalize=None)
    heads = {f"{HEADS_PREFIX}{name}": tensor for name, tensor in trainee.heads.state_dict().items()}
    settings = {"train": trainee.config.to_json()}
    save_encoder(encoder, folder, model_card(report, encoder), Beside(settings, heads))


@dataclass(frozen=True, eq=False)
class SavedRun:
    """A trained encoder with its heads, ready to judge texts."""

    trainee: Trainee
    config: TrainConfig


def load_run(folder: Path, **options: Any) -> SavedRun:
    """A saved run; ``options`` are those of ``Encoder.load``."""
    settings = _settings(folder)
    encoder = Encoder.load(str(folder), **options)
    config = config_from(settings, str(folder / OWN_SETTINGS))
    made = readings(encoder, config)
    heads = nn.ModuleDict()
    for task in config.tasks:
        heads[head_name(config, task)] = new_head(task, config, made[task.name].dimension)
    try:
        heads.load_state_dict(_tensors(folder))
    except RuntimeError as error:
        raise ModelError(f"{folder / OWN_WEIGHTS} does not hold this run's heads; train again") from error
    heads.to(encoder.device, encoder.anatomy.dtype)
    tokens = TokenTable(encoder.tokenizer, encoder.recipe.prompt_for(None))
    readers = {name: Reader(reading, tokens, Processes()) for name, reading in made.items()}
    return SavedRun(Trainee(config, readers, heads, frozenset()), config)


def _settings(folder: Path) -> Mapping[str, Any]:
    path = folder / OWN_SETTINGS
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["train"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{folder} is no folder of a trained model with heads; give the out of: likewise train"
        ) from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} does not say how the model was trained; train again")
    return found


def _tensors(folder: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (folder / OWN_WEIGHTS).exists():
        return {}  # a cosine has no weights
    try:
        found = load_file(str(folder / OWN_WEIGHTS))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / OWN_WEIGHTS} cannot be read; train again") from error
    return {name.removeprefix(HEADS_PREFIX): each for name, each in found.items() if name.startswith(HEADS_PREFIX)}
