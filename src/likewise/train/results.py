"""Results of a run: the predictions of each task, the report, and the pairs that training changed most."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.encoder import Encoder
from likewise.encoder.encoder import paired_similarity
from likewise.encoder.pooling import pooling_parts
from likewise.explain import Comparison, compare
from likewise.metrics import accuracy, confusion, mean_squared_error, pearson, scaled_mse, share_within, spearman
from likewise.plotting.terminal import printable
from likewise.progress import Progress
from likewise.results import Figure, Result, Table
from likewise.train.config import SINGLE, TrainConfig
from likewise.train.examples import Example
from likewise.train.heads import CLASSES
from likewise.train.tasks import Overlap, fixed_sample

CLOSE = 0.05
"""A predicted similarity within this distance counts as met, on the scale from 0 to 5."""
NUMERIC = ("similarity", "count", "mlm")
"""Kinds whose prediction is a number."""
LARGEST_LOSS = 50.0
"""Beyond it a perplexity says nothing and is too large to write down."""
SHOWN_EXTREMES = 5
"""Examples that are shown as best and as worst."""
MEASURE_COLUMNS = ("part", "task", "n", "measure", "value")
COMPARED_PAIRS = 500
"""Pairs among which the most changed ones are searched."""
SHOWN_PAIRS, SHOWN_WORDS = 4, 6
OWN_FILES = re.compile(
    r"predictions-(dev|test)-[a-z0-9_-]+\.csv|(loss|score|(confusion|scatter)-(dev|test)-[a-z0-9_-]+)\.(png|svg)"
)


@dataclass(frozen=True, eq=False)
class EvalResult:
    """Predictions of one task on one set of examples.

    ``scores`` is (n,) similarities from 0 to 5, numbers, probabilities of a paraphrase, or shares of masked tokens that
    were found; or (n, C) probabilities of classes.

    >>> pairs = Example(("A plane.", "A jet."), 1, "1", "mine"), Example(("A plane.", "A cake."), 0, "2", "mine")
    >>> EvalResult("paraphrase", "paraphrase", "accuracy", pairs, np.array([0.9, 0.6]), loss=0.5).metrics["accuracy"]
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
        """The targets, (n,); 1 for mlm, where all masked tokens should be found."""
        return np.array([1.0 if self.kind == "mlm" else example.target for example in self.examples])

    @property
    def numeric(self) -> bool:
        """Whether the prediction is a number, and not a choice."""
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
        """The measure that chooses the best epoch; 0 if it does not exist."""
        return float(np.nan_to_num(self.metrics[self.metric]))

    @property
    def errors(self) -> NDArray[np.float64]:
        """The error of each prediction, (n,): a distance, or 1 - the probability of the true class."""
        if self.numeric:
            return np.abs(self.predicted - self.truth)
        if self.kind == "paraphrase":
            return np.abs(self.scores - self.truth)
        own: NDArray[np.float64] = self.scores[np.arange(len(self.scores)), self.truth.astype(int)]
        return 1 - own

    def extremes(self, count: int = SHOWN_EXTREMES) -> tuple[list[int], list[int]]:
        """The indices of the best and of the worst predictions."""
        order = np.argsort(self.errors, kind="stable")
        return [int(index) for index in order[:count]], [int(index) for index in order[::-1][:count]]

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names for the texts of an example."""
        return ("text",) if self.kind in SINGLE else ("left", "right")

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

    def table(self) -> Table:
        """A row for each example: its texts, the truth, the prediction, and the scores behind it."""
        labels = tuple(f"probability_{label}" for label in range(self.scores.shape[-1]))
        scores = {"paraphrase": ("probability",), "sentiment": labels}.get(self.kind, ("score",))
        numbers = self.scores.reshape(-1, len(scores)).tolist()
        values = np.stack([self.truth, self.predicted], 1).tolist()
        rows = [
            (
                *map(printable, (one.id, one.file, *one.texts)),
                *(each if self.numeric else int(each) for each in pair),
                *own,
            )
            for one, pair, own in zip(self.examples, values, numbers, strict=True)
        ]
        header = ("id", "file", *self.text_columns, "truth", "predicted", *scores)
        return Table.of(header, rows, detail=True)


@dataclass(frozen=True, eq=False)
class PairChange:
    """One pair before and after training."""

    example: Example
    comparison: Comparison

    def strongest(self, count: int = SHOWN_WORDS) -> list[tuple[str, str, float, float]]:
        """The cells of the ledger that changed the most: left, right, before and after."""
        found = self.comparison
        left, right = found.labels
        order = np.argsort(-np.abs(found.difference), axis=None, kind="stable")[:count]
        indices = [divmod(int(index), len(right)) for index in order]
        return [
            (left[row], right[column], float(found.before[row, column]), float(found.after[row, column]))
            for row, column in indices
        ]

    def to_dict(self) -> dict[str, Any]:
        """The two cosines and the words that changed the most."""
        found = self.comparison
        return {
            "texts": list(self.example.texts), "truth": self.example.target, "id": self.example.id,
            "before": found.first.similarity, "after": found.second.similarity, "gap": found.gap,
            "words": [dict(zip(("left", "right", "before", "after"), row, strict=True)) for row in self.strongest()],
        }  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class TrainReport(Result):
    """A finished run.

    >>> TrainReport.__name__
    'TrainReport'
    """

    config: TrainConfig
    model: str
    model_sha256: str
    weights: int
    """trained parameters"""
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
    changes: tuple[PairChange, ...] = ()
    """the pairs whose cosine changed the most"""

    @property
    def score(self) -> float | None:
        """The mean of the tasks' measures on all dev examples; None without any."""
        return sum(each.score for each in self.dev.values()) / len(self.dev) if self.dev else None

    @property
    def formula(self) -> str:
        """The terms of the score."""
        return mean_of([(result.task, result.metric) for result in self.dev.values()])

    @property
    def parts(self) -> dict[str, dict[str, EvalResult]]:
        """The results by part and task, of those parts that were measured."""
        return {name: found for name, found in (("dev", self.dev), ("test", self.test)) if found}

    @property
    def measures(self) -> list[tuple[str, str, int, str, float]]:
        """Every measure of every task: part, task, number of examples, measure and value."""
        return [
            (part, name, len(result.examples), measure, value)
            for part, results in self.parts.items()
            for name, result in results.items()
            for measure, value in result.metrics.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything except the single predictions."""
        return {
            "model": self.model, "model_sha256": self.model_sha256, "config": self.config.to_dict(),
            "weights": self.weights, "examples": self.examples,
            "overlaps": [overlap.to_dict() for overlap in self.overlaps], "truncated": self.truncated,
            "best_epoch": self.best_epoch, "steps": self.steps, "seconds": self.seconds,
            "score": self.score, "formula": self.formula if self.dev else None,
            "dev": {name: result.to_dict() for name, result in self.dev.items()},
            "test": {name: result.to_dict() for name, result in self.test.items()},
            "epochs": list(self.epochs), "curve": list(self.curve),
            "changes": [change.to_dict() for change in self.changes],
        }  # fmt: skip

    @property
    def title(self) -> str:
        """The model that was trained."""
        return f"Training of {self.model}"

    @property
    def notes(self) -> list[str]:
        """The score, its terms, and its epoch."""
        from likewise.train.run_page import score_notes

        return score_notes(self)

    @property
    def cautions(self) -> list[str]:
        """Rows that train files share with dev or test files."""
        return [overlap.words for overlap in self.overlaps]

    def tables(self) -> dict[str, Table]:
        """Every measure; in files also every epoch and every prediction."""
        names = file_names(self.examples)
        predictions = {
            f"predictions-{part}-{names[task]}": result.table()
            for part, results in self.parts.items()
            for task, result in results.items()
        }
        measures = Table.of(MEASURE_COLUMNS, self.measures, f"{self.model}, epoch {self.best_epoch}")
        return {"measures": measures, "epochs": self._epoch_table(), **predictions}

    def _epoch_table(self) -> Table:
        """A row for each epoch: its losses and its dev measures."""
        rows: list[dict[str, Any]] = []
        for epoch in self.epochs:
            row = {"epoch": epoch["epoch"], "step": epoch["step"], "score": epoch["score"]}
            row["kept"] = int(epoch["epoch"] == self.best_epoch)
            row |= {f"train {task} loss": loss for task, loss in epoch["train"].items()}
            row |= {f"dev {task} {name}": each for task, found in epoch["dev"].items() for name, each in found.items()}
            rows.append({name: None if value != value else value for name, value in row.items()})
        header = list(dict.fromkeys(name for row in rows for name in row)) or ["epoch", "step", "score", "kept"]
        return Table.of(header, [[row.get(name) for name in header] for row in rows], detail=True)

    def figures(self) -> dict[str, Figure]:
        """Losses, scores, and each task's predictions."""
        from likewise.train.run_page import training_figures

        return training_figures(self)

    def fragments(self) -> list[str]:
        """The page: scores, data and settings, curves, each task, and what changed."""
        from likewise.train.run_page import training_fragments

        return training_fragments(self)

    def save(self, folder: Path | str, run: Mapping[str, Any] | None = None) -> Path:
        """Write the report; files of an earlier report that this one lacks are deleted, other files stay."""
        for old in Path(folder).glob("*"):
            if OWN_FILES.fullmatch(old.name):
                old.unlink()
        return super().save(folder, run)


def mean_of(measures: Sequence[tuple[str, str]]) -> str:
    """The formula of the mean of tasks' measures.

    >>> mean_of([("sentiment", "accuracy"), ("similarity", "pearson")])
    '(sentiment accuracy + similarity pearson) / 2'
    """
    parts = [" ".join(each) for each in measures]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)}) / {len(parts)}"


def file_names(tasks: Sequence[str] | Mapping[str, Any]) -> dict[str, str]:
    """Each task's name as a part of a file's name, all different.

    >>> file_names(["similarity", "a/b", "a b"])
    {'similarity': 'similarity', 'a/b': 'a-b', 'a b': 'a-b-2'}
    """
    names: dict[str, str] = {}
    for task in tasks:
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", task).strip("-").lower() or "task"
        taken = set(names.values())
        tries = (plain if count == 1 else f"{plain}-{count}" for count in range(1, len(taken) + 2))
        names[task] = next(name for name in tries if name not in taken)
    return names


# What training changed


def pair_changes(
    before: Encoder, after: Encoder, pairs: Sequence[Example], count: int = SHOWN_PAIRS
) -> list[PairChange]:
    """The pairs whose cosine rose or fell the most from one encoder to the other, compared word by word."""
    left, right = ([example.texts[side] for example in pairs] for side in (0, 1))
    cosines = [paired_similarity(encoder.encode(left), encoder.encode(right)) for encoder in (before, after)]
    moves = cosines[1] - cosines[0]
    chosen = np.argsort(-np.abs(moves), kind="stable")[:count]
    return [PairChange(pairs[index], compare(before, after, left[index], right[index])) for index in chosen]


def training_changes(
    load: Callable[[str], Encoder], report: TrainReport, progress: Progress | None = None
) -> tuple[PairChange, ...]:
    """What a run changed that has left its model in ``config.out``; empty if its vectors cannot be explained.

    The pairs are the held-out ones of the first bi-encoder task.
    """
    tasks = [task.name for task in report.config.tasks if task.kind not in SINGLE and not task.cross_encoder]
    held_out = [results[name].examples for results in (report.test, report.dev) for name in tasks if name in results]
    before, after = load(report.config.model), load(report.config.out)
    if not held_out or any("bilstm" in pooling_parts(each.pooling_config.pooling) for each in (before, after)):
        return ()
    if progress is not None:
        progress(0, 1, "comparing before and after")
    found = pair_changes(before, after, fixed_sample(held_out[0], COMPARED_PAIRS, 0))
    if progress is not None:
        progress(1, 1, "comparing before and after")
    return tuple(found)
