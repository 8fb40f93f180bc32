"""Errors by level: where on the human scale a model errs, and the rows where both differ most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.explain.explanation import Array
from likewise.metrics import DRAWS, Interval
from likewise.plotting.curves import curves
from likewise.results import Column, Result, Table

MOST_LEVELS = 10
PARTS_OF_UNIT_SCALE = 5
"""Levels of a scale that spans no more than 1, where whole numbers would make one level of all."""


@dataclass(frozen=True)
class ScoreLine:
    """The least-squares line that maps predicted similarities onto the human scale."""

    slope: float
    intercept: float

    def mapped(self, predicted: Array) -> Array:
        """Predicted similarities (n,) on the human scale."""
        return self.slope * predicted + self.intercept


def score_line(predicted: Array, truth: Array) -> ScoreLine:
    """The line through (n,) and (n,), as in ``metrics.scaled_mse``; flat where the predictions do not vary.

    >>> line = score_line(np.array([0.0, 1.0]), np.array([1.0, 5.0]))
    >>> round(line.slope, 6), round(line.intercept, 6)
    (4.0, 1.0)
    """
    if np.ptp(predicted) == 0:
        return ScoreLine(0.0, float(truth.mean()))
    centred = predicted - predicted.mean()
    slope = float(centred @ (truth - truth.mean()) / (centred @ centred))
    return ScoreLine(slope, float(truth.mean()) - slope * float(predicted.mean()))


@dataclass(frozen=True)
class Level:
    """The pairs whose human score lies in [low, high), the last level closed."""

    low: float
    high: float
    n: int
    error: Interval
    """mean squared error on the human scale, with its 95 % bootstrap interval"""
    human: float
    """the mean human score"""
    predicted: float
    """the mean predicted similarity on the human scale"""

    @property
    def name(self) -> str:
        """The level as people write it."""
        return f"{self.low:g}-{self.high:g}"


@dataclass(frozen=True, repr=False)
class LevelErrors(Result):
    """Squared errors by level of the human score."""

    levels: tuple[Level, ...]
    line: ScoreLine

    def to_dict(self) -> dict[str, Any]:
        """Every level and the line that mapped the predictions."""
        line = {"slope": self.line.slope, "shift": self.line.intercept}
        return {"line": line, "levels": [asdict(level) | {"name": level.name} for level in self.levels]}

    def tables(self) -> dict[str, Table]:
        """A row for each level."""
        error = Column("squared_error", "squared error, 95 % interval", ".3f")
        header = (Column("level", "human score"), "n", error, "mean_human", "mean_predicted")
        rows = [(one.name, one.n, one.error, one.human, one.predicted) for one in self.levels]
        title = "squared error by level, predictions mapped by a least-squares line"
        return {"errors_by_level": Table.of(header, rows, title)}

    def plot(self, ax: Any = None, title: str = "") -> Any:
        """Error against the human score, with its band."""
        middles = [(level.low + level.high) / 2 for level in self.levels]
        errors = [level.error for level in self.levels]
        series = ([one.value for one in errors], [one.low for one in errors], [one.high for one in errors])
        ax = curves(middles, {"": series}, ("human score", "mean squared error"), title, ax)
        ax.set_xticks(middles, [f"{level.name}\nn = {level.n}" for level in self.levels])
        ax.margins(x=0.08)
        ax.set_ylim(bottom=0)
        return ax


def level_edges(truth: Array) -> list[float]:
    """Where the levels of scores (n,) begin and end: whole numbers, or fifths of a scale of 1 or of more than 10.

    >>> level_edges(np.array([0.2, 2.5, 3.0]))
    [0.0, 1.0, 2.0, 3.0]
    """
    low, high = float(np.floor(truth.min())), float(np.ceil(truth.max()))
    count = round(high - low)
    if not 1 < count <= MOST_LEVELS:
        span = max(1.0, high - low)
        return [low + span * index / PARTS_OF_UNIT_SCALE for index in range(PARTS_OF_UNIT_SCALE + 1)]
    return [low + index for index in range(count + 1)]


def level_errors(predicted: Array, truth: Array, seed: int = 0) -> LevelErrors:
    """Mean squared errors of predicted similarities (n,), mapped onto the human scores (n,), by level of these."""
    line, edges = score_line(predicted, truth), level_edges(truth)
    mapped = line.mapped(predicted)
    indices = np.clip(np.searchsorted(edges, truth, side="right") - 1, 0, len(edges) - 2)
    rng = np.random.default_rng(seed)
    levels = []
    for index, (low, high) in enumerate(pairwise(edges)):
        inside = indices == index
        if inside.any():
            error = _mean((mapped[inside] - truth[inside]) ** 2, rng)
            means = float(truth[inside].mean()), float(mapped[inside].mean())
            levels.append(Level(low, high, int(inside.sum()), error, *means))
    return LevelErrors(tuple(levels), line)


def _mean(values: Array, rng: np.random.Generator) -> Interval:
    draws = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(DRAWS)]
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high))


@dataclass(frozen=True)
class Disagreement:
    """A row where the human and the predicted score differ; the prediction is mapped onto the human scale."""

    id: str
    left: str
    right: str
    human: float
    predicted: float
    similarity: float
    """as the model gives it"""

    @property
    def difference(self) -> float:
        """Predicted minus human: above 0 the model finds them too similar."""
        return self.predicted - self.human

    def to_dict(self) -> dict[str, Any]:
        """All fields and the difference."""
        return asdict(self) | {"difference": self.difference}


def disagreements(
    pairs: Sequence[Pair | ScoredPair], predicted: Array, truth: Array, count: int
) -> tuple[Disagreement, ...]:
    """The pairs whose predicted (n,) and human (n,) scores differ most, on the human scale, worst first."""
    mapped = score_line(predicted, truth).mapped(predicted)
    order = np.argsort(-np.abs(mapped - truth), kind="stable")[:count]
    return tuple(
        Disagreement(
            pairs[row].id, pairs[row].left, pairs[row].right,
            float(truth[row]), float(mapped[row]), float(predicted[row]),
        )
        for row in order
    )  # fmt: skip
