"""STS evaluation: how well cosines follow human similarity scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import GUESSED, Columns, ScoredPair, mixed_pairs, read_scored_pairs
from likewise.encoder import Encoder
from likewise.encoder.pooling import pooling_parts
from likewise.encoder.similarity import paired_similarity
from likewise.errors import DataError, UsageError
from likewise.metrics import Interval, bootstrap
from likewise.plotting.axes import grid_of_axes
from likewise.plotting.html import table
from likewise.plotting.scatter import scatter_with_line
from likewise.progress import Progress

METRICS = {"spearman": "spearman", "pearson": "pearson", "mse": "scaled_mse"}


@dataclass(frozen=True)
class StsResult:
    """One encoder on one set of pairs: predicted cosines (n,), human scores (n,), and how they agree.

    ``mse`` is taken after the cosines were mapped onto the scores' scale by a least-squares line.
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
        metadata = {"data": self.name, "model": self.model, "pooling": self.pooling, "n": self.n}
        values = {name: interval.value for name, interval in self.agreement.items()}
        ends = {name: [interval.low, interval.high] for name, interval in self.agreement.items()}
        counts = {"truncated": self.truncated, "skipped": self.skipped}
        return metadata | values | {"intervals": ends} | counts

    def _repr_html_(self) -> str:
        return StsTable((self,))._repr_html_()

    def plot(self, ax: Any = None) -> Any:
        """Human scores against cosines."""
        spearman = self.agreement["spearman"].value
        title = f"{self.name}, {self.model}, {self.pooling}\nSpearman {spearman:.4f}, n = {self.n}"
        return scatter_with_line(self.truth, self.predicted, ("human score", "cosine"), title, ax)


@dataclass(frozen=True)
class StsTable:
    """Several results: files x models x poolings."""

    results: tuple[StsResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """A single result as itself, several under ``results``."""
        rows = [result.to_dict() for result in self.results]
        return rows[0] if len(rows) == 1 else {"results": rows}

    def _repr_html_(self) -> str:
        rows = [
            (result.name, result.model, result.pooling, result.n, *(one.value for one in result.agreement.values()))
            for result in self.results
        ]
        return table(("data", "model", "pooling", "n", *METRICS), rows)

    def plot(self) -> Any:
        """One figure with a panel per result; returns the first panel's Axes."""
        panels = grid_of_axes(len(self.results))
        for result, panel in zip(self.results, panels, strict=True):
            result.plot(panel)
        return panels[0]


def evaluate_sts(
    encoder: Encoder, pairs: Sequence[ScoredPair], name: str = "pairs", progress: Progress | None = None
) -> StsResult:
    """Score pairs by cosine and compare with their human scores.

    >>> from likewise.data import read_scored_pairs
    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> evaluate_sts(encoder, list(read_scored_pairs("sample/pairs"))).n
    60
    """
    if len(pairs) < 2:
        raise DataError(f"{name}: a correlation needs at least 2 pairs, got {len(pairs)}")
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.left, pair.right)))
    index = {text: row for row, text in enumerate(texts)}
    encoded = encoder.encode_with_stats(texts, progress=progress)
    left = encoded.vectors[[index[pair.left] for pair in pairs]]
    right = encoded.vectors[[index[pair.right] for pair in pairs]]
    predicted = paired_similarity(left, right)
    truth = np.array([pair.score for pair in pairs])
    agreement = {key: bootstrap(metric, predicted, truth) for key, metric in METRICS.items()}
    metadata = (name, encoder.name, encoder.pooling_config.pooling)
    return StsResult(*metadata, predicted, truth, agreement, encoded.truncated)


@dataclass(frozen=True)
class PairSource:
    """Where pairs come from: files or names, and how they are read."""

    files: tuple[str, ...]
    mix: str | None = None
    """another file of parallel rows, whose second texts replace this one's"""
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        if self.mix is not None and self.skip_bad:
            raise UsageError("--skip-bad does not go with --mix, whose rows must stay parallel; mend the bad rows")

    def read(self) -> Iterator[tuple[str, list[ScoredPair], int]]:
        """Each file's name, its pairs and how many bad rows were skipped."""
        for file in self.files:
            first, skipped = self._pairs(file)
            if self.mix is None:
                yield file, first, skipped
            else:
                second, _ = self._pairs(self.mix)
                yield f"{file} x {self.mix}", self._mixed(file, first, second), skipped

    def _mixed(self, file: str, first: list[ScoredPair], second: list[ScoredPair]) -> list[ScoredPair]:
        try:
            return list(mixed_pairs(first, second))
        except DataError as error:
            raise DataError(f"{file} and {self.mix}: {error}") from error

    def _pairs(self, file: str) -> tuple[list[ScoredPair], int]:
        bad: list[DataError] = []
        on_bad = bad.append if self.skip_bad else None
        pairs = read_scored_pairs(file, columns=self.columns, data_dir=self.data_dir, on_bad=on_bad)
        return list(pairs), len(bad)


def compare_sts(
    source: PairSource,
    models: Sequence[str],
    poolings: Sequence[str | None],
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> StsTable:
    """Every file by every model and pooling (None is the model's own), in one table."""
    for pooling in poolings:
        if pooling is not None:
            pooling_parts(pooling)  # a wrong name is told before the work, not after half of it
    data = list(source.read())
    results = []
    for model in models:
        encoder = load(model)
        for pooling in poolings:
            reader = encoder if pooling is None else encoder.with_pooling(pooling=pooling)
            for name, pairs, skipped in data:
                results.append(replace(evaluate_sts(reader, pairs, name, progress), skipped=skipped))
    return StsTable(tuple(results))
