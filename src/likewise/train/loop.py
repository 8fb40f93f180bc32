"""The training loop: one for every task, the same from start to end however often it is interrupted.

All that is drawn at random in a step is drawn from the seed and the step's number, so a run that goes on from a
checkpoint does what it would have done.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from likewise.errors import Cancelled, TrainingError, UsageError
from likewise.progress import Progress, Ticker
from likewise.train.checkpoint import (
    Checkpoint,
    moments_state,
    restore_moments,
    restore_weights,
    weights_state,
)
from likewise.train.eval_result import EvalResult
from likewise.train.evaluation import evaluate
from likewise.train.examples import Example
from likewise.train.heads import frozen_batchnorm
from likewise.train.losses import loss_of
from likewise.train.multitask import MultiTaskModel, schedule
from likewise.train.optimizer import common_weights, gradients, learns, lr_scale, named_weights, new_optimizer, set_pace
from likewise.train.packed_encoder import Key, Packed
from likewise.train.pcgrad import surgery
from likewise.train.processes import Processes
from likewise.train.sampling import fixed_sample
from likewise.train.smart import smoothness
from likewise.train.tasks import Task

CHECKPOINT, BEST = "checkpoint.safetensors", "best.safetensors"
SECONDS_BETWEEN_CHECKPOINTS = 120.0
POINTS = 20
"""Points of an epoch in the curve of the training loss."""
SHOWN_ROWS = 8

EpochDone = Callable[[int, float], None]
"""Called with an epoch's number and dev score; it may raise to end the run."""


@dataclass
class TrainState:
    """How far a run has come; it is written into checkpoints."""

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

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON, which gives every number back exactly."""
        return dict(vars(self))


class Run:
    """One run of the loop over a trainee."""

    def __init__(
        self, multitask: MultiTaskModel, tasks: Sequence[Task], processes: Processes, folder: Path | None
    ) -> None:
        self.multitask, self.tasks, self.processes, self.folder = multitask, list(tasks), processes, folder
        self.config = multitask.config
        self.weights = named_weights(multitask)
        for task in tasks:
            if not learns(multitask, task.config, self.weights):
                raise UsageError(
                    f"nothing of task {task.name} learns: all layers are frozen, and a cosine has no weights;"
                    " freeze fewer layers"
                )
        self.common = common_weights(multitask, self.weights) if self.config.pcgrad else []
        self.optimizer = new_optimizer(multitask, self.weights)
        self.train_state = TrainState()
        self.kept: Checkpoint | None = None
        """the best weights of a run without a folder"""
        self.schedule = schedule(self.config, tasks)
        self.in_epoch = self.schedule.steps
        self.steps = self.in_epoch * self.config.epochs
        self._saved = time.monotonic()

    # Steps

    def run(self, key: str, progress: Progress | None = None, on_epoch: EpochDone | None = None) -> None:
        """Go on to the end, or until patience does; ``key`` names what the run depends on."""
        ticker = Ticker(progress, self.steps, "")
        ticker.done = self.train_state.step
        began, before = time.monotonic(), self.train_state.seconds
        try:
            while True:
                if self._unjudged():
                    self._end_epoch(progress, on_epoch)
                    self._save(key)
                if self.train_state.step == self.steps or self._stale():
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

    def _unjudged(self) -> bool:
        """Whether an epoch has ended and was not measured yet; a run may have been stopped in between."""
        return len(self.train_state.epochs) < self.train_state.step // self.in_epoch

    def _note(self) -> str:
        epoch = min(self.train_state.step // self.in_epoch + 1, self.config.epochs)
        shown = f"steps, epoch {epoch}/{self.config.epochs}"
        return (
            shown
            if not self.train_state.curve
            else f"{shown}, loss {sum(_losses(self.train_state.curve[-1]).values()):.4f}"
        )

    def _step(self) -> None:
        """One step of the optimizer over every task."""
        config, train_state = self.config, self.train_state
        self.multitask.learning(True)
        parts: list[list[Tensor]] = []
        for number, task in enumerate(self.tasks):
            loss = sum(self._backward(number, task, part) for part in range(config.accumulate))
            train_state.sums[task.name] = train_state.sums.get(task.name, 0.0) + loss
            train_state.recent[task.name] = train_state.recent.get(task.name, 0.0) + loss
            if self.common:
                parts.append(self._taken())
        if self.common:
            self._put_back(parts)
        self.processes.average(gradients(self.weights))
        norm = float(torch.nn.utils.clip_grad_norm_(list(self.weights.values()), config.clip))
        if not np.isfinite(norm):
            raise TrainingError(self._broken("the gradient", self.tasks, norm))
        set_pace(self.optimizer, lr_scale(config, train_state.step, self.steps))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        train_state.step += 1
        self._point()

    def _backward(self, number: int, task: Task, part: int) -> float:
        """Add the gradients of one batch of a task; its loss as a share of the step's."""
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
        said = output(embedded)
        loss = loss_of(task.config)(said, self.multitask.targets(task, examples, said, embedded))
        value = float(loss.detach())
        if config.smart:
            with frozen_batchnorm(self.multitask.heads):
                loss = loss + config.smart * smoothness(task.config.kind, output, embedded, said, (*key, 2))
        self._require_finite(task, loss)
        (loss * (task.config.weight / config.accumulate)).backward()  # type: ignore[no-untyped-call]
        return value / config.accumulate

    def _backward_in_chunks(self, task: Task, examples: Sequence[Example], keys: Sequence[Key]) -> float:
        """The same with only a chunk of the batch in memory: each text is read twice (Gao et al. 2021).

        A text's dropout is its own, so that the second reading is the first one again.
        """
        config, size = self.config, self.config.chunk
        assert size is not None
        parts = [(examples[at : at + size], keys[at : at + size]) for at in range(0, len(examples), size)]
        with torch.no_grad():
            read = [self._read(task, *part) for part in parts]
        vectors = [torch.cat(side).requires_grad_() for side in zip(*read, strict=True)]
        _seed_heads(keys[0][:-1])
        said = self.multitask.output_of(task, examples, vectors)
        loss = loss_of(task.config)(said, self.multitask.targets(task, examples, said))
        self._require_finite(task, loss)
        (loss * (task.config.weight / config.accumulate)).backward()  # type: ignore[no-untyped-call]
        if any(side.grad is None for side in vectors):
            return float(loss.detach()) / config.accumulate  # a head that sees no vector
        slopes = [torch.split(side.grad, size) for side in vectors if side.grad is not None]
        for part, slope in zip(parts, zip(*slopes, strict=True), strict=True):
            again = self._read(task, *part)
            if again[0].requires_grad:  # not where all layers are frozen
                torch.autograd.backward(again, slope)
        return float(loss.detach()) / config.accumulate

    def _read(self, task: Task, examples: Sequence[Example], keys: Sequence[Key]) -> list[Tensor]:
        return self.multitask.vectors(task, examples, self.multitask.embedded(task, examples, keys))

    def _require_finite(self, task: Task, loss: Tensor) -> None:
        value = float(loss.detach())
        if not np.isfinite(value):
            raise TrainingError(self._broken(f"the loss of {task.name}", [task], value))

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

    # Gradients of tasks that pull against each other

    def _taken(self) -> list[Tensor]:
        """One task's gradients of the weights that several tasks have in common, taken away from them."""
        taken = []
        for weight in self.common:
            taken.append(torch.zeros_like(weight) if weight.grad is None else weight.grad)
            weight.grad = None
        self.processes.average(taken)
        return taken

    def _put_back(self, parts: Sequence[Sequence[Tensor]]) -> None:
        rng = random.Random(self.config.seed * 1_000_003 + self.train_state.step)
        flat = surgery([torch.cat([each.flatten() for each in part]) for part in parts], rng)
        start = 0
        for weight in self.common:
            weight.grad = flat[start : start + weight.numel()].view_as(weight)
            start += weight.numel()

    # Epochs

    def _point(self) -> None:
        """A point of the loss curve, the mean of the steps since the last one."""
        train_state, every = self.train_state, max(1, self.in_epoch // POINTS)
        within = (train_state.step - 1) % self.in_epoch + 1
        if within % every and within < self.in_epoch:
            return
        steps = within % every or every
        train_state.curve.append(
            {"step": train_state.step, **{name: value / steps for name, value in train_state.recent.items()}}
        )
        train_state.recent = {}

    def _end_epoch(self, progress: Progress | None, on_epoch: EpochDone | None) -> None:
        train_state = self.train_state
        epoch = train_state.step // self.in_epoch
        judged = {task.name: self._judged(task, progress) for task in self.tasks if task.dev}
        score = float(np.mean([eval_result.score for eval_result in judged.values()])) if judged else None
        train_state.epochs.append({
            "epoch": epoch, "step": train_state.step, "score": score,
            "train": {name: total / self.in_epoch for name, total in train_state.sums.items()},
            "dev": {name: {"loss": eval_result.loss, **eval_result.metrics} for name, eval_result in judged.items()},
        })  # fmt: skip
        train_state.sums = {}
        if score is None or train_state.best_score is None or score > train_state.best_score:
            train_state.best_epoch, train_state.best_score = epoch, score
            self._keep_best()
        if on_epoch is not None and score is not None:
            on_epoch(epoch, score)

    def _judged(self, task: Task, progress: Progress | None) -> EvalResult:
        return evaluate(self.multitask, task, fixed_sample(task.dev, self.config.selection, 0), progress)

    def _stale(self) -> bool:
        patience = self.config.patience
        return patience is not None and len(self.train_state.epochs) - self.train_state.best_epoch >= patience

    # Files

    def _keep_best(self) -> None:
        tensors = weights_state(self.weights, self.multitask.heads)
        if self.folder is None:
            self.kept = Checkpoint({name: tensor.detach().clone() for name, tensor in tensors.items()}, {})
        elif self.processes.first:
            Checkpoint(tensors, {"epoch": self.train_state.best_epoch}).save(self.folder / BEST)

    def _save(self, key: str) -> None:
        self._saved = time.monotonic()
        if self.folder is None or not self.processes.first:
            return
        tensors = weights_state(self.weights, self.multitask.heads) | moments_state(self.optimizer, self.weights)
        Checkpoint(tensors, {"key": key, "course": self.train_state.to_dict()}).save(self.folder / CHECKPOINT)

    def go_on(self, key: str) -> None:
        """Take up the run where its checkpoint left it."""
        assert self.folder is not None
        found = Checkpoint.load(self.folder / CHECKPOINT)
        if found.metadata["key"] != key:
            raise TrainingError(
                f"{self.folder} was begun with other settings, data or weights; give it what it had, or another out"
            )
        restore_weights(found.tensors, self.weights, self.multitask.heads)
        restore_moments(found.tensors, self.optimizer, self.weights)
        self.train_state = TrainState(**found.metadata["course"])

    def take_best(self) -> None:
        """Put the best epoch's weights back."""
        self.processes.wait()
        best = self.kept if self.folder is None else Checkpoint.load(self.folder / BEST)
        assert best is not None
        restore_weights(best.tensors, self.weights, self.multitask.heads)
        self.processes.wait()


def _seed_heads(key: Key) -> None:
    """Let the heads' dropout begin where this step's does."""
    torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1)))


def _losses(point: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in point.items() if name != "step"}
