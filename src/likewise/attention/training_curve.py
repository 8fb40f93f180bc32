"""The training curve: an autoencoder's loss, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TrainingCurve:
    """Mean squared errors, each the mean over sequences.

    >>> TrainingCurve((0.02, 0.01, 0.01), (0.03, 0.02, 0.025)).best
    1
    """

    train: tuple[float, ...]
    """While training, by epoch."""
    held_out: tuple[float, ...]
    """On sequences that training does not see; of the training itself where none is held out."""

    @property
    def best(self) -> int:
        """The epoch, from 0 on, with the lowest held-out loss."""
        return min(range(len(self.held_out)), key=self.held_out.__getitem__)

    def over(self, epochs: int, patience: int) -> bool:
        """Whether training has come to its end."""
        done = len(self.held_out)
        return done >= epochs or (done > 0 and done - 1 - self.best >= patience)

    def is_on_the_way(self, epochs: int, patience: int) -> bool:
        """Whether training with these bounds comes by here, so that it can go on from here."""
        before = range(len(self.train))
        return not any(TrainingCurve(self.train[:n], self.held_out[:n]).over(epochs, patience) for n in before)

    def to_dict(self) -> dict[str, Any]:
        """The losses, and the epoch from 1 on whose weights count."""
        return {"train": list(self.train), "held_out": list(self.held_out), "best_epoch": self.best + 1}
