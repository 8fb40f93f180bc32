"""Training: the reports of runs, as ``likewise train`` left them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException

from likewise.errors import DataError
from likewise.server.routes.answers import ERRORS
from likewise.server.shelf import run_folders
from likewise.server.studio import Here, Studio

router = APIRouter(prefix="/training", tags=["training"], responses=ERRORS)

MOST_PREDICTIONS = 5_000
"""Of a part of a task, in one answer."""


@router.get("/runs")
def runs(studio: Here) -> list[dict[str, Any]]:
    """Every run with its score."""
    return [_brief(studio, folder) for folder in _folders(studio)]


@router.get("/runs/{name:path}")
def run(name: str, studio: Here) -> dict[str, Any]:
    """One run: its report and its predictions."""
    known = {_name(studio, folder): folder for folder in _folders(studio)}
    if name not in known:
        raise HTTPException(404, "no such run")
    return _report(known[name]) | {"name": name, "predictions": _predictions(known[name])}


def _folders(studio: Studio) -> list[Path]:
    return [folder for folder in run_folders(studio.settings.runs) if (folder / "results.json").exists()]


def _name(studio: Studio, folder: Path) -> str:
    return folder.relative_to(studio.settings.runs).as_posix()


def _brief(studio: Studio, folder: Path) -> dict[str, Any]:
    report = _report(folder)
    kept = ("model", "score", "formula", "best_epoch", "steps", "seconds")
    return {"name": _name(studio, folder), **{name: report.get(name) for name in kept}}


def _report(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the report of {folder.name} cannot be read; train again") from error
    # The command and the time say where on this machine things lie.
    return {name: value for name, value in found.items() if name != "run"}


def _predictions(folder: Path) -> dict[str, list[dict[str, str]]]:
    found = {}
    for path in sorted(folder.glob("predictions-*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for _, row in zip(range(MOST_PREDICTIONS), csv.DictReader(file), strict=False)]
        found[path.stem.removeprefix("predictions-")] = [
            {name: row[name] for name in ("id", "truth", "predicted") if name in row} for row in rows
        ]
    return found
