"""The training loop of all tasks; an interrupted run gives the same weights as an uninterrupted one.

All random draws of a step are seeded by the run's seed and the step's number, so a run that resumes from a checkpoint
makes the same draws.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from likewise.encoder.weights import write_tensors
from likewise.errors import Cancelled, DataError, TrainingError, UsageError
from likewise.progress import Progress, Ticker
from likewise.storage import atomic_write
from likewise.train.config import TrainConfig
from likewise.train.examples import Example
from likewise.train.heads import frozen_batchnorm, loss_of, smoothness
from likewise.train.multitask import (
    MultiTaskModel,
    common_weights,
    evaluate,
    learning_weights,
    new_optimizer,
    prefixes,
    schedule,
)
from likewise.train.packed_encoder import Key, Packed
from likewise.train.processes import Processes
from likewise.train.tasks import Task, fixed_sample

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
FORMAT = 1
MOMENTS = ("exp_avg", "exp_avg_sq", "step")
SECONDS_BETWEEN_CHECKPOINTS = 120.0
POINTS = 20  # Points of an epoch in the curve of the training loss
SHOWN_ROWS = 8
EpochDone = Callable[[int, float], None]  # Called with an epoch's number and dev score; it may raise to end the run


# Checkpoints


@dataclass(frozen=True)
class Checkpoint:
    """A run's whole state in one file: named tensors and a few plain values."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the file atomically: a break leaves the earlier one."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        facts = {"facts": json.dumps({"format": FORMAT, **self.metadata})}
        atomic_write(path, lambda draft: write_tensors(draft, tensors, facts))

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a file back."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="pt") as file:
                metadata = json.loads((file.metadata() or {})["facts"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise DataError(f"{path} is no checkpoint that can be read; delete it and begin anew") from error
        if metadata.get("format") != FORMAT:
            raise DataError(f"{path} was written by another version; delete it and begin anew")
        return cls(tensors, metadata)


@dataclass
class TrainState:
    """The progress of a run, as checkpoints hold it."""

    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # each task's loss, summed over the steps of this epoch
    recent: dict[str, float] = field(default_factory=dict)  # the same since the curve's last point
    curve: list[dict[str, float]] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float | None = None
    seconds: float = 0.0


class Run:
    """One run of the loop over a multi-task model."""

    def __init__(
        self, multitask: MultiTaskModel, tasks: Sequence[Task], processes: Processes, folder: Path | None
    ) -> None:
        self.multitask, self.tasks, self.processes, self.folder = multitask, list(tasks), processes, folder
        self.config = multitask.config
        self.weights = learning_weights(multitask)
        for task in tasks:
            if not any(name.startswith(prefixes(multitask, task.config)) for name in self.weights):
                raise UsageError(
                    f"task {task.name} has no trainable parameters: all layers are frozen, and a cosine has no weights;"
                    " freeze fewer layers"
                )
        self.common = common_weights(multitask, self.weights) if self.config.pcgrad else []
        self.schedule = schedule(self.config, tasks)
        self.in_epoch = self.schedule.steps
        self.steps = self.in_epoch * self.config.epochs
        self.optimizer = new_optimizer(multitask, self.weights)
        self.scheduler = new_scheduler(self.optimizer, self.config, self.steps)
        self.train_state = TrainState()
        self.best: Checkpoint | None = None
        """the best weights of a run without a folder"""
        self._saved = time.monotonic()

    # Steps

    def run(self, key: str, progress: Progress | None = None, on_epoch: EpochDone | None = None) -> None:
        """Run to the end, or until patience ends it; ``key`` names everything that the run depends on."""
        ticker = Ticker(progress, self.steps, "")
        ticker.done = self.train_state.step
        began, before = time.monotonic(), self.train_state.seconds
        try:
            while True:
                # A run may have stopped between the end of an epoch and its evaluation.
                if len(self.train_state.epochs) < self.train_state.step // self.in_epoch:
                    self._end_epoch(progress, on_epoch)
                    self._save(key)
                waited = len(self.train_state.epochs) - self.train_state.best_epoch
                if self.train_state.step == self.steps or waited >= (self.config.patience or math.inf):
                    break
                self._step()
                self.train_state.seconds = before + time.monotonic() - began
                epoch = min(self.train_state.step // self.in_epoch + 1, self.config.epochs)
                points = self.train_state.curve[-1:]
                losses = [value for point in points for name, value in point.items() if name != "step"]
                loss = f", loss {sum(losses):.4f}" if losses else ""
                ticker.add(1, f"steps, epoch {epoch}/{self.config.epochs}{loss}")
                if time.monotonic() - self._saved > SECONDS_BETWEEN_CHECKPOINTS:
                    self._save(key)
        except Cancelled:
            self._save(key)
            raise
        ticker.close()

    def _step(self) -> None:
        """One step of the optimizer over every task."""
        config, train_state = self.config, self.train_state
        self.multitask.heads.train()
        parts: list[list[Tensor]] = []
        for number, task in enumerate(self.tasks):
            loss = sum(self._backward(number, task, part) for part in range(config.accumulate))
            for sums in (train_state.sums, train_state.recent):
                sums[task.name] = sums.get(task.name, 0.0) + loss
            if self.common:
                parts.append(self._take_common_gradients())
        if self.common:
            self._put_common_gradients(parts)
        self.processes.average(weight.grad for weight in self.weights.values() if weight.grad is not None)
        norm = float(torch.nn.utils.clip_grad_norm_(list(self.weights.values()), config.clip))
        if not np.isfinite(norm):
            raise TrainingError(self._broken("the gradient", self.tasks, norm))
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)
        train_state.step += 1
        self._add_point()

    def _backward(self, number: int, task: Task, part: int) -> float:
        """Add the gradients of one batch of a task; returns its share of the step's loss."""
        config, step = self.config, self.train_state.step
        examples = self._examples(number, task, part)
        key = (config.seed, step, part, number)
        keys = [(*key, index) for index in range(len(examples))]
        if config.chunk is not None and len(examples) > config.chunk:
            return self._backward_in_chunks(task, examples, keys)

        def output(packed: Packed) -> Tensor:
            # Seeded for each pass: SMART's passes drop the same units in the heads, too.
            _seed_heads(key)
            return self.multitask.output(task, examples, packed)

        embedded = self.multitask.embedded(task, examples, keys)
        plain = output(embedded)
        loss = loss_of(task.config)(plain, self.multitask.targets(task, examples, plain, embedded))
        value = float(loss.detach())
        if config.smart:
            with frozen_batchnorm(self.multitask.heads):
                loss = loss + config.smart * smoothness(task.config.kind, output, embedded, plain, (*key, 2))
        self._add_gradients(task, loss)
        return value / config.accumulate

    def _backward_in_chunks(self, task: Task, examples: Sequence[Example], keys: Sequence[Key]) -> float:
        """The same with only a chunk of the batch in memory: each text is encoded twice (Gao et al. 2021).

        A text's dropout has its own key, so the second pass repeats the first.
        """
        config, size = self.config, self.config.chunk
        assert size is not None
        parts = [(examples[at : at + size], keys[at : at + size]) for at in range(0, len(examples), size)]
        with torch.no_grad():
            encoded = [self._vectors(task, *part) for part in parts]
        vectors = [torch.cat(side).requires_grad_() for side in zip(*encoded, strict=True)]
        _seed_heads(keys[0][:-1])
        output = self.multitask.output_of(task, examples, vectors)
        loss = loss_of(task.config)(output, self.multitask.targets(task, examples, output))
        self._add_gradients(task, loss)
        if all(side.grad is not None for side in vectors):  # not with a head that sees no vector
            slopes = [torch.split(side.grad, size) for side in vectors if side.grad is not None]
            for part, slope in zip(parts, zip(*slopes, strict=True), strict=True):
                again = self._vectors(task, *part)
                if again[0].requires_grad:  # not if all layers are frozen
                    torch.autograd.backward(again, slope)
        return float(loss.detach()) / config.accumulate

    def _vectors(self, task: Task, examples: Sequence[Example], keys: Sequence[Key]) -> list[Tensor]:
        return self.multitask.vectors(task, examples, self.multitask.embedded(task, examples, keys))

    def _add_gradients(self, task: Task, loss: Tensor) -> None:
        value = float(loss.detach())
        if not np.isfinite(value):
            raise TrainingError(self._broken(f"the loss of {task.name}", [task], value))
        (loss * (task.config.weight / self.config.accumulate)).backward()  # type: ignore[no-untyped-call]

    def _examples(self, number: int, task: Task, part: int) -> list[Example]:
        epoch, step = divmod(self.train_state.step, self.in_epoch)
        return [task.train[index] for index in self.schedule.batch_of(number, epoch, step, part)]

    def _broken(self, what: str, tasks: Sequence[Task], value: float) -> str:
        """One line that names the rows of the step."""
        parts = product((each for each in enumerate(self.tasks) if each[1] in tasks), range(self.config.accumulate))
        examples = [each for (number, task), part in parts for each in self._examples(number, task, part)]
        rows = ", ".join(f"{each.file} {each.id}" for each in examples[:SHOWN_ROWS])
        more = "" if len(examples) <= SHOWN_ROWS else f" and {len(examples) - SHOWN_ROWS} more"
        epoch = self.train_state.step // self.in_epoch + 1
        return (
            f"{what} is {value} at step {self.train_state.step + 1} (epoch {epoch}), in the batch of rows {rows}{more};"
            " lower learning_rate or head_learning_rate, or look at these rows"
        )

    # PCGrad

    def _take_common_gradients(self) -> list[Tensor]:
        """One task's gradients of the common weights, which lose them."""
        taken = []
        for weight in self.common:
            taken.append(torch.zeros_like(weight) if weight.grad is None else weight.grad)
            weight.grad = None
        self.processes.average(taken)
        return taken

    def _put_common_gradients(self, parts: Sequence[Sequence[Tensor]]) -> None:
        rng = random.Random(self.config.seed * 1_000_003 + self.train_state.step)
        flat = pcgrad([torch.cat([each.flatten() for each in part]) for part in parts], rng)
        split = torch.split(flat, [weight.numel() for weight in self.common])
        for weight, own in zip(self.common, split, strict=True):
            weight.grad = own.view_as(weight)

    # Epochs

    def _add_point(self) -> None:
        """A point of the loss curve: the mean of the steps since the last one."""
        train_state, every = self.train_state, max(1, self.in_epoch // POINTS)
        within = (train_state.step - 1) % self.in_epoch + 1
        if within % every and within < self.in_epoch:
            return
        steps = within % every or every
        means = {name: value / steps for name, value in train_state.recent.items()}
        train_state.curve.append({"step": train_state.step, **means})
        train_state.recent = {}

    def _end_epoch(self, progress: Progress | None, on_epoch: EpochDone | None) -> None:
        train_state = self.train_state
        epoch = train_state.step // self.in_epoch
        found = {
            task.name: evaluate(self.multitask, task, fixed_sample(task.dev, self.config.selection, 0), progress)
            for task in self.tasks
            if task.dev
        }
        score = float(np.mean([result.score for result in found.values()])) if found else None
        train_state.epochs.append({
            "epoch": epoch, "step": train_state.step, "score": score,
            "train": {name: total / self.in_epoch for name, total in train_state.sums.items()},
            "dev": {name: {"loss": result.loss, **result.metrics} for name, result in found.items()},
        })  # fmt: skip
        train_state.sums = {}
        if score is None or train_state.best_score is None or score > train_state.best_score:
            train_state.best_epoch, train_state.best_score = epoch, score
            if self.folder is None:
                self.best = Checkpoint({name: each.detach().clone() for name, each in self._learned().items()}, {})
            elif self.processes.first:
                Checkpoint(self._learned(), {"epoch": epoch}).save(self.folder / BEST)
        if on_epoch is not None and score is not None:
            on_epoch(epoch, score)

    # Files

    def _learned(self) -> dict[str, Tensor]:
        """All that the run has learned: the weights, and the buffers of batch norm."""
        buffers = {f"buffers.{name}": value for name, value in self.multitask.heads.named_buffers()}
        return {f"weights.{name}": weight for name, weight in self.weights.items()} | buffers

    def _restore(self, tensors: dict[str, Tensor]) -> None:
        """Put back the tensors of ``_learned``."""
        own = self._learned()
        wrong = [name for name, value in own.items() if name not in tensors or tensors[name].shape != value.shape]
        if wrong:
            problem = f"{wrong[0]} is missing or of another shape"
            raise DataError(f"the checkpoint does not fit this run: {problem}; begin anew")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(tensors[name])

    def _save(self, key: str) -> None:
        self._saved = time.monotonic()
        if self.folder is None or not self.processes.first:
            return
        moments = {
            f"{moment}.{name}": self.optimizer.state[weight][moment]
            for name, weight in self.weights.items()
            if weight in self.optimizer.state
            for moment in MOMENTS
        }
        course = {"key": key, "course": vars(self.train_state)}
        Checkpoint(self._learned() | moments, course).save(self.folder / CHECKPOINT)

    def resume(self, key: str) -> None:
        """Continue from the checkpoint in the folder."""
        assert self.folder is not None
        found = Checkpoint.load(self.folder / CHECKPOINT)
        if found.metadata["key"] != key:
            raise TrainingError(
                f"{self.folder} was begun with other settings, data or weights; give it what it had, or another out"
            )
        self._restore(found.tensors)
        for name, weight in self.weights.items():
            names = {moment: f"{moment}.{name}" for moment in MOMENTS if f"{moment}.{name}" in found.tensors}
            if names:
                moments = {moment: found.tensors[each].to(weight.device) for moment, each in names.items()}
                self.optimizer.state[weight] = moments
        self.train_state = TrainState(**found.metadata["course"])
        self.scheduler = new_scheduler(self.optimizer, self.config, self.steps, self.train_state.step)

    def restore_best(self) -> None:
        """Put the best epoch's weights back."""
        self.processes.wait()
        best = self.best if self.folder is None else Checkpoint.load(self.folder / BEST)
        assert best is not None
        self._restore(best.tensors)
        self.processes.wait()


def _seed_heads(key: Key) -> None:
    """Seed the heads' dropout for this step."""
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1)))


# Optimization


def new_scheduler(optimizer: torch.optim.Optimizer, config: TrainConfig, steps: int, done: int = 0) -> LambdaLR:
    """Warm-up and decay over so many steps, from the step after ``done``."""
    return LambdaLR(optimizer, lambda step: lr_scale(config, step, steps), last_epoch=done - 1)


def lr_scale(config: TrainConfig, step: int, steps: int) -> float:
    """The share of the highest learning rate at a step of so many; the first step is 0."""
    warm = round(config.warmup * steps)
    if step < warm:
        return (step + 1) / warm
    return DECAYS[config.schedule]((steps - step) / max(1, steps - warm))


DECAYS: dict[str, Callable[[float], float]] = {
    "linear": lambda left: left,
    "cosine": lambda left: (1 - math.cos(math.pi * left)) / 2,
    "constant": lambda _: 1.0,
}


def pcgrad(gradients: Sequence[Tensor], rng: random.Random) -> Tensor:
    """PCGrad (Yu et al. 2020): the sum (n,) of gradients (n,), each projected off those it conflicts with."""
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
