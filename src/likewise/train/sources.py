"""Sources: the files that a task trains on or is judged by, and the examples in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from likewise.data import GUESSED, Columns, read_labelled_texts, read_scored_pairs
from likewise.data.places import Place, shown
from likewise.errors import DataError, UsageError

Kind = Literal["sentiment", "paraphrase", "similarity"]
"""What a task learns."""

COLUMN_KEYS = ("text", "left", "right", "score", "label")
KEYS = ("source", "scale", *COLUMN_KEYS)


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

    def __post_init__(self) -> None:
        if not self.file.strip():
            raise UsageError('a source has an empty name; give a path or a name such as "stsb/train"')
        if self.scale is not None and not -math.inf < self.scale[0] < self.scale[1] < math.inf:
            raise UsageError(
                f"{Place(self.file)}: scale = {_written(self.scale)} is no range; give scale = [lowest, highest]"
            )

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
        scale = _range(file, table["scale"]) if "scale" in table else None
        return cls(file, scale, Columns(**names) if names else GUESSED)

    def to_json(self) -> dict[str, Any]:
        """As a settings file would say it."""
        named = {name: value for name, value in asdict(self.columns).items() if value is not None}
        return {"source": self.file} | ({} if self.scale is None else {"scale": list(self.scale)}) | named


@dataclass(frozen=True, slots=True)
class Example:
    """One text or two, and what a model should say of them.

    >>> Example(("A plane.", "A jet."), 4.2, id="1", file="stsb/train").target
    4.2
    """

    texts: tuple[str, ...]
    """One text, or the two of a pair."""
    target: float
    """The class or the score, on the task's own scale."""
    id: str
    """The row's id in its file, else its number."""
    file: str
    """The file it comes from, as the source names it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers of a task: from ``lowest`` to ``highest``, whole classes or anything between.

    >>> Scale(0.0, 4.0, "classes").mapped(3.0, (1.0, 5.0))
    2.0
    """

    lowest: float
    """The lowest target."""
    highest: float
    """The highest target."""
    between: Literal["classes", "nothing", "scores"]
    """What lies between: classes (what a scale maps there is rounded), nothing (the ends only), or any score."""

    def mapped(self, number: float, scale: tuple[float, float] | None) -> float:
        """A file's number on this scale; a ValueError says what is wrong with it and names the cure."""
        low, high = scale or (self.lowest, self.highest)
        if not low <= number <= high:
            cure = "correct the range" if scale else "give the file's own range"
            raise ValueError(f"is outside {low:g} to {high:g}; {cure}: scale = [lowest, highest]")
        target = self.lowest + (number - low) / (high - low) * (self.highest - self.lowest)
        if self.between == "nothing" and target not in (self.lowest, self.highest):
            raise ValueError(f"is neither {low:g} nor {high:g}; leave such rows out, or give scale = [lowest, highest]")
        if self.between == "classes" and scale is None and target != int(target):
            cure = f"give scale = {_written((low, high))} to round it"
            raise ValueError(f"is no class; write whole numbers from {low:g} to {high:g}, or {cure}")
        # Not round(): it would send the halves to the even classes.
        return float(math.floor(target + 0.5)) if self.between == "classes" else target


SCALES: dict[Kind, Scale] = {
    "sentiment": Scale(0.0, 4.0, "classes"),
    "paraphrase": Scale(0.0, 1.0, "nothing"),
    "similarity": Scale(0.0, 5.0, "scores"),
}


def read_examples(source: Source, kind: Kind, data_dir: Path | None = None) -> list[Example]:
    """All examples of a file, with their targets on the task's scale.

    >>> read_examples(Source("sample/pairs"), "similarity")[0].texts[0]
    'The recipe calls for two cups of flour.'
    """
    examples = []
    for texts, written, row in READERS[kind](source, data_dir):
        try:
            target = SCALES[kind].mapped(_number(written), source.scale)
        except ValueError as error:
            value = shown(written) if isinstance(written, str) else f"{written:g}"
            raise DataError(f"{Place(source.file)}, row {_row(row)}: {value} {error}") from None
        examples.append(Example(texts, target, row, source.file))
    return examples


Read = Iterator[tuple[tuple[str, ...], str | float, str]]
"""The texts, what is written for the target, and the id of each row."""


def _texts(source: Source, data_dir: Path | None) -> Read:
    # A task has one target: whichever of the two keys names its column, it is meant.
    columns = replace(source.columns, label=source.columns.label or source.columns.score)
    for one in read_labelled_texts(source.file, columns=columns, data_dir=data_dir):
        yield (one.text,), one.label, one.id


def _pairs(source: Source, data_dir: Path | None) -> Read:
    columns = replace(source.columns, score=source.columns.score or source.columns.label)
    for one in read_scored_pairs(source.file, columns=columns, data_dir=data_dir):
        yield (one.left, one.right), one.score, one.id


READERS: dict[Kind, Callable[[Source, Path | None], Read]] = {
    "sentiment": _texts,
    "paraphrase": _pairs,
    "similarity": _pairs,
}


def _number(written: str | float) -> float:
    try:
        number = float(written)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in str(written):
        raise ValueError("is no number; write the classes as whole numbers from 0")
    return number


def _row(row: str) -> str:
    return row if row.isprintable() and len(row) <= 40 else shown(row)


def _name(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        what = "a name or a path" if key == "source" else "the name of a column"
        raise UsageError(f"{key} of a source is {what} in quotes, not {shown(value)}")
    return value


def _range(file: str, value: object) -> tuple[float, float]:
    numbers = value if isinstance(value, list | tuple) else ()
    # Python's true is a number; a settings file's is not.
    if len(numbers) != 2 or any(isinstance(one, bool) or not isinstance(one, int | float) for one in numbers):
        raise UsageError(f"{Place(file)}: scale is two numbers, scale = [lowest, highest], not {shown(value)}")
    try:
        return float(numbers[0]), float(numbers[1])
    except OverflowError:
        raise UsageError(f"{Place(file)}: scale holds a number too large; give scale = [lowest, highest]") from None


def _written(scale: tuple[float, float]) -> str:
    return f"[{scale[0]:g}, {scale[1]:g}]"
