"""Outcomes: what a task's head said of examples, beside the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.metrics import (
    accuracy,
    confusion,
    mean_squared_error,
    pearson,
    scaled_mse,
    share_within,
    spearman,
)
from likewise.train.examples import Example
from likewise.train.heads import CLASSES

CLOSE = 0.05
"""Within so much a predicted similarity counts as met, on the scale from 0 to 5."""
NUMERIC = ("similarity", "count", "mlm")
"""Kinds of which a number is predicted."""
LARGEST_LOSS = 50.0
"""Beyond it a perplexity says nothing, and would be too large to write down."""
SHOWN = 5
"""Examples that are shown as best and as worst."""


@dataclass(frozen=True, eq=False)
class EvalResult:
    """Predictions of one task on one set of examples.

    ``scores`` is (n,) similarities from 0 to 5, numbers, probabilities of a paraphrase, or shares of hidden tokens that
    were found; or (n, C) probabilities of classes.

    >>> said = Example(("A plane.", "A jet."), 1, "1", "mine"), Example(("A plane.", "A cake."), 0, "2", "mine")
    >>> EvalResult("paraphrase", "paraphrase", "accuracy", said, np.array([0.9, 0.6]), loss=0.5).metrics["accuracy"]
    0.5
    """

    task: str
    kind: str
    metric: str
    examples: tuple[Example, ...]
    scores: NDArray[np.float64]
    loss: float

    @property
    def truth(self) -> NDArray[np.float64]:
        """What the examples say, (n,): 1 where all hidden tokens should be found."""
        return np.array([1.0 if self.kind == "mlm" else example.target for example in self.examples])

    @property
    def numeric(self) -> bool:
        """Whether a number is predicted, and not a choice."""
        return self.kind in NUMERIC

    @property
    def predicted(self) -> NDArray[np.float64]:
        """Numbers, or classes: (n,)."""
        if self.numeric:
            return self.scores
        if self.kind == "paraphrase":
            return (self.scores >= 0.5).astype(np.float64)
        classes: NDArray[np.float64] = self.scores.argmax(1).astype(np.float64)
        return classes

    @property
    def confusion(self) -> NDArray[np.int64] | None:
        """True classes by predicted ones; None for numbers."""
        if self.numeric:
            return None
        return confusion(self.truth, self.predicted, CLASSES if self.kind == "sentiment" else 2)

    @property
    def metrics(self) -> dict[str, float]:
        """Every measure of the task, by name."""
        if self.kind == "mlm":
            return {"accuracy": float(self.scores.mean()), "perplexity": float(np.exp(min(self.loss, LARGEST_LOSS)))}
        if self.numeric:
            return self._agreement()
        counts = self.confusion
        assert counts is not None
        found = {"accuracy": accuracy(self.truth, self.predicted)}
        rows = counts.sum(1)
        if self.kind == "paraphrase":
            found["false_positive_rate"] = float(counts[0, 1] / rows[0]) if rows[0] else float("nan")
            found["false_negative_rate"] = float(counts[1, 0] / rows[1]) if rows[1] else float("nan")
            return found
        shares = {f"accuracy_{label}": counts[label, label] / rows[label] for label in range(CLASSES) if rows[label]}
        return found | {name: float(share) for name, share in shares.items()}

    def _agreement(self) -> dict[str, float]:
        return {
            "pearson": pearson(self.predicted, self.truth),
            "spearman": spearman(self.predicted, self.truth),
            "mse": mean_squared_error(self.predicted, self.truth),
            "mse_fitted": scaled_mse(self.predicted, self.truth),
            f"within_{CLOSE:g}": share_within(self.predicted, self.truth, CLOSE),
        }

    @property
    def score(self) -> float:
        """The one measure that the best epoch is chosen by; 0 where it does not exist."""
        return float(np.nan_to_num(self.metrics[self.metric]))

    @property
    def errors(self) -> NDArray[np.float64]:
        """How far off each prediction is, (n,): a distance, or in the probability of the true class."""
        if self.numeric:
            return np.abs(self.predicted - self.truth)
        if self.kind == "paraphrase":
            return np.abs(self.scores - self.truth)
        own: NDArray[np.float64] = self.scores[np.arange(len(self.scores)), self.truth.astype(int)]
        return 1 - own

    def extremes(self, count: int = SHOWN) -> tuple[list[int], list[int]]:
        """The places of the best and of the worst predictions."""
        order = np.argsort(self.errors, kind="stable")
        return [int(index) for index in order[:count]], [int(index) for index in order[::-1][:count]]

    def to_dict(self) -> dict[str, Any]:
        """Measures, confusions, and the best and the worst examples."""
        best, worst = self.extremes()
        counts = self.confusion
        return {
            "n": len(self.examples), "loss": self.loss, **self.metrics,
            "confusion": None if counts is None else counts.tolist(),
            "best": [self._shown(index) for index in best], "worst": [self._shown(index) for index in worst],
        }  # fmt: skip

    def _shown(self, index: int) -> dict[str, Any]:
        example = self.examples[index]
        return {
            "texts": list(example.texts), "truth": float(self.truth[index]), "predicted": float(self.predicted[index]),
            "error": float(self.errors[index]), "id": example.id, "file": example.file,
        }  # fmt: skip
