"""The simulator of a cluster against closed forms and against a plain loop over ticks of time."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module("simulation")
    sys.modules.pop("simulation", None)


def twin(times: Sequence[int], how: Any, lifetime: Any, slowdown: Any) -> tuple[int, int, int, int, int]:
    """Tick by tick, with lists only: seconds, work, lost, second copies, deaths. All times are whole numbers."""
    workers, done, given = range(how.workers), set[int](), 0
    jobs: list[tuple[int, int] | None] = [None] * how.workers  # window and start
    attempts, back = [0] * how.workers, [0] * how.workers
    order: list[int] = []  # windows in the order in which they last came to have one copy
    work = lost = second = deaths = now = 0
    returned: list[int] = []
    while True:
        for kind in ("ends", "dies"):
            for worker in workers:
                if jobs[worker] is None:
                    continue
                window, began = jobs[worker]
                needed = times[window] * slowdown(worker, attempts[worker])
                lives = lifetime(worker, attempts[worker])
                if kind == "ends" and needed <= lives and now == began + needed:
                    work += now - began
                    done.add(window)
                    for other in workers:
                        if jobs[other] is not None and jobs[other][0] == window:
                            second += now - jobs[other][1] if other != worker else 0
                            jobs[other], attempts[other] = None, attempts[other] + 1
                elif kind == "dies" and needed > lives and now == began + lives:
                    lost, deaths = lost + now - began, deaths + 1
                    jobs[worker], attempts[worker], back[worker] = None, attempts[worker] + 1, now + how.restart
                    if any(job is not None and job[0] == window for job in jobs):
                        order = [one for one in order if one != window] + [window]
                    else:
                        returned.append(window)
        if len(done) == len(times):
            return now, work, lost, second, deaths
        for worker in workers:
            if jobs[worker] is not None or back[worker] > now:
                continue
            oldest = min(set(range(len(times))) - done)
            running = [job[0] for job in jobs if job is not None]
            late = [one for one in order if running.count(one) == 1]
            start = next((job[1] for job in jobs if late and job is not None and job[0] == late[0]), 0)
            if returned:
                window = min(returned)
                returned.remove(window)
            elif given < min(len(times), oldest + max(1, how.ahead * how.workers)):
                window, given = given, given + 1
            elif how.copies and late and now - start >= how.patience:
                window = late[0]
            else:
                continue
            order = [one for one in order if one != window] + ([window] if window not in running else [])
            jobs[worker] = window, now
        now += 1


class TestClosedForms:
    @pytest.mark.parametrize(("windows", "workers"), [(1, 1), (7, 3), (9, 3), (5, 8), (4096, 1000)])
    @pytest.mark.parametrize("ahead", [1, 2, math.inf])
    def test_equal_times(self, cluster: Any, windows: int, workers: int, ahead: float) -> None:
        found = cluster.simulate([2.5] * windows, cluster.Cluster(workers, ahead))
        assert found.seconds == pytest.approx(2.5 * math.ceil(windows / workers))
        assert found.work == pytest.approx(2.5 * windows) and found.lost == found.second == found.deaths == 0

    def test_one_worker_that_dies(self, cluster: Any) -> None:
        """The mean time of a window with deaths at a rate r and restarts of s seconds is (1 / r + s) (exp(r t) - 1)."""
        rng = np.random.default_rng(0)
        found = cluster.simulate([10.0] * 20_000, cluster.Cluster(1, restart=3.0), lambda *_: rng.exponential(20.0))
        assert found.seconds / 20_000 == pytest.approx((20 + 3) * (math.exp(0.5) - 1), rel=0.03)
        assert found.seconds == pytest.approx(found.work + found.lost + 3.0 * found.deaths)

    def test_no_worker_waits_without_order(self, cluster: Any) -> None:
        """List scheduling: at most one window longer than the mean load."""
        times = np.random.default_rng(1).exponential(1.0, 5000)
        found = cluster.simulate(times, cluster.Cluster(50))
        assert times.sum() / 50 <= found.seconds <= times.sum() / 50 + times.max()

    def test_a_second_copy_ends_a_straggler(self, cluster: Any) -> None:
        slow = {"slowdown": lambda worker, _: 100.0 if worker else 1.0}
        assert cluster.simulate([1.0] * 4, cluster.Cluster(2), **slow).seconds == 100
        copied = cluster.simulate([1.0] * 4, cluster.Cluster(2, copies=True, patience=2.0), **slow)
        assert (copied.seconds, copied.second) == (4.0, 4.0)

    def test_order_holds_back_fast_workers(self, cluster: Any) -> None:
        slow = {"slowdown": lambda worker, _: 10.0 if worker else 1.0}
        held = cluster.simulate([1.0] * 40, cluster.Cluster(2, ahead=2), **slow)
        free = cluster.simulate([1.0] * 40, cluster.Cluster(2), **slow)
        assert held.most_waiting <= 3 < free.most_waiting and held.seconds > free.seconds


@pytest.mark.parametrize("seed", range(60))
def test_the_twin_agrees(cluster: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    workers, windows = int(rng.integers(1, 6)), int(rng.integers(1, 25))
    times = rng.integers(1, 9, windows).tolist()
    lives = rng.integers(2, 40, (workers, 400)).astype(float)
    lives[rng.random(lives.shape) < rng.choice([0.2, 1.0])] = math.inf
    how = cluster.Cluster(
        workers,
        ahead=float(rng.choice([1, 2, math.inf])),
        copies=bool(rng.random() < 0.6),
        patience=float(rng.choice([0, 3, 12])),
        restart=int(rng.integers(1, 6)),
    )
    slow = rng.choice([1, 1, 4], (workers, 400))
    draws = (lambda *at: lives[at]), (lambda *at: int(slow[at]))
    found, wanted = cluster.simulate(times, how, *draws), twin(times, how, *draws)
    assert (found.seconds, found.work, found.lost, found.second, found.deaths) == wanted


def test_the_twin_sees_deaths_and_copies(cluster: Any) -> None:
    """Cases in which nothing happens would prove nothing."""
    how = cluster.Cluster(2, ahead=1.0, copies=True, patience=2, restart=3)
    draws = (lambda worker, _: 5.0 if worker else math.inf), (lambda worker, _: 9 if worker else 1)
    _, _, lost, second, deaths = twin([4, 4, 4, 4], how, *draws)
    assert lost > 0 and second > 0 and deaths > 0
