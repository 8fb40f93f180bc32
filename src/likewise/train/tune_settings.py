"""The settings of a search for better hyperparameters: how long it takes, on what, and in which ranges."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from likewise.errors import UsageError
from likewise.train.config import LARGEST_SEED

PRUNERS = ("median", "hyperband", "none")
LOGARITHMIC = ("learning_rate", "head_learning_rate", "weight_decay")
"""Ranges that are searched by factors."""
CHOICES = ("batch", "lstm")
"""Settings of which a few values are tried, and nothing between them."""
SEARCHED = ("learning_rate", "head_learning_rate", "batch", "epochs", "dropout", "weight_decay", "lstm")
LIMITS = {
    "learning_rate": (0.0, 1.0), "head_learning_rate": (0.0, 1.0), "epochs": (1, math.inf), "dropout": (0.0, 0.9),
    "weight_decay": (0.0, 10.0),
}  # fmt: skip
"""What a config takes."""
LEAST = {"trials": 1, "train_rows": 2, "dev_rows": 2, "seed": 0}
LEAST_CHOICE = {"batch": 2, "lstm": 1}


@dataclass(frozen=True)
class TuneSettings:
    """How hyperparameters are searched.

    >>> TuneSettings(trials=3).batch
    (16, 32, 64)
    """

    trials: int = 8
    """trainings in all; more of them go on with a study"""
    train_rows: int = 1500
    """examples of each task that a trial learns from, the same in all"""
    dev_rows: int | None = None
    """dev examples of each task that judge a trial; as many as the config selects by default, else all"""
    seed: int = 1
    """of the search and of the examples; what a trial draws is the config's own seed's"""
    pruner: str = "median"
    """what ends hopeless trials early: median, hyperband or none"""
    learning_rate: tuple[float, float] = (1e-6, 2e-4)
    """lowest and highest, searched by factors"""
    head_learning_rate: tuple[float, float] = (1e-4, 1e-2)
    """the same, where something beside the encoder learns"""
    batch: tuple[int, ...] = (16, 32, 64)
    """values to choose from"""
    epochs: tuple[int, int] = (1, 4)
    """fewest and most"""
    dropout: tuple[float, float] = (0.0, 0.3)
    """lowest and highest, of the encoder"""
    weight_decay: tuple[float, float] = (1e-4, 0.1)
    """lowest and highest, searched by factors"""
    lstm: tuple[int, ...] = (64, 128, 256)
    """values to choose from, where a task aggregates with a new bilstm"""

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
            raise UsageError(f"{name} is searched by factors, so its lowest is above 0, got {values[0]}")
        if name == "epochs" and not all(_whole(each, 1) for each in values):
            raise UsageError(f"epochs takes whole numbers, got {values}")

    def nearest(self, name: str, value: float) -> float:
        """The value nearest to this one that the search would try.

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
