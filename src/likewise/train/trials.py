"""Trials: what a search for hyperparameters has tried, the best of it, and its page."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from likewise.errors import TrainingError
from likewise.plotting.html import inline_png, paragraph, section
from likewise.results import Column, Figure, Result, Table
from likewise.storage import only_writer
from likewise.train.config import TrainConfig
from likewise.train.results import mean_of
from likewise.train.tasks import Overlap

if TYPE_CHECKING:
    from optuna import Study

    from likewise.train.tuning import TuneSettings

ENDINGS = ("png", "svg")
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
class TuneTrial:
    """One training.

    >>> TuneTrial(0, {"batch": 16}, 0.8, "complete", (0.7, 0.8), 3.0).epochs
    2
    """

    number: int
    parameters: Mapping[str, Any]
    """the settings that were tried, by name"""
    value: float | None
    """the dev score: of the best epoch, of the last one if it was pruned, None if it failed"""
    state: str
    """complete, pruned (ended early) or failed (its loss was not finite)"""
    scores: tuple[float, ...]
    """the dev score of each epoch"""
    seconds: float
    error: str = ""
    """why it failed"""

    @property
    def epochs(self) -> int:
        """Epochs that it completed."""
        return len(self.scores)

    def to_dict(self) -> dict[str, Any]:
        """All fields, and the number of epochs."""
        return asdict(self) | {"parameters": dict(self.parameters), "scores": list(self.scores), "epochs": self.epochs}


@dataclass(frozen=True, eq=False, repr=False)
class TuneReport(Result):
    """All finished trials of a study."""

    config: TrainConfig
    """the config that each trial changes"""
    settings: TuneSettings
    model_sha256: str
    examples: Mapping[str, Mapping[str, int]]
    """how many of each task in train and dev"""
    overlaps: tuple[Overlap, ...]
    moved: Mapping[str, tuple[Any, Any]]
    """the config's own values outside the ranges, and the first trial's values for them"""
    interrupted: int
    """trials that were killed and repeated"""
    trials: tuple[TuneTrial, ...]
    importances: Mapping[str, float]
    """how much of the differences each setting explains, in all 1; empty if that is unknown"""
    study: Study = field(repr=False)
    """the finished trials as Optuna's own study, in memory"""

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
        notes = [
            f"{len(states)} trials of {self.config.model}: {states.count('complete')} complete,"
            f" {states.count('pruned')} pruned, {states.count('failed')} failed. Examples, the same in all: {counts}."
            f" The score is {self.measure} on dev, of the best epoch."
        ]
        if self.best is None:
            notes.append("No trial was completed; run more trials with another --seed, in another folder.")
        else:
            first = self.trials[0].value
            begun = "no score" if first is None else f"{first:.4f}"
            notes.append(
                f"The first trial, of the config's own values, has {begun}; the best has {self.best.value:.4f}"
                f" (best: trial {self.best.number})."
            )
        notes.append(
            "What is best on few examples need not be best on all: with more of them, an epoch has more steps."
        )
        again = [f"{self.interrupted} trials were interrupted and repeated."] if self.interrupted else []
        return [*notes, *(f"Trial {each.number} failed: {each.error}." for each in self.trials if each.error), *again]

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
        plots = {name: plot for name, plot in _plots(self).items() if plot is not None}
        return {name: Figure(cache(_in_own_style(plot)), *FIGURES[name]) for name, plot in plots.items()}

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
            for name in FIGURES:
                for ending in ENDINGS:
                    (folder / f"{name}.{ending}").unlink(missing_ok=True)
            if self.best is not None:
                (folder / "best.toml").write_text(self.best_toml(), encoding="utf-8", errors="replace")
            with _tight():
                return super().save(folder, run)


def _in_own_style(plot: Callable[[], Any]) -> Callable[[], Any]:
    """A plot that leaves no style and no open figure behind."""

    def draw() -> Any:
        from matplotlib import pyplot

        with _own_style():
            axes = plot()
            pyplot.close(axes.figure)
        return axes

    return draw


def _tight() -> Any:
    """Figures are saved with room for their labels."""
    import matplotlib

    return matplotlib.rc_context({"savefig.bbox": "tight"})


@contextmanager
def _own_style() -> Iterator[None]:
    """Contain Optuna's plots: they set a style for all later figures, and warn that they are experimental."""
    import matplotlib

    log = logging.getLogger("optuna")
    level = log.level
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.ERROR)
        try:
            yield
        finally:
            log.setLevel(level)


def _plots(report: TuneReport) -> dict[str, Callable[[], Any] | None]:
    """The function that draws each figure; None if there are too few trials for it."""
    from optuna.visualization import matplotlib as plots

    study, score = report.study, "dev score"
    complete = sum(trial.state == "complete" for trial in report.trials)
    made: dict[str, tuple[bool, Callable[[], Any]]] = {
        "history": (complete > 0, lambda: plots.plot_optimization_history(study, target_name=score)),
        "importances": (bool(report.importances), lambda: plots.plot_param_importances(study, target_name=score)),
        "slice": (complete > 1, lambda: _slices(plots.plot_slice(study, target_name=score))),
        "parallel": (complete > 1, lambda: _parallel(plots.plot_parallel_coordinate(study, target_name=score))),
        "epochs": (
            any(each.epochs for each in report.trials), lambda: _epochs(plots.plot_intermediate_values(study))
        ),
    }  # fmt: skip
    return {name: plot if enough else None for name, (enough, plot) in made.items()}


def _slices(found: Any) -> Any:
    """One of the Axes; minor tick labels of a logarithmic axis would overlap."""
    from matplotlib.ticker import NullFormatter

    panels = found.ravel() if hasattr(found, "ravel") else [found]
    for axes in panels:
        if axes.get_xscale() == "log":
            axes.xaxis.set_minor_formatter(NullFormatter())
    return panels[0]


def _parallel(axes: Any) -> Any:
    """Wide enough for its names."""
    axes.figure.set_size_inches(9.6, 4.8)
    return axes


def _epochs(axes: Any) -> Any:
    """With whole numbers for epochs."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="epoch", ylabel="dev score")
    return axes
