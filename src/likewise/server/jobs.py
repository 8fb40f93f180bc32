"""Jobs: long work in a queue, with progress, a way to stop it, and results that are kept.

A job's name is a hash of what it was asked for: asking again finds the work that is under way or its result.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from likewise.errors import Cancelled, LikewiseError, UsageError, first_line
from likewise.progress import Progress
from likewise.results.folder import finite, versions
from likewise.server.redaction import without_paths
from likewise.storage import atomic_write, only_writer

log = logging.getLogger("likewise")

State = Literal["waiting", "running", "done", "failed", "cancelled"]
OVER = ("done", "failed", "cancelled")
VERSION = versions()["likewise"]
FACTS, RESULT, GONE = "job.json", "result.json", ".gone-"

Work = Callable[[Progress, Path], Mapping[str, Any]]
"""Takes a progress callable and a folder of its own; gives what is kept as JSON."""


Given = Iterable[str]


class QueueFull(LikewiseError):
    """Too much is waiting already."""


class Taken(UsageError):
    """Other work that is under way has the same name."""


@dataclass(frozen=True)
class Job:
    """What is known of a piece of work."""

    id: str
    room: str
    """which view asked"""
    title: str
    asked: dict[str, Any]
    """what it was asked for"""
    state: State = "waiting"
    done: int = 0
    total: int | None = None
    note: str = ""
    error: str = ""
    began: float = 0.0
    """when it was asked for, in seconds since the epoch"""
    seconds: float = 0.0
    """how long it ran"""
    version: str = ""
    """of Likewise, when it was asked for"""


def job_id(room: str, asked: Mapping[str, Any], given: Given = ()) -> str:
    """The name of what is asked for; another version of Likewise may have another answer.

    >>> job_id("search", {"a": 1}) == job_id("search", {"a": 1}) != job_id("corpus", {"a": 1})
    True
    """
    question = [VERSION, room, asked, sorted(given)]
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:20]


class Jobs:
    """A queue that one thread works through, and a folder of what came of it."""

    def __init__(self, folder: Path, waiting: int, paths: Sequence[Path] = ()) -> None:
        """``places`` are folders that no error tells."""
        self._folder, self._waiting, self._places = folder, waiting, paths
        self._jobs: dict[str, Job] = {}
        self._queue: list[tuple[str, Work]] = []
        self._stopped: set[str] = set()
        self._changed = threading.Condition()
        self._closing = False
        folder.mkdir(parents=True, exist_ok=True)
        self._held = ExitStack()
        self._held.enter_context(only_writer(folder / ".lock", folder, "give this studio a --folder of its own"))
        for path in folder.glob(f"{GONE}*"):
            shutil.rmtree(path, ignore_errors=True)
        self._read_back()
        self._thread = threading.Thread(target=self._run, name="likewise-jobs", daemon=True)
        self._thread.start()

    def _read_back(self) -> None:
        """The jobs that an earlier studio left in the folder."""
        found = [job for path in sorted(self._folder.glob(f"*/{FACTS}")) if (job := _read(path)) is not None]
        self._jobs = {job.id: job for job in found if job.version == VERSION}
        if strange := len(found) - len(self._jobs):
            summary = "%s: jobs of other versions of Likewise, not shown and free to be deleted: %d"
            log.warning(summary, self._folder, strange)

    def ask(
        self, room: str, title: str, asked: dict[str, Any], work: Work, given: Given = (), alone: str | None = None
    ) -> Job:
        """The job that does this; one that is under way or done is found again.

        ``given`` is what the answer depends on beside the words of the question: files, weights, a grammar.
        ``alone`` is a word of the question that no other job of the room may have while it is under way.
        """
        name = job_id(room, asked, given)
        with self._changed:
            known = self._jobs.get(name)
            if known is not None and known.state == "running" and name in self._stopped:
                raise QueueFull("the same work is just being cancelled; ask again in a moment")
            if known is not None and known.state in ("waiting", "running", "done"):
                return known
            if alone is not None and any(job.asked.get(alone) == asked[alone] for job in self._under_way(room)):
                raise Taken(f"the {title} is under way with other settings; choose another {alone}, or cancel it first")
            if len(self._queue) >= self._waiting:
                raise QueueFull(f"{self._waiting} jobs are waiting already; wait for one, or cancel it")
            job = self._jobs[name] = Job(name, room, title, asked, began=time.time(), version=VERSION)
            self._stopped.discard(name)
            self._queue.append((name, work))
            self._keep(job)
            self._changed.notify_all()
        return job

    def _under_way(self, room: str) -> list[Job]:
        return [job for job in self._jobs.values() if job.room == room and job.state not in OVER]

    def get(self, name: str) -> Job | None:
        """A job by its name."""
        with self._changed:
            return self._jobs.get(name)

    def all(self, room: str | None = None) -> list[Job]:
        """Every job, the newest first."""
        with self._changed:
            found = [job for job in self._jobs.values() if room in (None, job.room)]
        return sorted(found, key=lambda job: -job.began)

    def folder(self, name: str) -> Path:
        """Where a job keeps what it makes."""
        return self._folder / name

    def result(self, name: str) -> Path | None:
        """The file of a job's result; None where there is none."""
        path = self._folder / name / RESULT
        job = self.get(name)
        return path if job is not None and job.state == "done" and path.exists() else None

    def cancel(self, name: str) -> Job | None:
        """Stop a job; one that waits goes at once, one that runs at its next report of progress."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None or job.state in OVER:
                return job
            self._stopped.add(name)
            if job.state == "waiting":
                self._queue = [item for item in self._queue if item[0] != name]
                self._set(replace(job, state="cancelled"))
            return self._jobs[name]

    def forget(self, name: str) -> bool:
        """Take a job that is over away, with all that it made."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None or job.state not in OVER:
                return False
            del self._jobs[name]
            gone = self._put_aside(name)
        # An index of gigabytes takes its time, and nobody should wait for it.
        shutil.rmtree(gone, ignore_errors=True)
        return True

    def _put_aside(self, name: str) -> Path:
        """Where a job's folder is now, so that the same question may be asked again at once."""
        path, gone = self._folder / name, self._folder / f"{GONE}{uuid.uuid4().hex}"
        with suppress(FileNotFoundError):
            path.rename(gone)
        return gone

    def close(self) -> None:
        """Stop what runs and let the thread end."""
        with self._changed:
            self._closing = True
            self._stopped.update(name for name, job in self._jobs.items() if job.state == "running")
            self._changed.notify_all()
        self._thread.join(timeout=10)
        self._held.close()

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                name, work = self._queue.pop(0)
                self._set(replace(self._jobs[name], state="running"))
            self._do(name, work)

    def _do(self, name: str, work: Work) -> None:
        began = time.monotonic()
        state: State = "done"
        error = ""
        try:
            found = work(self._progress(name), self._folder / name)
            _write(self._folder / name / RESULT, finite(dict(found)))
        except Cancelled:
            state = "cancelled"
        except LikewiseError as failure:
            state, error = "failed", without_paths(first_line(failure), self._places)
        except Exception:  # whatever it is, the next job must run
            log.exception("job %s failed", name)
            state, error = "failed", "something went wrong inside; the studio's log says what"
        with self._changed:
            self._set(replace(self._jobs[name], state=state, error=error, seconds=time.monotonic() - began))

    def _progress(self, name: str) -> Progress:
        def progress(done: int, total: int | None, note: str) -> None:
            with self._changed:
                if name in self._stopped:
                    raise Cancelled("stopped")
                self._jobs[name] = replace(self._jobs[name], done=done, total=total, note=note)

        return progress

    def _set(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._keep(job)
        self._changed.notify_all()

    def _keep(self, job: Job) -> None:
        try:
            _write(self._folder / job.id / FACTS, asdict(job))
        except OSError:  # a full disk must not end the thread that all jobs need
            log.exception("job %s cannot be kept", job.id)


def _read(path: Path) -> Job | None:
    """A job from its file, none where it cannot be read; one that was under way has failed."""
    try:
        job = Job(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        log.warning("%s cannot be read and is passed over", path)
        return None
    if job.state in OVER:
        return job
    return replace(job, state="failed", error="the studio was stopped in between; ask again to go on")


def _write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    atomic_write(path, lambda draft: draft.write_text(text, encoding="utf-8"))
