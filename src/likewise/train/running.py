"""Training runs: a config with its files -> a trained model and its report; and tables of such runs."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from likewise.data import locate
from likewise.drafts import atomic_write
from likewise.encoder import Encoder
from likewise.encoder.encoder import model_key
from likewise.errors import UsageError
from likewise.grammar.pipelines import chosen
from likewise.progress import Progress, named
from likewise.train import TrainConfig, TrainReport, train
from likewise.train.loop import CHECKPOINT, EpochDone
from likewise.train.processes import Processes
from likewise.train.rows import Row
from likewise.train.tasks import EVERYTHING, Limits, read_tasks
from likewise.train.training import remove_checkpoint

RECORD = "row.json"
"""What a finished row of a table leaves."""


@dataclass(frozen=True)
class RunContext:
    """Where runs find their data and their models."""

    load: Callable[[str], Encoder]
    data_dir: Path | None = None
    limits: Limits = EVERYTHING
    resume: bool = False

    def train(
        self, config: TrainConfig, progress: Progress | None = None, on_epoch: EpochDone | None = None
    ) -> TrainReport:
        """Read, check, load and train; the run counts as finished once ``finish`` says so."""
        tasks, overlaps = read_tasks(config.tasks, self.data_dir, self.limits)
        return train(
            self.load(config.model), tasks, config, resume=self.resume, keep_checkpoint=True, overlaps=overlaps,
            progress=progress, on_epoch=on_epoch,
        )  # fmt: skip

    def finish(self, config: TrainConfig) -> None:
        """Take away what a run would go on from, now that all of it is written."""
        remove_checkpoint(Path(config.out))


@dataclass(frozen=True)
class TableRow:
    """A finished row: its name, its seed and its report as JSON."""

    name: str
    seed: int
    published: tuple[float, ...]
    report: dict[str, Any]


def train_table(
    run_context: RunContext,
    rows: Sequence[Row],
    folder: Path,
    keep_models: bool = False,
    progress: Progress | None = None,
) -> list[TableRow]:
    """Every row's run, one after the other; rows that are finished are read back, an interrupted one goes on."""
    done, files = [], _Files(run_context)
    processes = Processes.joined(cpu=True)
    for index, row in enumerate(rows, start=1):
        record = folder / row.slug / RECORD
        metadata = {"config": _settings(row.config), **files.metadata(row.config)}
        if not record.exists():
            config = replace(row.config, out=str(record.parent))
            noted = named(progress, f"row {index}/{len(rows)}, {row.name}")
            report = replace(run_context, resume=True).train(config, noted)
            if processes.first:
                _write(record, {"facts": metadata, "report": report.to_dict()})
        if processes.first and (record.parent / CHECKPOINT).exists():
            _tidy(record, keep_models)
        processes.wait()
        done.append(TableRow(row.name, row.config.seed, row.published, _record(record, row, metadata)))
    return done


class _Files:
    """What rows depend on beside their settings: how much of which files, and which weights."""

    def __init__(self, run_context: RunContext) -> None:
        self._workshop = run_context
        self._sums: dict[str, str] = {}

    def metadata(self, config: TrainConfig) -> dict[str, Any]:
        """The limits, a checksum of each file and of the model, and the grammars that make targets."""
        sources = [source.file for task in config.tasks for source in (*task.train, *task.dev, *task.test)]
        return {
            "limits": asdict(self._workshop.limits),
            "files": {name: self._sum(name, self._file) for name in sorted(set(sources))},
            "model": self._sum(config.model, lambda name: model_key(self._workshop.load(name))),
            **({"grammars": grammars} if (grammars := _grammars(config)) else {}),
        }

    def _sum(self, name: str, compute: Callable[[str], str]) -> str:
        if name not in self._sums:
            self._sums[name] = compute(name)
        return self._sums[name]

    def _file(self, name: str) -> str:
        with locate(name, self._workshop.data_dir).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _grammars(config: TrainConfig) -> list[str]:
    """The pipelines that make targets of nouns."""
    sources = [source for task in config.tasks for source in (*task.train, *task.dev, *task.test)]
    return sorted({chosen(source.grammar or None) for source in sources if source.target == "shared-nouns"})


def _settings(config: TrainConfig) -> Any:
    """A row's settings as JSON gives them back."""
    return json.loads(json.dumps(replace(config, out="").to_dict()))


def _write(record: Path, found: Mapping[str, Any]) -> None:
    atomic_write(record, lambda draft: draft.write_text(json.dumps(found), encoding="utf-8"))


def _tidy(record: Path, keep_models: bool) -> None:
    """Leave the record of a finished row, and its model if that is wanted; the checkpoint goes last."""
    for left in [] if keep_models else list(record.parent.iterdir()):
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name not in (RECORD, CHECKPOINT):
            left.unlink()
    remove_checkpoint(record.parent)


def _record(path: Path, row: Row, metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known, report = found["facts"], dict(found["report"])
        changed = [name for name in metadata if known[name] != metadata[name]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} cannot be read; delete it, and the row is trained again") from error
    if changed:
        what = ", ".join(changed).replace("config", "settings")
        raise UsageError(f"{path} is of other {what} than row {row.name!r} has; choose another out, or delete it")
    return report
