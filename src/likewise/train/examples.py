"""Training examples: texts from the rows of a file, with targets on the scale of the task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from likewise.data import (
    GUESSED,
    Columns,
    Dataset,
    holds_pairs,
    read_labelled_pairs,
    read_labelled_texts,
    read_pairs,
    read_scored_pairs,
    read_texts,
)
from likewise.data.rows import Location, shown
from likewise.errors import DataError, UsageError
from likewise.grammar import Grammar
from likewise.grammar.words import shared_nouns

COLUMN_KEYS = ("text", "left", "right", "score", "label")
RANGES = ("scale", "scores")
KEYS = ("source", "where", "target", "grammar", *RANGES, *COLUMN_KEYS)
NAMES = ("source", "target", "grammar", *COLUMN_KEYS)  # Keys with a name or a path
TARGETS = ("shared-nouns", "length")  # Targets that are computed instead of read
EXPECTED = {"source": "a name or a path", "target": f"one of {', '.join(TARGETS)}", "grammar": "a name or a folder"}


@dataclass(frozen=True)
class Source:
    """A file of examples, and how its numbers are read.

    >>> Source.parse({"source": "sick/train", "scale": [1, 5]}).scale
    (1.0, 5.0)
    """

    file: str  # The name of a data set, such as stsb/train, or a path
    scale: tuple[float, float] | None = None
    """Lowest and highest of the file's scores or labels, mapped onto the task's own; None if they are the same."""
    columns: Columns = GUESSED  # The columns to read; those without a name are guessed
    where: tuple[tuple[str, str], ...] = ()  # Only rows that have these values in these other columns
    scores: tuple[float, float] | None = None  # Only rows whose target, on the task's scale, lies between these
    target: str = ""
    """A target computed for each pair: shared-nouns, the number of nouns that both texts have, or length, the shorter
    text's share of the longer one's words, on the task's scale."""
    grammar: str = ""  # The spaCy pipeline that finds the nouns; the first installed one by default

    def __post_init__(self) -> None:
        if not self.file.strip():
            raise UsageError('a source has an empty name; give a path or a name such as "stsb/train"')
        for key in RANGES:
            ends = getattr(self, key)
            if ends is not None and not -math.inf < ends[0] < ends[1] < math.inf:
                raise UsageError(
                    f"{Location(self.file)}: {key} = {_range_text(ends)} is no range; give {key} = [lowest, highest]"
                )
        if self.target and self.target not in TARGETS:
            raise UsageError(f"unknown target {shown(self.target)}; choose from {', '.join(TARGETS)}")

    @classmethod
    def parse(cls, value: object) -> Source:
        """From a config's value: a name, or a table with ``source`` and other keys."""
        table = {"source": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping):
            raise UsageError(f'a source is a name or a table {{source = "stsb/train", ...}}, not {shown(value)}')
        if unknown := [key for key in table if key not in KEYS]:
            raise UsageError(f"a source has no key {shown(unknown[0])}; choose from {', '.join(KEYS)}")
        if "source" not in table:
            raise UsageError('a source has no file; add source = "stsb/train" or a path')
        own: dict[str, Any] = {key: _name(key, table[key]) for key in NAMES if key in table}
        file = own.pop("source")
        own |= {key: _range(file, key, table[key]) for key in RANGES if key in table}
        if columns := {key: own.pop(key) for key in COLUMN_KEYS if key in own}:
            own["columns"] = Columns(**columns)
        where = table.get("where", {})
        if not isinstance(where, Mapping) or not all(isinstance(each, str | int) for each in where.values()):
            raise UsageError(f'{Location(file)}: where is a table {{column = "value"}}, not {shown(where)}')
        return cls(file, where=tuple((str(column), str(each)) for column, each in where.items()), **own)

    def to_dict(self) -> dict[str, Any]:
        """In the shape of a TOML file."""
        named = {name: value for name, value in asdict(self.columns).items() if value is not None}
        ranges = {key: list(ends) for key in RANGES if (ends := getattr(self, key)) is not None}
        own = {key: value for key in ("target", "grammar") if (value := getattr(self, key))}
        return {"source": self.file} | ranges | own | ({"where": dict(self.where)} if self.where else {}) | named


def _name(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        what = EXPECTED.get(key, "the name of a column")
        raise UsageError(f"{key} of a source is {what} in quotes, not {shown(value)}")
    return value


def _range(file: str, key: str, value: object) -> tuple[float, float]:
    numbers = value if isinstance(value, list | tuple) else ()
    if len(numbers) != 2 or any(type(one) not in (int, float) for one in numbers):
        raise UsageError(f"{Location(file)}: {key} is two numbers, {key} = [lowest, highest], not {shown(value)}")
    try:
        return float(numbers[0]), float(numbers[1])
    except OverflowError:
        raise UsageError(f"{Location(file)}: {key} holds a number too large; give {key} = [lowest, highest]") from None


def _range_text(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:g}, {ends[1]:g}]"


# Examples

Form = Literal[
    "sentiment", "paraphrase", "similarity", "count", "texts", "pairs", "entailment", "negatives", "triplets",
]  # fmt: skip
"""How a row is read: a text or a pair with a target of one of four kinds; or, without a target, single texts, pairs
that belong together, a text with one that it entails and one that it contradicts, a text with itself and a hard
negative, or a pair that belongs together and a hard negative."""


@dataclass(frozen=True, slots=True)
class Example:
    """A few texts and their target.

    >>> Example(("A plane.", "A jet."), 4.2, id="1", file="stsb/train").target
    4.2
    """

    texts: tuple[str, ...]  # One text, the two of a pair, or a pair and a text that contradicts its first
    target: float  # The class or the score, on the task's own scale; 0 if there is none
    id: str  # The row's id in its file, or its number
    file: str  # The source's name of its file


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers of a task: from ``lowest`` to ``highest``, whole classes or any score.

    >>> Scale(0.0, 4.0, "classes").mapped(3.0, (1.0, 5.0))
    2.0
    """

    lowest: float
    highest: float
    between: Literal["classes", "nothing", "scores"]
    """What lies between: classes (mapped numbers are rounded), nothing (only the ends), or any score."""

    def mapped(self, number: float, scale: tuple[float, float] | None) -> float:
        """A file's number on this scale; a ValueError names the problem and its cure."""
        low, high = scale or (self.lowest, self.highest)
        if not low <= number <= high:
            cure = "correct the range" if scale else "give the file's own range"
            raise ValueError(f"is outside {low:g} to {high:g}; {cure}: scale = [lowest, highest]")
        if math.isinf(self.highest):
            return number
        target = self.lowest + (number - low) / (high - low) * (self.highest - self.lowest)
        if self.between == "nothing" and target not in (self.lowest, self.highest):
            raise ValueError(f"is neither {low:g} nor {high:g}; leave such rows out, or give scale = [lowest, highest]")
        if self.between == "classes" and scale is None and target != int(target):
            cure = f"give scale = {_range_text((low, high))} to round it"
            raise ValueError(f"is no class; write whole numbers from {low:g} to {high:g}, or {cure}")
        # Not round(): it sends the halves to the even classes.
        return float(math.floor(target + 0.5)) if self.between == "classes" else target


SCALES: dict[Form, Scale] = {
    "sentiment": Scale(0.0, 4.0, "classes"),
    "paraphrase": Scale(0.0, 1.0, "nothing"),
    "similarity": Scale(0.0, 5.0, "scores"),
    "count": Scale(0.0, math.inf, "scores"),
}
"""Of the forms that have a target."""


def read_examples(source: Source, form: Form, data_dir: Path | None = None) -> list[Example]:
    """All examples of a source, with their targets on the task's scale."""
    if source.target:
        return _in_range(_computed(source, form, data_dir), source)
    if form not in SCALES and (source.scale or (source.scores and form not in SCORED)):
        name = "scale" if source.scale else "scores"
        raise DataError(f"{Location(source.file)}: this task reads no scores; leave out {name}")
    examples = []
    for texts, value, row in READERS[form](source, data_dir):
        try:
            target = 0.0 if value is None else SCALES[form].mapped(_number(value), source.scale)
        except ValueError as error:
            written = shown(value) if isinstance(value, str) else f"{value:g}"
            number = row if row.isprintable() and len(row) <= 40 else shown(row)
            raise DataError(f"{Location(source.file)}, row {number}: {written} {error}") from None
        examples.append(Example(texts, target, row, source.file))
    return _in_range(examples, source) if form in SCALES else examples


def _in_range(examples: list[Example], source: Source) -> list[Example]:
    """Those whose target lies in the source's range."""
    low, high = source.scores or (-math.inf, math.inf)
    found = [example for example in examples if low <= example.target <= high]
    if source.scores and not found:
        raise DataError(f"{Location(source.file)}: no row has a target from {low:g} to {high:g}; widen scores")
    return found


def _number(value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in str(value):
        raise ValueError("is no number; write the classes as whole numbers from 0")
    return number


# Computed targets


def _computed(source: Source, form: Form, data_dir: Path | None) -> list[Example]:
    """The pairs of a file with a target that is computed from their texts."""
    fits, compute = COMPUTED[source.target]
    if form != fits:
        raise DataError(
            f"{Location(source.file)}: target = {shown(source.target)} is for tasks of kind {fits}; leave it out"
        )
    if source.scale is not None:
        raise DataError(f"{Location(source.file)}: a target that is made has no scale; leave out scale")
    rows = list(_pairs(replace(source, scores=None), data_dir))
    targets = compute([texts for texts, _, _ in rows], source.grammar)
    return [Example(texts, target, row, source.file) for (texts, _, row), target in zip(rows, targets, strict=True)]


def _shared_noun_counts(pairs: list[tuple[str, ...]], grammar: str) -> list[float]:
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    parsed = dict(zip(texts, Grammar.load(grammar or None).parse(texts), strict=True))
    return [float(shared_nouns(parsed[left], parsed[right])) for left, right in pairs]


def _length_shares(pairs: list[tuple[str, ...]], _: str) -> list[float]:
    counts = [sorted(len(text.split()) for text in pair) for pair in pairs]
    return [SCALES["similarity"].highest * (low / high if high else 1.0) for low, high in counts]


COMPUTED: dict[str, tuple[Form, Callable[[list[tuple[str, ...]], str], list[float]]]] = {
    "shared-nouns": ("count", _shared_noun_counts),
    "length": ("similarity", _length_shares),
}
"""Each computed target: the form it fits, and the targets of pairs of texts with the grammar of a name."""


# Rows

Read = Iterator[tuple[tuple[str, ...], str | float | None, str]]  # Texts, target and id of each row
SCORED: tuple[Form, ...] = ("pairs", "negatives")  # Forms without a target whose rows may be chosen by their scores
ENTAILMENT, CONTRADICTION = "entailment", "contradiction"
NEGATIVE = "negative"  # The column of a triplet's third text


def _rows(read: Callable[..., Iterator[Any]], source: Source, data_dir: Path | None, **columns: Any) -> Iterator[Any]:
    """The rows of a file that have the values in ``where``."""
    dataset, found = Dataset(source.file, replace(source.columns, **columns), data_dir), False
    for row in dataset.stream(read):
        for column in (column for column, _ in source.where if column not in row.meta):
            known = ", ".join(row.meta) or "none"
            raise DataError(f"{Location(source.file)}: no other column {shown(column)} for where; there are: {known}")
        if all(str(row.meta[column]) == value for column, value in source.where):
            found = True
            yield row
    if not found:
        wanted = ", ".join(f"{column} = {shown(value)}" for column, value in source.where)
        raise DataError(f"{Location(source.file)}: no row has {wanted}; correct where")


def _labelled_texts(source: Source, data_dir: Path | None) -> Read:
    # A task has one target: either key may name its column.
    label = source.columns.label or source.columns.score
    for one in _rows(read_labelled_texts, source, data_dir, label=label):
        yield (one.text,), one.label, one.id


def _scored_pairs(source: Source, data_dir: Path | None) -> Read:
    score = source.columns.score or source.columns.label
    for one in _rows(read_scored_pairs, source, data_dir, score=score):
        yield (one.left, one.right), one.score, one.id


def _texts(source: Source, data_dir: Path | None) -> Read:
    """Every text of a file once; a file of pairs gives both texts of each pair."""
    first: dict[str, str] = {}
    if source.columns.text is None and holds_pairs(source.file, columns=source.columns, data_dir=data_dir):
        rows = ((text, row) for texts, _, row in _pairs(source, data_dir) for text in texts)
    else:
        rows = ((one.text, one.id) for one in _rows(read_texts, source, data_dir))
    for text, row in rows:
        first.setdefault(text, row)
    yield from (((text,), None, row) for text, row in first.items())


def _pairs(source: Source, data_dir: Path | None) -> Read:
    if source.scores is not None:
        yield from ((one.texts, None, one.id) for one in read_examples(source, "similarity", data_dir))
    else:
        yield from (((one.left, one.right), None, one.id) for one in _rows(read_pairs, source, data_dir))


def _entailments(source: Source, data_dir: Path | None) -> Read:
    """Each text with one that it entails and one that it contradicts; texts that lack either are skipped."""
    entailed: dict[str, list[tuple[str, str]]] = {}
    denied: dict[str, list[str]] = {}
    for one in _rows(read_labelled_pairs, source, data_dir):
        if one.label.lower() == ENTAILMENT:
            entailed.setdefault(one.left, []).append((one.right, one.id))
        elif one.label.lower() == CONTRADICTION:
            denied.setdefault(one.left, []).append(one.right)
    both = [text for text in entailed if text in denied]
    if not both:
        raise DataError(
            f"{Location(source.file)}: no text has both an {ENTAILMENT} and a {CONTRADICTION};"
            ' use views = "pairs" or views = "dropout"'
        )
    for text in both:
        for index, (other, row) in enumerate(entailed[text]):
            yield (text, other, denied[text][index % len(denied[text])]), None, row


def _triplets(source: Source, data_dir: Path | None) -> Read:
    """A pair that belongs together, and the text of the column ``negative``, as ``likewise mine`` writes them."""
    for one in _rows(read_pairs, source, data_dir):
        if not one.meta.get(NEGATIVE, "").strip():
            cure = 'write them with likewise mine, or use views = "pairs"'
            raise DataError(f"{Location(source.file)}, row {shown(one.id)}: no text in a column {NEGATIVE!r}; {cure}")
        yield (one.left, one.right, one.meta[NEGATIVE]), None, one.id


READERS: dict[Form, Callable[[Source, Path | None], Read]] = {
    "sentiment": _labelled_texts,
    "paraphrase": _scored_pairs,
    "similarity": _scored_pairs,
    "count": _scored_pairs,
    "texts": _texts,
    "pairs": _pairs,
    "entailment": _entailments,
    "negatives": lambda source, data_dir: (
        ((left, left, right), None, row) for (left, right), _, row in _pairs(source, data_dir)
    ),
    "triplets": _triplets,
}
