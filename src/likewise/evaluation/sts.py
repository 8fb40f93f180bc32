"""STS evaluation: how well cosines, or the scores of a cross-encoder, follow human similarity scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Dataset, Rows, ScoredPair, mixed_pairs
from likewise.encoder import CrossEncoder, load_scoring
from likewise.encoder.cross_encoder import CROSS, Scoring, pooling_of
from likewise.encoder.encoder import Source
from likewise.encoder.pooling import pooling_parts
from likewise.encoder.similarity import paired_similarity
from likewise.errors import DataError, UsageError
from likewise.metrics import Interval, bootstrap
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.scatter import scatter_with_line
from likewise.progress import Progress
from likewise.results import Column, Comparable, Figure, ResultSet, Table

METRICS = {"spearman": "spearman", "pearson": "pearson", "mse": "scaled_mse"}
HEADINGS = {"spearman": "Spearman", "pearson": "Pearson", "mse": "scaled MSE"}


@dataclass(frozen=True, repr=False)
class StsResult(Comparable):
    """One model on one set of pairs: predicted scores (n,), human scores (n,), and how they agree.

    ``mse`` is measured after a least-squares line has mapped the predictions onto the scores' scale.
    """

    name: str
    model: str
    pooling: str
    predicted: NDArray[np.float32]
    truth: NDArray[np.float64]
    agreement: dict[str, Interval]
    truncated: int = 0
    skipped: int = 0

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.truth)

    def to_dict(self) -> dict[str, Any]:
        """Values under ``spearman``, ``pearson`` and ``mse``, their 95 % intervals under ``intervals``."""
        values = {name: interval.value for name, interval in self.agreement.items()}
        ends = {name: [interval.low, interval.high] for name, interval in self.agreement.items()}
        return {
            "data": self.name, "model": self.model, "pooling": self.pooling, "n": self.n, **values, "intervals": ends,
            "truncated": self.truncated, "skipped": self.skipped,
        }  # fmt: skip

    @property
    def title(self) -> str:
        """The heading of the page."""
        return "Predicted and human scores"

    @property
    def cautions(self) -> list[str]:
        """Skipped rows and cut texts."""
        if not self.skipped and not self.truncated:
            return []
        return [f"{self.name}: bad rows skipped: {self.skipped}, texts cut at the limit: {self.truncated}"]

    def tables(self) -> dict[str, Table]:
        """One row."""
        columns = [Column(name, HEADINGS[name]) for name in self.agreement]
        row = (self.name, self.model, self.pooling, self.n, *self.agreement.values())
        title = "Agreement with scores, with bootstrap 95 % intervals"
        return {"sts": Table.of(["data", "model", "pooling", "n", *columns], [row], title)}

    @classmethod
    def figures_of(cls, results: Sequence[StsResult]) -> dict[str, Figure]:
        """Human scores against predicted ones, a panel per result."""

        def draw() -> Any:
            panels = grid_of_axes(len(results))
            for result, panel in zip(results, panels, strict=True):
                result.plot(panel)
            return panels[0]

        return {"sts": Figure(draw, "Human scores against predicted ones")}

    def plot(self, ax: Any = None) -> Any:
        """Human scores against predicted ones."""
        spearman = self.agreement["spearman"].value
        title = f"{self.name}, {self.model}, {self.pooling}\nSpearman {spearman:.4f}, n = {self.n}"
        return scatter_with_line(
            self.truth, self.predicted, ("human score", "score" if self.pooling == CROSS else "cosine"), title, ax
        )


def evaluate_sts(
    encoder: Scoring | Source, pairs: Sequence[ScoredPair], name: str = "pairs", progress: Progress | None = None
) -> StsResult:
    """Score pairs by cosine, or by a cross-encoder, and compare with their human scores.

    >>> evaluate_sts("minilm", Dataset("sample/pairs").scored_pairs()).n
    60
    """
    if len(pairs) < 2:
        raise DataError(f"{name}: a correlation needs at least 2 pairs, got {len(pairs)}")
    scoring = load_scoring(encoder)
    predicted, truncated = _predicted(scoring, pairs, progress)
    truth = np.array([pair.score for pair in pairs])
    agreement = {key: bootstrap(metric, predicted, truth) for key, metric in METRICS.items()}
    return StsResult(name, scoring.name, pooling_of(scoring), predicted, truth, agreement, truncated)


def _predicted(
    scoring: Scoring, pairs: Sequence[ScoredPair], progress: Progress | None
) -> tuple[NDArray[np.float32], int]:
    """The score of each pair, and how many texts (or pairs, by a cross-encoder) were cut."""
    if isinstance(scoring, CrossEncoder):
        sides = [(pair.left, pair.right) for pair in pairs]
        return scoring.score(sides, progress=progress), sum(each.truncated for each in scoring.tokenize(sides))
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.left, pair.right)))
    index = {text: row for row, text in enumerate(texts)}
    encoded = scoring.encode_with_stats(texts, progress=progress)
    left, right = ([index[getattr(pair, side)] for pair in pairs] for side in ("left", "right"))
    return paired_similarity(encoded.vectors[left], encoded.vectors[right]), encoded.truncated


def mixed_scored_pairs(dataset: Dataset, other: str) -> tuple[str, Rows[ScoredPair]]:
    """The first texts of a dataset with the second texts of the same rows of another one, and a name for them."""
    if dataset.skip_bad:
        raise UsageError("--skip-bad does not go with --mix, whose rows must stay parallel; correct the bad rows")
    first, second = dataset.scored_pairs(), replace(dataset, name=other).scored_pairs()
    try:
        return f"{dataset.name} x {other}", Rows(mixed_pairs(first, second))
    except DataError as error:
        raise DataError(f"{dataset.name} and {other}: {error}") from error


def _pooled(scoring: Scoring, pooling: str | None) -> Scoring:
    if pooling is None:
        return scoring
    if isinstance(scoring, CrossEncoder):
        raise UsageError(f"{scoring.name} is a cross-encoder, which has no pooling to choose; leave --pooling out")
    return scoring.with_pooling(pooling=pooling)


def compare_sts(
    datasets: Sequence[Dataset],
    models: Sequence[str],
    poolings: Sequence[str | None] = (None,),
    mix: str | None = None,
    load: Callable[[str], Scoring] = load_scoring,
    progress: Progress | None = None,
) -> ResultSet[StsResult]:
    """Every dataset by every model and pooling (None is the model's own).

    ``mix`` names a dataset of parallel rows, whose second texts replace those of the others.
    """
    for pooling in poolings:
        if pooling is not None:
            pooling_parts(pooling)  # Rejects a wrong name before a model is loaded.
    data = [(one.name, one.scored_pairs()) if mix is None else mixed_scored_pairs(one, mix) for one in datasets]
    results = []
    for model in models:
        scoring = load(model)
        for pooling in poolings:
            pooled = _pooled(scoring, pooling)
            for name, pairs in data:
                results.append(replace(evaluate_sts(pooled, pairs, name, progress), skipped=pairs.skipped))
    return ResultSet(tuple(results))
