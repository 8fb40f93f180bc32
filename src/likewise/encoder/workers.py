"""Workers: several processes of this machine encode windows of texts; the results come in the order of the input.

Each worker loads the model once. It gets a window only when it waits for one, so that no pipe is ever full at both
ends. A few windows at most are ahead of the oldest unfinished one, which bounds the memory. All windows are encoded
whole and with the same threads, so the number of workers does not change a single bit.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from likewise.encoder.encoder import Encoded, Encoder
from likewise.encoder.forward import IdAndText, steady_memory
from likewise.encoder.postprocessing import PostProcessing
from likewise.encoder.weights import identity
from likewise.errors import LikewiseError, UsageError, first_line
from likewise.progress import Progress, Ticker

AHEAD = 2  # Windows for each worker that are encoded or wait for an older one
SECONDS_BETWEEN_LOOKS = 0.2  # How long to wait for a worker before progress is called, which may cancel
SECONDS_TO_END = 5.0
Window = list[IdAndText]


@dataclass(frozen=True)
class WorkerModel:
    """How a worker loads the model of this process, and all that its vectors depend on."""

    folder: str
    options: dict[str, Any]  # of `Encoder.load`
    postprocessing: PostProcessing | None
    identity: dict[str, Any]

    @classmethod
    def of(cls, encoder: Encoder) -> WorkerModel:
        """The model of an encoder that was loaded from a folder."""
        if encoder.folder is None:
            raise UsageError(f"workers load a model from its folder, and {encoder.name} has none; save it first")
        found = identity(encoder)
        options = asdict(encoder.pooling_config) | {name: found[name] for name in ("dtype", "backend")}
        options |= {"device": str(encoder.device), "threads": torch.get_num_threads()}
        return cls(str(encoder.folder), options, encoder.postprocessing, found)

    def load(self) -> Encoder:
        """The same encoder, checked: one that was changed after it was loaded has other vectors than its folder."""
        encoder = Encoder.load(self.folder, **self.options).with_postprocessing(self.postprocessing)
        found = identity(encoder) | {"model": self.identity["model"]}
        if other := [name for name, value in self.identity.items() if found[name] != value]:
            raise UsageError(f"the model in {self.folder} has another {other[0]}; save the encoder and load it again")
        return encoder


def encoded_windows(
    encoder: Encoder, windows: Iterable[Window], prompt: str, ticker: Ticker, workers: int = 1
) -> Generator[tuple[Window, Encoded]]:
    """Each window with its vectors, in order, encoded by this process or by several workers.

    A worker runs as many threads as this process. Workers start only if there is more than one window for them.
    """
    if workers < 1:
        raise UsageError(f"workers must be at least 1, got {workers}")
    stream = iter(windows)
    first = list(islice(stream, workers))
    if len(first) > 1:
        with _started(WorkerModel.of(encoder), prompt, len(first)) as team:
            yield from _in_order(chain(first, stream), team, ticker)
        return
    for window in chain(first, stream):
        yield window, encoder.encode_with_stats(_texts(window), prompt=prompt, progress=ticker.part())


def _texts(window: Window) -> list[str]:
    return [text for _, text in window]


class _Worker:
    """A worker process and what it is doing."""

    def __init__(self, context: Any, model: WorkerModel, prompt: str) -> None:
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(model, prompt, other), daemon=True)
        self.process.start()
        other.close()  # only the worker's own end is left, so that its death ends the connection
        self.waits, self.number, self.texts = False, -1, 0
        self.progress: Progress = lambda *_: None

    def give(self, number: int, texts: Sequence[str], progress: Progress) -> None:
        """Let the waiting worker encode a window."""
        self.waits, self.number, self.texts, self.progress = False, number, len(texts), progress
        try:
            self.connection.send(texts)
        except OSError as error:
            raise self._death() from error

    def take(self) -> Encoded | None:
        """Read one message; returns the vectors if that is what the worker has sent."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if isinstance(message, Exception):
            raise message
        if isinstance(message, int):
            self.progress(message, None, "")
            return None
        self.waits = True
        if message is not None:
            self.progress(self.texts, None, "")
        return message  # type: ignore[no-any-return]

    def _death(self) -> LikewiseError:
        self.process.join(SECONDS_TO_END)
        code = self.process.exitcode or 0
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        cure = "run the same command again to go on, with fewer workers if the memory is short"
        return LikewiseError(f"a worker process ended {how}; {cure}")


@contextmanager
def _started(model: WorkerModel, prompt: str, count: int) -> Iterator[list[_Worker]]:
    """Worker processes, which end with this context."""
    # Not fork: a copy of this process would inherit torch's threads in an unknown state.
    context, team = multiprocessing.get_context("spawn"), list[_Worker]()
    try:
        with _ignored_interrupts():
            team.extend(_Worker(context, model, prompt) for _ in range(count))
        yield team
    finally:
        for worker in team:
            worker.process.terminate()
        for worker in team:
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


def _in_order(windows: Iterator[Window], team: list[_Worker], ticker: Ticker) -> Iterator[tuple[Window, Encoded]]:
    """Give windows to workers that wait; yield the oldest window as soon as it is done."""
    stream = enumerate(windows)
    following = next(stream, None)
    held: dict[int, Window] = {}
    done: dict[int, Encoded] = {}
    oldest = 0
    while following is not None or held:
        for worker in team:
            if worker.waits and following is not None and len(held) < AHEAD * len(team):
                number, window = following
                held[number] = window
                worker.give(number, _texts(window), ticker.part())
                following = next(stream, None)
        if oldest in done:
            yield held.pop(oldest), done.pop(oldest)
            oldest += 1
            continue
        ready = wait([worker.connection for worker in team], SECONDS_BETWEEN_LOOKS)
        for worker in team:
            if worker.connection in ready and (encoded := worker.take()) is not None:
                done[worker.number] = encoded
        ticker.add(0)


def _work(model: WorkerModel, prompt: str, connection: Connection) -> None:
    """A worker: it encodes until the first process ends it, or until the connection ends with that process."""
    logging.getLogger("likewise").setLevel(logging.ERROR)  # the first process has logged the warnings
    with suppress(EOFError, ConnectionError):
        try:
            _serve(model.load(), prompt, connection)
        except (EOFError, ConnectionError):
            raise
        except LikewiseError as error:
            connection.send(error)
        except Exception as error:  # whatever torch raises reaches the user as one line
            connection.send(LikewiseError(f"a worker process failed ({type(error).__name__}: {first_line(error)})"))


def _serve(encoder: Encoder, prompt: str, connection: Connection) -> None:
    """Texts come in; numbers of finished texts and then the vectors go out. None says that the model is loaded."""
    connection.send(None)
    with steady_memory():
        while True:
            texts = connection.recv()
            report = partial(_report, connection)
            connection.send(encoder.encode_with_stats(texts, prompt=prompt, progress=report))


def _report(connection: Connection, done: int, *_: Any) -> None:
    connection.send(done)
