"""A simulator of a cluster that encodes windows of texts: stragglers, failures, order and second copies.

The driver hands out windows by their number. At most ``ahead`` windows per worker are given out beyond the oldest
unfinished one, since receipts are committed in order. A worker that dies loses its window, which is handed out again.
``bench/scale.py`` uses it with measured times; its twins are in tests/bench/test_simulation.py.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

OfAttempt = Callable[[int, int], float]  # A worker and the number of its attempt -> a number
END, DEATH, WAKE = range(3)


@dataclass(frozen=True)
class Cluster:
    """How a cluster hands out windows."""

    workers: int
    ahead: float = math.inf  # windows for each worker beyond the oldest unfinished one
    copies: bool = False  # whether a worker without work runs a second copy of the oldest running window
    patience: float = math.inf  # how long a window runs before it gets a second copy
    restart: float = 0.0  # seconds from a death until the worker is back


@dataclass
class Simulated:
    """What a run took; all in seconds of one worker but for ``seconds``, which is until the last window."""

    seconds: float = 0.0
    work: float = 0.0  # of the copies that counted
    lost: float = 0.0  # of workers that died
    second: float = 0.0  # of copies that came too late
    deaths: int = 0
    most_waiting: int = 0  # finished windows that waited for an older one, at most


def no_deaths(_worker: int, _attempt: int) -> float:
    """Workers that live for ever."""
    return math.inf


def no_delay(_worker: int, _attempt: int) -> float:
    """Workers that are all as fast as measured."""
    return 1.0


def simulate(
    times: Sequence[float], cluster: Cluster, lifetime: OfAttempt = no_deaths, slowdown: OfAttempt = no_delay
) -> Simulated:
    """Run windows of these times (n,) on a cluster.

    ``lifetime`` says after how many seconds a worker dies, ``slowdown`` how many times longer its window takes.
    """
    return _Run(times, cluster, lifetime, slowdown).result()


@dataclass
class _Run:
    times: Sequence[float]
    cluster: Cluster
    lifetime: OfAttempt
    slowdown: OfAttempt
    now: float = 0.0
    following: int = 0  # the first window that was never given out
    oldest: int = 0  # the first unfinished window
    events: list[tuple[float, int, int, int]] = field(default_factory=list)  # time, kind, worker, attempt
    returned: list[int] = field(default_factory=list)  # windows of dead workers
    done: set[int] = field(default_factory=set)  # finished windows after the oldest unfinished one
    single: dict[int, int] = field(default_factory=dict)  # windows with one copy, the first started first -> worker

    def __post_init__(self) -> None:
        count = self.cluster.workers
        self.window, self.began, self.attempt = [-1] * count, [0.0] * count, [0] * count
        self.holders: dict[int, list[int]] = defaultdict(list)
        self.idle = list(range(count))  # a heap: the first worker gets the next window
        self.away = [False] * count
        self.found = Simulated()

    def result(self) -> Simulated:
        """Run to the end: all events of one moment first, then free workers get work, in their order."""
        self._hand_out()
        while self.oldest < len(self.times):
            self.now = self.events[0][0]
            while self.events and self.events[0][0] == self.now:
                _, kind, worker, attempt = heapq.heappop(self.events)
                self._happens(kind, worker, attempt)
            self._hand_out()
        self.found.seconds = self.now
        return self.found

    def _happens(self, kind: int, worker: int, attempt: int) -> None:
        if kind == WAKE:
            if self.away[worker]:
                self.away[worker] = False
                heapq.heappush(self.idle, worker)
        elif attempt == self.attempt[worker]:  # else the copy was stopped
            if kind == END:
                self._ends(worker)
            else:
                self._dies(worker)

    def _ends(self, worker: int) -> None:
        window = self.window[worker]
        self.found.work += self.now - self.began[worker]
        for holder in list(self.holders[window]):
            if holder != worker:
                self.found.second += self.now - self.began[holder]
            self._released(holder)
            heapq.heappush(self.idle, holder)
        self.done.add(window)
        while self.oldest in self.done:
            self.done.remove(self.oldest)
            self.oldest += 1
        self.found.most_waiting = max(self.found.most_waiting, len(self.done))

    def _dies(self, worker: int) -> None:
        window = self.window[worker]
        self.found.deaths += 1
        self.found.lost += self.now - self.began[worker]
        self._released(worker)
        if self.holders[window]:
            self.single[window] = self.holders[window][0]
        else:
            heapq.heappush(self.returned, window)
        self.away[worker] = True
        heapq.heappush(self.events, (self.now + self.cluster.restart, WAKE, worker, 0))

    def _released(self, worker: int) -> None:
        window, self.window[worker] = self.window[worker], -1
        self.attempt[worker] += 1
        self.holders[window].remove(worker)
        self.single.pop(window, None)

    def _hand_out(self) -> None:
        while self.idle and (window := self._next_window()) is not None:
            self._start(heapq.heappop(self.idle), window)

    def _next_window(self) -> int | None:
        if self.returned:
            return heapq.heappop(self.returned)
        most = self.oldest + max(1, self.cluster.ahead * self.cluster.workers)
        if self.following < min(len(self.times), most):
            self.following += 1
            return self.following - 1
        if self.cluster.copies and self.single:
            window, holder = next(iter(self.single.items()))
            due = self.began[holder] + self.cluster.patience
            if due <= self.now:
                return window
            heapq.heappush(self.events, (due, WAKE, self.idle[0], 0))
        return None

    def _start(self, worker: int, window: int) -> None:
        self.window[worker], self.began[worker] = window, self.now
        self.holders[window].append(worker)
        if len(self.holders[window]) == 1:
            self.single[window] = worker
        else:
            self.single.pop(window, None)
        attempt = self.attempt[worker]
        needed = self.times[window] * self.slowdown(worker, attempt)
        lives = self.lifetime(worker, attempt)
        event = (self.now + needed, END) if needed <= lives else (self.now + lives, DEATH)
        heapq.heappush(self.events, (*event, worker, attempt))
