"""Jobs: one after the other, with progress, a way to stop them, and results that outlive the server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from likewise.errors import DataError, UsageError
from likewise.server.jobs import FINISHED, VERSION, Job, Jobs, QueueFull
from likewise.server.schemas import StudioResponse

PATIENCE = 20.0


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path / "jobs", waiting=2)
    yield made
    made.close()


def over(jobs: Jobs, name: str) -> Job:
    """The job once it is over."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        job = jobs.get(name)
        if job is None or job.state in FINISHED:
            assert job is not None
            return job
        time.sleep(0.01)
    raise AssertionError("the job does not end")


def result(jobs: Jobs, name: str) -> Any:
    path = jobs.result(name)
    assert path is not None
    return json.loads(path.read_text())


class Gate:
    """Work that goes on until it is let go."""

    def __init__(self) -> None:
        self.opened, self.begun = threading.Event(), threading.Event()

    def __call__(self, progress: Any, folder: Path) -> StudioResponse:
        self.begun.set()
        for done in range(2_000):
            progress(done, None, "steps")
            if self.opened.wait(0.01):
                return StudioResponse(folder=folder.name)
        raise AssertionError("nobody opened the gate")


def test_work_is_done_once_and_kept(jobs: Jobs, tmp_path: Path) -> None:
    request: list[int] = []

    def work(progress: Any, folder: Path) -> StudioResponse:
        request.append(1)
        progress(3, 4, "rows")
        return StudioResponse(value=float("nan"), list=[1, 2.5])

    job = jobs.submit("view", "title", {"a": 1}, work)
    done = over(jobs, job.id)
    assert (done.state, done.done, done.total, done.note) == ("done", 3, 4, "rows")
    assert result(jobs, job.id) == {"value": None, "list": [1, 2.5]}
    assert jobs.submit("view", "title", {"a": 1}, work).state == "done" and request == [1]
    with pytest.raises(UsageError, match="give this studio a --folder of its own"):
        Jobs(tmp_path / "jobs", waiting=2)
    jobs.close()
    again = Jobs(tmp_path / "jobs", waiting=2)
    assert [one.id for one in again.all("view")] == [job.id] and again.result(job.id) is not None
    again.close()


def test_what_fails_says_why_and_the_next_job_runs(jobs: Jobs) -> None:
    def bad(progress: Any, folder: Path) -> StudioResponse:
        raise DataError("no rows; give some")

    def worse(progress: Any, folder: Path) -> StudioResponse:
        raise ZeroDivisionError("secret")

    failed = over(jobs, jobs.submit("view", "bad", {"n": 1}, bad).id)
    assert (failed.state, failed.error) == ("failed", "no rows; give some") and jobs.result(failed.id) is None
    broken = over(jobs, jobs.submit("view", "worse", {"n": 2}, worse).id)
    assert broken.state == "failed" and "secret" not in broken.error
    assert (
        over(jobs, jobs.submit("view", "bad", {"n": 1}, lambda progress, folder: StudioResponse()).id).state == "done"
    )


def test_running_and_waiting_jobs_can_be_stopped_and_the_queue_is_bounded(jobs: Jobs) -> None:
    gate = Gate()
    running = jobs.submit("view", "gate", {"n": 0}, gate)
    assert gate.begun.wait(PATIENCE)
    waiting = [jobs.submit("view", "waits", {"n": n}, lambda progress, folder: StudioResponse()) for n in (1, 2)]
    with pytest.raises(QueueFull, match="2 jobs are waiting already"):
        jobs.submit("view", "too much", {"n": 3}, lambda progress, folder: StudioResponse())
    stopped = jobs.cancel(waiting[0].id)
    assert stopped is not None and stopped.state == "cancelled"
    jobs.cancel(running.id)
    assert over(jobs, running.id).state == "cancelled"
    assert over(jobs, waiting[1].id).state == "done"
    assert jobs.cancel("unknown") is None


def test_jobs_that_are_over_can_be_forgotten(jobs: Jobs) -> None:
    job = over(jobs, jobs.submit("view", "title", {}, lambda progress, folder: StudioResponse(a=1)).id)
    folder = jobs.folder(job.id)
    assert folder.exists() and jobs.forget(job.id) and not folder.exists()
    assert jobs.get(job.id) is None and not jobs.forget(job.id)


def test_a_job_that_was_interrupted_has_failed(tmp_path: Path) -> None:
    folder = tmp_path / "jobs" / "abc"
    folder.mkdir(parents=True)
    metadata = {"id": "abc", "room": "room", "title": "title", "asked": {}, "state": "running", "version": VERSION}
    (folder / "job.json").write_text(json.dumps(metadata))
    (tmp_path / "jobs" / "old").mkdir()
    (tmp_path / "jobs" / "old" / "job.json").write_text(json.dumps(metadata | {"id": "old", "version": "0.0.1"}))
    (tmp_path / "jobs" / "bad").mkdir()
    (tmp_path / "jobs" / "bad" / "job.json").write_text("{")
    jobs = Jobs(tmp_path / "jobs", waiting=1)
    [job] = jobs.all()
    assert job.state == "failed" and "ask again" in job.error
    jobs.close()
