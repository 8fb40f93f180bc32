"""Predictions for the rows of a file."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from likewise.data import GUESSED, Columns, SkippedRows, read_pairs, read_texts
from likewise.progress import Progress
from likewise.train.config import SINGLE
from likewise.train.prediction import Prediction, predict, task_of
from likewise.train.saving import SavedRun


@dataclass(frozen=True)
class Unjudged:
    """A file of texts or pairs, and how it is read."""

    file: str
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False
    limit: int | None = None
    """the first rows only"""

    def read(self, pairs: bool) -> tuple[list[str], list[tuple[str, ...]], SkippedRows]:
        """Ids and texts of the rows, and the bad ones that were passed over."""
        skipped = SkippedRows()
        reader: Any = read_pairs if pairs else read_texts
        rows = reader(
            self.file, columns=self.columns, data_dir=self.data_dir, on_bad=skipped if self.skip_bad else None
        )
        kept = list(islice(rows, self.limit))
        return [row.id for row in kept], [(row.left, row.right) if pairs else (row.text,) for row in kept], skipped


@dataclass(frozen=True)
class Predicted:
    """A file's rows and what was said of them."""

    ids: list[str]
    texts: list[tuple[str, ...]]
    prediction: Prediction
    skipped: SkippedRows

    def to_dict(self) -> dict[str, Any]:
        """One entry per row, with its id and texts."""
        found = self.prediction.to_dict(self.ids)
        for row, texts in zip(found["predictions"], self.texts, strict=True):
            row["texts"] = list(texts)
        return found | {"skipped": self.skipped.count}


def predict_file(run: SavedRun, source: Unjudged, task: str = "", progress: Progress | None = None) -> Predicted:
    """What a saved run says of a file's rows."""
    kind = task_of(run, task).kind
    ids, texts, skipped = source.read(pairs=kind not in SINGLE)
    return Predicted(ids, texts, predict(run, texts, task, progress), skipped)
