"""Training runs: a config with its files -> a trained model and its report; and tables of such runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.progress import Progress
from likewise.train import TrainConfig, TrainReport, train
from likewise.train.loop import EpochDone
from likewise.train.rows import Row
from likewise.train.tasks import EVERYTHING, Limits, read_tasks

RECORD = "row.json"
"""What a finished row of a table leaves."""


@dataclass(frozen=True)
class Workshop:
    """Where runs find their data and their models."""

    load: Callable[[str], Encoder]
    data_dir: Path | None = None
    limits: Limits = EVERYTHING
    resume: bool = False

    def train(
        self, config: TrainConfig, progress: Progress | None = None, on_epoch: EpochDone | None = None
    ) -> TrainReport:
        """Read, check, load and train."""
        tasks, overlaps = read_tasks(config.tasks, self.data_dir, self.limits)
        encoder = self.load(config.model)
        return train(
            encoder, tasks, config, resume=self.resume, overlaps=overlaps, progress=progress, on_epoch=on_epoch
        )


@dataclass(frozen=True)
class TableRow:
    """A finished row: its name, its seed and its report as JSON."""

    name: str
    seed: int
    published: tuple[float, ...]
    report: dict[str, Any]


def train_table(
    workshop: Workshop, rows: Sequence[Row], folder: Path, keep_models: bool = False, progress: Progress | None = None
) -> list[TableRow]:
    """Every row's run, one after the other; rows that are finished are read back, an interrupted one goes on."""
    done = []
    for place, row in enumerate(rows, start=1):
        note = f"row {place}/{len(rows)}, {row.name}"
        record = folder / row.slug / RECORD
        if not record.exists():
            _train_row(workshop, row, record, keep_models, _named(progress, note))
        done.append(TableRow(row.name, row.config.seed, row.published, _record(record, row)))
    return done


def _train_row(workshop: Workshop, row: Row, record: Path, keep: bool, progress: Progress | None) -> None:
    config = replace(row.config, out=str(record.parent))
    report = replace(workshop, resume=True).train(config, progress)
    if not keep:
        shutil.rmtree(record.parent)
        record.parent.mkdir()
    draft = record.with_suffix(".draft")
    draft.write_text(json.dumps(report.to_json()), encoding="utf-8")
    draft.replace(record)


def _record(path: Path, row: Row) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        settings = {name: value for name, value in found["config"].items() if name != "out"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} cannot be read; delete it, and the row is trained again") from error
    wanted = {name: value for name, value in row.config.to_json().items() if name != "out"}
    if settings != json.loads(json.dumps(wanted)):
        raise UsageError(f"{path} is of other settings than row {row.name!r} has; choose another out, or delete it")
    return found


def _named(progress: Progress | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total, note: progress(done, total, f"{name}: {note}")
