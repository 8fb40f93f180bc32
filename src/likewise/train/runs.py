"""Training runs: a preset or a config file -> one run or a table of runs; a run trains and saves an encoder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from glob import escape
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from likewise.data import ScoredPair
from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.saving import require_savable
from likewise.encoder.weights import model_key
from likewise.errors import DataError, UsageError
from likewise.progress import Progress
from likewise.results import Result, Table
from likewise.storage import only_writer
from likewise.train.config import ROLES, TaskConfig, TrainConfig, config_from, tables_of, toml_table
from likewise.train.examples import SCALES, Example, Source
from likewise.train.loop import BEST, CHECKPOINT, EpochDone, Run
from likewise.train.multitask import evaluate, main_task, new_multitask_model, new_variants, require_torch
from likewise.train.processes import Processes
from likewise.train.report import TrainReport
from likewise.train.saving import save_run
from likewise.train.tasks import EVERYTHING, Limits, Overlap, Task, read_tasks, without_overlap

ROW_KEYS = ("name", "published", "every_task", "task")  # Keys of a row that are not settings of a run
LOCK = ".lock"
LEFTOVERS = {LOCK, BEST, *(str(Path(name).with_suffix(".draft")) for name in (BEST, CHECKPOINT))}
"""Files that a run may leave if it is killed in its first epoch."""

Pairs = Sequence[ScoredPair | tuple[str, str, float]]


@takes_encoder
def train(
    encoder: Encoder,
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
    encoder = deepcopy(encoder)
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


@takes_encoder
def train_tasks(encoder: Encoder, tasks: Sequence[Task], config: TrainConfig, **options: Any) -> TrainReport:
    """Train an encoder on tasks; its weights change to those of the best epoch.

    With ``config.out`` the run leaves checkpoints there, from which ``resume`` continues, and at the end the model.
    ``options`` are those of ``open_run``.

    >>> near = Example(("A plane.", "A jet."), 4.2, "1", "mine")
    >>> far = Example(("A plane.", "A cake."), 0.1, "2", "mine")
    >>> task = Task(TaskConfig("similarity", (Source("mine"),)), train=(near, far), dev=(near, far))
    >>> report = train_tasks(Encoder.load("minilm"), [task], TrainConfig((task.config,), epochs=1))
    >>> report.steps, report.formula
    (1, 'similarity spearman')
    """
    with open_run(encoder, tasks, config, **options) as report:
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

    ``resume`` continues an interrupted run, ``overlaps`` go into the report, and ``on_epoch`` gets each dev score. An
    error in the block leaves the checkpoint, so the run can be resumed.
    """
    processes = Processes.joined(encoder.device.type == "cpu")
    folder = Path(config.out) if config.out else None
    require_torch(encoder)
    if encoder.model_view.dtype not in (torch.float32, torch.float64):
        raise UsageError("training in half precision loses small steps; load the model with dtype float32")
    if config.out:
        require_savable(new_variants(encoder, config)[main_task(config).name])
    key = run_key(encoder, tasks, config)
    model, model_hash = encoder.name, encoder.hash
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
            config=config, model=model, model_sha256=model_hash,
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
    """Lock a run's folder, a new or empty one or its own, against other writers; other processes follow the first."""
    if folder is None or not processes.first:
        processes.wait()
        yield
        processes.wait()
        return
    problem = None
    if (folder / CHECKPOINT).exists():
        problem = None if resume else "holds a run that was interrupted; add --resume, or choose another out"
    elif (folder / "likewise.json").exists():
        problem = "holds a finished run; choose another out, or delete it first"
    elif folder.exists() and not folder.is_dir():
        problem = "is a file; choose another out"
    elif folder.exists() and any(each.name not in LEFTOVERS for each in folder.iterdir()):
        problem = "holds files that are not of this command; choose another out"
    if problem:
        raise UsageError(f"{folder} {problem}")
    folder.mkdir(parents=True, exist_ok=True)
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


def run_key(encoder: Encoder, tasks: Sequence[Task], config: TrainConfig) -> str:
    """A hash of everything that a run's weights depend on."""
    settings = {name: value for name, value in config.to_dict().items() if name != "out"}
    digest = hashlib.sha256(json.dumps([settings, model_key(encoder)], sort_keys=True).encode())
    for task in tasks:
        for part in (task.train, task.dev):
            digest.update(repr([(each.texts, each.target) for each in part]).encode("utf-8", "replace"))
    return digest.hexdigest()


# Runs of config files


def presets() -> dict[str, str]:
    """The TOML text of each ready-made config, by name."""
    folder = resources.files("likewise.train") / "presets"
    found = [each for each in folder.iterdir() if each.name.endswith(".toml")]
    return {each.name.removesuffix(".toml"): each.read_text(encoding="utf-8") for each in sorted(found, key=str)}


class PresetList(Result):
    """The ready-made configs and their first comments."""

    def to_dict(self) -> dict[str, Any]:
        """The name and the first comment of each."""
        first = {name: text.partition("\n")[0] for name, text in presets().items()}
        about = {name: line.lstrip("# ").strip() if line.startswith("#") else "" for name, line in first.items()}
        return {"configs": [{"name": name, "about": text} for name, text in about.items()]}

    def tables(self) -> dict[str, Table]:
        """A row for each."""
        return {"configs": Table.of(("config", "about"), [tuple(each.values()) for each in self.to_dict()["configs"]])}


def config_text(name: str) -> str:
    """The text of a ready-made config or of a file."""
    known, path = presets(), Path(name).expanduser()
    if name in known:
        return known[name]
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{name} is no TOML file that can be read; give one, or a ready-made one of {', '.join(known)}"
        ) from error


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    name: str
    config: TrainConfig
    published: tuple[float, ...] = ()  # results that others report for it: each task's measure, then their mean

    @property
    def slug(self) -> str:
        """Its name as that of a folder."""
        return f"{re.sub(r'[^a-z0-9]+', '-', self.name.lower()).strip('-')}-{self.config.seed}"


@dataclass(frozen=True)
class Plan:
    """The runs of a config file: one, or the rows of a table, each with every seed."""

    rows: tuple[Row, ...]
    table: bool
    out: str

    @property
    def single(self) -> TrainConfig:
        """The config of a plan that is one run."""
        return self.rows[0].config


def parse_plan(text: str, where: str = "config", **changes: Any) -> Plan:
    """The plan that a TOML text holds, with some settings changed in all of its rows."""
    table = toml_table(text, where)
    rows, seeds = tables_of(table, "row", where), table.pop("seeds", None)
    table.pop("row", None)
    given = {name: value for name, value in changes.items() if value is not None}
    base = {**table, **given}
    if not rows:
        if seeds is not None:
            raise UsageError(f"{where}: seeds needs [[row]] tables; one run takes seed = 1")
        single = config_from(base, where)
        return Plan((Row("", single),), False, single.out)
    if seeds is not None and (not isinstance(seeds, list) or not seeds or any(type(seed) is not int for seed in seeds)):
        raise UsageError(f"{where}: seeds takes whole numbers as [1, 2, 3], got {seeds!r}")
    numbers = [base.get("seed", 1)] if seeds is None or "seed" in given else seeds
    made = tuple(_row(base, row, given | {"seed": seed}, where) for row in rows for seed in numbers)
    slugs = [row.slug for row in made]
    if len(set(slugs)) < len(slugs):
        raise UsageError(f"{where}: two rows are called {max(slugs, key=slugs.count)}; give each its own name")
    return Plan(made, True, os.path.expanduser(str(base.get("out", ""))))


def _row(base: Mapping[str, Any], row: Mapping[str, Any], given: Mapping[str, Any], where: str) -> Row:
    name = row.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"{where}: a [[row]] needs a name")
    where = f"{where}, row {name}"
    if "seed" in row:
        raise UsageError(f"{where}: a row has no seed of its own; give seeds = [1, 2, 3] above the rows")
    changed = deepcopy(dict(base)) | {key: value for key, value in row.items() if key not in ROW_KEYS} | dict(given)
    _change_tasks(tables_of(changed, "task", where), row, where)
    config = config_from(changed, where)
    published = row.get("published", [])
    if not isinstance(published, list) or not all(type(each) in (int, float) for each in published):
        raise UsageError(f"{where}: published takes numbers as [0.5, 0.7], got {published!r}")
    return Row(name, replace(config, out=""), tuple(map(float, published)))


def _change_tasks(tasks: list[dict[str, Any]], row: Mapping[str, Any], where: str) -> None:
    """Change the tables of tasks as a row says: all of them, and single ones by name."""
    every, single = row.get("every_task", {}), row.get("task", {})
    named = {f"task.{key}": table for key, table in single.items()} if isinstance(single, dict) else {}
    for key, table in {"every_task": every, "task": single, **named}.items():
        if not isinstance(table, dict):
            raise UsageError(f"{where}: {key} takes a table as {{ head = 'linear' }}, got {table!r}")
    known = {task.get("name", task.get("kind")): task for task in tasks}
    if unknown := [key for key in single if key not in known]:
        raise UsageError(f"{where}: no task {unknown[0]!r}; choose from {', '.join(map(str, known))}")
    for name, task in known.items():
        task.update(every | single.get(name, {}))


@dataclass(frozen=True)
class RunContext:
    """How runs load their models and data."""

    load: Callable[[str], Encoder]
    data_dir: Path | None = None
    limits: Limits = EVERYTHING
    resume: bool = False

    @contextmanager
    def run(self, config: TrainConfig, progress: Progress | None = None) -> Iterator[TrainReport]:
        """Read, check, load and train; the run is finished when the block ends."""
        tasks, overlaps = read_tasks(config.tasks, self.data_dir, self.limits)
        options: dict[str, Any] = {"resume": self.resume, "overlaps": overlaps, "progress": progress}
        with open_run(self.load(config.model), tasks, config, **options) as report:
            yield report
