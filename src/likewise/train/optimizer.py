"""The optimizer: AdamW with a learning rate per layer, warm-up and decay; PCGrad for tasks that conflict."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from likewise.encoder import Encoder
from likewise.train.config import TaskConfig, TrainConfig
from likewise.train.multitask import MultiTaskModel, head_name

Weights = Mapping[str, nn.Parameter]


def layer_weights(encoder: Encoder) -> list[list[nn.Parameter]]:
    """The weights of each layer, 0 for the embeddings; one that several layers share belongs to the first of them."""
    views = encoder.model_view
    parts: list[list[Any]] = [[views.embeddings, views.projection], *([block] for block in views.blocks)]
    parts[-1].append(views.final_norm)
    seen: set[int] = set()
    layers = []
    for part in parts:
        weights = [weight for module in _modules(part) for weight in module.parameters()]
        layers.append([weight for weight in dict.fromkeys(weights) if id(weight) not in seen])
        seen.update(id(weight) for weight in weights)
    return layers


def _modules(view: Any) -> Iterator[nn.Module]:
    """All modules inside a view or a list of views."""
    if isinstance(view, nn.Module):
        yield view
    elif isinstance(view, (list, tuple)):
        for each in view:
            yield from _modules(each)
    elif is_dataclass(view):
        for each in fields(view):
            yield from _modules(getattr(view, each.name))


def freeze_layers(multitask: MultiTaskModel) -> None:
    """Switch off the gradients of the frozen layers, and on those of all others."""
    for layer, weights in enumerate(layer_weights(multitask.base)):
        for weight in weights:
            weight.requires_grad_(layer not in multitask.frozen)


def named_weights(multitask: MultiTaskModel) -> dict[str, nn.Parameter]:
    """Everything that learns, by a name that stays the same from run to run."""
    encoder = multitask.base
    in_layers = {id(weight) for weights in layer_weights(encoder) for weight in weights}
    named = {
        f"encoder.{name}": weight
        for name, weight in encoder.model.named_parameters()
        if id(weight) in in_layers and weight.requires_grad
    }
    named |= {f"heads.{name}": weight for name, weight in multitask.heads.named_parameters()}
    for packed in multitask.encoders.values():
        learned = packed.encoder.modules_config.learned
        if learned is not None and learned.kind == packed.encoder.pooling_config.pooling:
            named |= {f"{learned.kind}.{name}": weight for name, weight in learned.named_parameters()}
    return named


def _prefixes(multitask: MultiTaskModel, task: TaskConfig) -> tuple[str, ...]:
    """How the names of a task's weights begin."""
    pooling = multitask.encoder(task).pooling_config.pooling
    return ("encoder.", f"heads.{head_name(multitask.config, task)}.", f"{pooling}.")


def learns(multitask: MultiTaskModel, task: TaskConfig, weights: Weights) -> bool:
    """Whether a task uses any of these weights."""
    return any(name.startswith(_prefixes(multitask, task)) for name in weights)


def common_weights(multitask: MultiTaskModel, weights: Weights) -> list[nn.Parameter]:
    """The weights that more than one task trains: the encoder, a shared head, a learned pooling of several tasks."""
    users = Counter(prefix for task in multitask.config.tasks for prefix in _prefixes(multitask, task))
    shared = tuple(prefix for prefix, count in users.items() if count > 1)
    return [weight for name, weight in weights.items() if name.startswith(shared)]


def new_optimizer(multitask: MultiTaskModel, weights: Weights) -> torch.optim.AdamW:
    """AdamW with a group per learning rate and weight decay."""
    config, layers = multitask.config, layer_weights(multitask.base)
    rates = {
        id(weight): config.learning_rate * config.layer_decay ** (len(layers) - 1 - layer)
        for layer, each in enumerate(layers)
        for weight in each
    }
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for weight in weights.values():
        rate = rates.get(id(weight), config.head_learning_rate)
        # Biases and the gains of norms have no decay.
        decay = config.weight_decay if weight.ndim > 1 else 0.0
        groups.setdefault((rate, decay), []).append(weight)
    made = [{"params": group, "lr": rate, "weight_decay": decay} for (rate, decay), group in groups.items()]
    return torch.optim.AdamW(made, fused=multitask.base.device.type in ("cpu", "cuda"))


def new_scheduler(optimizer: torch.optim.Optimizer, config: TrainConfig, steps: int, done: int = 0) -> LambdaLR:
    """Warm-up and decay over so many steps, from the step after ``done``."""
    return LambdaLR(optimizer, lambda step: lr_scale(config, step, steps), last_epoch=done - 1)


def lr_scale(config: TrainConfig, step: int, steps: int) -> float:
    """The share of the highest learning rate at a step of so many; the first step is 0.

    >>> from likewise.train.config import parse_config
    >>> config = parse_config('warmup = 0.5\\n[[task]]\\nkind = "similarity"\\ntrain = "a"')
    >>> [lr_scale(config, step, 4) for step in range(4)]
    [0.5, 1.0, 1.0, 0.5]
    """
    warm = round(config.warmup * steps)
    if step < warm:
        return (step + 1) / warm
    return DECAYS[config.schedule]((steps - step) / max(1, steps - warm))


DECAYS: dict[str, Callable[[float], float]] = {
    "linear": lambda left: left,
    "cosine": lambda left: (1 - math.cos(math.pi * left)) / 2,
    "constant": lambda _: 1.0,
}


def gradients(weights: Weights) -> list[Tensor]:
    """The gradients of all weights that have one."""
    return [weight.grad for weight in weights.values() if weight.grad is not None]


def pcgrad(gradients: Sequence[Tensor], rng: random.Random) -> Tensor:
    """PCGrad (Yu et al. 2020): gradients (n,) of tasks -> their sum (n,), each projected off those it conflicts with.

    >>> pcgrad([torch.tensor([1.0, 0.0]), torch.tensor([-1.0, 1.0])], random.Random(0))
    tensor([0.5000, 1.5000])
    """
    total = torch.zeros_like(gradients[0])
    for position, gradient in enumerate(gradients):
        projected = gradient.clone()
        others = [other for index, other in enumerate(gradients) if index != position]
        rng.shuffle(others)
        for other in others:
            along = torch.dot(projected, other)
            if along < 0:
                projected -= along / torch.dot(other, other) * other
        total += projected
    return total
