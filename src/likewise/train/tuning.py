"""Tuning: a config with its files -> the hyperparameters that do best on its dev files, searched with Optuna."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.pooling import LEARNED
from likewise.errors import DataError, MissingExtra, TrainingError, UsageError
from likewise.locks import only_writer
from likewise.progress import Progress, named
from likewise.train import Task, TrainConfig, read_tasks, train
from likewise.train.config_text import toml
from likewise.train.running import RunContext
from likewise.train.sampling import fixed_sample
from likewise.train.training import run_key
from likewise.train.trials import TuneReport, TuneTrial
from likewise.train.tune_settings import CHOICES, LOGARITHMIC, SEARCHED, TuneSettings

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.trial import FrozenTrial

__all__ = ["TuneReport", "TuneSettings", "TuneTrial", "toml", "tune"]

FILE, NAME = "study.db", "likewise tune"
"""The study's file and its name in there; hyperband draws by the name."""
STARTUP = 4
"""Trials drawn at random before any are drawn from what was found, and completed ones before any is pruned."""
LEAST_FOR_IMPORTANCES = 4
ERROR = "error"
"""Where a trial says why it failed."""


def tune(
    run_context: RunContext, config: TrainConfig, settings: TuneSettings, folder: Path, progress: Progress | None = None
) -> TuneReport:
    """Train a config with other and other hyperparameters, the first time with its own.

    The study is in the folder: a second call goes on with the trials that are missing. No trial sees a test file.
    """
    check_optuna()
    search, overlaps = _prepared(run_context, config, settings)
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder / ".lock", folder), _opened(folder / FILE, settings) as study:
        _claim(study, search, folder)
        _mend(study, search)
        while (done := len(_finished(study))) < settings.trials:
            if progress is not None:
                progress(done, settings.trials, "trials")
            search.run_trial(study, done, named(progress, f"trial {done + 1}"))
        if progress is not None:
            progress(done, settings.trials, "trials")
        return _report(study, search, overlaps)


def check_optuna() -> None:
    """Say at once how to get Optuna where it is missing."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingExtra("optuna", "train") from error


@dataclass(frozen=True)
class _Search:
    """What every trial of a study has in common."""

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
        """All that a study depends on, as JSON gives it back."""
        settings, config = self.settings.to_dict(), self.config.to_dict()
        del settings["trials"], config["out"]
        metadata = {**settings, **{f"{name} of the config": value for name, value in config.items()}, "data": self.key}
        found: dict[str, Any] = json.loads(json.dumps(metadata))
        return found

    def run_trial(self, study: Study, index: int, progress: Progress | None) -> None:
        """One training from the model as it was, told to the study."""
        from optuna import TrialPruned
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        # Seeded anew for each trial: one that goes on after a kill draws what it would have drawn.
        seed = int(np.random.SeedSequence([self.settings.seed, index]).generate_state(1)[0])
        study.sampler = TPESampler(seed=seed, n_startup_trials=STARTUP)
        trial = study.ask(self.space)
        try:
            score = self._trained(trial, progress)
        except TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
        except TrainingError as error:
            # To Optuna a pruned one, which is worse than any complete one: of failed ones it learns nothing.
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
        report = train(encoder, self.tasks, config, progress=progress, on_epoch=on_epoch)
        assert report.score is not None
        return report.score


def _prepared(run_context: RunContext, config: TrainConfig, settings: TuneSettings) -> tuple[_Search, tuple[Any, ...]]:
    """Read, check and sample what all trials see; the model is loaded once the files are good."""
    if not any(task.dev for task in config.tasks):
        raise UsageError('tuning needs dev examples to judge by; give dev = "..." in a [[task]]')
    read, overlaps = read_tasks(config.tasks, run_context.data_dir, run_context.limits)
    judged = settings.dev_rows or config.selection
    tasks = tuple(
        Task(
            task.config,
            tuple(fixed_sample(task.train, settings.train_rows, settings.seed)),
            tuple(fixed_sample(task.dev, judged, settings.seed)),
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
    poolings = {task.aggregation or encoder.pooling_config.pooling for task in config.tasks}
    encoder_learns = config.freeze != "all"
    matters = {
        "learning_rate": encoder_learns,
        "dropout": encoder_learns,
        "head_learning_rate": bool(poolings & LEARNED.keys())
        or any(task.head not in ("cosine", "dot") for task in config.tasks),
        # A bilstm that the model brings along has its width.
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
    """The study in a file, made where it is missing."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _quiet():
            # A path as such: an address would take some of its letters for something else.
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
    """Without Optuna's own words on what it does."""
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
    """See that a study is of these settings and this data; a new one gets the config's own values to begin with."""
    known, metadata = study.user_attrs.get("facts"), search.metadata
    if known is None:
        study.enqueue_trial(dict(search.start), skip_if_exists=True)
        study.set_user_attr("facts", metadata)
    elif known != metadata:
        names = {name: None for name in (*metadata, *known) if metadata.get(name) != known.get(name)}
        named = [name for name in names if name != "data"] or ["data or weights of the model"]
        raise UsageError(f"{folder} holds a study with other {', '.join(named)}; give it what it had, or another out")


def _mend(study: Study, search: _Search) -> None:
    """Give up trials that were killed, and have them done again."""
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        known = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        study.tell(trial.number, state=TrialState.FAIL)
        # One that was killed before it knew its values is drawn again by its seed.
        if known.keys() == search.start.keys():
            study.enqueue_trial(known)


def _finished(study: Study) -> list[FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


# The report


def _report(study: Study, search: _Search, overlaps: Sequence[Any]) -> TuneReport:
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
    """Optuna's own, where there are trials enough."""
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
