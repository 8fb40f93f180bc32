"""Tasks: what a run learns from and is measured on, read and checked before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from likewise.encoder.tokens import TextOrPair
from likewise.errors import DataError, UsageError
from likewise.train.config import TaskConfig
from likewise.train.examples import Example, Form, read_examples
from likewise.train.overlap import Overlap, without_overlap
from likewise.train.sources import Source

LEAST = 2
"""Examples of a part: of fewer there is no agreement, nor a batch."""


@dataclass(frozen=True)
class Task:
    """A task with its examples.

    >>> pair = Example(("A plane.", "A jet."), 4.2, id="1", file="mine")
    >>> Task(TaskConfig("similarity", (Source("mine"),), pairs="joint"), (pair,)).texts(pair)
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
        """What of an example is read: its texts, a joint pair as one, or a single text as two views of itself."""
        if self.config.joint:
            left, right = example.texts
            return ((left, right),)
        if self.config.kind == "contrastive" and len(example.texts) == 1:
            return example.texts * 2
        return example.texts

    @property
    def judged(self) -> Task:
        """The task as its dev and test examples judge it."""
        return replace(self, config=self.config.judged)


@dataclass(frozen=True)
class Limits:
    """How much of the files is used.

    >>> Limits(rows=200).allow_overlap
    False
    """

    rows: int | None = None
    """of each file, its first ones"""
    allow_overlap: bool = False
    """train on rows that dev or test files hold too"""

    def __post_init__(self) -> None:
        if self.rows is not None and self.rows < 2:
            raise UsageError(f"--limit takes a number of rows from 2 on, got {self.rows}")


EVERYTHING = Limits()


def read_tasks(
    configs: Sequence[TaskConfig], data_dir: Path | None = None, limits: Limits = EVERYTHING
) -> tuple[list[Task], list[Overlap]]:
    """All tasks of a run with their examples, train rows that dev or test files hold left out.

    >>> rows = "left,right,score\\nA plane.,A jet.,4.2\\nA plane.,A cake.,0.1\\nA dog.,A cat.,2.0\\n"
    >>> _ = Path("mine.csv").write_text(rows)
    >>> tasks, overlaps = read_tasks([TaskConfig("similarity", (Source("mine.csv"),))])
    >>> len(tasks[0].train), overlaps
    (3, [])
    """
    read = _Files(data_dir)
    trained = dict(read(config.trained_form, each) for config in configs for each in config.train)
    held_out = dict(read(config.judged_form, each) for config in configs for each in (*config.dev, *config.test))
    kept, overlaps = without_overlap(trained, held_out, limits.allow_overlap)
    tasks = []
    for config in configs:
        train = _joined([kept[read(config.trained_form, each)[0]][: limits.rows] for each in config.train])
        dev, test = (
            _joined([held_out[read(config.judged_form, each)[0]][: limits.rows] for each in part])
            for part in (config.dev, config.test)
        )
        for part, examples in {"train": train, "dev": dev, "test": test}.items():
            if len(examples) < LEAST and getattr(config, part):
                raise DataError(f"task {config.name}, {part}: {len(examples)} example(s); give at least {LEAST}")
        tasks.append(Task(config, train, dev, test))
    return tasks, overlaps


class _Files:
    """Files as tasks read them, each once, under a name of its own: two tasks may read one file in two ways."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._read: dict[tuple[Form, Source], tuple[str, list[Example]]] = {}

    def __call__(self, form: Form, source: Source) -> tuple[str, list[Example]]:
        if (form, source) not in self._read:
            earlier = sum(known.file == source.file for _, known in self._read)
            name = source.file if not earlier else f"{source.file} ({earlier + 1})"
            self._read[form, source] = name, read_examples(source, form, self._data_dir)
        return self._read[form, source]


def _joined(parts: Sequence[Sequence[Example]]) -> tuple[Example, ...]:
    return tuple(example for part in parts for example in part)
