"""Sources: the files that a task trains on or is judged by, and the examples in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from likewise.data import GUESSED, Columns
from likewise.data.bad_rows import Location, shown
from likewise.errors import UsageError

COLUMN_KEYS = ("text", "left", "right", "score", "label")
RANGES = ("scale", "scores")
KEYS = ("source", "where", "target", "grammar", *RANGES, *COLUMN_KEYS)
TARGETS = ("shared-nouns", "length")
"""What a pair's target can be in place of the file's own."""


@dataclass(frozen=True)
class Source:
    """A file of examples, and how its numbers are to be read.

    >>> Source.parse({"source": "sick/train", "scale": [1, 5]}).scale
    (1.0, 5.0)
    """

    file: str
    """A data set's name, such as stsb/train, or a path."""
    scale: tuple[float, float] | None = None
    """Lowest and highest of the file's scores or labels, mapped onto the task's own; None where they are the same."""
    columns: Columns = GUESSED
    """The columns to read; those without a name are guessed."""
    where: tuple[tuple[str, str], ...] = ()
    """Only rows that have these values in these other columns."""
    scores: tuple[float, float] | None = None
    """Only rows whose target, on the task's scale, lies between these."""
    target: str = ""
    """What a pair's target is in place of the file's own: shared-nouns, the number of nouns that both texts have, or
    length, the shorter text's share of the longer one's words, on the task's scale."""
    grammar: str = ""
    """The spaCy pipeline that knows the nouns; the first installed one by default."""

    def __post_init__(self) -> None:
        if not self.file.strip():
            raise UsageError('a source has an empty name; give a path or a name such as "stsb/train"')
        for key in RANGES:
            ends = getattr(self, key)
            if ends is not None and not -math.inf < ends[0] < ends[1] < math.inf:
                raise UsageError(
                    f"{Location(self.file)}: {key} = {written(ends)} is no range; give {key} = [lowest, highest]"
                )
        if self.target and self.target not in TARGETS:
            raise UsageError(f"unknown target {shown(self.target)}; choose from {', '.join(TARGETS)}")

    @classmethod
    def parse(cls, value: object) -> Source:
        """From a settings file's value: a name, or a table with ``source`` and what else is to be said.

        >>> Source.parse("stsb/train") == Source("stsb/train")
        True
        """
        table = {"source": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping):
            raise UsageError(f'a source is a name or a table {{source = "stsb/train", ...}}, not {shown(value)}')
        unknown = [key for key in table if key not in KEYS]
        if unknown:
            raise UsageError(f"a source has no key {shown(unknown[0])}; choose from {', '.join(KEYS)}")
        if "source" not in table:
            raise UsageError('a source has no file; add source = "stsb/train" or a path')
        names = {key: _name(key, table[key]) for key in ("source", *COLUMN_KEYS) if key in table}
        file = names.pop("source")
        own: dict[str, Any] = {key: _name(key, table[key]) for key in ("target", "grammar") if key in table}
        own |= {key: _range(file, key, table[key]) for key in RANGES if key in table}
        where = _where(file, table.get("where", {}))
        return cls(file, columns=Columns(**names) if names else GUESSED, where=where, **own)

    def to_dict(self) -> dict[str, Any]:
        """As a settings file would say it."""
        named = {name: value for name, value in asdict(self.columns).items() if value is not None}
        ranges = {key: list(ends) for key in RANGES if (ends := getattr(self, key)) is not None}
        own = {key: value for key in ("target", "grammar") if (value := getattr(self, key))}
        return {"source": self.file} | ranges | own | ({"where": dict(self.where)} if self.where else {}) | named


def _name(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        what = MEANT.get(key, "the name of a column")
        raise UsageError(f"{key} of a source is {what} in quotes, not {shown(value)}")
    return value


MEANT = {"source": "a name or a path", "target": f"one of {', '.join(TARGETS)}", "grammar": "a name or a folder"}


def _where(file: str, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str | int) for each in value.values()):
        raise UsageError(f'{Location(file)}: where is a table {{column = "value"}}, not {shown(value)}')
    return tuple((str(column), str(each)) for column, each in value.items())


def _range(file: str, key: str, value: object) -> tuple[float, float]:
    numbers = value if isinstance(value, list | tuple) else ()
    # Python's true is a number; a settings file's is not.
    if len(numbers) != 2 or any(isinstance(one, bool) or not isinstance(one, int | float) for one in numbers):
        raise UsageError(f"{Location(file)}: {key} is two numbers, {key} = [lowest, highest], not {shown(value)}")
    try:
        return float(numbers[0]), float(numbers[1])
    except OverflowError:
        raise UsageError(f"{Location(file)}: {key} holds a number too large; give {key} = [lowest, highest]") from None


def written(ends: tuple[float, float]) -> str:
    """A range as a settings file has it.

    >>> written((1.0, 5.0))
    '[1, 5]'
    """
    return f"[{ends[0]:g}, {ends[1]:g}]"
