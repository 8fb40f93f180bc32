"""The geometry of several models on one corpus, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.data import SkippedRows
from likewise.data.corpora import CorpusSource
from likewise.encoder import Encoder
from likewise.geometry.figures import alignment_figure, corrected_figure, measures_figure, words_figure
from likewise.geometry.geometry import HEADER, Geometry
from likewise.geometry.measuring import geometry_of
from likewise.geometry.settings import USUAL, GeometrySettings
from likewise.plotting.html import table
from likewise.plotting.text import unique_labels
from likewise.progress import Progress, tracked


@dataclass(frozen=True, eq=False)
class GeometryTable:
    """One corpus by one or several models."""

    results: tuple[Geometry, ...]
    skipped: int = 0

    @property
    def names(self) -> list[str]:
        """Short names that tell the models apart."""
        return unique_labels([one.model for one in self.results])

    def to_dict(self) -> dict[str, Any]:
        """A single result as itself, several under ``results``."""
        found = [one.to_dict() | {"skipped": self.skipped} for one in self.results]
        return found[0] if len(found) == 1 else {"results": found}

    def _repr_html_(self) -> str:
        rows = [(name, *row) for name, one in zip(self.names, self.results, strict=True) for row in one.rows]
        return table(("model", *HEADER), rows)

    def plot(self) -> Any:
        """Every measure over the layers, a line for each model; returns the first panel's Axes."""
        return measures_figure(self.results)

    def figures(self) -> dict[str, Any]:
        """All figures by their names, drawn one after the other."""
        found = {"measures": measures_figure(self.results), "alignment": alignment_figure(self.results)}
        if self.results[0].corrected:
            found["corrected"] = corrected_figure(self.results)
        if self.results[0].chosen:
            found["words"] = words_figure(self.results)
        return found


def compare_geometry(
    source: CorpusSource,
    models: Sequence[str],
    settings: GeometrySettings = USUAL,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> GeometryTable:
    """Measure a corpus by each model; it is read through once before, so that a bad row is told first.

    >>> source = CorpusSource(("sample/pairs",), limit=20)
    >>> compare_geometry(source, ["minilm"], GeometrySettings(min_contexts=3)).to_dict()["texts"]
    40
    """
    skipped = SkippedRows()
    for _ in tracked(source.read(skipped), progress, note="texts checked"):
        pass
    found = [geometry_of(load(model), source.read, settings, source.name, progress) for model in dict.fromkeys(models)]
    return GeometryTable(tuple(found), skipped.count)
