"""The progress contract: counted, throttled, cancellable; a bar for each work."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from likewise.errors import Cancelled
from likewise.progress import MOST_BARS, Ticker, named, progress_bar, tracked, work_of

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


@pytest.mark.parametrize(
    ("note", "work"),
    [
        ("texts", "texts"),
        ("", ""),
        ("steps, epoch 1/3", "steps"),
        ("steps, epoch 2/3, loss 0.41", "steps"),
        ("row 1/5, base: steps, epoch 1/3", "row 1/5, base: steps"),
        ("trial 2: row 1/5: texts", "trial 2: row 1/5: texts"),
    ],
)
def test_a_note_names_its_owner_and_its_work(note: str, work: str) -> None:
    assert work_of(note) == work


def test_named_puts_the_owner_first(calls: Calls) -> None:
    progress = named(record(calls), "row 2")
    assert progress is not None and named(None, "row 2") is None
    progress(1, 2, "steps, epoch 1")
    assert calls == [(1, 2, "row 2: steps, epoch 1")]


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The bars that are drawn, on what looks like a terminal."""
    import rich.progress

    made: list[Any] = []

    class Bars(rich.progress.Progress):
        def __init__(self, *columns: Any, **options: Any) -> None:
            super().__init__(*columns, **options)
            made.append(self)

    monkeypatch.setattr(rich.progress, "Progress", Bars)
    monkeypatch.setenv("FORCE_COLOR", "1")
    return made


def test_details_change_within_one_bar_and_owners_have_their_own(bars: list[Any]) -> None:
    with progress_bar() as progress:
        for note in ("steps, epoch 1", "steps, epoch 2, loss 0.5", "layer 1: steps", "layer 2: steps", "steps 2"):
            progress(1, 4, note)
        progress(3, 4, "steps, epoch 3")
        shown = [(task.description, task.completed) for task in bars[0].tasks]
    assert not bars[0].disable
    assert shown == [("steps, epoch 3", 3), ("layer 1: steps", 1), ("layer 2: steps", 1), ("steps 2", 1)]


def test_only_the_bars_that_moved_last_are_shown(bars: list[Any]) -> None:
    with progress_bar() as progress:
        for number in range(10):
            progress(1, 2, f"layer {number}: maps")
        progress(2, 2, "layer 6: maps")
        progress(1, 2, "layer 0: maps")
        shown = {task.description for task in bars[0].tasks}
    assert len(shown) == MOST_BARS
    assert shown == {"layer 8: maps", "layer 9: maps", "layer 6: maps", "layer 0: maps"}
