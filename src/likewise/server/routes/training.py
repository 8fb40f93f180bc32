"""Routes of the training view: start a run, and show the reports of all runs."""

from __future__ import annotations

import csv
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException
from pydantic import ConfigDict, Field

from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.metrics import fitted_line
from likewise.results.result import made_by
from likewise.server.jobs import Job, job_id
from likewise.server.offers import report_folders, run_folders
from likewise.server.schemas import Name, Number, StudioRequest, StudioResponse
from likewise.server.studio import Studio, StudioDep
from likewise.train import TrainConfig
from likewise.train.config import config_from
from likewise.train.loop import CHECKPOINT
from likewise.train.report import training_changes
from likewise.train.runs import RunContext

log = logging.getLogger("likewise")
router = APIRouter(prefix="/training", tags=["training"])
VIEW, RESULTS = "training", "run.json"
COLUMNS = ("id", "truth", "predicted")
PATH_KEYS = ("model", "file")  # keys of a report that may hold paths
MOST_ROWS = 5_000  # rows of a table in one response


class TrainRequest(StudioRequest):
    """A model to fine-tune for similarity on scored pairs."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]  # of the run and its folder
    train: Name  # a corpus of scored pairs
    dev: Name  # another one that evaluates each epoch
    model: Name = "minilm"
    pooling: Literal["mean", "cls", "max", "bilstm"] = "mean"
    loss: Literal["mse", "cosent"] = "mse"
    epochs: int = Field(2, ge=1, le=50)
    batch: int = Field(16, ge=2, le=256)
    learning_rate: float = Field(5e-5, gt=0, le=0.01)
    seed: int = Field(1, ge=0, le=2**31 - 1)


class TrainResult(StudioResponse):
    """A run that is finished."""

    name: str
    score: Number


class RunSummary(StudioResponse):
    """A run and its score."""

    name: str
    model: str
    score: Number
    formula: str | None
    best_epoch: int
    steps: int
    seconds: float


class PredictedExample(StudioResponse):
    """A held-out example and its prediction."""

    texts: list[str]
    truth: Number
    predicted: Number
    error: Number
    id: str


class TaskEvaluation(StudioResponse):
    """The measures of a task by name, with its best and its worst examples."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    n: int
    loss: Number
    confusion: list[list[int]] | None
    best: list[PredictedExample]
    worst: list[PredictedExample]


class Epoch(StudioResponse):
    """Losses and dev measures of an epoch."""

    epoch: int
    step: int
    score: Number
    train: dict[str, Number]
    dev: dict[str, dict[str, Number]]


class TaskName(StudioResponse):
    """A task of a run."""

    name: str
    kind: str


class RunConfig(StudioResponse):
    """The tasks of a run."""

    task: list[TaskName]


class WordChange(StudioResponse):
    """The relevance of two words before and after training."""

    left: str
    right: str
    before: float
    after: float


class PairChange(StudioResponse):
    """A pair before and after training."""

    texts: tuple[str, str]
    truth: Number
    before: float
    after: float
    words: list[WordChange]


class FittedLine(StudioResponse):
    """The least-squares line through predictions."""

    slope: float
    shift: float


class Predictions(StudioResponse):
    """The first predictions of a task, and the line through all of them where they are numbers."""

    rows: list[dict[str, str]]
    n: int
    line: FittedLine | None


class RunResponse(RunSummary):
    """The report of a run and its predictions."""

    config: RunConfig
    dev: dict[str, TaskEvaluation]
    test: dict[str, TaskEvaluation]
    epochs: list[Epoch]
    curve: list[dict[str, Number]]
    changes: list[PairChange] | None = None
    predictions: dict[str, Predictions]


class ReportResponse(StudioResponse):
    """The tables of a folder of results."""

    name: str
    tables: dict[str, list[list[str]]]


@router.post("", status_code=202)
def start(request: TrainRequest, studio: StudioDep) -> Job:
    """Fine-tune a model for similarity, as a job; one that was stopped resumes."""
    depends_on = [*studio.dependencies(request.train, request.model), *studio.dependencies(request.dev)]
    folder = studio.settings.runs / request.name
    _require_own(folder, studio.jobs.get(job_id(VIEW, request.model_dump(), depends_on)))
    config = _config(request, studio, folder)

    def work(progress: Any, _: Path) -> TrainResult:
        def fresh(name: str) -> Encoder:
            """A model that nobody else uses, since training changes its weights: an offered one, or the run's."""
            return studio.models.fresh(f"runs/{request.name}" if name == str(folder) else name)

        began = time.time()
        run_context = RunContext(fresh, studio.settings.data_dir, resume=(folder / CHECKPOINT).exists())
        with run_context.run(config, progress) as report:
            changes = training_changes(run_context.load, report, progress)
            replace(report, changes=changes).save(folder, made_by("likewise studio", began))
        return TrainResult(name=request.name, score=report.score)

    title = f"training of {request.name}"
    return studio.jobs.submit(VIEW, title, request.model_dump(), work, depends_on, unique="name")


def _require_own(folder: Path, known: Job | None) -> None:
    """Refuse the folder of another run; the same job may use its own folder again."""
    # A job without a result may resume, unless another run has finished in its folder.
    failed = known is not None and known.state in ("failed", "cancelled")
    if (known is None and folder.exists()) or (failed and (folder / RESULTS).exists()):
        raise UsageError(f"there is a run called {folder.name} already; choose another name")


def _config(request: TrainRequest, studio: Studio, folder: Path) -> TrainConfig:
    task = {
        "kind": "similarity", "pooling": request.pooling,
        "loss": {"mse": "scaled-mse"}.get(request.loss, request.loss),
        "train": studio.corpora.source(request.train), "dev": studio.corpora.source(request.dev),
    }  # fmt: skip
    shared = request.model_dump(include={"model", "epochs", "batch", "learning_rate", "seed"})
    return config_from(shared | {"out": str(folder), "task": [task]}, "training")


@router.get("/runs")
def runs(studio: StudioDep) -> list[RunSummary]:
    """Every run with its score; runs without a readable report are left out."""
    found = []
    for name, folder in _runs(studio).items():
        try:
            report = _report(name, folder)
            found.append(RunSummary(**{key: getattr(report, key) for key in RunSummary.model_fields}))
        except DataError as error:
            log.warning("%s", error)
    return found


@router.get("/runs/{name:path}", response_model_exclude_unset=True)
def run(name: str, studio: StudioDep) -> RunResponse:
    """The report of a run and its predictions."""
    known = _runs(studio)
    if name not in known:
        raise HTTPException(404, "no such run")
    return _report(name, known[name], predictions=True)


@router.get("/reports")
def reports(studio: StudioDep) -> list[str]:
    """Every other folder of results: tables of runs, searches, benchmarks."""
    return list(report_folders(studio.settings.runs))


@router.get("/reports/{name:path}")
def report(name: str, studio: StudioDep) -> ReportResponse:
    """The tables of one of them."""
    known = report_folders(studio.settings.runs)
    if name not in known:
        raise HTTPException(404, "no such report")
    tables = {}
    for path in sorted(known[name].glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            tables[path.stem] = list(islice(csv.reader(file), MOST_ROWS))
    return ReportResponse(name=name, tables=tables)


def _runs(studio: Studio) -> dict[str, Path]:
    folders = run_folders(studio.settings.runs)
    return {name: folder for name, folder in folders.items() if (folder / RESULTS).exists()}


def _report(name: str, folder: Path, predictions: bool = False) -> RunResponse:
    try:
        found: dict[str, Any] = json.loads((folder / RESULTS).read_text(encoding="utf-8"))["results"]
        tasks = [{key: task[key] for key in ("name", "kind")} for task in found["config"]["task"]]
        # The command and the files stay here, since they show local paths.
        shown = {key: value for key, value in found.items() if key != "overlaps"}
        predicted = _predictions(folder) if predictions else {}
        own = {"config": {"task": tasks}, "name": name, "predictions": predicted}
        return RunResponse.model_validate(_without_paths(shown | own))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"the report of {folder.name} cannot be read; train again") from error


def _without_paths(value: Any) -> Any:
    """A report with the bare names of models and files."""
    if isinstance(value, list):
        return [_without_paths(each) for each in value]
    if not isinstance(value, dict):
        return value
    absolute = {key: each for key, each in value.items() if key in PATH_KEYS and Path(str(each)).is_absolute()}
    bare = {key: Path(each).name for key, each in absolute.items()}
    return {key: _without_paths(each) for key, each in value.items()} | bare


def _predictions(folder: Path) -> dict[str, dict[str, Any]]:
    """True and predicted values of each part of each task."""
    found = {}
    for path in sorted(folder.glob("predictions-*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = [{key: row[key] for key in COLUMNS if key in row} for row in csv.DictReader(file)]
        part = path.stem.removeprefix("predictions-")
        found[part] = {"rows": rows[:MOST_ROWS], "n": len(rows), "line": _line(rows)}
    return found


def _line(rows: Sequence[Mapping[str, str]]) -> dict[str, float] | None:
    try:
        truth, predicted = ([float(row[key]) for row in rows] for key in ("truth", "predicted"))
    except (KeyError, ValueError):
        return None
    line = fitted_line(truth, predicted)
    return None if line is None else {"slope": line[0], "shift": line[1]}
