"""Hyperparameter tuning with Optuna: trains a config with different values and compares them on its dev files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.learned_pooling import LEARNED
from likewise.errors import DataError, MissingExtra, TrainingError, UsageError
from likewise.progress import Progress, Ticker, named
from likewise.storage import only_writer
from likewise.train.config import TrainConfig
from likewise.train.runs import RunContext, run_key, train_tasks
from likewise.train.tasks import Overlap, Task, fixed_sample, read_tasks
from likewise.train.trials import CHOICES, LOGARITHMIC, SEARCHED, TuneReport, TuneSettings, TuneTrial, quiet_optuna

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.trial import FrozenTrial

FILE, NAME = "study.db", "likewise tune"  # The study's file and its name there; hyperband seeds its draws by the name
STARTUP = 4  # Random trials before the sampler learns from results, and completed trials before any is pruned
LEAST_FOR_IMPORTANCES = 4
FINISHED = ("COMPLETE", "PRUNED")
ERROR = "error"  # The attribute of a trial that holds its error


def tune(
    run_context: RunContext, config: TrainConfig, settings: TuneSettings, folder: Path, progress: Progress | None = None
) -> TuneReport:
    """Train a config with different hyperparameters, the first time with its own.

    The study is in the folder: a second call adds the missing trials. No trial sees a test file.
    """
    check_optuna()
    search = _prepared(run_context, config, settings)
    folder.mkdir(parents=True, exist_ok=True)
    ticker = Ticker(progress, settings.trials, "trials")
    with only_writer(folder / ".lock", folder), _opened(folder / FILE, settings) as study:
        _claim(study, search, folder)
        _requeue(study, search)
        while True:
            ticker.done = len(_trials(study, *FINISHED))
            ticker.close()
            if ticker.done >= settings.trials:
                return _report(study, search)
            search.run_trial(study, ticker.done, named(progress, f"trial {ticker.done + 1}"))


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
    overlaps: tuple[Overlap, ...]
    settings: TuneSettings
    start: Mapping[str, Any]  # the first trial's values, by the names of what is searched
    moved: Mapping[str, tuple[Any, Any]]
    model_sha256: str
    key: str  # of the config, the model's weights and the examples

    @property
    def metadata(self) -> dict[str, Any]:
        """Everything that a study depends on, as JSON gives it back."""
        settings, config = self.settings.to_dict(), self.config.to_dict()
        del settings["trials"], config["out"]
        config = {f"{name} of the config": value for name, value in config.items()}
        found: dict[str, Any] = json.loads(json.dumps({**settings, **config, "data": self.key}))
        return found

    def run_trial(self, study: Study, index: int, progress: Progress | None) -> None:
        """One training from the original weights, reported to the study."""
        from optuna import TrialPruned
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        # Each trial has its own seed: after a kill it draws the same values again.
        seed = int(np.random.SeedSequence([self.settings.seed, index]).generate_state(1)[0])
        study.sampler = TPESampler(seed=seed, n_startup_trials=STARTUP)
        trial = study.ask({name: _distribution(name, getattr(self.settings, name)) for name in self.start})
        try:
            study.tell(trial, self._trained(trial, progress))
        except (TrialPruned, TrainingError) as error:
            if isinstance(error, TrainingError):
                trial.set_user_attr(ERROR, str(error))
            # A failed trial is pruned for Optuna, so worse than any complete one: it learns nothing from failed ones.
            study.tell(trial, state=TrialState.PRUNED)

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


def _prepared(run_context: RunContext, config: TrainConfig, settings: TuneSettings) -> _Search:
    """Read, check and sample the examples of all trials; then load the model."""
    if not any(task.dev for task in config.tasks):
        raise UsageError('tuning needs dev examples; give dev = "..." in a [[task]]')
    read, overlaps = read_tasks(config.tasks, run_context.data_dir, run_context.limits)
    sizes, seed = {"train": settings.train_rows, "dev": settings.dev_rows or config.selection}, settings.seed
    parts = [{role: tuple(fixed_sample(getattr(task, role), sizes[role], seed)) for role in sizes} for task in read]
    tasks = tuple(Task(task.config, **own) for task, own in zip(read, parts, strict=True))
    encoder = run_context.load(config.model)
    own = {name: getattr(config, name) for name in _searched(config, encoder)}
    if "dropout" in own and config.dropout is None:
        own["dropout"] = encoder.model_view.embeddings.dropout or 0.0
    start = {name: settings.nearest(name, value) for name, value in own.items()}
    moved = {name: (value, start[name]) for name, value in own.items() if start[name] != value}
    key = run_key(encoder, tasks, config)
    return _Search(run_context, config, tasks, tuple(overlaps), settings, start, moved, encoder.hash, key)


def _searched(config: TrainConfig, encoder: Encoder) -> list[str]:
    """Names of the settings that matter to what a config trains."""
    known = encoder.modules_config.learned
    poolings = {task.pooling or encoder.pooling_config.pooling for task in config.tasks}
    heads = {task.head for task in config.tasks} - {"cosine", "dot"}
    matters = {
        "learning_rate": config.freeze != "all",
        "dropout": config.freeze != "all",
        "head_learning_rate": bool(heads or poolings & LEARNED.keys()),
        # A bilstm that the model already has keeps its width.
        "lstm": "bilstm" in poolings and (known is None or known.kind != "bilstm"),
    }
    return [name for name in SEARCHED if matters.get(name, True)]


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
        with quiet_optuna():
            # A path, not an address: some of its characters mean something else in addresses.
            how = {"creator": lambda: sqlite3.connect(path, check_same_thread=False)}
            storage = optuna.storages.RDBStorage(f"sqlite:///{FILE}", engine_kwargs=how)
            pruners: dict[str, Callable[[], BasePruner]] = {
                "median": partial(optuna.pruners.MedianPruner, n_startup_trials=STARTUP),
                "hyperband": partial(optuna.pruners.HyperbandPruner, 1, settings.epochs[1]),
                "none": optuna.pruners.NopPruner,
            }
            pruner = pruners[settings.pruner]()
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

    for trial in _trials(study, "RUNNING"):
        known = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        study.tell(trial.number, state=TrialState.FAIL)
        # A trial that was killed before it had its values draws them again from its seed.
        if known.keys() == search.start.keys():
            study.enqueue_trial(known)


def _trials(study: Study, *states: str) -> list[FrozenTrial]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=[TrialState[state] for state in states])


# The report


def _report(study: Study, search: _Search) -> TuneReport:
    import optuna

    finished = _trials(study, *FINISHED)
    with quiet_optuna():
        own = optuna.create_study(direction="maximize")
        own.add_trials(finished)
    return TuneReport(
        config=search.config, settings=search.settings, model_sha256=search.model_sha256,
        examples={task.name: {"train": len(task.train), "dev": len(task.dev)} for task in search.tasks},
        overlaps=search.overlaps, moved=search.moved, interrupted=len(_trials(study, "FAIL")),
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

    found: Mapping[str, float] = {}
    if len(_trials(study, "COMPLETE")) >= LEAST_FOR_IMPORTANCES:
        with quiet_optuna(), suppress(ValueError, RuntimeError):
            found = optuna.importance.get_param_importances(study)
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}
