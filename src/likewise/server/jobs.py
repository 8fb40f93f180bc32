"""Jobs: a queue of long tasks, with progress, cancellation and stored results.

A job's id is a hash of its request and of what its result depends on, so a repeated request finds the existing job.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from likewise.errors import Cancelled, LikewiseError, UsageError, first_line
from likewise.progress import Progress
from likewise.results.result import versions
from likewise.storage import content_key, only_writer, write_text

log = logging.getLogger("likewise")
State = Literal["waiting", "running", "done", "failed", "cancelled"]
FINISHED = ("done", "failed", "cancelled")
VERSION = versions()["likewise"]
METADATA, RESULT, REMOVED = "job.json", "result.json", ".gone-"
Work = Callable[[Progress, Path], BaseModel]  # takes a progress callable and the job's folder; returns the result


class QueueFull(LikewiseError):
    """Too much is waiting already."""


class NameTaken(UsageError):
    """Other work that is under way has the same name."""


class Job(BaseModel):
    """A piece of work and its progress."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)

    id: str
    view: str = Field(alias="room")  # the view that started it
    title: str
    request: dict[str, Any] = Field(alias="asked")
    state: State = "waiting"
    done: int = 0
    total: int | None = None
    note: str = ""
    error: str = ""
    began: float = 0.0  # time of the request, in seconds since the epoch
    seconds: float = 0.0  # duration
    version: str = ""  # of Likewise, at the time of the request

    def to_json(self) -> str:
        """The job as one line of JSON."""
        return self.model_dump_json(by_alias=True)


def job_id(view: str, request: Mapping[str, Any], depends_on: Iterable[str] = ()) -> str:
    """The id of a request; another version of Likewise may answer it differently.

    >>> job_id("search", {"a": 1}) == job_id("search", {"a": 1}) != job_id("corpus", {"a": 1})
    True
    """
    return content_key(VERSION, view, request, sorted(depends_on))[:20]


class Jobs:
    """A queue that one thread works through, and a folder of the results."""

    def __init__(self, folder: Path, waiting: int, redact: Callable[[str], str] = str) -> None:
        """``redact`` hides local paths in errors."""
        self._folder, self._waiting, self._redact = folder, waiting, redact
        self._queue: list[tuple[str, Work]] = []
        self._stopped: set[str] = set()
        self._listeners: list[Callable[[], None]] = []
        self._changed = threading.Condition()
        self._closing = False
        folder.mkdir(parents=True, exist_ok=True)
        self._held = ExitStack()
        self._held.enter_context(only_writer(folder / ".lock", folder, "give this studio a --folder of its own"))
        for path in folder.glob(f"{REMOVED}*"):
            shutil.rmtree(path, ignore_errors=True)
        found = [job for path in sorted(folder.glob(f"*/{METADATA}")) if (job := _read(path)) is not None]
        self._jobs = {job.id: job for job in found if job.version == VERSION}
        if others := len(found) - len(self._jobs):
            log.warning("%s: %d jobs of other versions of Likewise are not shown; delete them", folder, others)
        self._thread = threading.Thread(target=self._run, name="likewise-jobs", daemon=True)
        self._thread.start()

    def submit(
        self,
        view: str,
        title: str,
        request: dict[str, Any],
        work: Work,
        depends_on: Iterable[str] = (),
        unique: str | None = None,
    ) -> Job:
        """The job of a request; one that is under way or done is found again.

        ``depends_on`` is what the result depends on besides the request: files, weights, a grammar.
        ``unique`` names a value of the request that no other job of the view may have while it is under way.
        """
        name = job_id(view, request, depends_on)
        with self._changed:
            known = self._jobs.get(name)
            if known is not None and known.state == "running" and name in self._stopped:
                raise QueueFull("the same work is just being cancelled; ask again in a moment")
            if known is not None and known.state in ("waiting", "running", "done"):
                return known
            active = [job for job in self._jobs.values() if job.view == view and job.state not in FINISHED]
            if unique is not None and any(job.request.get(unique) == request[unique] for job in active):
                cure = f"choose another {unique}, or cancel it first"
                raise NameTaken(f"the {title} is under way with other settings; {cure}")
            if len(self._queue) >= self._waiting:
                raise QueueFull(f"{self._waiting} jobs are waiting already; wait for one, or cancel it")
            self._stopped.discard(name)
            self._queue.append((name, work))
            self._set(Job(id=name, room=view, title=title, asked=request, began=time.time(), version=VERSION))
            return self._jobs[name]

    def get(self, name: str) -> Job | None:
        """A job by its id."""
        with self._changed:
            return self._jobs.get(name)

    def all(self, view: str | None = None) -> list[Job]:
        """Every job, the newest first."""
        with self._changed:
            found = [job for job in self._jobs.values() if view in (None, job.view)]
        return sorted(found, key=lambda job: -job.began)

    def folder(self, name: str) -> Path:
        """A job's own folder."""
        return self._folder / name

    def result(self, name: str) -> Path | None:
        """The file of a job's result; None where there is none."""
        path, job = self._folder / name / RESULT, self.get(name)
        return path if job is not None and job.state == "done" and path.exists() else None

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a listener after every change, from any thread; returns a function that ends this."""
        with self._changed:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._changed:
                self._listeners.remove(listener)

        return unsubscribe

    def cancel(self, name: str) -> Job | None:
        """Stop a job: at once where it waits, at its next report of progress where it runs."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None or job.state in FINISHED:
                return job
            self._stopped.add(name)
            if job.state == "waiting":
                self._queue = [item for item in self._queue if item[0] != name]
                self._set(job.model_copy(update={"state": "cancelled"}))
            return self._jobs[name]

    def forget(self, name: str) -> bool:
        """Delete a finished job with its results."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None or job.state not in FINISHED:
                return False
            del self._jobs[name]
            removed = self._folder / f"{REMOVED}{uuid.uuid4().hex}"
            with suppress(FileNotFoundError):  # the same request may come again at once
                (self._folder / name).rename(removed)
            self._notify()
        # Deleting gigabytes takes long, so the lock is released first.
        shutil.rmtree(removed, ignore_errors=True)
        return True

    def close(self) -> None:
        """Stop the running job and end the thread."""
        with self._changed:
            self._closing = True
            self._stopped.update(name for name, job in self._jobs.items() if job.state == "running")
            self._changed.notify_all()
        self._thread.join(timeout=10)
        self._held.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                name, work = self._queue.pop(0)
                self._set(self._jobs[name].model_copy(update={"state": "running"}))
            began = time.monotonic()
            state, error = self._result_of(name, work)
            update = {"state": state, "error": error, "seconds": time.monotonic() - began}
            with self._changed:
                self._set(self._jobs[name].model_copy(update=update))

    def _result_of(self, name: str, work: Work) -> tuple[State, str]:
        """Do the work, store its result, and return the job's last state with an error."""
        try:
            found = work(partial(self._report, name), self._folder / name)
            _write(self._folder / name / RESULT, found.model_dump_json(exclude_unset=True))
        except Cancelled:
            return "cancelled", ""
        except LikewiseError as failure:
            return "failed", self._redact(first_line(failure))
        except Exception:  # the next job must run in any case
            log.exception("job %s failed", name)
            return "failed", "something went wrong inside; the studio's log says what"
        return "done", ""

    def _report(self, name: str, done: int, total: int | None, note: str) -> None:
        """Note a job's progress, or stop it."""
        with self._changed:
            if name in self._stopped:
                raise Cancelled("stopped")
            self._jobs[name] = self._jobs[name].model_copy(update={"done": done, "total": total, "note": note})
            self._notify()

    def _set(self, job: Job) -> None:
        self._jobs[job.id] = job
        try:
            _write(self._folder / job.id / METADATA, job.to_json())
        except OSError:  # a full disk must not end the thread
            log.exception("job %s cannot be stored", job.id)
        self._notify()

    def _notify(self) -> None:
        self._changed.notify_all()
        for listener in self._listeners:
            listener()


def _read(path: Path) -> Job | None:
    """A job from its file, None where it cannot be read; one that was under way has failed."""
    try:
        job = Job(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        log.warning("%s cannot be read and is ignored", path)
        return None
    if job.state in FINISHED:
        return job
    error = "the studio was stopped in between; ask again to go on"
    return job.model_copy(update={"state": "failed", "error": error})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
