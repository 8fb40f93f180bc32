"""Tasks of a run: reads and checks their examples, removes overlap with dev and test files, and orders the batches."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from likewise.data.rows import Location
from likewise.encoder.tokens import TextOrPair
from likewise.errors import DataError, UsageError
from likewise.plotting.terminal import one_line, shortened
from likewise.train.config import ROLES, TaskConfig
from likewise.train.examples import Example, Form, Source, read_examples

LEAST = 2  # Examples of a part: fewer have no agreement and make no batch
MAX_SHARE = 0.05  # Up to this share of a dev or test file is dropped from training; above it, something else is wrong
SHOWN_EXAMPLES, SHOWN_CHARACTERS = 3, 80
BETWEEN = " | "
Item = TypeVar("Item")
Key = tuple[str, ...]  # The normalized texts of a row, in either order; rows with a common key overlap
Keys = tuple[Key, ...]  # Of one row
Files = Mapping[str, Sequence[Example]]  # Examples by the name of their file
Keyed = Mapping[str, Sequence[tuple[Example, Keys]]]  # The same with the keys of each


@dataclass(frozen=True)
class Task:
    """A task with its examples.

    >>> pair = Example(("A plane.", "A jet."), 4.2, id="1", file="mine")
    >>> Task(TaskConfig("similarity", (Source("mine"),), pairs="cross-encoder"), (pair,)).texts(pair)
    (('A plane.', 'A jet.'),)
    """

    config: TaskConfig
    train: tuple[Example, ...]
    dev: tuple[Example, ...] = ()
    test: tuple[Example, ...] = ()

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.config.name

    def texts(self, example: Example) -> tuple[TextOrPair, ...]:
        """The inputs of an example: its texts, a cross-encoder's pair as one, or one text as two views of itself."""
        if self.config.cross_encoder:
            left, right = example.texts
            return ((left, right),)
        if self.config.kind == "contrastive" and len(example.texts) == 1:
            return example.texts * 2
        return example.texts

    @property
    def eval_view(self) -> Task:
        """The task as its dev and test examples measure it."""
        return replace(self, config=self.config.eval_view)


@dataclass(frozen=True)
class Limits:
    """How much of the files is used.

    >>> Limits(rows=200).allow_overlap
    False
    """

    rows: int | None = None  # only the first rows of each file
    allow_overlap: bool = False  # train on rows that are also in dev or test files

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 2:
            raise UsageError(f"--limit takes a number of rows from 2 on, got {self.rows}")


EVERYTHING = Limits()


def read_tasks(
    configs: Sequence[TaskConfig], data_dir: Path | None = None, limits: Limits = EVERYTHING
) -> tuple[list[Task], list[Overlap]]:
    """All tasks of a run with their examples, without train rows that are also in dev or test files.

    >>> tasks, overlaps = read_tasks([TaskConfig("similarity", (Source("sample/pairs"),))])
    >>> len(tasks[0].train), overlaps
    (60, [])
    """
    train = [(config.train_form, source) for config in configs for source in config.train]
    held_out = [(config.eval_form, source) for config in configs for source in (*config.dev, *config.test)]
    names: dict[tuple[Form, Source], str] = {}
    files: dict[str, list[Example]] = {}
    # Each file is read once and has a name for each form: two tasks may read it in two ways.
    for form, source in dict.fromkeys((*train, *held_out)):
        earlier = sum(known.file == source.file for _, known in names)
        names[form, source] = source.file if not earlier else f"{source.file} ({earlier + 1})"
        files[names[form, source]] = read_examples(source, form, data_dir)
    trained, held = ({names[key]: files[names[key]] for key in keys} for keys in (train, held_out))
    left, overlaps = without_overlap(trained, held, limits.allow_overlap)
    tasks = []
    for config in configs:
        parts: dict[str, tuple[Example, ...]] = {}
        for role in ROLES:
            form, rows = (config.train_form, left) if role == "train" else (config.eval_form, files)
            own = [rows[names[form, source]][: limits.rows] for source in getattr(config, role)]
            parts[role] = tuple(chain.from_iterable(own))
            if len(parts[role]) < LEAST and own:
                raise DataError(f"task {config.name}, {role}: {len(parts[role])} example(s); give at least {LEAST}")
        tasks.append(Task(config, **parts))
    return tasks, overlaps


# Overlap: rows of dev and test files that are also in train files make a model look better than it is


@dataclass(frozen=True)
class Overlap:
    """What a train file and a dev or test file have in common."""

    train: str
    held_out: str  # The dev or test file
    rows: int  # Rows of the dev or test file that are in the train file
    of: int  # All its rows
    dropped: int  # Rows of the train file that were dropped for it; a row that is in several such files counts in each
    examples: tuple[str, ...]  # The first few texts or pairs in common, shortened

    @property
    def share(self) -> float:
        """The share of the dev or test file that is in the train file."""
        return self.rows / self.of

    @property
    def words(self) -> str:
        """What was found and dropped."""
        done = f"{self.dropped} rows left out" if self.dropped else "nothing left out"
        return f"{self.train}: {done}, for {self.rows} of the {self.of} rows of {self.held_out} are in it"

    def to_dict(self) -> dict[str, Any]:
        """All fields, the share, and a sentence."""
        return asdict(self) | {"examples": list(self.examples), "share": self.share, "words": self.words}


def normalized(text: str) -> str:
    """A text without case, punctuation, repeated white space and variants of the same character."""
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return " ".join(folded.translate(_blanks()).split()) or folded


def find_overlaps(train: Files, held_out: Files) -> list[Overlap]:
    """Every train file against every dev and test file; pairs match in either order, whatever their targets."""
    return _overlaps(_keyed(train), _keyed(held_out))


def without_overlap(
    train: Files, held_out: Files, allow: bool = False
) -> tuple[dict[str, list[Example]], list[Overlap]]:
    """The train files without the rows of any dev or test file, and the overlaps.

    Too much in common is a DataError; with ``allow`` nothing is dropped or rejected.
    """
    rows, held_rows = _keyed(train), _keyed(held_out)
    found = _overlaps(rows, held_rows)
    if allow:
        return {file: list(rows) for file, rows in train.items()}, [replace(one, dropped=0) for one in found]
    if too_large := [one for one in (*found, *_combined(rows, held_rows, found)) if one.share > MAX_SHARE]:
        raise DataError(_too_large(too_large))
    held = _all_keys(row for rows in held_rows.values() for row in rows)
    left = {file: [row for row, keys in own if not held.intersection(keys)] for file, own in rows.items()}
    for one in found:
        if not left[one.train]:
            raise DataError(
                f"{Location(one.train)}: none of its {len(train[one.train])} rows is left to train on, since all are in"
                f" dev or test files such as {Location(one.held_out)}; leave the file out, or add --allow-overlap"
            )
    return left, found


@cache
def _blanks() -> dict[int, str]:
    """A blank for every punctuation mark, and for the backtick, which old corpora use as a quote."""
    marks = (code for code in range(0x20000) if unicodedata.category(chr(code)).startswith("P"))
    return dict.fromkeys((*marks, ord("`")), " ")


def _keyed(files: Files) -> Keyed:
    return {file: [(row, _row_keys(row)) for row in rows] for file, rows in files.items()}


def _row_keys(row: Example) -> Keys:
    """The key of a text or a pair; those of a text with each of several others."""
    first, *others = map(normalized, row.texts)
    return tuple((min(first, other), max(first, other)) for other in others) or ((first,),)


def _all_keys(rows: Iterable[tuple[Example, Keys]]) -> set[Key]:
    return {key for _, keys in rows for key in keys}


def _overlaps(train: Keyed, held_out: Keyed) -> list[Overlap]:
    trained, held = ({file: _all_keys(rows) for file, rows in files.items()} for files in (train, held_out))
    found = []
    for file, other in product(train, held_out):
        common = [row for row, keys in held_out[other] if trained[file].intersection(keys)]
        if common:
            dropped = sum(bool(held[other].intersection(keys)) for _, keys in train[file])
            found.append(Overlap(file, other, len(common), len(held_out[other]), dropped, _shown(common)))
    return found


def _combined(train: Keyed, held_out: Keyed, found: Sequence[Overlap]) -> list[Overlap]:
    """What several train files together have in common with one dev or test file."""
    files: dict[str, list[str]] = {}
    for one in found:
        files.setdefault(one.held_out, []).append(one.train)
    made = []
    for other, several in files.items():
        if len(several) > 1:
            every = {" and ".join(several): [row for file in several for row in train[file]]}
            made += _overlaps(every, {other: held_out[other]})
    return made


def _shown(rows: Iterable[Example]) -> tuple[str, ...]:
    """The first few different rows; the texts of a pair share the width."""
    shown: dict[str, None] = {}
    for row in rows:
        characters = (SHOWN_CHARACTERS - len(BETWEEN) * (len(row.texts) - 1)) // len(row.texts)
        shown[BETWEEN.join(shortened(one_line(text), characters) for text in row.texts)] = None
        if len(shown) == SHOWN_EXAMPLES:
            break
    return tuple(shown)


def _too_large(overlaps: Sequence[Overlap]) -> str:
    """One line on the worst of them."""
    worst = max(overlaps, key=lambda one: one.share)
    count = f"{worst.rows} of the {worst.of} rows of {Location(worst.held_out)}"
    what = f"trains on what is held out, {count}" if worst.train == worst.held_out else f"holds {count}"
    more = f" ({len(overlaps) - 1} more such overlaps)" if len(overlaps) > 1 else ""
    return (
        f"{Location(worst.train)} {what} ({worst.share:.1%}, and no more than {MAX_SHARE:.0%} can be dropped), "
        f"such as: {worst.examples[0]}{more}; leave the file out, or add --allow-overlap"
    )


# Sampling: which examples make a step depends on seed, epoch and step alone


def epoch_order(count: int, wanted: int, key: Sequence[int]) -> list[int]:
    """``wanted`` numbers below ``count`` in random order; none comes twice before all came once."""
    rng = np.random.default_rng(list(key))
    rounds = [rng.permutation(count) for _ in range(-(-wanted // count))]
    order: list[int] = np.concatenate(rounds)[:wanted].tolist()
    return order


_order = lru_cache(maxsize=8)(epoch_order)


@dataclass(frozen=True)
class Schedule:
    """Which examples of each of several tasks make each step of each epoch."""

    counts: tuple[int, ...]  # examples of each task
    batches: tuple[int, ...]  # examples of each task in a part of a step
    batch: int  # the run's own batch, which `samples` refers to
    accumulate: int
    samples: int | None
    seed: int

    @property
    def size(self) -> int:
        """Examples of a task with the run's own batch in an epoch: the samples, at most all."""
        whole = max(-(-count * self.batch // own) for count, own in zip(self.counts, self.batches, strict=True))
        return whole if self.samples is None else min(self.samples, whole)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return -(-self.size // (self.batch * self.accumulate))

    def wanted(self, task: int) -> int:
        """Examples of a task in an epoch."""
        return -(-self.size * self.batches[task] // self.batch)

    def order(self, task: int, epoch: int) -> list[int]:
        """The examples of a task in an epoch, in order."""
        return _order(self.counts[task], self.wanted(task), (self.seed, epoch, task))

    def batch_of(self, task: int, epoch: int, step: int, part: int) -> list[int]:
        """The examples of one part of a step."""
        order, batch = self.order(task, epoch), self.batches[task]
        start = (step * self.accumulate + part) * batch
        chosen = order[start : start + batch]
        # The last batches of an epoch may be short. One example is too few for batch norm, and every step has as many
        # batches: the missing examples come from the epoch's beginning, other ones for each batch.
        wrapped = max(0, start - len(order))
        return chosen if len(chosen) > 1 else (chosen + order[wrapped:] + order)[:batch]

    def drawn(self, task: int, epochs: int) -> list[int]:
        """All examples of a task that so many epochs see."""
        if self.wanted(task) >= self.counts[task]:
            return list(range(self.counts[task]))
        return sorted({index for epoch in range(epochs) for index in self.order(task, epoch)})


def fixed_sample(items: Sequence[Item], wanted: int | None, seed: int) -> list[Item]:
    """The same ``wanted`` items every time, in their order; all if there are no more."""
    if wanted is None or wanted >= len(items):
        return list(items)
    chosen = np.random.default_rng([seed]).choice(len(items), wanted, replace=False)
    return [items[index] for index in sorted(chosen)]
