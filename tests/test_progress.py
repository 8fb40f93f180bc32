"""The progress contract: counted, throttled, cancellable."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from likewise.errors import Cancelled
from likewise.progress import Ticker, tracked

Calls = list[tuple[int, int | None, str]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock that a test sets by hand."""

    class Clock:
        now = 100.0

    monkeypatch.setattr("likewise.progress.time.monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def calls() -> Calls:
    return []


def record(calls: Calls) -> Any:
    return lambda *call: calls.append(call)


def cancel(*_: Any) -> None:
    raise Cancelled


def test_reports_at_most_ten_times_a_second(clock: Any, calls: Calls) -> None:
    ticker = Ticker(record(calls), 100, "texts")
    for _ in range(100):
        clock.now += 0.01
        ticker.add()
    assert calls[0] == (1, 100, "texts")
    assert 10 <= len(calls) <= 11
    assert all(later[0] - sooner[0] >= 10 for sooner, later in pairwise(calls))


def test_slow_work_is_reported_each_time(clock: Any, calls: Calls) -> None:
    ticker = Ticker(record(calls))
    for _ in range(3):
        clock.now += 5
        ticker.add(2)
    assert calls == [(2, None, ""), (4, None, ""), (6, None, "")]


def test_close_reports_the_end_whatever_the_time(clock: Any, calls: Calls) -> None:
    ticker = Ticker(record(calls), 3, "texts")
    for _ in range(3):
        ticker.add()
    ticker.close()
    assert calls == [(1, 3, "texts"), (3, 3, "texts")]


def test_notes_stay_until_the_next(clock: Any, calls: Calls) -> None:
    ticker = Ticker(record(calls), note="first")
    for note in (None, "second", None):
        clock.now += 1
        ticker.add(note=note)
    assert [note for *_, note in calls] == ["first", "second", "second"]


def test_parts_add_up(clock: Any, calls: Calls) -> None:
    """Each part counts from zero; the whole keeps counting."""
    ticker = Ticker(record(calls), 10, "whole")
    for _ in range(2):
        part = ticker.part()
        for done in (2, 5):
            clock.now += 1
            part(done, 5, "part")
    assert calls == [(2, 10, "whole"), (5, 10, "whole"), (7, 10, "whole"), (10, 10, "whole")]


def test_part_that_repeats_its_last_count_adds_nothing(clock: Any) -> None:
    ticker = Ticker(None)
    part = ticker.part()
    for done in (3, 3):
        part(done, None, "")
    assert ticker.done == 3


def test_nothing_to_report_to() -> None:
    ticker = Ticker(None, 2)
    ticker.add(2)
    ticker.close()
    assert ticker.done == 2


def test_tracked_counts_what_has_been_dealt_with(clock: Any, calls: Calls) -> None:
    seen = []
    for item in tracked("abc", record(calls), total=3, note="letters"):
        seen.append((item, len(calls)))
        clock.now += 1
    assert seen == [("a", 0), ("b", 1), ("c", 2)]
    assert calls == [(1, 3, "letters"), (2, 3, "letters"), (3, 3, "letters"), (3, 3, "letters")]


def test_tracked_without_items_still_reports(calls: Calls) -> None:
    assert list(tracked([], record(calls), total=0)) == []
    assert calls == [(0, 0, "")]


def test_cancelled_goes_through() -> None:
    with pytest.raises(Cancelled):
        Ticker(cancel).add()
    with pytest.raises(Cancelled):
        Ticker(cancel).part()(1, None, "")
    with pytest.raises(Cancelled):
        Ticker(cancel).close()


def test_cancelled_stops_the_work() -> None:
    dealt_with = []
    with pytest.raises(Cancelled):
        for item in tracked(range(100), cancel):
            dealt_with.append(item)
    assert dealt_with == [0]
