"""A Ray cluster as a team: actors that hold the model do the windows of a task, and the results come in order.

The first process gives each worker a window when it is free, as it does with processes. A lost worker costs its window
alone: the window goes to another worker, and a new worker starts as soon as the cluster has a place for it. Ray Data
would give the window back to the lost actor only, so after the loss of a node all results behind it would wait until
the cluster has room for that actor again.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from likewise.data.remote import AnyPath
from likewise.encoder.encoder import Encoder
from likewise.encoder.forward import steady_memory
from likewise.encoder.workers import Done, Task, Window, WorkerModel, amount, in_order
from likewise.errors import LikewiseError, MissingExtra, UsageError, first_line
from likewise.progress import Progress, Ticker

log = logging.getLogger("likewise")
LOCAL = "local"
SECONDS_TO_CONNECT = 10.0
MOST_LOSSES = 4  # Workers that one window may cost: a window that ends each of them is at fault
STORE_BYTES = 2**28  # The object store of a local cluster, for each worker: a few windows at most are in it


@dataclass(frozen=True)
class Cluster:
    """Workers on a Ray cluster: ``local``, which starts on this machine, or the address HOST:PORT of a running one.

    Each worker takes a core for each of its threads, and a share of a GPU if ``gpus_per_worker`` is above 0.
    ``workers`` None is as many as the nodes have room for.
    """

    address: str = LOCAL
    workers: int | None = None
    gpus_per_worker: float = 0.0
    threads: int = 1  # of each worker

    @property
    def device(self) -> str | None:
        """Workers with a GPU use it, whatever this process does."""
        return "cuda" if self.gpus_per_worker else None

    @contextmanager
    def connected(self) -> Iterator[Cluster]:
        """Connect to the cluster, or start it; within a program that has connected already, use its connection."""
        ray = _ray()
        if ray.is_initialized():
            yield self
            return
        with _own_token() if self.address == LOCAL else nullcontext():
            self._connect(ray)
            try:
                yield self
            finally:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        failures = (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError, OSError)
        if self.address == LOCAL:
            cores = os.cpu_count() or 1
            count = self.workers or max(1, cores // self.threads)
            size = {"num_cpus": max(count * self.threads, cores), "object_store_memory": STORE_BYTES * min(count, 16)}
            try:
                ray.init(LOCAL, include_dashboard=False, **size, **quiet)
            except failures as error:
                flaw = f"Ray cannot start on this machine ({first_line(error)})"
                raise LikewiseError(f"{flaw}; see its logs in /tmp/ray, or give --workers without --cluster") from error
            return
        _check_address(self.address)
        try:
            ray.init(self.address, **quiet)
        except failures as error:
            raise _unreachable(self.address, first_line(error)) from error

    def reaches(self, path: AnyPath) -> bool:
        """Whether workers read and write this themselves: a URI always, a path if they are on this machine."""
        return self.address == LOCAL or not isinstance(path, Path)

    def options(self) -> dict[str, Any]:
        """What is asked of Ray for each worker."""
        # Without restarts and retries: windows of a lost worker go to others, which are there already.
        asked = {"num_cpus": self.threads, "num_gpus": self.gpus_per_worker, "max_restarts": 0}
        return asked | {"max_task_retries": 0, "scheduling_strategy": "SPREAD"}

    def capacity(self, nodes: Iterable[dict[str, Any]]) -> int:
        """How many workers fit on the nodes, as ``ray.nodes`` describes them."""
        options, total = self.options(), 0
        for node in nodes:
            has = node["Resources"] if node["Alive"] else {}
            wanted = {"CPU": options["num_cpus"], "GPU": options["num_gpus"]}
            total += min(int(has.get(name, 0) / amount + 1e-9) for name, amount in wanted.items() if amount)
        return total

    def run(
        self, encoder: Encoder, task: Task[Window, Done], windows: Iterable[Window], ticker: Ticker
    ) -> Generator[tuple[Window, Done]]:
        """Each window with the task's result, in order; needs the connection."""
        if torch.get_num_threads() != self.threads:
            flaw = f"the model has {torch.get_num_threads()} threads here, a worker of the cluster {self.threads}"
            raise UsageError(f"{flaw}; load it with threads={self.threads}")
        count = self._count()
        stream = iter(windows)
        first = list(islice(stream, count))
        if not first:
            return
        pool = _Pool(WorkerModel.of(encoder, self.device), task, self.options(), len(first))
        try:
            yield from in_order(chain(first, stream), pool, ticker)
        finally:
            pool.close()

    def _count(self) -> int:
        if self.workers is not None:
            return self.workers
        found = self.capacity(_ray().nodes())
        if not found:
            wanted = "a GPU" if self.gpus_per_worker else f"{self.threads} cores"
            cure = "give --workers to wait for nodes that are to come"
            raise UsageError(f"no node of the cluster {self.address} has {wanted} for a worker; {cure}")
        return found


def _ray() -> Any:
    """Ray, imported when it is asked for."""
    # Before the import, which reads them: no reports to anyone, and a local cluster listens on this machine alone.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("ray", "cluster") from error
    return ray


@contextmanager
def _own_token() -> Iterator[None]:
    """A token of its own for a cluster on this machine; otherwise Ray would write one to the user's home."""
    if any(name in os.environ for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")):
        yield
        return
    os.environ["RAY_AUTH_TOKEN"] = _token()
    try:
        yield
    finally:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):  # Ray sets the mode
            os.environ.pop(name, None)


@cache
def _token() -> str:
    """One token for all clusters that this process starts: Ray remembers the first one."""
    return secrets.token_hex(32)


def _check_address(address: str) -> None:
    """Rejects an address where nothing listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"--cluster takes local or HOST:PORT, not {address!r}")
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, first_line(error)) from error


def _unreachable(address: str, why: str) -> UsageError:
    cure = f"check the address, and join the cluster with: ray start --address {address}"
    return UsageError(f"no Ray cluster at {address} ({why}); {cure}")


class _Given(NamedTuple):
    """A window that a worker does, or the loading of the model, whose number is -1."""

    number: int
    window: Any
    progress: Progress | None
    losses: int


@dataclass
class _Pool:
    """Actors and what they are doing."""

    model: WorkerModel
    task: Any
    options: dict[str, Any]
    size: int
    idle: list[Any] = field(default_factory=list)
    running: dict[Any, tuple[Any, _Given]] = field(default_factory=dict)  # by the reference of the result
    again: list[_Given] = field(default_factory=list)  # windows of lost workers
    lost: int = 0
    windows: int = 0
    items: int = 0
    began: float | None = None  # when the first window was given to a worker that had its model

    def __post_init__(self) -> None:
        self.ray = _ray()
        self.actor = self.ray.remote(_Worker).options(**self.options)
        for _ in range(self.size):
            self._start()

    def _start(self) -> None:
        worker = self.actor.remote()
        self.running[worker.load.remote(self.model, self.task)] = worker, _Given(-1, (), None, 0)

    @property
    def has_room(self) -> bool:
        return bool(self.idle) and not self.again

    def give(self, number: int, window: Any, progress: Progress) -> None:
        self.began = time.monotonic() if self.began is None else self.began
        self._give(_Given(number, window, progress, 0))

    def _give(self, given: _Given) -> None:
        worker = self.idle.pop(0)
        self.running[worker.work.remote(given.window)] = worker, given

    def finished(self, seconds: float) -> dict[int, Any]:
        while self.again and self.idle:
            self._give(self.again.pop(0))
        found: dict[int, Any] = {}
        ready, _ = self.ray.wait(list(self.running), timeout=seconds)
        for reference in ready:
            found |= self._taken(reference, *self.running.pop(reference))
        return found

    def _taken(self, reference: Any, worker: Any, given: _Given) -> dict[int, Any]:
        errors = self.ray.exceptions
        try:
            result = self.ray.get(reference)
        except errors.RayTaskError as error:
            raise _task_error(error.cause) from error
        except errors.RayError as error:
            self._lose(worker, given, error)
            return {}
        self.idle.append(worker)
        if given.progress is None:
            return {}
        done = amount(given.window, result)
        self.windows, self.items = self.windows + 1, self.items + done
        given.progress(done, None, "")
        return {given.number: result}

    def _lose(self, worker: Any, given: _Given, error: Exception) -> None:
        """Give the window of a lost worker to another one, and start a new worker where there is room."""
        self.lost += 1
        log.debug("a worker was lost: %s", error)
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(worker)  # it may live on behind a broken connection
        losses = given.losses + 1
        if losses == MOST_LOSSES or (given.progress is None and self.lost > MOST_LOSSES * self.size):
            what = "starting" if given.progress is None else f"window {given.number + 1} of this run"
            cure = "run the same command again to go on, with fewer workers if the memory is short"
            raise LikewiseError(f"{MOST_LOSSES} workers were lost with {what} ({first_line(error)}); {cure}")
        if given.progress is not None:
            self.again.append(given._replace(losses=losses))
        self._start()

    def note(self, work: str) -> str:
        rate = 0.0 if self.began is None else self.items / max(time.monotonic() - self.began, 1e-9)
        lost = f", workers lost {self.lost}" if self.lost else ""
        items = work.partition(",")[0]
        return f"{work}, windows {self.windows}, {rate:.0f} {items} per second{lost}"

    def close(self) -> None:
        """End all workers, those that wait for a place included."""
        if self.lost:
            log.warning("workers that were lost: %d; others did their windows", self.lost)
        for worker in [*self.idle, *(worker for worker, _ in self.running.values())]:
            with suppress(Exception):  # the connection may be lost too
                self.ray.kill(worker)


def _task_error(cause: BaseException) -> LikewiseError:
    """An error of the task itself, as one line."""
    if isinstance(cause, LikewiseError):
        return cause
    return LikewiseError(f"a worker failed ({type(cause).__name__}: {first_line(cause)})")


class _Worker:
    """An actor: it loads the model once and does windows until it is ended."""

    def load(self, model: WorkerModel, task: Any) -> None:
        """Load the model, which takes longer than a connection may wait for an actor."""
        logging.getLogger("likewise").setLevel(logging.ERROR)  # the first process has logged the warnings
        self.encoder, self.task = model.load(elsewhere=True), task

    def work(self, window: Any) -> Any:
        """The task's result for a window."""
        with steady_memory():
            return self.task(self.encoder, window, None)
