"""Verdicts: whether a measured effect supports a published claim, by one rule for all claims."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from likewise.metrics import Interval

HOLDS, FAILS, UNCLEAR, NOT_COMPARABLE = "holds", "does not hold", "too small to tell", "not comparable"
RULE = (
    "A claim names an effect and the alternative that it excludes. It holds if the whole 95 % interval of the measured"
    " effect is on the claimed side of the alternative and the control does not show the same effect. It does not hold"
    " if the whole interval is on the other side, or if the control shows the same effect. Otherwise the data are too"
    " small to tell. The value of one model cannot be compared with the value of another model."
)


@dataclass(frozen=True)
class Control:
    """What the published study lacked: the same measurement where the claimed cause is absent."""

    name: str  # such as random attention, or length held fixed
    interval: Interval | None = None
    shows_it: bool = False  # whether the effect is there without its claimed cause


@dataclass(frozen=True)
class Verdict:
    """A claim, what was measured for it, and what follows by ``RULE``."""

    claim: str
    verdict: str
    effect: str = ""  # what the interval measures, or why nothing can be compared
    interval: Interval | None = None
    alternative: float | None = None
    control: Control | None = None
    seeds: int = 1

    def to_dict(self) -> dict[str, Any]:
        """All parts by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Verdict:
        """The inverse of ``to_dict``."""
        control = stored["control"]
        if control is not None:
            control = Control(control["name"], interval_of(control["interval"]), control["shows_it"])
        return cls(**(stored | {"interval": interval_of(stored["interval"]), "control": control}))


def interval_of(stored: Mapping[str, float | None] | None) -> Interval | None:
    """An interval from its JSON, in which a number that does not exist is null."""
    if stored is None:
        return None
    return Interval(**{name: math.nan if value is None else value for name, value in stored.items()})


def above(claim: str, effect: str, interval: Interval, alternative: float = 0.0, **details: Any) -> Verdict:
    """The verdict on a claim that an effect is above the alternative. ``details``: the control and the seeds.

    >>> above("CLS is worse", "mean - CLS", Interval(0.2, 0.1, 0.3)).verdict
    'holds'
    """
    return _with_verdict(Verdict(claim, UNCLEAR, effect, interval, alternative, **details), 1.0)


def below(claim: str, effect: str, interval: Interval, alternative: float = 0.0, **details: Any) -> Verdict:
    """The verdict on a claim that an effect is below the alternative.

    >>> below("CLS is worse", "CLS - mean", Interval(0.2, 0.1, 0.3)).verdict
    'does not hold'
    """
    return _with_verdict(Verdict(claim, UNCLEAR, effect, interval, alternative, **details), -1.0)


def not_comparable(claim: str, why: str) -> Verdict:
    """The verdict on a claim that cannot be tested here, such as a value of another model."""
    return Verdict(claim, NOT_COMPARABLE, why)


def _with_verdict(asked: Verdict, sign: float) -> Verdict:
    assert asked.interval is not None and asked.alternative is not None
    low, high = sorted(sign * (end - asked.alternative) for end in (asked.interval.low, asked.interval.high))
    verdict = HOLDS if low > 0 else FAILS if high < 0 else UNCLEAR  # nan is neither
    if verdict == HOLDS and asked.control is not None and asked.control.shows_it:
        verdict = FAILS
    return Verdict(**(vars(asked) | {"verdict": verdict}))
