"""Examples: what a source's rows ask of a model, on the scale of the task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from likewise.data import (
    holds_pairs,
    read_labelled_pairs,
    read_labelled_texts,
    read_pairs,
    read_scored_pairs,
    read_texts,
)
from likewise.data.bad_rows import Location, shown
from likewise.errors import DataError
from likewise.grammar import Grammar
from likewise.grammar.nouns import shared_nouns
from likewise.train.sources import Source, written

Form = Literal["sentiment", "paraphrase", "similarity", "count", "texts", "pairs", "entailment", "negatives"]
"""What is read of a row: a text or a pair with a target of one of four kinds; or, without a target, single texts,
pairs that belong together, a text with one that it entails and one that it contradicts, or a text with itself and one
that it must be held apart from."""


@dataclass(frozen=True, slots=True)
class Example:
    """A few texts, and what a model should say of them.

    >>> Example(("A plane.", "A jet."), 4.2, id="1", file="stsb/train").target
    4.2
    """

    texts: tuple[str, ...]
    """One text, the two of a pair, or a pair and what contradicts its first."""
    target: float
    """The class or the score, on the task's own scale; 0 where there is none."""
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
        if math.isinf(self.highest):
            return number
        target = self.lowest + (number - low) / (high - low) * (self.highest - self.lowest)
        if self.between == "nothing" and target not in (self.lowest, self.highest):
            raise ValueError(f"is neither {low:g} nor {high:g}; leave such rows out, or give scale = [lowest, highest]")
        if self.between == "classes" and scale is None and target != int(target):
            cure = f"give scale = {written((low, high))} to round it"
            raise ValueError(f"is no class; write whole numbers from {low:g} to {high:g}, or {cure}")
        # Not round(): it would send the halves to the even classes.
        return float(math.floor(target + 0.5)) if self.between == "classes" else target


SCALES: dict[Form, Scale] = {
    "sentiment": Scale(0.0, 4.0, "classes"),
    "paraphrase": Scale(0.0, 1.0, "nothing"),
    "similarity": Scale(0.0, 5.0, "scores"),
    "count": Scale(0.0, math.inf, "scores"),
}
"""Of the forms that have a target."""


def read_examples(source: Source, form: Form, data_dir: Path | None = None) -> list[Example]:
    """All examples of a file that a source asks for, with their targets on the task's scale.

    >>> read_examples(Source("sample/pairs"), "similarity")[0].texts[0]
    'The recipe calls for two cups of flour.'
    """
    if source.target:
        return _kept(_targeted(source, form, data_dir), source)
    if form not in SCALES and (source.scale or (source.scores and form not in SCORED)):
        name = "scale" if source.scale else "scores"
        raise DataError(f"{Location(source.file)}: this task reads no scores; leave out {name}")
    examples = []
    for texts, said, row in READERS[form](source, data_dir):
        try:
            target = 0.0 if said is None else SCALES[form].mapped(_number(said), source.scale)
        except ValueError as error:
            value = shown(said) if isinstance(said, str) else f"{said:g}"
            raise DataError(f"{Location(source.file)}, row {_row(row)}: {value} {error}") from None
        examples.append(Example(texts, target, row, source.file))
    return _kept(examples, source) if form in SCALES else examples


def _kept(examples: list[Example], source: Source) -> list[Example]:
    """Those whose target lies in the source's range."""
    if source.scores is None:
        return examples
    low, high = source.scores
    found = [example for example in examples if low <= example.target <= high]
    if not found:
        raise DataError(f"{Location(source.file)}: no row has a target from {low:g} to {high:g}; widen scores")
    return found


# Targets that are made

Made = Callable[[list[tuple[str, str]], Source], list[float]]
"""The target of each pair of texts."""


def _targeted(source: Source, form: Form, data_dir: Path | None) -> list[Example]:
    """The pairs of a file with a target that does not stand in it."""
    if form not in TARGETED[source.target]:
        fits = " or ".join(TARGETED[source.target])
        raise DataError(
            f"{Location(source.file)}: target = {shown(source.target)} is for tasks of kind {fits}; leave it out"
        )
    if source.scale is not None:
        raise DataError(f"{Location(source.file)}: a target that is made has no scale; leave out scale")
    rows = [(texts, row) for texts, _, row in _plain_pairs(replace(source, scores=None), data_dir)]
    targets = MADE[source.target]([(texts[0], texts[1]) for texts, _ in rows], source)
    return [Example(texts, target, row, source.file) for (texts, row), target in zip(rows, targets, strict=True)]


def _nouns_in_common(pairs: list[tuple[str, str]], source: Source) -> list[float]:
    grammar = Grammar.load(source.grammar or None)
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    parsed = dict(zip(texts, grammar.parse(texts), strict=True))
    return [float(shared_nouns(parsed[left], parsed[right])) for left, right in pairs]


def _length_shares(pairs: list[tuple[str, str]], source: Source) -> list[float]:
    del source
    counts = [sorted(len(text.split()) for text in pair) for pair in pairs]
    return [SCALES["similarity"].highest * (low / high if high else 1.0) for low, high in counts]


MADE: dict[str, Made] = {"shared-nouns": _nouns_in_common, "length": _length_shares}
TARGETED: dict[str, tuple[Form, ...]] = {"shared-nouns": ("count",), "length": ("similarity",)}
"""What is made for which tasks."""


# Rows

Read = Iterator[tuple[tuple[str, ...], str | float | None, str]]
"""The texts, what is written for the target, and the id of each row."""


def _wanted(rows: Iterator[Any], source: Source) -> Iterator[Any]:
    """The rows that have the values that a source asks for."""
    found = False
    for row in rows:
        if all(_cell(row.meta, column, source) == value for column, value in source.where):
            found = True
            yield row
    if not found:
        asked = ", ".join(f"{column} = {shown(value)}" for column, value in source.where)
        raise DataError(f"{Location(source.file)}: no row has {asked}; correct where")


def _cell(meta: Mapping[str, str], column: str, source: Source) -> str:
    if column not in meta:
        known = ", ".join(meta) or "none"
        raise DataError(f"{Location(source.file)}: no other column {shown(column)} for where; there are: {known}")
    return str(meta[column])


def _texts(source: Source, data_dir: Path | None) -> Read:
    # A task has one target: whichever of the two keys names its column, it is meant.
    columns = replace(source.columns, label=source.columns.label or source.columns.score)
    for one in _wanted(read_labelled_texts(source.file, columns=columns, data_dir=data_dir), source):
        yield (one.text,), one.label, one.id


def _pairs(source: Source, data_dir: Path | None) -> Read:
    columns = replace(source.columns, score=source.columns.score or source.columns.label)
    for one in _wanted(read_scored_pairs(source.file, columns=columns, data_dir=data_dir), source):
        yield (one.left, one.right), one.score, one.id


def _plain_texts(source: Source, data_dir: Path | None) -> Read:
    """Every text of a file once, both of a pair's too."""
    seen: set[str] = set()
    if source.columns.text is None and holds_pairs(source.file, columns=source.columns, data_dir=data_dir):
        rows = ((text, row) for texts, _, row in _plain_pairs(source, data_dir) for text in texts)
    else:
        found = _wanted(read_texts(source.file, columns=source.columns, data_dir=data_dir), source)
        rows = ((one.text, one.id) for one in found)
    for text, row in rows:
        if text not in seen:
            seen.add(text)
            yield (text,), None, row


SCORED: tuple[Form, ...] = ("pairs", "negatives")
"""Forms without a target whose rows may be chosen by their scores."""


def _plain_pairs(source: Source, data_dir: Path | None) -> Read:
    if source.scores is not None:
        chosen = read_examples(source, "similarity", data_dir)
        yield from ((example.texts, None, example.id) for example in chosen)
        return
    for one in _wanted(read_pairs(source.file, columns=source.columns, data_dir=data_dir), source):
        yield (one.left, one.right), None, one.id


ENTAILMENT, CONTRADICTION = "entailment", "contradiction"


def _entailments(source: Source, data_dir: Path | None) -> Read:
    """Each text with one that it entails and one that it contradicts; texts that lack either are passed over."""
    entailed: dict[str, list[tuple[str, str]]] = {}
    denied: dict[str, list[str]] = {}
    for one in _wanted(read_labelled_pairs(source.file, columns=source.columns, data_dir=data_dir), source):
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


def _apart(source: Source, data_dir: Path | None) -> Read:
    for (left, right), _, row in _plain_pairs(source, data_dir):
        yield (left, left, right), None, row


READERS: dict[Form, Callable[[Source, Path | None], Read]] = {
    "sentiment": _texts,
    "paraphrase": _pairs,
    "similarity": _pairs,
    "count": _pairs,
    "texts": _plain_texts,
    "pairs": _plain_pairs,
    "entailment": _entailments,
    "negatives": _apart,
}


def _number(said: str | float) -> float:
    try:
        number = float(said)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in str(said):
        raise ValueError("is no number; write the classes as whole numbers from 0")
    return number


def _row(row: str) -> str:
    return row if row.isprintable() and len(row) <= 40 else shown(row)
