"""The training loop: one for every task; an interrupted run gives the same weights as one without a break.

All random draws of a step are seeded by the run's seed and the step's number, so a run that resumes from a checkpoint
repeats what it would have done.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from likewise.errors import Cancelled, DataError, TrainingError, UsageError
from likewise.progress import Progress, Ticker
from likewise.train.examples import Example
from likewise.train.heads import frozen_batchnorm, loss_of, smoothness
from likewise.train.multitask import MultiTaskModel, evaluate, schedule
from likewise.train.optimizer import (
    Weights,
    common_weights,
    freeze_layers,
    gradients,
    learns,
    named_weights,
    new_optimizer,
    new_scheduler,
    pcgrad,
)
from likewise.train.packed_encoder import Key, Packed
from likewise.train.processes import Processes
from likewise.train.tasks import Task, fixed_sample

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
FORMAT = 1
MOMENTS = ("exp_avg", "exp_avg_sq", "step")
SECONDS_BETWEEN_CHECKPOINTS = 120.0
POINTS = 20
"""Points of an epoch in the curve of the training loss."""
SHOWN_ROWS = 8

EpochDone = Callable[[int, float], None]
"""Called with an epoch's number and dev score; it may raise to end the run."""


# Checkpoints


@dataclass(frozen=True)
class Checkpoint:
    """A run's whole state in one file: named tensors and a few plain values."""

    tensors: dict[str, Tensor]
    metadata: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the file atomically: a break leaves the earlier one."""
        from safetensors.torch import save_file

        draft = path.with_suffix(".draft")
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        save_file(tensors, str(draft), metadata={"facts": json.dumps({"format": FORMAT, **self.metadata})})
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)

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


def weights_state(weights: Weights, heads: nn.Module) -> dict[str, Tensor]:
    """All that a run has learned: the weights, and the buffers of batch norm."""
    buffers = {f"buffers.{name}": value for name, value in heads.named_buffers()}
    return {f"weights.{name}": weight for name, weight in weights.items()} | buffers


def restore_weights(tensors: dict[str, Tensor], weights: Weights, heads: nn.Module) -> None:
    """Put back the tensors of ``weights_state``."""
    state = weights_state(weights, heads)
    wrong = [name for name, value in state.items() if name not in tensors or tensors[name].shape != value.shape]
    if wrong:
        raise DataError(f"the checkpoint does not fit this run: {wrong[0]} is missing or of another shape; begin anew")
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(tensors[name])


def moments_state(optimizer: torch.optim.Optimizer, weights: Weights) -> dict[str, Tensor]:
    """The optimizer's moments of each weight."""
    return {
        f"{moment}.{name}": optimizer.state[weight][moment]
        for name, weight in weights.items()
        if weight in optimizer.state
        for moment in MOMENTS
    }


def restore_moments(tensors: dict[str, Tensor], optimizer: torch.optim.Optimizer, weights: Weights) -> None:
    """Put back the tensors of ``moments_state``."""
    for name, weight in weights.items():
        found = {moment: tensors[f"{moment}.{name}"] for moment in MOMENTS if f"{moment}.{name}" in tensors}
        if found:
            optimizer.state[weight] = {moment: value.to(weight.device) for moment, value in found.items()}


@dataclass
class TrainState:
    """The progress of a run, as checkpoints hold it."""

    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    """each task's loss, summed over the steps of this epoch"""
    recent: dict[str, float] = field(default_factory=dict)
    """the same since the curve's last point"""
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
        freeze_layers(multitask)
        self.weights = named_weights(multitask)
        for task in tasks:
            if not learns(multitask, task.config, self.weights):
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
                if self.train_state.step == self.steps or self._out_of_patience():
                    break
                self._step()
                self.train_state.seconds = before + time.monotonic() - began
                ticker.add(1, self._note())
                if time.monotonic() - self._saved > SECONDS_BETWEEN_CHECKPOINTS:
                    self._save(key)
        except Cancelled:
            self._save(key)
            raise
        ticker.close()

    def _note(self) -> str:
        epoch = min(self.train_state.step // self.in_epoch + 1, self.config.epochs)
        note = f"steps, epoch {epoch}/{self.config.epochs}"
        if not self.train_state.curve:
            return note
        point = self.train_state.curve[-1]
        return f"{note}, loss {sum(value for name, value in point.items() if name != 'step'):.4f}"

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
        self.processes.average(gradients(self.weights))
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
        parts = range(self.config.accumulate)
        numbers = [number for number, task in enumerate(self.tasks) if task in tasks]
        examples = [
            each for number in numbers for part in parts for each in self._examples(number, self.tasks[number], part)
        ]
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
        start = 0
        for weight in self.common:
            weight.grad = flat[start : start + weight.numel()].view_as(weight)
            start += weight.numel()

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
            self._save_best()
        if on_epoch is not None and score is not None:
            on_epoch(epoch, score)

    def _out_of_patience(self) -> bool:
        patience = self.config.patience
        return patience is not None and len(self.train_state.epochs) - self.train_state.best_epoch >= patience

    # Files

    def _save_best(self) -> None:
        tensors = weights_state(self.weights, self.multitask.heads)
        if self.folder is None:
            self.best = Checkpoint({name: tensor.detach().clone() for name, tensor in tensors.items()}, {})
        elif self.processes.first:
            Checkpoint(tensors, {"epoch": self.train_state.best_epoch}).save(self.folder / BEST)

    def _save(self, key: str) -> None:
        self._saved = time.monotonic()
        if self.folder is None or not self.processes.first:
            return
        tensors = weights_state(self.weights, self.multitask.heads) | moments_state(self.optimizer, self.weights)
        Checkpoint(tensors, {"key": key, "course": vars(self.train_state)}).save(self.folder / CHECKPOINT)

    def resume(self, key: str) -> None:
        """Continue from the checkpoint in the folder."""
        assert self.folder is not None
        found = Checkpoint.load(self.folder / CHECKPOINT)
        if found.metadata["key"] != key:
            raise TrainingError(
                f"{self.folder} was begun with other settings, data or weights; give it what it had, or another out"
            )
        restore_weights(found.tensors, self.weights, self.multitask.heads)
        restore_moments(found.tensors, self.optimizer, self.weights)
        self.train_state = TrainState(**found.metadata["course"])
        self.scheduler = new_scheduler(self.optimizer, self.config, self.steps, self.train_state.step)

    def restore_best(self) -> None:
        """Put the best epoch's weights back."""
        self.processes.wait()
        best = self.best if self.folder is None else Checkpoint.load(self.folder / BEST)
        assert best is not None
        restore_weights(best.tensors, self.weights, self.multitask.heads)
        self.processes.wait()


def _seed_heads(key: Key) -> None:
    """Seed the heads' dropout for this step."""
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1)))
