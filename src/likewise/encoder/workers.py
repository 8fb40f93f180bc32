"""Teams: who does a task on each window of the input; the results come in the order of the input.

A team is this process, several processes of this machine, or a cluster (``likewise.cluster``). An encoder can have one:
functions that compute on many texts cut them into windows and let ``done_by_team`` do them. Each worker loads the
model once. It gets a window only when it waits for one, so that no pipe is ever full at both ends. A few windows at
most are ahead of the oldest unfinished one, which bounds the memory. All windows are done whole and with the same
threads, so the number of workers does not change a single bit.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar

import torch

from likewise.data.remote import AnyPath
from likewise.encoder.encoder import Encoded, Encoder, Size, encode_window
from likewise.encoder.forward import steady_memory
from likewise.encoder.pooling import PoolingConfig
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.weights import identity
from likewise.errors import LikewiseError, ModelError, UsageError, first_line
from likewise.progress import Progress, Ticker

AHEAD = 2  # Windows for each worker that are being done or wait for an older one
SECONDS_BETWEEN_LOOKS = 0.2  # How long to wait for a worker before progress is called, which may cancel
SECONDS_TO_END = 5.0
Window = TypeVar("Window", bound=Sized)
OfWindow = TypeVar("OfWindow", bound=Sized, contravariant=True)
Done = TypeVar("Done")
DoneBy = TypeVar("DoneBy", covariant=True)


class Task(Protocol[OfWindow, DoneBy]):
    """What is done with the model on a window; it is pickled and sent to the workers, so it is small."""

    def __call__(self, encoder: Encoder, window: OfWindow, progress: Progress | None, /) -> DoneBy:
        """The result, which is the same wherever it is computed.

        ``progress`` counts up to the result's ``amount``, or to the window's length if it has none.
        """


def amount(window: Sized, result: Any) -> int:
    """What progress counts when a window is done."""
    return int(getattr(result, "amount", len(window)))


class Team(Protocol):
    """Who does a task on windows."""

    @property
    def device(self) -> str | None:
        """Where the workers run the model; None is the device of this process."""

    def run(
        self, encoder: Encoder, task: Task[Window, Done], windows: Iterable[Window], ticker: Ticker
    ) -> Generator[tuple[Window, Done]]:
        """Each window with the task's result, in order; windows are taken from the stream only when needed."""

    def reaches(self, path: AnyPath) -> bool:
        """Whether all workers read and write this file or folder themselves."""


@dataclass(frozen=True)
class WorkerModel:
    """How a worker loads the model of this process, and all that its vectors depend on."""

    folder: str
    options: dict[str, Any]  # of `Encoder.load`
    postprocessing: PostProcessing | None
    identity: dict[str, Any]

    @classmethod
    def of(cls, encoder: Encoder, device: str | None = None) -> WorkerModel:
        """The model of an encoder that was loaded from a folder, to run on the same device or another one."""
        if encoder.folder is None:
            raise UsageError(f"workers load a model from its folder, and {encoder.name} has none; save it first")
        found = identity(encoder)
        options = asdict(encoder.pooling_config) | {name: found[name] for name in ("dtype", "backend")}
        options |= {"device": device or str(encoder.device), "threads": torch.get_num_threads()}
        return cls(str(encoder.folder), options, encoder.postprocessing, found)

    def load(self, elsewhere: bool = False) -> Encoder:
        """The same encoder, checked: one that was changed after it was loaded has other vectors than its folder.

        On a machine ``elsewhere``, which may keep its models in another folder, it may be found by its name.
        """
        encoder = (self._found() if elsewhere else self._read()).with_postprocessing(self.postprocessing)
        found = identity(encoder) | {"model": self.identity["model"]}
        if other := [name for name, value in self.identity.items() if found[name] != value]:
            raise UsageError(f"the model in {self.folder} has another {other[0]}; save the encoder and load it again")
        return encoder

    def _read(self) -> Encoder:
        return Encoder.load(self.folder, **self.options)

    def _found(self) -> Encoder:
        try:
            return self._read()
        except ModelError:
            return Encoder.load(self.identity["model"], **self.options)


@dataclass(frozen=True)
class Processes:
    """Several processes of this machine, or this process alone.

    A worker runs as many threads as this process. Workers start only if there is more than one window for them.
    """

    count: int = 1
    device: str | None = None

    def run(
        self, encoder: Encoder, task: Task[Window, Done], windows: Iterable[Window], ticker: Ticker
    ) -> Generator[tuple[Window, Done]]:
        """Each window with the task's result, in order."""
        if self.count < 1:
            raise UsageError(f"workers must be at least 1, got {self.count}")
        stream = iter(windows)
        first = list(islice(stream, self.count))
        if len(first) > 1:
            with _started(WorkerModel.of(encoder), task, len(first)) as pool:
                yield from in_order(chain(first, stream), pool, ticker)
            return
        with steady_memory():
            for window in chain(first, stream):
                yield window, task(encoder, window, ticker.part())

    def reaches(self, path: AnyPath) -> bool:  # noqa: ARG002
        """All processes see the same disk."""
        return True


ALONE = Processes()


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TeamEncoder(Encoder):
    """An encoder with a team, which it keeps when its pooling changes."""

    team: Team = ALONE

    def encoded_windows(
        self, variants: Sequence[Encoder], windows: Iterable[Sequence[str]], prompt: str, size: Size, ticker: Ticker
    ) -> Iterator[list[Encoded]]:
        """The vectors of each window, by the team."""
        task = EncodeVariants(tuple(one.pooling_config for one in variants), prompt, size)
        return (found for _, found in done_by_team(self, task, windows, ticker))


@dataclass(frozen=True)
class EncodeVariants:
    """The task of a worker: the vectors of a window's texts by several poolings."""

    poolings: tuple[PoolingConfig, ...]
    prompt: str
    size: Size

    def __call__(self, encoder: Encoder, window: Sequence[str], progress: Progress | None) -> list[Encoded]:
        """The vectors (n, d) of each pooling."""
        own = encoder.pooling_config
        variants = [encoder if one == own else encoder.with_pooling(**vars(one)) for one in self.poolings]
        return encode_window(variants, window, self.prompt, self.size, progress)


def with_team(encoder: Encoder, team: Team) -> Encoder:
    """The same encoder with a team that works for it."""
    parts: dict[str, Any] = {field.name: getattr(encoder, field.name) for field in fields(Encoder)}
    return TeamEncoder(**parts, team=team)


def team_of(encoder: Encoder, workers: int | Team | None = None) -> Team:
    """The given workers, or else the encoder's own team; without one, this process."""
    if workers is not None:
        return Processes(workers) if isinstance(workers, int) else workers
    return encoder.team if isinstance(encoder, TeamEncoder) else ALONE


def done_by_team(
    encoder: Encoder, task: Task[Window, Done], windows: Iterable[Window], ticker: Ticker
) -> Generator[tuple[Window, Done]]:
    """Each window with the task's result, in order; a single window is done here, since a team takes seconds to start.

    Windows are cut by position alone, so the results are the same for every team.
    """
    stream = iter(windows)
    first = list(islice(stream, 2))
    if len(first) > 1:
        yield from team_of(encoder).run(encoder, task, chain(first, stream), ticker)
    for window in first if len(first) == 1 else ():
        yield window, task(encoder, window, ticker.part())


class Pool(Protocol):
    """Workers as ``in_order`` sees them."""

    @property
    def size(self) -> int:
        """How many workers there are."""

    @property
    def has_room(self) -> bool:
        """Whether a worker waits for a window."""

    def give(self, number: int, window: Any, progress: Progress) -> None:
        """Let a waiting worker do a window."""

    def finished(self, seconds: float) -> Mapping[int, Any]:
        """The results that have come by now, by the number of their window; waits so long for the first one."""

    def note(self, work: str) -> str:
        """What progress says of the work."""


def in_order(windows: Iterable[Window], pool: Pool, ticker: Ticker) -> Generator[tuple[Window, Any]]:
    """Give windows to workers that wait; yield the oldest window as soon as it is done."""
    stream = enumerate(windows)
    following = next(stream, None)
    held: dict[int, Window] = {}
    done: dict[int, Any] = {}
    oldest, work = 0, ticker.note
    while following is not None or held:
        while following is not None and pool.has_room and len(held) < AHEAD * pool.size:
            number, window = following
            held[number] = window
            pool.give(number, window, ticker.part())
            following = next(stream, None)
        if oldest in done:
            yield held.pop(oldest), done.pop(oldest)
            oldest += 1
            continue
        done |= pool.finished(SECONDS_BETWEEN_LOOKS)
        ticker.add(0, pool.note(work))


class _Worker:
    """A worker process and what it is doing."""

    def __init__(self, context: Any, model: WorkerModel, task: Any) -> None:
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(model, task, other), daemon=True)
        self.process.start()
        other.close()  # only the worker's own end is left, so that its death ends the connection
        self.waits, self.number = False, -1
        self.window: Sized = ()
        self.progress: Progress = lambda *_: None

    def give(self, number: int, window: Any, progress: Progress) -> None:
        """Let the waiting worker do a window."""
        self.waits, self.number, self.window, self.progress = False, number, window, progress
        try:
            self.connection.send(window)
        except OSError as error:
            raise self._death() from error

    def take(self) -> dict[int, Any]:
        """Read one message: the window's result, if that is what the worker has sent."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if isinstance(message, Exception):
            raise message
        if isinstance(message, int):
            self.progress(message, None, "")
            return {}
        self.waits = True
        if message is None:
            return {}
        self.progress(amount(self.window, message[0]), None, "")
        return {self.number: message[0]}

    def _death(self) -> LikewiseError:
        self.process.join(SECONDS_TO_END)
        code = self.process.exitcode or 0
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        cure = "run the same command again to go on, with fewer workers if the memory is short"
        return LikewiseError(f"a worker process ended {how}; {cure}")


@dataclass(frozen=True)
class _ProcessPool:
    """Worker processes and their connections."""

    workers: list[_Worker]

    @property
    def size(self) -> int:
        return len(self.workers)

    @property
    def has_room(self) -> bool:
        return any(worker.waits for worker in self.workers)

    def give(self, number: int, window: Any, progress: Progress) -> None:
        next(worker for worker in self.workers if worker.waits).give(number, window, progress)

    def finished(self, seconds: float) -> dict[int, Any]:
        ready = wait([worker.connection for worker in self.workers], seconds)
        found: dict[int, Any] = {}
        for worker in self.workers:
            found |= worker.take() if worker.connection in ready else {}
        return found

    def note(self, work: str) -> str:
        return work


@contextmanager
def _started(model: WorkerModel, task: Any, count: int) -> Iterator[_ProcessPool]:
    """Worker processes, which end with this context."""
    # Not fork: a copy of this process would inherit torch's threads in an unknown state.
    context, workers = multiprocessing.get_context("spawn"), list[_Worker]()
    try:
        with _ignored_interrupts():
            workers.extend(_Worker(context, model, task) for _ in range(count))
        yield _ProcessPool(workers)
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join(SECONDS_TO_END)
            worker.connection.close()


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, as processes that are started now will always do: this process reacts to it and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(model: WorkerModel, task: Any, connection: Connection) -> None:
    """A worker: it works until the first process ends it, or until the connection ends with that process."""
    logging.getLogger("likewise").setLevel(logging.ERROR)  # the first process has logged the warnings
    with suppress(EOFError, ConnectionError):
        try:
            _serve(model.load(), task, connection)
        except (EOFError, ConnectionError):
            raise
        except LikewiseError as error:
            connection.send(error)
        except Exception as error:  # whatever torch raises reaches the user as one line
            connection.send(LikewiseError(f"a worker process failed ({type(error).__name__}: {first_line(error)})"))


def _serve(encoder: Encoder, task: Any, connection: Connection) -> None:
    """Windows come in; numbers of finished items and then the result go out. None says that the model is loaded."""
    connection.send(None)
    with steady_memory():
        while True:
            window = connection.recv()
            connection.send((task(encoder, window, partial(_report, connection)),))


def _report(connection: Connection, done: int, *_: Any) -> None:
    connection.send(done)
