"""Training: encoder + tasks + config -> a better encoder and a report."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from glob import escape
from pathlib import Path

import torch

from likewise.encoder import Encoder
from likewise.encoder.encoder import model_key
from likewise.encoder.saving import require_savable
from likewise.errors import UsageError
from likewise.locks import only_writer
from likewise.progress import Progress
from likewise.train.config import TrainConfig
from likewise.train.eval_result import EvalResult
from likewise.train.evaluation import evaluate
from likewise.train.loop import BEST, CHECKPOINT, EpochDone, Run
from likewise.train.multitask import (
    MultiTaskModel,
    main_task,
    new_multitask_model,
    new_poolings,
    poolings_of,
    require_torch,
    variants,
)
from likewise.train.overlap import Overlap
from likewise.train.processes import Processes
from likewise.train.report import TrainReport
from likewise.train.saving import save_run
from likewise.train.tasks import Task

LOCK = ".lock"
LEFT = {LOCK, BEST, *(str(Path(name).with_suffix(".draft")) for name in (BEST, CHECKPOINT))}
"""What a run that was killed in its first epoch may have left."""


def train(
    encoder: Encoder,
    tasks: Sequence[Task],
    config: TrainConfig,
    *,
    resume: bool = False,
    keep_checkpoint: bool = False,
    overlaps: Sequence[Overlap] = (),
    progress: Progress | None = None,
    on_epoch: EpochDone | None = None,
) -> TrainReport:
    """Train an encoder, whose weights change, on tasks; the best epoch's weights stay in it.

    With ``config.out`` the run leaves checkpoints there, from which ``resume`` goes on, and in the end the model.
    ``keep_checkpoint`` leaves the last one, for a caller who writes more before the run counts as finished.

    >>> from likewise.train import Example, Source, TaskConfig
    >>> near = Example(("A plane.", "A jet."), 4.2, "1", "mine")
    >>> far = Example(("A plane.", "A cake."), 0.1, "2", "mine")
    >>> task = Task(TaskConfig("similarity", (Source("mine"),)), train=(near, far), dev=(near, far))
    >>> report = train(Encoder.load("minilm"), [task], TrainConfig((task.config,), epochs=1))
    >>> report.steps, report.formula
    (1, 'similarity spearman')
    """
    processes = Processes.joined(encoder.device.type == "cpu")
    folder = Path(config.out) if config.out else None
    _check(encoder, config)
    key = run_key(encoder, tasks, config)
    model = encoder.name, encoder.hash
    with _claimed(folder, resume, processes), torch.random.fork_rng(devices=[]):
        multitask = new_multitask_model(encoder, tasks, config, processes, progress)
        run = Run(multitask, tasks, processes, folder)
        if folder is not None and (folder / CHECKPOINT).exists():
            run.go_on(key)
        run.run(key, progress, on_epoch)
        run.take_best()
        dev = {task.name: evaluate(multitask, task, task.dev, progress) for task in tasks if task.dev}
        test = {task.name: evaluate(multitask, task, task.test, progress) for task in tasks if task.test}
        report = _report(run, model, tuple(overlaps), (dev, test))
        if folder is not None and processes.first:
            save_run(multitask, report, folder)
            if not keep_checkpoint:
                remove_checkpoint(folder)
    return report


@contextmanager
def _claimed(folder: Path | None, resume: bool, processes: Processes) -> Iterator[None]:
    """Hold a run's folder, as the only one that writes there; the other processes follow the first."""
    if folder is None or not processes.first:
        processes.wait()
        yield
        processes.wait()
        return
    prepare(folder, resume)
    with only_writer(folder / LOCK, folder):
        for left in folder.parent.glob(f".{escape(folder.name)}.draft-*"):
            shutil.rmtree(left)  # a model that was being written when the run was killed
        processes.wait()
        yield
        processes.wait()
        (folder / LOCK).unlink()


def remove_checkpoint(folder: Path) -> None:
    """Take away what a run went on from; from then on it counts as finished."""
    for left in (BEST, CHECKPOINT):
        (folder / left).unlink(missing_ok=True)


def _check(encoder: Encoder, config: TrainConfig) -> None:
    """Refuse at once what would fail in the end."""
    require_torch(encoder)
    if encoder.model_view.dtype not in (torch.float32, torch.float64):
        raise UsageError("training in half precision loses small steps; load the model with dtype float32")
    poolings = poolings_of(encoder, config)
    made = variants(encoder, poolings, new_poolings(encoder, poolings.values(), config))
    if config.out:
        require_savable(made[main_task(config).name])


def prepare(folder: Path, resume: bool) -> None:
    """See that a run may write into a folder: a new one, an empty one, or its own."""
    if (folder / CHECKPOINT).exists():
        if not resume:
            raise UsageError(f"{folder} holds a run that was interrupted; add --resume, or choose another out")
    elif (folder / "likewise.json").exists():
        raise UsageError(f"{folder} holds a finished run; choose another out, or delete it first")
    elif folder.is_dir() and any(each.name not in LEFT for each in folder.iterdir()):
        raise UsageError(f"{folder} holds files that are not of this command; choose another out")
    elif folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose another out")
    folder.mkdir(parents=True, exist_ok=True)


def run_key(encoder: Encoder, tasks: Sequence[Task], config: TrainConfig) -> str:
    """A name for everything that a run's weights depend on."""
    settings = {name: value for name, value in config.to_dict().items() if name != "out"}
    digest = hashlib.sha256(json.dumps([settings, model_key(encoder)], sort_keys=True).encode())
    for task in tasks:
        for part in (task.train, task.dev):
            digest.update(repr([(each.texts, each.target) for each in part]).encode("utf-8", "replace"))
    return digest.hexdigest()


def _report(
    run: Run,
    model: tuple[str, str],
    overlaps: tuple[Overlap, ...],
    outcomes: tuple[dict[str, EvalResult], dict[str, EvalResult]],
) -> TrainReport:
    train_state, multitask = run.train_state, run.multitask
    return TrainReport(
        config=run.config, model=model[0], model_sha256=model[1],
        weights=sum(weight.numel() for weight in run.weights.values()),
        examples={task.name: _counts(task) for task in run.tasks}, overlaps=overlaps,
        truncated=_truncated(multitask), epochs=tuple(train_state.epochs), curve=tuple(train_state.curve),
        best_epoch=train_state.best_epoch, steps=train_state.step, seconds=train_state.seconds, dev=outcomes[0], test=outcomes[1],
    )  # fmt: skip


def _counts(task: Task) -> dict[str, int]:
    return {"train": len(task.train), "dev": len(task.dev), "test": len(task.test)}


def _truncated(multitask: MultiTaskModel) -> int:
    return next(iter(multitask.readers.values())).tokens.truncated
