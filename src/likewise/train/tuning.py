"""Tuning: a config with its files -> the best hyperparameters on its dev files, searched with Optuna."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.learned_pooling import LEARNED
from likewise.errors import DataError, MissingExtra, TrainingError, UsageError
from likewise.progress import Progress, named
from likewise.storage import only_writer
from likewise.train.config import LARGEST_SEED, TrainConfig
from likewise.train.runs import RunContext, run_key, train_tasks
from likewise.train.tasks import Overlap, Task, fixed_sample, read_tasks
from likewise.train.trials import TuneReport, TuneTrial

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.trial import FrozenTrial

FILE, NAME = "study.db", "likewise tune"
"""The study's file and its name there; hyperband seeds its draws by the name."""
STARTUP = 4
"""Random trials before the sampler learns from results, and completed trials before any is pruned."""
LEAST_FOR_IMPORTANCES = 4
ERROR = "error"
"""The attribute of a trial that holds its error."""
PRUNERS = ("median", "hyperband", "none")
LOGARITHMIC = ("learning_rate", "head_learning_rate", "weight_decay")
"""Ranges that are searched on a logarithmic scale."""
CHOICES = ("batch", "lstm")
"""Settings with a few values to choose from."""
SEARCHED = ("learning_rate", "head_learning_rate", "batch", "epochs", "dropout", "weight_decay", "lstm")
LIMITS = {
    "learning_rate": (0.0, 1.0), "head_learning_rate": (0.0, 1.0), "epochs": (1, math.inf), "dropout": (0.0, 0.9),
    "weight_decay": (0.0, 10.0),
}  # fmt: skip
"""The values that a config accepts."""
LEAST = {"trials": 1, "train_rows": 2, "dev_rows": 2, "seed": 0}
LEAST_CHOICE = {"batch": 2, "lstm": 1}


@dataclass(frozen=True)
class TuneSettings:
    """How hyperparameters are searched.

    >>> TuneSettings(trials=3).batch
    (16, 32, 64)
    """

    trials: int = 8
    """total trials; raise it to continue a study"""
    train_rows: int = 1500
    """train examples of each task, the same in all trials"""
    dev_rows: int | None = None
    """dev examples of each task; by default the config's selection, or all"""
    seed: int = 1
    """of the search and of the examples; a trial uses the config's own seed"""
    pruner: str = "median"
    """how hopeless trials end early: median, hyperband or none"""
    learning_rate: tuple[float, float] = (1e-6, 2e-4)
    """lowest and highest, on a logarithmic scale"""
    head_learning_rate: tuple[float, float] = (1e-4, 1e-2)
    """the same, if a head or a pooling learns"""
    batch: tuple[int, ...] = (16, 32, 64)
    """values to choose from"""
    epochs: tuple[int, int] = (1, 4)
    """fewest and most"""
    dropout: tuple[float, float] = (0.0, 0.3)
    """lowest and highest, of the encoder"""
    weight_decay: tuple[float, float] = (1e-4, 0.1)
    """lowest and highest, on a logarithmic scale"""
    lstm: tuple[int, ...] = (64, 128, 256)
    """values to choose from, if a task has a new bilstm pooling"""

    def __post_init__(self) -> None:
        if self.pruner not in PRUNERS:
            raise UsageError(f"unknown pruner {self.pruner!r}; choose from {', '.join(PRUNERS)}")
        for name, low in LEAST.items():
            value = getattr(self, name)
            if (value is not None or name != "dev_rows") and not _whole(value, low):
                raise UsageError(f"{name.replace('_', '-')} is a whole number from {low} on, got {value!r}")
        if self.seed > LARGEST_SEED:
            raise UsageError(f"seed is at most {LARGEST_SEED}, got {self.seed}")
        for name in LIMITS:
            self._check_range(name)
        for name, low in LEAST_CHOICE.items():
            values = getattr(self, name)
            if not values or len(set(values)) < len(values) or not all(_whole(each, low) for each in values):
                raise UsageError(f"{name} takes different whole numbers from {low} on, got {list(values)}")

    def _check_range(self, name: str) -> None:
        values, (least, most) = getattr(self, name), LIMITS[name]
        if len(values) != 2 or not least <= values[0] <= values[1] <= most:
            raise UsageError(f"{name} takes a range (lowest, highest) within {least:g} and {most:g}, got {values}")
        if name in LOGARITHMIC and values[0] <= 0:
            raise UsageError(f"{name} is searched on a logarithmic scale, so its lowest is above 0, got {values[0]}")
        if name == "epochs" and not all(_whole(each, 1) for each in values):
            raise UsageError(f"epochs takes whole numbers, got {values}")

    def nearest(self, name: str, value: float) -> float:
        """The value of the search nearest to this one.

        >>> TuneSettings().nearest("batch", 8), TuneSettings().nearest("epochs", 25)
        (16, 4)
        """
        values: tuple[float, ...] = getattr(self, name)
        if name in CHOICES:
            return min(values, key=lambda each: abs(each - value))
        return min(max(value, values[0]), values[1])

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def _whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def tune(
    run_context: RunContext, config: TrainConfig, settings: TuneSettings, folder: Path, progress: Progress | None = None
) -> TuneReport:
    """Train a config with different hyperparameters, the first time with its own.

    The study is in the folder: a second call adds the missing trials. No trial sees a test file.
    """
    check_optuna()
    search, overlaps = _prepared(run_context, config, settings)
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder / ".lock", folder), _opened(folder / FILE, settings) as study:
        _claim(study, search, folder)
        _requeue(study, search)
        while (done := len(_finished(study))) < settings.trials:
            if progress is not None:
                progress(done, settings.trials, "trials")
            search.run_trial(study, done, named(progress, f"trial {done + 1}"))
        if progress is not None:
            progress(done, settings.trials, "trials")
        return _report(study, search, overlaps)


def check_optuna() -> None:
    """Report a missing Optuna at once."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingExtra("optuna", "train") from error


@dataclass(frozen=True)
class _Search:
    """What all trials of a study share."""

    run_context: RunContext
    config: TrainConfig
    tasks: tuple[Task, ...]
    settings: TuneSettings
    start: Mapping[str, Any]
    """the first trial's values, by the names of what is searched"""
    moved: Mapping[str, tuple[Any, Any]]
    model_sha256: str
    key: str
    """of the config, the model's weights and the examples"""

    @property
    def space(self) -> dict[str, BaseDistribution]:
        """What is searched, and in which ranges."""
        return {name: _distribution(name, getattr(self.settings, name)) for name in self.start}

    @property
    def metadata(self) -> dict[str, Any]:
        """Everything that a study depends on, as JSON gives it back."""
        settings, config = self.settings.to_dict(), self.config.to_dict()
        del settings["trials"], config["out"]
        metadata = {**settings, **{f"{name} of the config": value for name, value in config.items()}, "data": self.key}
        found: dict[str, Any] = json.loads(json.dumps(metadata))
        return found

    def run_trial(self, study: Study, index: int, progress: Progress | None) -> None:
        """One training from the original weights, reported to the study."""
        from optuna import TrialPruned
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        # Each trial has its own seed: after a kill it draws the same values again.
        seed = int(np.random.SeedSequence([self.settings.seed, index]).generate_state(1)[0])
        study.sampler = TPESampler(seed=seed, n_startup_trials=STARTUP)
        trial = study.ask(self.space)
        try:
            score = self._trained(trial, progress)
        except TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
        except TrainingError as error:
            # Pruned for Optuna, which is worse than any complete trial: it learns nothing from failed ones.
            trial.set_user_attr(ERROR, str(error))
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, score)

    def _trained(self, trial: Trial, progress: Progress | None) -> float:
        """The dev score of the best epoch."""
        from optuna import TrialPruned

        config, most = self.config, self.settings.train_rows
        samples = None if config.samples is None else min(config.samples, most)
        config = replace(config, out="", selection=None, samples=samples, **trial.params)

        def on_epoch(epoch: int, score: float) -> None:
            trial.report(score, epoch)
            if epoch < config.epochs and trial.should_prune():
                raise TrialPruned

        encoder = self.run_context.load(config.model)
        report = train_tasks(encoder, self.tasks, config, progress=progress, on_epoch=on_epoch)
        assert report.score is not None
        return report.score


def _prepared(
    run_context: RunContext, config: TrainConfig, settings: TuneSettings
) -> tuple[_Search, tuple[Overlap, ...]]:
    """Read, check and sample the examples of all trials; then load the model."""
    if not any(task.dev for task in config.tasks):
        raise UsageError('tuning needs dev examples; give dev = "..." in a [[task]]')
    read, overlaps = read_tasks(config.tasks, run_context.data_dir, run_context.limits)
    dev_rows = settings.dev_rows or config.selection
    tasks = tuple(
        Task(
            task.config,
            tuple(fixed_sample(task.train, settings.train_rows, settings.seed)),
            tuple(fixed_sample(task.dev, dev_rows, settings.seed)),
        )
        for task in read
    )
    encoder = run_context.load(config.model)
    own = {name: _own(name, config, encoder) for name in _searched(config, encoder)}
    start = {name: settings.nearest(name, value) for name, value in own.items()}
    moved = {name: (value, start[name]) for name, value in own.items() if start[name] != value}
    key = run_key(encoder, tasks, config)
    return _Search(run_context, config, tasks, settings, start, moved, encoder.hash, key), tuple(overlaps)


def _searched(config: TrainConfig, encoder: Encoder) -> list[str]:
    """Names of the settings that matter to what a config trains."""
    known = encoder.modules_config.learned
    poolings = {task.pooling or encoder.pooling_config.pooling for task in config.tasks}
    encoder_learns = config.freeze != "all"
    matters = {
        "learning_rate": encoder_learns,
        "dropout": encoder_learns,
        "head_learning_rate": bool(poolings & LEARNED.keys())
        or any(task.head not in ("cosine", "dot") for task in config.tasks),
        # A bilstm that the model already has keeps its width.
        "lstm": "bilstm" in poolings and (known is None or known.kind != "bilstm"),
    }
    return [name for name in SEARCHED if matters.get(name, True)]


def _own(name: str, config: TrainConfig, encoder: Encoder) -> Any:
    value = getattr(config, name)
    return encoder.model_view.embeddings.dropout or 0.0 if value is None else value


def _distribution(name: str, values: Any) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if name in CHOICES:
        return CategoricalDistribution(values)
    if name == "epochs":
        return IntDistribution(*values)
    return FloatDistribution(values[0], values[1], log=name in LOGARITHMIC)


# The study


@contextmanager
def _opened(path: Path, settings: TuneSettings) -> Iterator[Study]:
    """The study in a file, created if it is missing."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _quiet():
            # A path, not an address: some of its characters mean something else in addresses.
            how = {"creator": lambda: sqlite3.connect(path, check_same_thread=False)}
            storage = optuna.storages.RDBStorage(f"sqlite:///{FILE}", engine_kwargs=how)
            pruner = _pruner(settings)
            study = optuna.create_study(
                storage=storage, pruner=pruner, study_name=NAME, direction="maximize", load_if_exists=True
            )
    except (SQLAlchemyError, sqlite3.Error, RuntimeError) as error:
        raise DataError(f"{path} is no study that can be read; delete it, or choose another out") from error
    try:
        yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log."""
    log = logging.getLogger("optuna")
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


def _pruner(settings: TuneSettings) -> BasePruner:
    from optuna import pruners

    made = {
        "median": lambda: pruners.MedianPruner(n_startup_trials=STARTUP),
        "hyperband": lambda: pruners.HyperbandPruner(1, settings.epochs[1]),
        "none": pruners.NopPruner,
    }
    return made[settings.pruner]()


def _claim(study: Study, search: _Search, folder: Path) -> None:
    """Check that a study has these settings and data; a new one starts with the config's own values."""
    known, metadata = study.user_attrs.get("facts"), search.metadata
    if known is None:
        study.enqueue_trial(dict(search.start), skip_if_exists=True)
        study.set_user_attr("facts", metadata)
    elif known != metadata:
        names = {name: None for name in (*metadata, *known) if metadata.get(name) != known.get(name)}
        named = [name for name in names if name != "data"] or ["data or weights of the model"]
        raise UsageError(f"{folder} holds a study with other {', '.join(named)}; give it what it had, or another out")


def _requeue(study: Study, search: _Search) -> None:
    """Fail trials that were killed, and queue them again."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        known = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        study.tell(trial.number, state=TrialState.FAIL)
        # A trial that was killed before it had its values draws them again from its seed.
        if known.keys() == search.start.keys():
            study.enqueue_trial(known)


def _finished(study: Study) -> list[FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


# The report


def _report(study: Study, search: _Search, overlaps: Sequence[Overlap]) -> TuneReport:
    import optuna
    from optuna.trial import TrialState

    finished = _finished(study)
    with _quiet():
        own = optuna.create_study(direction="maximize")
        own.add_trials(finished)
    return TuneReport(
        config=search.config, settings=search.settings, model_sha256=search.model_sha256,
        examples={task.name: {"train": len(task.train), "dev": len(task.dev)} for task in search.tasks},
        overlaps=tuple(overlaps), moved=search.moved,
        interrupted=len(study.get_trials(deepcopy=False, states=(TrialState.FAIL,))),
        trials=tuple(_trial(index, trial, search) for index, trial in enumerate(finished)),
        importances=_importances(own), study=own,
    )  # fmt: skip


def _trial(index: int, trial: FrozenTrial, search: _Search) -> TuneTrial:
    error = trial.user_attrs.get(ERROR, "")
    seconds = 0.0 if trial.duration is None else trial.duration.total_seconds()
    scores = tuple(score for _, score in sorted(trial.intermediate_values.items()))
    parameters = {name: trial.params[name] for name in search.start}
    value = None if error else trial.value
    return TuneTrial(index, parameters, value, "failed" if error else trial.state.name.lower(), scores, seconds, error)


def _importances(study: Study) -> dict[str, float]:
    """Optuna's own, if there are enough trials."""
    import optuna
    from optuna.trial import TrialState

    if len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) < LEAST_FOR_IMPORTANCES:
        return {}
    try:
        with _quiet():
            found = optuna.importance.get_param_importances(study)
    except (ValueError, RuntimeError):
        return {}
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}
