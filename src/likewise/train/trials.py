"""Trials: what a search for better hyperparameters has tried, and the best of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from likewise.errors import TrainingError
from likewise.plotting.html import table
from likewise.train import TrainConfig
from likewise.train.overlap import Overlap
from likewise.train.report import mean_of
from likewise.train.tune_settings import TuneSettings

if TYPE_CHECKING:
    from optuna import Study

Rows = tuple[list[str], list[tuple[object, ...]]]
"""A header and rows."""


@dataclass(frozen=True)
class TuneTrial:
    """One training.

    >>> TuneTrial(0, {"batch": 16}, 0.8, "complete", (0.7, 0.8), 3.0).epochs
    2
    """

    number: int
    parameters: Mapping[str, Any]
    """the settings that were tried, by name"""
    value: float | None
    """the dev score: of the best epoch, of the last one where it was pruned, None where it failed"""
    state: str
    """complete, pruned (ended early) or failed (its loss was no number)"""
    scores: tuple[float, ...]
    """the dev score of each epoch"""
    seconds: float
    error: str = ""
    """why it failed"""

    @property
    def epochs(self) -> int:
        """How many it went through."""
        return len(self.scores)

    def to_dict(self) -> dict[str, Any]:
        """All fields, and the number of epochs."""
        return asdict(self) | {"parameters": dict(self.parameters), "scores": list(self.scores), "epochs": self.epochs}


@dataclass(frozen=True, eq=False)
class TuneReport:
    """All finished trials of a study."""

    config: TrainConfig
    """what was changed by each trial"""
    settings: TuneSettings
    model_sha256: str
    examples: Mapping[str, Mapping[str, int]]
    """how many of each task in train and dev"""
    overlaps: tuple[Overlap, ...]
    moved: Mapping[str, tuple[Any, Any]]
    """the config's own values that no range holds, and what the first trial had in their place"""
    interrupted: int
    """trials that were killed and done again"""
    trials: tuple[TuneTrial, ...]
    importances: Mapping[str, float]
    """how much of the differences each setting explains, in all 1; empty where that cannot be told"""
    study: Study = field(repr=False)
    """the finished trials as Optuna's own study, in memory"""

    @property
    def best(self) -> TuneTrial | None:
        """The complete trial with the highest dev score; None where none was completed."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return max(complete, key=lambda trial: trial.value or 0.0, default=None)

    @property
    def measure(self) -> str:
        """What the dev score is."""
        return mean_of([(task.name, task.metric) for task in self.config.tasks if task.dev])

    def best_config(self) -> TrainConfig:
        """The config with the best trial's values."""
        if self.best is None:
            raise TrainingError("no trial was completed; lower the ranges of the learning rates, or run more trials")
        return replace(self.config, **self.best.parameters)

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

    def rows(self, exact: bool = False) -> Rows:
        """A row for each trial; exact as a file wants it, or short as a reader does."""
        names = list(self.trials[0].parameters) if self.trials else []
        rows: list[tuple[object, ...]] = []
        for trial in self.trials:
            values = [trial.parameters[name] for name in names]
            shown = values if exact else [f"{value:.3g}" for value in values]
            seconds = trial.seconds if exact else f"{trial.seconds:.1f}"
            rows.append(
                (trial.number, trial.state, "" if trial.value is None else trial.value, trial.epochs, seconds, *shown)
            )
        # A trial that was pruned has gone through fewer epochs than it was to go through.
        return ["trial", "state", "score", "epochs done", "seconds", *names], rows

    def _repr_html_(self) -> str:
        return table(*self.rows())
