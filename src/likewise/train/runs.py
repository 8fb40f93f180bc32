"""Runs: encoder + tasks + config -> a better encoder and a report; runs of config files, and tables of them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any

import torch

from likewise.data import ScoredPair, locate
from likewise.encoder import Encoder
from likewise.encoder.encoder import model_key
from likewise.encoder.saving import require_savable
from likewise.errors import DataError, UsageError
from likewise.grammar.pipelines import chosen
from likewise.progress import Progress, named
from likewise.storage import atomic_write, only_writer
from likewise.train.config import ROLES, TaskConfig, TrainConfig
from likewise.train.examples import SCALES, Example, Source
from likewise.train.loop import BEST, CHECKPOINT, EpochDone, Run
from likewise.train.multitask import evaluate, main_task, new_multitask_model, new_variants, require_torch
from likewise.train.processes import Processes
from likewise.train.results import TrainReport
from likewise.train.run_plan import Row
from likewise.train.saving import save_run
from likewise.train.tasks import EVERYTHING, Limits, Overlap, Task, read_tasks, without_overlap

LOCK = ".lock"
LEFTOVERS = {LOCK, BEST, *(str(Path(name).with_suffix(".draft")) for name in (BEST, CHECKPOINT))}
"""Files that a run may leave if it is killed in its first epoch."""
RECORD = "row.json"
"""The file of a finished row of a table."""

Pairs = Sequence[ScoredPair | tuple[str, str, float]]


def train(
    encoder: Encoder | str,
    pairs: Pairs,
    loss: str = "cosent",
    *,
    dev: Pairs = (),
    scale: tuple[float, float] = (0.0, 5.0),
    progress: Progress | None = None,
    **settings: Any,
) -> tuple[Encoder, TrainReport]:
    """Fine-tune a model for similarity on pairs of texts with scores; the given encoder stays as it is.

    ``loss`` is cosent or scaled-mse. ``dev`` chooses the best epoch. ``scale`` holds the lowest and the highest score.
    ``settings`` are those of ``TrainConfig``, such as epochs, batch, learning_rate or out, a folder for the model.

    >>> pairs = [("A plane takes off.", "A jet departs.", 4.5), ("A plane takes off.", "A cake is cut.", 0.2)]
    >>> trained, report = train("minilm", pairs, epochs=1)
    >>> report.steps, trained.encode("A plane takes off.").shape
    (1, (384,))
    """
    encoder = Encoder.load(encoder) if isinstance(encoder, str) else deepcopy(encoder)
    files = {name: _examples(name, rows, scale) for name, rows in (("pairs", pairs), ("dev", dev)) if rows}
    left, overlaps = without_overlap({"pairs": files.get("pairs", ())}, {"dev": files.get("dev", ())})
    if len(left["pairs"]) < 2:
        raise DataError(f"training needs at least 2 pairs, got {len(left['pairs'])}")
    own = TaskConfig("similarity", (Source("pairs"),), (Source("dev"),) if dev else (), loss=loss)
    task = Task(own, tuple(left["pairs"]), tuple(files.get("dev", ())))
    config = TrainConfig((own,), encoder.name, **settings)
    return encoder, train_tasks(encoder, [task], config, overlaps=overlaps, progress=progress)


def _examples(name: str, pairs: Pairs, scale: tuple[float, float]) -> list[Example]:
    """Pairs as examples, their scores on the scale of similarity."""
    examples = []
    for number, pair in enumerate(pairs, start=1):
        left, right, score = (pair.left, pair.right, pair.score) if isinstance(pair, ScoredPair) else pair
        try:
            target = SCALES["similarity"].mapped(float(score), scale)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name}, pair {number}: the score {score!r} {error}") from None
        examples.append(Example((left, right), target, str(number), name))
    return examples


def train_tasks(
    encoder: Encoder,
    tasks: Sequence[Task],
    config: TrainConfig,
    *,
    resume: bool = False,
    overlaps: Sequence[Overlap] = (),
    progress: Progress | None = None,
    on_epoch: EpochDone | None = None,
) -> TrainReport:
    """Train an encoder on tasks; its weights change to those of the best epoch.

    With ``config.out`` the run leaves checkpoints there, from which ``resume`` continues, and at the end the model.

    >>> near = Example(("A plane.", "A jet."), 4.2, "1", "mine")
    >>> far = Example(("A plane.", "A cake."), 0.1, "2", "mine")
    >>> task = Task(TaskConfig("similarity", (Source("mine"),)), train=(near, far), dev=(near, far))
    >>> report = train_tasks(Encoder.load("minilm"), [task], TrainConfig((task.config,), epochs=1))
    >>> report.steps, report.formula
    (1, 'similarity spearman')
    """
    run = open_run(encoder, tasks, config, resume=resume, overlaps=overlaps, progress=progress, on_epoch=on_epoch)
    with run as report:
        return report


@contextmanager
def open_run(
    encoder: Encoder,
    tasks: Sequence[Task],
    config: TrainConfig,
    *,
    resume: bool = False,
    overlaps: Sequence[Overlap] = (),
    progress: Progress | None = None,
    on_epoch: EpochDone | None = None,
) -> Iterator[TrainReport]:
    """``train_tasks`` for a caller that writes more into the folder: the run is finished when the block ends.

    An error in the block leaves the checkpoint, so the run can be resumed.
    """
    processes = Processes.joined(encoder.device.type == "cpu")
    folder = Path(config.out) if config.out else None
    _check(encoder, config)
    key = run_key(encoder, tasks, config)
    model = encoder.name, encoder.hash
    with _locked(folder, resume, processes):
        with torch.random.fork_rng(devices=[]):
            multitask = new_multitask_model(encoder, tasks, config, processes, progress)
            run = Run(multitask, tasks, processes, folder)
            if folder is not None and (folder / CHECKPOINT).exists():
                run.resume(key)
            run.run(key, progress, on_epoch)
            run.restore_best()
            dev = {task.name: evaluate(multitask, task, task.dev, progress) for task in tasks if task.dev}
            test = {task.name: evaluate(multitask, task, task.test, progress) for task in tasks if task.test}
        state = run.train_state
        report = TrainReport(
            config=config, model=model[0], model_sha256=model[1],
            weights=sum(weight.numel() for weight in run.weights.values()),
            examples={task.name: {role: len(getattr(task, role)) for role in ROLES} for task in tasks},
            overlaps=tuple(overlaps), truncated=next(iter(multitask.encoders.values())).tokens.truncated,
            epochs=tuple(state.epochs), curve=tuple(state.curve), best_epoch=state.best_epoch, steps=state.step,
            seconds=state.seconds, dev=dev, test=test,
        )  # fmt: skip
        if folder is not None and processes.first:
            save_run(multitask, report, folder)
        yield report
        if folder is not None and processes.first:
            remove_checkpoint(folder)


@contextmanager
def _locked(folder: Path | None, resume: bool, processes: Processes) -> Iterator[None]:
    """Lock a run's folder against other writers; the other processes follow the first."""
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
    """Delete the checkpoints; without them the run is finished."""
    for left in (BEST, CHECKPOINT):
        (folder / left).unlink(missing_ok=True)


def _check(encoder: Encoder, config: TrainConfig) -> None:
    """Reject at once what would fail at the end."""
    require_torch(encoder)
    if encoder.model_view.dtype not in (torch.float32, torch.float64):
        raise UsageError("training in half precision loses small steps; load the model with dtype float32")
    if config.out:
        require_savable(new_variants(encoder, config)[main_task(config).name])


def prepare(folder: Path, resume: bool) -> None:
    """Check that a run may write into a folder: a new one, an empty one, or its own."""
    if (folder / CHECKPOINT).exists():
        if not resume:
            raise UsageError(f"{folder} holds a run that was interrupted; add --resume, or choose another out")
    elif (folder / "likewise.json").exists():
        raise UsageError(f"{folder} holds a finished run; choose another out, or delete it first")
    elif folder.is_dir() and any(each.name not in LEFTOVERS for each in folder.iterdir()):
        raise UsageError(f"{folder} holds files that are not of this command; choose another out")
    elif folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; choose another out")
    folder.mkdir(parents=True, exist_ok=True)


def run_key(encoder: Encoder, tasks: Sequence[Task], config: TrainConfig) -> str:
    """A hash of everything that a run's weights depend on."""
    settings = {name: value for name, value in config.to_dict().items() if name != "out"}
    digest = hashlib.sha256(json.dumps([settings, model_key(encoder)], sort_keys=True).encode())
    for task in tasks:
        for part in (task.train, task.dev):
            digest.update(repr([(each.texts, each.target) for each in part]).encode("utf-8", "replace"))
    return digest.hexdigest()


# Runs of config files


@dataclass(frozen=True)
class RunContext:
    """How runs load their models and data."""

    load: Callable[[str], Encoder]
    data_dir: Path | None = None
    limits: Limits = EVERYTHING
    resume: bool = False

    @contextmanager
    def run(
        self, config: TrainConfig, progress: Progress | None = None, on_epoch: EpochDone | None = None
    ) -> Iterator[TrainReport]:
        """Read, check, load and train; the run is finished when the block ends."""
        tasks, overlaps = read_tasks(config.tasks, self.data_dir, self.limits)
        with open_run(
            self.load(config.model), tasks, config, resume=self.resume, overlaps=overlaps, progress=progress,
            on_epoch=on_epoch,
        ) as report:  # fmt: skip
            yield report


@dataclass(frozen=True)
class TableRow:
    """A finished row: its name, its seed and its report as JSON."""

    name: str
    seed: int
    published: tuple[float, ...]
    report: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The report with the row's name, seed and published numbers."""
        return {"name": self.name, "seed": self.seed, "published": list(self.published), **self.report}


def train_table(
    run_context: RunContext,
    rows: Sequence[Row],
    folder: Path,
    keep_models: bool = False,
    progress: Progress | None = None,
) -> list[TableRow]:
    """Every row's run, one after the other; finished rows are read back, an interrupted one is resumed."""
    done, inputs = [], _Inputs(run_context)
    processes = Processes.joined(cpu=True)
    for index, row in enumerate(rows, start=1):
        record = folder / row.slug / RECORD
        used = {"config": _settings(row.config), **inputs.of(row.config)}
        if not record.exists():
            config = replace(row.config, out=str(record.parent))
            noted = named(progress, f"row {index}/{len(rows)}, {row.name}")
            with replace(run_context, resume=True).run(config, noted) as report:
                if processes.first:
                    _write(record, {"facts": used, "report": report.to_dict()})
                    _tidy(record.parent, keep_models)
        elif processes.first and (record.parent / CHECKPOINT).exists():  # the run was stopped before it was tidied
            _tidy(record.parent, keep_models)
            remove_checkpoint(record.parent)
        processes.wait()
        done.append(TableRow(row.name, row.config.seed, row.published, _record(record, row, used)))
    return done


class _Inputs:
    """Everything that rows depend on besides their settings: the files, how much of them, and the weights."""

    def __init__(self, run_context: RunContext) -> None:
        self._run_context = run_context
        self._sums: dict[str, str] = {}

    def of(self, config: TrainConfig) -> dict[str, Any]:
        """The limits, a checksum of each file and of the model, and the grammars that compute targets."""
        sources = [source for task in config.tasks for source in (*task.train, *task.dev, *task.test)]
        grammars = {chosen(source.grammar or None) for source in sources if source.target == "shared-nouns"}
        return {
            "limits": asdict(self._run_context.limits),
            "files": {name: self._sum(name, self._file) for name in sorted({source.file for source in sources})},
            "model": self._sum(config.model, lambda name: model_key(self._run_context.load(name))),
            **({"grammars": sorted(grammars)} if grammars else {}),
        }

    def _sum(self, name: str, compute: Callable[[str], str]) -> str:
        if name not in self._sums:
            self._sums[name] = compute(name)
        return self._sums[name]

    def _file(self, name: str) -> str:
        with locate(name, self._run_context.data_dir).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _settings(config: TrainConfig) -> Any:
    """A row's settings as JSON gives them back."""
    return json.loads(json.dumps(replace(config, out="").to_dict()))


def _write(record: Path, found: Mapping[str, Any]) -> None:
    atomic_write(record, lambda draft: draft.write_text(json.dumps(found), encoding="utf-8"))


def _tidy(folder: Path, keep_models: bool) -> None:
    """Delete the model of a finished row unless it is kept; the checkpoint stays until the run is finished."""
    for left in [] if keep_models else list(folder.iterdir()):
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name not in (RECORD, CHECKPOINT, LOCK):
            left.unlink()


def _record(path: Path, row: Row, used: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known, report = found["facts"], dict(found["report"])
        changed = [name for name in used if known[name] != used[name]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} cannot be read; delete it, and the row is trained again") from error
    if changed:
        what = ", ".join(changed).replace("config", "settings")
        raise UsageError(f"{path} is of other {what} than row {row.name!r} has; choose another out, or delete it")
    return report
