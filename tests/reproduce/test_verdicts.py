"""The rule of verdicts, on intervals on either side of the alternative and across it."""

from __future__ import annotations

import json
import math

import pytest

from likewise.metrics import Interval
from likewise.reproduce.verdicts import (
    FAILS,
    HOLDS,
    NOT_COMPARABLE,
    UNCLEAR,
    Control,
    Verdict,
    above,
    below,
    not_comparable,
)


@pytest.mark.parametrize(
    ("ends", "alternative", "expected"),
    [
        ((0.1, 0.3), 0.0, HOLDS),
        ((-0.3, -0.1), 0.0, FAILS),
        ((-0.1, 0.3), 0.0, UNCLEAR),
        ((0.0, 0.3), 0.0, UNCLEAR),  # the alternative itself is not excluded
        ((0.6, 0.7), 0.5, HOLDS),
        ((0.4, 0.7), 0.5, UNCLEAR),
        ((math.nan, math.nan), 0.0, UNCLEAR),
    ],
)
def test_a_claim_holds_if_the_whole_interval_is_on_its_side(
    ends: tuple[float, float], alternative: float, expected: str
) -> None:
    interval = Interval(sum(ends) / 2, *ends)
    assert above("more", "effect", interval, alternative).verdict == expected
    mirrored = Interval(-interval.value, -interval.high, -interval.low)
    assert below("less", "effect", mirrored, -alternative).verdict == expected


def test_a_control_that_shows_the_effect_takes_the_claim_away() -> None:
    interval = Interval(0.2, 0.1, 0.3)
    assert above("c", "e", interval, control=Control("length held fixed")).verdict == HOLDS
    assert above("c", "e", interval, control=Control("length held fixed", shows_it=True)).verdict == FAILS
    across = Interval(0.2, -0.1, 0.3)
    assert above("c", "e", across, control=Control("length held fixed", shows_it=True)).verdict == UNCLEAR


def test_a_verdict_survives_its_json() -> None:
    found = above("c", "e", Interval(0.2, 0.1, 0.3), 0.05, control=Control("chance", Interval(0, -1, 1)), seeds=3)
    for verdict in (found, not_comparable("c", "another model")):
        assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    assert not_comparable("c", "another model").verdict == NOT_COMPARABLE
