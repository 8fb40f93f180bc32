"""Queues over HTTP: what is too much is sent away with 429, and a run's name belongs to one training."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from likewise.sample import SAMPLES
from likewise.server.app import create_app
from likewise.server.schemas import StudioResponse
from likewise.server.settings import Limits, StudioSettings
from likewise.server.studio import Studio
from studio_jobs import failed

PATIENCE = 60.0


class Gate:
    """Work that begins, and ends once it is let go."""

    def __init__(self) -> None:
        self.begun, self.opened = threading.Event(), threading.Event()

    def __call__(self, *_: Any) -> StudioResponse:
        self.begun.set()
        assert self.opened.wait(PATIENCE), "nobody opened the gate"
        return StudioResponse()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture
def studio(tiny_folder: Path, tmp_path: Path, gate: Gate) -> Iterator[TestClient]:
    """A studio of short queues; the gate opens before it closes."""
    settings = StudioSettings(
        folder=tmp_path / "kept", models=(str(tiny_folder),), runs=tmp_path / "elsewhere" / "runs", threads=1,
        limits=Limits(waiting=2, asking=1),
    )  # fmt: skip
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000", raise_server_exceptions=False) as made:
        yield made
        gate.opened.set()


def inside(studio: TestClient) -> Studio:
    found: Studio = studio.app.state.studio  # type: ignore[attr-defined]
    return found


@pytest.fixture
def busy(studio: TestClient, gate: Gate) -> TestClient:
    """The studio while its one thread for jobs is held up."""
    inside(studio).jobs.submit("view", "gate", {}, gate)
    assert gate.begun.wait(PATIENCE)
    return studio


@pytest.fixture
def training(studio: TestClient, tiny_folder: Path) -> dict[str, Any]:
    """The request of a training on the samples."""
    head, *rows = SAMPLES["sample/pairs"].read_text(encoding="utf-8").splitlines(keepends=True)
    parts = {"train": rows[:40], "dev": rows[40:]}
    files = {name: head + "".join(part) for name, part in parts.items()}
    kept = {name: studio.post("/api/corpora", content=text, headers={"x-file-name": f"{name}.csv"}).json()["id"]
            for name, text in files.items()}  # fmt: skip
    return kept | {"name": "mine", "model": tiny_folder.name, "epochs": 1}


def test_a_question_beyond_the_queue_is_sent_away(studio: TestClient, gate: Gate, tiny_folder: Path) -> None:
    request = {"left": "a cat", "right": "a dog", "model": tiny_folder.name}
    with ThreadPoolExecutor(1) as other:
        first = other.submit(inside(studio).executor.run, gate)
        assert gate.begun.wait(PATIENCE)
        answer = studio.post("/api/pair", json=request)
        gate.opened.set()
        first.result(PATIENCE)
    assert answer.status_code == 429
    assert answer.json() == {"error": "1 questions are waiting already; ask again in a moment"}
    assert studio.post("/api/pair", json=request).status_code == 200, "the queue has space again"


def test_a_job_beyond_the_queue_is_sent_away(busy: TestClient, tiny_folder: Path) -> None:
    request = [{"corpus": "sample/pairs", "models": [tiny_folder.name], "limit": limit} for limit in (20, 21, 22)]
    first, second, third = (busy.post("/api/layers/geometry", json=one) for one in request)
    assert (first.status_code, second.status_code, third.status_code) == (202, 202, 429)
    assert third.json() == {"error": "2 jobs are waiting already; wait for one, or cancel it"}
    assert busy.post("/api/layers/geometry", json=request[0]).json()["id"] == first.json()["id"], "it waits already"
    busy.post(f"/api/jobs/{first.json()['id']}/cancel")
    assert busy.post("/api/layers/geometry", json=request[2]).status_code == 202, "the queue has space again"
    for job in busy.get("/api/jobs").json():
        busy.post(f"/api/jobs/{job['id']}/cancel")


def test_a_name_is_one_trainings_while_it_waits(busy: TestClient, training: dict[str, Any]) -> None:
    first = busy.post("/api/training", json=training)
    again = busy.post("/api/training", json=training)
    assert (first.status_code, again.status_code) == (202, 202) and first.json()["id"] == again.json()["id"]
    other = busy.post("/api/training", json=training | {"epochs": 2})
    assert other.status_code == 422
    assert other.json()["error"] == (
        "the training of mine is under way with other settings; choose another name, or cancel it first"
    )
    assert busy.post("/api/training", json=training | {"epochs": 2, "name": "other"}).status_code == 202
    busy.post(f"/api/jobs/{first.json()['id']}/cancel")
    freed = busy.post("/api/training", json=training | {"epochs": 2})
    assert freed.status_code == 202, "nobody has the name any more"
    for job in busy.get("/api/jobs").json():
        busy.post(f"/api/jobs/{job['id']}/cancel")


def test_a_name_whose_folder_is_there_is_refused(studio: TestClient, training: dict[str, Any]) -> None:
    (inside(studio).settings.runs / "mine").mkdir(parents=True)
    answer = studio.post("/api/training", json=training)
    assert answer.status_code == 422
    assert answer.json()["error"] == "there is a run called mine already; choose another name"
    assert studio.get("/api/jobs").json() == []


def test_the_error_of_a_job_hides_the_folder_of_runs(busy: TestClient, gate: Gate, training: dict[str, Any]) -> None:
    started = busy.post("/api/training", json=training)
    folder = inside(busy).settings.runs / "mine"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("somebody else's", encoding="utf-8")
    gate.opened.set()
    assert failed(busy, started) == "…/mine holds files that are not of this command; choose another out"
    # The same job again is the way to go on, whatever lies in its folder.
    again = busy.post("/api/training", json=training)
    assert again.status_code == 202 and again.json()["id"] == started.json()["id"]
