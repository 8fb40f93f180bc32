"""Hyperparameter search: its settings, its trials, and a report with the best config."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from likewise.errors import TrainingError, UsageError
from likewise.plotting.html import inline_png, paragraph, section
from likewise.results import Column, Figure, Result, Table
from likewise.storage import only_writer
from likewise.train.config import LARGEST_SEED, Bounds, TrainConfig, check_settings, marks_of
from likewise.train.report import mean_of
from likewise.train.tasks import Overlap

if TYPE_CHECKING:
    from optuna import Study

PRUNERS = ("median", "hyperband", "none")
LOGARITHMIC = ("learning_rate", "head_learning_rate", "weight_decay")  # Ranges that are searched on a logarithmic scale
CHOICES = ("batch", "lstm")  # Settings with a few values to choose from
SEARCHED = ("learning_rate", "head_learning_rate", "batch", "epochs", "dropout", "weight_decay", "lstm")
FIGURES = {
    "history": ("Scores, trial by trial", "A dot is a complete trial, the line the best one so far."),
    "importances": (
        "What matters",
        "How much of the differences between trials each setting explains, as Optuna estimates it. With few trials this"
        " is a guess.",
    ),
    "slice": ("Scores by setting", "A dot is a complete trial; later ones are darker."),
    "parallel": ("Settings side by side", "A line is a complete trial; higher scores are darker."),
    "epochs": ("Scores, epoch by epoch", "A line is a trial; short ones have few epochs, or were pruned."),
}
"""The title and the note of each figure."""


@dataclass(frozen=True)
class TuneSettings:
    """How hyperparameters are searched."""

    trials: Annotated[int, Bounds(1)] = 8  # total trials; raise it to continue a study
    train_rows: Annotated[int, Bounds(2)] = 1500  # train examples of each task, the same in all trials
    dev_rows: Annotated[int | None, Bounds(2)] = None  # dev examples of each task; None: the config's selection, or all
    seed: Annotated[int, Bounds(0)] = 1  # of the search and of the examples; a trial uses the config's own seed
    pruner: Annotated[str, PRUNERS] = "median"  # how hopeless trials end early: median, hyperband or none
    learning_rate: tuple[float, float] = (1e-6, 2e-4)  # lowest and highest, on a logarithmic scale
    head_learning_rate: tuple[float, float] = (1e-4, 1e-2)  # the same, if a head or a pooling learns
    batch: tuple[int, ...] = (16, 32, 64)  # values to choose from
    epochs: tuple[int, int] = (1, 4)  # fewest and most
    dropout: tuple[float, float] = (0.0, 0.3)  # lowest and highest, of the encoder
    weight_decay: tuple[float, float] = (1e-4, 0.1)  # lowest and highest, on a logarithmic scale
    lstm: tuple[int, ...] = (64, 128, 256)  # values to choose from, if a task has a new bilstm pooling

    def __post_init__(self) -> None:
        check_settings(self, lambda name: name.replace("_", "-"))
        if self.seed > LARGEST_SEED:
            raise UsageError(f"seed is at most {LARGEST_SEED}, got {self.seed}")
        marks = marks_of(TrainConfig)
        for name in SEARCHED:
            values, (least, most) = getattr(self, name), marks[name]
            is_whole = all(type(each) is int and each >= least for each in values)
            if name in CHOICES:
                if not values or len(set(values)) < len(values) or not is_whole:
                    raise UsageError(f"{name} takes different whole numbers from {least} on, got {list(values)}")
            elif len(values) != 2 or not least <= values[0] <= values[1] <= most:
                raise UsageError(f"{name} takes a range (lowest, highest) within {least:g} and {most:g}, got {values}")
            elif name in LOGARITHMIC and values[0] <= 0:
                raise UsageError(f"{name} is searched on a logarithmic scale: its lowest is above 0, got {values[0]}")
            elif name == "epochs" and not is_whole:
                raise UsageError(f"epochs takes whole numbers, got {values}")

    def nearest(self, name: str, value: float) -> float:
        """The value of the search nearest to this one."""
        values: tuple[float, ...] = getattr(self, name)
        if name in CHOICES:
            return min(values, key=lambda each: abs(each - value))
        return min(max(value, values[0]), values[1])

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class TuneTrial:
    """One training."""

    number: int
    parameters: Mapping[str, Any]  # the settings that were tried, by name
    value: float | None  # the dev score: of the best epoch, of the last one if it was pruned, None if it failed
    state: str  # complete, pruned (ended early) or failed (its loss was not finite)
    scores: tuple[float, ...]  # the dev score of each epoch
    seconds: float
    error: str = ""  # why it failed

    @property
    def epochs(self) -> int:
        """Epochs that it completed."""
        return len(self.scores)

    def to_dict(self) -> dict[str, Any]:
        """All fields, and the number of epochs."""
        return asdict(self) | {"scores": list(self.scores), "epochs": self.epochs}


@dataclass(frozen=True, eq=False, repr=False)
class TuneReport(Result):
    """All finished trials of a study."""

    config: TrainConfig  # the config that each trial changes
    settings: TuneSettings
    model_sha256: str
    examples: Mapping[str, Mapping[str, int]]  # how many of each task in train and dev
    overlaps: tuple[Overlap, ...]
    moved: Mapping[str, tuple[Any, Any]]  # the config's values outside the ranges, and the first trial's instead
    interrupted: int  # trials that were killed and repeated
    trials: tuple[TuneTrial, ...]
    importances: Mapping[str, float]  # the share of the differences that each setting explains; empty if unknown
    study: Study = field(repr=False)  # the finished trials as Optuna's own study, in memory

    @property
    def best(self) -> TuneTrial | None:
        """The complete trial with the highest dev score; None if none was completed."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return max(complete, key=lambda trial: trial.value or 0.0, default=None)

    @property
    def measure(self) -> str:
        """The terms of the dev score."""
        return mean_of([(task.name, task.metric) for task in self.config.tasks if task.dev])

    def best_config(self) -> TrainConfig:
        """The config with the best trial's values."""
        if self.best is None:
            raise TrainingError("no trial was completed; lower the ranges of the learning rates, or run more trials")
        return replace(self.config, **self.best.parameters)

    def best_toml(self) -> str:
        """The best config as TOML, with a comment on its origin."""
        assert self.best is not None
        rows = " + ".join(str(counts["train"]) for counts in self.examples.values())
        found = f"trial {self.best.number} of {len(self.trials)}, {self.measure} {self.best.value:.4f} on dev"
        return self.best_config().to_toml(f"The best that likewise tune found on {rows} examples: {found}.")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "model": self.config.model, "model_sha256": self.model_sha256, "measure": self.measure,
            "settings": self.settings.to_dict(), "config": self.config.to_dict(),
            "examples": {name: dict(counts) for name, counts in self.examples.items()},
            "overlaps": [overlap.to_dict() for overlap in self.overlaps],
            "moved": {name: list(values) for name, values in self.moved.items()}, "interrupted": self.interrupted,
            "trials": [trial.to_dict() for trial in self.trials],
            "best": None if self.best is None else self.best.to_dict(),
            "best_config": None if self.best is None else self.best_config().to_dict(),
            "importances": dict(self.importances),
        }  # fmt: skip

    @property
    def title(self) -> str:
        """The model that was tuned."""
        return f"Tuning: {self.config.model}"

    @property
    def notes(self) -> list[str]:
        """What was tried, and the best trial."""
        counts = "; ".join(
            f"{name}: {each['train']} to train on, {each['dev']} to judge by" for name, each in self.examples.items()
        )
        states = [trial.state for trial in self.trials]
        best = "No trial was completed; run more trials with another --seed, in another folder."
        if self.best is not None:
            first = self.trials[0].value
            begun = "no score" if first is None else f"{first:.4f}"
            best = (
                f"The first trial, of the config's own values, has {begun}; the best has {self.best.value:.4f}"
                f" (best: trial {self.best.number})."
            )
        return [
            f"{len(states)} trials of {self.config.model}: {states.count('complete')} complete,"
            f" {states.count('pruned')} pruned, {states.count('failed')} failed. Examples, the same in all: {counts}."
            f" The score is {self.measure} on dev, of the best epoch.",
            best,
            "What is best on few examples need not be best on all: with more of them, an epoch has more steps.",
            *(f"Trial {each.number} failed: {each.error}." for each in self.trials if each.error),
            *([f"{self.interrupted} trials were interrupted and repeated."] if self.interrupted else []),
        ]

    @property
    def cautions(self) -> list[str]:
        """Rows that train files share with dev files, and values of the config that are not searched."""
        moved = [
            f"{name} {own:g} of the config is outside of what is searched; the first trial has {used:g}"
            for name, (own, used) in self.moved.items()
        ]
        return [*(overlap.words for overlap in self.overlaps), *moved]

    def tables(self) -> dict[str, Table]:
        """A row for each trial, and the best trial's settings."""
        names = list(self.trials[0].parameters) if self.trials else []
        columns = [Column(name, name, ".3g") for name in names]
        rows = [
            (trial.number, trial.state, trial.value, trial.epochs, trial.seconds, *trial.parameters.values())
            for trial in self.trials
        ]
        # A pruned trial has completed fewer epochs than its setting says.
        header = [*map(Column, ("trial", "state", "score", "epochs done")), Column("seconds", format=".1f"), *columns]
        found = {"trials": Table.of(header, rows, f"{self.config.model}: {self.measure} on dev")}
        if self.best is not None:
            own, best = self.trials[0].parameters, self.best.parameters
            values = [(name, f"{value:.3g}", f"{own[name]:.3g}") for name, value in best.items()]
            found["best"] = Table.of(("setting", "best", "first trial"), values, "The best trial")
        return found

    def figures(self) -> dict[str, Figure]:
        """Optuna's own figures, as far as there are enough trials."""
        return self._figures

    @cached_property
    def _figures(self) -> dict[str, Figure]:
        return {name: Figure(cache(partial(_drawn, name, plot)), *FIGURES[name]) for name, plot in _plots(self).items()}

    def fragments(self) -> list[str]:
        """The page: pictures, since Optuna's style does not suit dark pages, then the tables."""
        with _tight():
            drawn = [
                section(figure.title, [paragraph(figure.note, note=True), inline_png(figure.draw(), figure.title)])
                for figure in self.figures().values()
            ]
        return [*drawn, *self._table_fragments()]

    def save(self, folder: Path | str, run: Mapping[str, Any] | None = None) -> Path:
        """Write the report and best.toml; figures of an earlier report that this one lacks are deleted."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(folder / ".lock", folder):
            for name, ending in product(FIGURES, ("png", "svg")):
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
            if self.best is not None:
                (folder / "best.toml").write_text(self.best_toml(), encoding="utf-8", errors="replace")
            with _tight():
                return super().save(folder, run)


def _tight() -> Any:
    """Figures are saved with room for their labels."""
    import matplotlib

    return matplotlib.rc_context({"savefig.bbox": "tight"})


@contextmanager
def quiet_optuna(level: int = logging.WARNING) -> Iterator[None]:
    """Without Optuna's log below a level."""
    log = logging.getLogger("optuna")
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


def _drawn(name: str, plot: Callable[[], Any]) -> Any:
    """Contain one of Optuna's plots: they set a style for all later figures, and warn that they are experimental."""
    import matplotlib
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator, NullFormatter

    with matplotlib.rc_context(), warnings.catch_warnings(), quiet_optuna(logging.ERROR):
        warnings.simplefilter("ignore")
        panels = np.ravel(plot())
        for axes in panels:
            if name == "slice" and axes.get_xscale() == "log":
                axes.xaxis.set_minor_formatter(NullFormatter())  # labels of minor ticks would overlap
            elif name == "parallel":
                axes.figure.set_size_inches(9.6, 4.8)  # wide enough for its names
            elif name == "epochs":
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
                axes.set(xlabel="epoch", ylabel="dev score")
        pyplot.close(panels[0].figure)
    return panels[0]


def _plots(report: TuneReport) -> dict[str, Callable[[], Any]]:
    """The function that draws each figure for which there are enough trials."""
    from optuna.visualization import matplotlib as plots

    study, complete = report.study, sum(trial.state == "complete" for trial in report.trials)
    scored: dict[str, Any] = {"target_name": "dev score"}
    made: dict[str, tuple[bool, Callable[[], Any]]] = {
        "history": (complete > 0, partial(plots.plot_optimization_history, study, **scored)),
        "importances": (bool(report.importances), partial(plots.plot_param_importances, study, **scored)),
        "slice": (complete > 1, partial(plots.plot_slice, study, **scored)),
        "parallel": (complete > 1, partial(plots.plot_parallel_coordinate, study, **scored)),
        "epochs": (any(each.epochs for each in report.trials), partial(plots.plot_intermediate_values, study)),
    }
    return {name: plot for name, (enough, plot) in made.items() if enough}
