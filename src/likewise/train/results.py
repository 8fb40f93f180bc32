"""Evaluation results of a run: predictions, metrics, and the pairs that training changed most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise import metrics
from likewise.encoder import Encoder
from likewise.encoder.similarity import paired_similarity
from likewise.explain import Comparison, compare
from likewise.plotting.heatmap import confusion_matrix
from likewise.plotting.scatter import fitted_scatter, line_text
from likewise.plotting.terminal import printable, shortened
from likewise.results import Column, Table
from likewise.train.config import SINGLE
from likewise.train.examples import Example
from likewise.train.heads import CLASSES

CLOSE = 0.05  # A predicted similarity within this distance counts as met, on the scale from 0 to 5
NUMERIC = ("similarity", "count", "mlm")  # Kinds whose prediction is a number
LARGEST_LOSS = 50.0  # Beyond it a perplexity says nothing and is too large to write down
SHOWN_EXTREMES = 5  # Examples that are shown as best and as worst
SHOWN_PAIRS, SHOWN_WORDS = 4, 6
CLASS_NAMES = {"sentiment": [str(label) for label in range(CLASSES)], "paraphrase": ["other", "paraphrase"]}
KIND_NOTES = {
    "sentiment": "Classes run from 0, the most negative, to 4, the most positive. A row is a true class: how many of it"
    " got which prediction, and their share of the row.",
    "paraphrase": "Pairs are paraphrases or other ones. A row is the truth: how many of them got which prediction, and"
    " their share of the row.",
    "similarity": "A point is a pair, on the scale from 0 to 5; denser colour means more pairs.",
    "count": "A point is a pair: its true number and the predicted one; denser colour means more pairs.",
    "mlm": "Accuracy is the share of masked tokens that were found, averaged over texts; perplexity is e to the loss.",
}
"""What the figure and the measures of a kind show."""
ERRORS = {
    "sentiment": "1 - probability of the true class",
    "paraphrase": "distance of the probability from the truth",
    "similarity": "distance",
    "count": "distance",
    "mlm": "share of masked tokens that were not found",
}
"""What an error is."""
CHARACTERS = 220  # How much of a text is shown


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
        classes = self.scores >= 0.5 if self.kind == "paraphrase" else self.scores.argmax(1)
        return np.asarray(classes, dtype=np.float64)

    @property
    def confusion(self) -> NDArray[np.int64] | None:
        """True classes by predicted ones; None for numbers."""
        if self.numeric:
            return None
        return metrics.confusion(self.truth, self.predicted, CLASSES if self.kind == "sentiment" else 2)

    @property
    def metrics(self) -> dict[str, float]:
        """Every measure of the task, by name."""
        truth, predicted, counts = self.truth, self.predicted, self.confusion
        if self.kind == "mlm":
            return {"accuracy": float(self.scores.mean()), "perplexity": float(np.exp(min(self.loss, LARGEST_LOSS)))}
        if counts is None:
            return {
                "pearson": metrics.pearson(predicted, truth), "spearman": metrics.spearman(predicted, truth),
                "mse": metrics.mean_squared_error(predicted, truth), "mse_fitted": metrics.scaled_mse(predicted, truth),
                f"within_{CLOSE:g}": metrics.share_within(predicted, truth, CLOSE),
            }  # fmt: skip
        with np.errstate(invalid="ignore"):
            shares = counts / counts.sum(1, keepdims=True)  # of a class without examples: nan
        if self.kind == "paraphrase":
            found = {"false_positive_rate": float(shares[0, 1]), "false_negative_rate": float(shares[1, 0])}
        else:
            right = np.diag(shares).tolist()
            found = {f"accuracy_{label}": share for label, share in enumerate(right) if share == share}
        return {"accuracy": metrics.accuracy(truth, predicted), **found}

    @property
    def score(self) -> float:
        """The measure that chooses the best epoch; 0 if it does not exist."""
        return float(np.nan_to_num(self.metrics[self.metric]))

    @property
    def errors(self) -> NDArray[np.float64]:
        """The error of each prediction, (n,): a distance, or 1 - the probability of the true class."""
        if self.scores.ndim == 1:
            return np.abs(self.scores - self.truth)
        own: NDArray[np.float64] = self.scores[np.arange(len(self.scores)), self.truth.astype(int)]
        return 1 - own

    def extremes(self, count: int = SHOWN_EXTREMES) -> tuple[list[int], list[int]]:
        """The indices of the best and of the worst predictions."""
        order = np.argsort(self.errors, kind="stable").tolist()
        return order[:count], order[::-1][:count]

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names for the texts of an example."""
        return ("text",) if self.kind in SINGLE else ("left", "right")

    def to_dict(self) -> dict[str, Any]:
        """Measures, confusions, and the best and the worst examples."""
        truth, predicted, errors = self.truth.tolist(), self.predicted.tolist(), self.errors.tolist()
        best, worst = (
            [
                {
                    "texts": list(self.examples[index].texts), "truth": truth[index], "predicted": predicted[index],
                    "error": errors[index], "id": self.examples[index].id, "file": self.examples[index].file,
                }
                for index in indices
            ]
            for indices in self.extremes()
        )  # fmt: skip
        counts = None if self.confusion is None else self.confusion.tolist()
        own = {"n": len(self.examples), "loss": self.loss, **self.metrics}
        return own | {"confusion": counts, "best": best, "worst": worst}

    def table(self) -> Table:
        """A row for each example: its texts, the truth, the prediction, and the scores behind it."""
        labels = tuple(f"probability_{label}" for label in range(self.scores.shape[-1]))
        scores = {"paraphrase": ("probability",), "sentiment": labels}.get(self.kind, ("score",))
        numbers = self.scores.reshape(-1, len(scores)).tolist()
        values = np.stack([self.truth, self.predicted], 1).astype(float if self.numeric else int).tolist()
        rows = [
            (*map(printable, (one.id, one.file, *one.texts)), *pair, *own)
            for one, pair, own in zip(self.examples, values, numbers, strict=True)
        ]
        return Table.of(("id", "file", *self.text_columns, "truth", "predicted", *scores), rows, detail=True)

    def draw(self, title: str) -> Any:
        """Confusions, or predicted numbers over true ones; returns the Axes."""
        if self.confusion is not None:
            return confusion_matrix(self.confusion, CLASS_NAMES[self.kind], title)
        line = metrics.fitted_line(self.truth, self.predicted)
        return fitted_scatter(self.truth, self.predicted, ("true", "predicted"), line, title)

    @property
    def summary(self) -> str:
        """The measures in words."""
        return SUMMARIES[self.kind](self)

    def extreme_tables(self, where: str) -> list[Table]:
        """The best and the worst examples, their texts shortened."""
        values = np.stack([self.truth, self.predicted], 1).astype(float if self.numeric else int).tolist()
        numbers = [Column(name, format=".3f") for name in ("true", "predicted", "error")]
        tables = []
        for what, indices in zip(("Best", "Worst"), self.extremes(), strict=True):
            rows: list[tuple[object, ...]] = []
            for index in indices:
                one, error = self.examples[index], float(self.errors[index])
                texts = [shortened(text, CHARACTERS) for text in one.texts]
                rows.append((*texts, *values[index], error, shortened(f"{one.file} {one.id}", 60)))
            title = f"{what} predictions on {where}, by {ERRORS[self.kind]}"
            tables.append(Table.of((*self.text_columns, *numbers, "row"), rows, title))
        return tables


# Results in words


def _number_summary(result: EvalResult) -> str:
    found, line = result.metrics, metrics.fitted_line(result.truth, result.predicted)
    fitted = "True scores are all the same, so no line fits"
    if line is not None:
        fitted = f"The line that fits best is predicted = {line_text(*line, 'true')} (equal would be 1.00 true + 0.00)"
    text = Column("", format=".3f").text
    return (
        f"Pearson {text(found['pearson'])}, Spearman {text(found['spearman'])}. {fitted}."
        f" {found[f'within_{CLOSE:g}']:.1%} of {len(result.examples)} predictions lie within {CLOSE:g} of the truth."
    )


def _paraphrase_summary(result: EvalResult) -> str:
    assert result.confusion is not None
    (_, false_positive), (false_negative, _) = result.confusion.tolist()
    others, paraphrases = result.confusion.sum(1).tolist()
    return (
        f"accuracy {result.metrics['accuracy']:.3f}. Of {others} pairs that are no paraphrases {false_positive}"
        f" ({_share(false_positive, others)}) were called paraphrases: false positives. Of {paraphrases} paraphrases"
        f" {false_negative} ({_share(false_negative, paraphrases)}) were missed: false negatives."
    )


def _sentiment_summary(result: EvalResult) -> str:
    assert result.confusion is not None
    right = [
        f"{_share(counts[label], sum(counts))} of {sum(counts)} in class {label}"
        for label, counts in enumerate(result.confusion.tolist())
    ]
    return f"accuracy {result.metrics['accuracy']:.3f}. Right: {', '.join(right)}."


def _mlm_summary(result: EvalResult) -> str:
    found = result.metrics
    return f"{found['accuracy']:.1%} of masked tokens found, perplexity {found['perplexity']:.1f}."


SUMMARIES: dict[str, Callable[[EvalResult], str]] = {
    "similarity": _number_summary,
    "count": _number_summary,
    "paraphrase": _paraphrase_summary,
    "sentiment": _sentiment_summary,
    "mlm": _mlm_summary,
}


def _share(count: int, of: int) -> str:
    return f"{count / of:.1%}" if of else "none"


# What training changed


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
        return [
            (left[row], right[column], float(found.before[row, column]), float(found.after[row, column]))
            for row, column in zip(*np.unravel_index(order, found.difference.shape), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The two cosines and the words that changed the most."""
        found = self.comparison
        return {
            "texts": list(self.example.texts), "truth": self.example.target, "id": self.example.id,
            "before": found.first.similarity, "after": found.second.similarity, "gap": found.gap,
            "words": [dict(zip(("left", "right", "before", "after"), row, strict=True)) for row in self.strongest()],
        }  # fmt: skip


def pair_changes(
    before: Encoder, after: Encoder, pairs: Sequence[Example], count: int = SHOWN_PAIRS
) -> list[PairChange]:
    """The pairs whose cosine rose or fell the most from one encoder to the other, compared word by word."""
    left, right = ([example.texts[side] for example in pairs] for side in (0, 1))
    cosines = [paired_similarity(encoder.encode(left), encoder.encode(right)) for encoder in (before, after)]
    chosen = np.argsort(-np.abs(cosines[1] - cosines[0]), kind="stable")[:count]
    return [PairChange(pairs[index], compare(before, after, left[index], right[index])) for index in chosen]
