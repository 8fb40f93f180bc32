"""The report of a run: what was trained on what, how it went, and how well it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from likewise.plotting.html import table
from likewise.train.config import TrainConfig
from likewise.train.eval_result import EvalResult
from likewise.train.overlap import Overlap

MEASURE_COLUMNS = ("part", "task", "n", "measure", "value")


@dataclass(frozen=True, eq=False)
class TrainReport:
    """A finished run.

    >>> TrainReport.__name__
    'TrainReport'
    """

    config: TrainConfig
    model: str
    model_sha256: str
    weights: int
    """numbers that learnt"""
    examples: dict[str, dict[str, int]]
    """how many of each task in train, dev and test"""
    overlaps: tuple[Overlap, ...]
    truncated: int
    """texts that were cut at the limit of tokens"""
    epochs: tuple[dict[str, Any], ...]
    """each epoch's losses and dev measures"""
    curve: tuple[dict[str, float], ...]
    """the training loss of each task, point by point"""
    best_epoch: int
    steps: int
    seconds: float
    dev: dict[str, EvalResult]
    """the best epoch on all dev examples, by task"""
    test: dict[str, EvalResult]

    @property
    def score(self) -> float | None:
        """The mean of the tasks' measures on all dev examples; None without any."""
        return sum(each.score for each in self.dev.values()) / len(self.dev) if self.dev else None

    @property
    def formula(self) -> str:
        """What the score is the mean of."""
        return mean_of([(eval_result.task, eval_result.metric) for eval_result in self.dev.values()])

    @property
    def measures(self) -> list[tuple[str, str, int, str, float]]:
        """Every measure of every task: part, task, number of examples, measure and value."""
        return [
            (part, name, len(eval_result.examples), measure, value)
            for part, outcomes in (("dev", self.dev), ("test", self.test))
            for name, eval_result in outcomes.items()
            for measure, value in eval_result.metrics.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the single predictions."""
        return {
            "model": self.model, "model_sha256": self.model_sha256, "config": self.config.to_dict(),
            "weights": self.weights, "examples": self.examples,
            "overlaps": [overlap.to_dict() for overlap in self.overlaps], "truncated": self.truncated,
            "best_epoch": self.best_epoch, "steps": self.steps, "seconds": self.seconds,
            "score": self.score, "formula": self.formula if self.dev else None,
            "dev": {name: eval_result.to_dict() for name, eval_result in self.dev.items()},
            "test": {name: eval_result.to_dict() for name, eval_result in self.test.items()},
            "epochs": list(self.epochs), "curve": list(self.curve),
        }  # fmt: skip

    def _repr_html_(self) -> str:
        return table(MEASURE_COLUMNS, self.measures)


def mean_of(measures: Sequence[tuple[str, str]]) -> str:
    """The formula of the mean of tasks' measures.

    >>> mean_of([("sentiment", "accuracy"), ("similarity", "pearson")])
    '(sentiment accuracy + similarity pearson) / 2'
    """
    parts = [" ".join(each) for each in measures]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)}) / {len(parts)}"
