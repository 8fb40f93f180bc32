"""Training: runs that are started here, and the reports of all of them, as ``likewise train`` leaves them."""

from __future__ import annotations

import csv
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException

from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.metrics import fitted_line
from likewise.results.folder import made_by
from likewise.server.jobs import Job, job_id
from likewise.server.model_registry import report_folders, run_folders, run_name
from likewise.server.routes.answers import ERRORS
from likewise.server.routes.jobs import answer
from likewise.server.schemas import JobAnswer, TrainRequest
from likewise.server.studio import Studio, StudioDep
from likewise.train import TrainConfig
from likewise.train.config import config_from
from likewise.train.loop import CHECKPOINT
from likewise.train.results import training_changes
from likewise.train.runs import RunContext

log = logging.getLogger("likewise")
router = APIRouter(prefix="/training", tags=["training"], responses=ERRORS)

ROOM, RESULTS = "training", "run.json"
SHOWN = ("id", "truth", "predicted")
PLACES = ("model", "file")
"""What may be a path in a report."""
MOST_ROWS = 5_000
"""Of a table, in one answer."""


@router.post("", status_code=202)
def start(asked: TrainRequest, studio: StudioDep) -> JobAnswer:
    """Fine-tune a model for similarity, as a job; one that was stopped goes on where it was."""
    given = [*studio.given(asked.train, asked.model), *studio.given(asked.dev)]
    folder = studio.settings.runs / asked.name
    _require_own(folder, studio.jobs.get(job_id(ROOM, asked.model_dump(), given)))
    config = _config(asked, studio, folder)

    def work(progress: Any, _: Path) -> dict[str, Any]:
        began = time.time()
        resume = (folder / CHECKPOINT).exists()
        run_context = RunContext(lambda name: _fresh(studio, name, folder), studio.settings.data_dir, resume=resume)
        with run_context.run(config, progress) as report:
            changes = training_changes(run_context.load, report, progress)
            replace(report, changes=changes).save(folder, made_by("likewise studio", began))
        return {"name": asked.name, "score": report.score}

    title = f"training of {asked.name}"
    return answer(studio.jobs.ask(ROOM, title, asked.model_dump(), work, given, alone="name"))


def _require_own(folder: Path, known: Job | None) -> None:
    """Refuse a folder that is another run's; one's own is there where the same job was asked for before."""
    # A job that is over without a result may go on, yet not where another run has finished meanwhile.
    failed = known is not None and known.state in ("failed", "cancelled")
    if (known is None and folder.exists()) or (failed and (folder / RESULTS).exists()):
        raise UsageError(f"there is a run called {folder.name} already; choose another name")


def _fresh(studio: Studio, name: str, folder: Path) -> Encoder:
    """A model of one's own, since training changes its weights: one that is offered, or the run's."""
    return studio.model_registry.fresh(run_name(folder, studio.settings.runs) if name == str(folder) else name)


def _config(asked: TrainRequest, studio: Studio, folder: Path) -> TrainConfig:
    task = {
        "kind": "similarity", "pooling": asked.aggregation, "loss": {"mse": "scaled-mse"}.get(asked.loss, asked.loss),
        "train": studio.corpus(asked.train), "dev": studio.corpus(asked.dev),
    }  # fmt: skip
    kept = ("model", "epochs", "batch", "learning_rate", "seed")
    return config_from({name: getattr(asked, name) for name in kept} | {"out": str(folder), "task": [task]}, "training")


@router.get("/runs")
def runs(studio: StudioDep) -> list[dict[str, Any]]:
    """Every run with its score; one whose report cannot be read is passed over."""
    found = []
    for folder in _folders(studio):
        try:
            found.append(_brief(studio, folder))
        except DataError as error:
            log.warning("%s", error)
    return found


@router.get("/runs/{name:path}")
def run(name: str, studio: StudioDep) -> dict[str, Any]:
    """One run: its report and its predictions."""
    known = {_name(studio, folder): folder for folder in _folders(studio)}
    if name not in known:
        raise HTTPException(404, "no such run")
    return _report(known[name]) | {"name": name, "predictions": _predictions(known[name])}


@router.get("/reports")
def reports(studio: StudioDep) -> list[str]:
    """Every other folder of results: tables of runs, searches, benchmarks."""
    return [_name(studio, folder) for folder in report_folders(studio.settings.runs)]


@router.get("/reports/{name:path}")
def report(name: str, studio: StudioDep) -> dict[str, Any]:
    """The tables of one of them."""
    known = {_name(studio, folder): folder for folder in report_folders(studio.settings.runs)}
    if name not in known:
        raise HTTPException(404, "no such report")
    return {"name": name, "tables": {path.stem: _rows(path) for path in sorted(known[name].glob("*.csv"))}}


def _rows(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(islice(csv.reader(file), MOST_ROWS))


def _folders(studio: Studio) -> list[Path]:
    return [folder for folder in run_folders(studio.settings.runs) if (folder / RESULTS).exists()]


def _name(studio: Studio, folder: Path) -> str:
    return folder.relative_to(studio.settings.runs).as_posix()


def _brief(studio: Studio, folder: Path) -> dict[str, Any]:
    report = _report(folder)
    kept = ("model", "score", "formula", "best_epoch", "steps", "seconds")
    return {"name": _name(studio, folder), **{name: report.get(name) for name in kept}}


def _report(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / RESULTS).read_text(encoding="utf-8"))["results"]
        tasks = [{name: task[name] for name in ("name", "kind")} for task in found["config"]["task"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the report of {folder.name} cannot be read; train again") from error
    # Where things lie on this machine is nobody's business: the command and the files stay here.
    summary = {name: value for name, value in found.items() if name != "overlaps"}
    bare: dict[str, Any] = _without_places(summary | {"config": {"task": tasks}})
    return bare


def _without_places(value: Any) -> Any:
    """A report with the bare names of models and files."""
    if isinstance(value, list):
        return [_without_places(each) for each in value]
    if not isinstance(value, dict):
        return value
    paths = {name: Path(each).name for name, each in value.items() if name in PLACES and Path(str(each)).is_absolute()}
    return {name: _without_places(each) for name, each in value.items()} | paths


def _predictions(folder: Path) -> dict[str, dict[str, Any]]:
    """For each part of each task what was true and what was said, and the line through these where they are numbers."""
    found = {}
    for path in sorted(folder.glob("predictions-*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{name: row[name] for name in SHOWN if name in row} for row in csv.DictReader(file)]
        found[path.stem.removeprefix("predictions-")] = {
            "rows": rows[:MOST_ROWS], "n": len(rows), "line": _line(rows)
        }  # fmt: skip
    return found


def _line(rows: Sequence[Mapping[str, str]]) -> dict[str, float] | None:
    try:
        truth, predicted = ([float(row[name]) for row in rows] for name in ("truth", "predicted"))
    except (KeyError, ValueError):
        return None
    line = fitted_line(truth, predicted)
    return None if line is None else {"slope": line[0], "shift": line[1]}
