"""Checkups: several models measured in the same ways, so that what a training changed inside shows.

Each part of each model is kept on disk once it is measured, and models that are rows of one table of runs are
summed up over their seeds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from likewise.drafts import atomic_write
from likewise.encoder import Encoder
from likewise.encoder.encoder import model_key
from likewise.errors import UsageError
from likewise.plotting.html import table
from likewise.plotting.text import unique_labels
from likewise.progress import Progress, named
from likewise.train.benchmark_parts import GRAMMATICAL, PARTS, CheckupSource, Measures, ModelUnderTest
from likewise.train.running import RECORD
from likewise.train.table import Spread

SHOWN_CLASSES = 12
"""Pairs of classes whose share is told, the strongest of the first model's."""
ALWAYS = ("sts", "space", "layers")
"""Parts that need no grammar and one pass over the texts each."""


@dataclass(frozen=True)
class Subject:
    """A model, and which run of which row of a table it is."""

    model: str
    row: str
    """a table's folder and the row's name, or the model itself"""
    seed: int | None = None

    @classmethod
    def of(cls, model: str) -> Subject:
        """The row and the seed where the model's folder is one of a table's, else the model itself."""
        folder = Path(model).expanduser()
        try:
            seed = int(json.loads((folder / RECORD).read_text(encoding="utf-8"))["facts"]["config"]["seed"])
        except (OSError, ValueError, KeyError, TypeError):
            return cls(model, str(folder.resolve()) if folder.exists() else model)
        return cls(model, str(folder.resolve()).removesuffix(f"-{seed}"), seed)


@dataclass(frozen=True)
class Examined:
    """What was found of one model, by part."""

    subject: Subject
    parts: Mapping[str, Measures]


@dataclass(frozen=True)
class Checkup:
    """Several models, measured in the same ways."""

    data: str
    n: int
    examined: tuple[Examined, ...]

    @property
    def rows(self) -> dict[str, list[Examined]]:
        """The runs of each row, by short names that tell the rows apart."""
        found: dict[str, list[Examined]] = {}
        for one in self.examined:
            found.setdefault(one.subject.row, []).append(one)
        return dict(zip(unique_labels(list(found)), found.values(), strict=True))

    @property
    def names(self) -> list[str]:
        """The rows, in order."""
        return list(self.rows)

    def seeds(self, name: str) -> int:
        """How many runs a row has."""
        return len(self.rows[name])

    def measures(self, part: str) -> dict[str, dict[str, Spread]]:
        """The single numbers of a part: by measure, then by row."""
        names = dict.fromkeys(name for one in self.examined for name in _numbers(one.parts[part]))
        return {
            name: {
                row: spread
                for row, runs in self.rows.items()
                if (spread := Spread.of([_numbers(run.parts[part]).get(name) for run in runs])) is not None
            }
            for name in names
        }

    def curves(self, part: str) -> dict[str, dict[str, list[Spread | None]]]:
        """The numbers of a part that each layer has: by measure, then by row."""
        found: dict[str, dict[str, list[Spread | None]]] = {}
        for row, runs in self.rows.items():
            for name in dict.fromkeys(name for run in runs for name in run.parts[part]):
                lines = [line for run in runs if isinstance(line := run.parts[part].get(name), list)]
                if lines:
                    found.setdefault(name, {})[row] = [Spread.of(values) for values in zip(*lines, strict=True)]
        return found

    @property
    def parts(self) -> list[str]:
        """Which parts were measured."""
        return list(self.examined[0].parts)

    def table(self, part: str) -> tuple[list[str], list[list[object]]]:
        """A part's single numbers, a line for each measure and a column for each row of runs."""
        found = self.measures(part)
        if part == "classes":
            found = _strongest(found, self.names[0])
        return ["measure", *self.names], [
            [name, *(each.get(row, "") for row in self.names)] for name, each in found.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Every model's own numbers, and means over seeds."""
        rows = {
            name: {
                "seeds": self.seeds(name),
                **{
                    part: {
                        measure: asdict(values[name])
                        for measure, values in self.measures(part).items()
                        if name in values
                    }
                    for part in self.parts
                },
            }
            for name in self.names
        }
        runs = [
            {"model": one.subject.model, "name": name, "seed": one.subject.seed, "parts": dict(one.parts)}
            for name, several in self.rows.items()
            for one in several
        ]
        return {"data": self.data, "n": self.n, "rows": rows, "runs": runs}

    def _repr_html_(self) -> str:
        return "".join(table(*self.table(part)) for part in self.parts if self.measures(part))


def _numbers(measures: Measures) -> dict[str, float]:
    return {name: value for name, value in measures.items() if not isinstance(value, list)}


def _strongest(found: dict[str, dict[str, Spread]], row: str) -> dict[str, dict[str, Spread]]:
    """The measures that are the largest in a row."""
    order = sorted(found, key=lambda name: -found[name][row].mean if row in found[name] else 0.0)
    return {name: found[name] for name in order[:SHOWN_CLASSES]}


def checkup(
    source: CheckupSource,
    models: Sequence[str],
    parts: Sequence[str] = ALWAYS,
    folder: Path | None = None,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> Checkup:
    """Measure models part by part; with a folder, what is there is read and not measured again.

    >>> found = checkup(CheckupSource("sample/pairs"), ["minilm"], ["sts"])
    >>> found.measures("sts")["spearman"]["minilm"].mean > 0.5
    True
    """
    if strangers := [part for part in parts if part not in PARTS]:
        raise UsageError(f"unknown part {strangers[0]!r}; choose from {', '.join(PARTS)}")
    if not models or not parts:
        raise UsageError("give at least one model and one part to measure")
    if set(GRAMMATICAL) & set(parts):
        source.language  # noqa: B018 -- a missing grammar is told before the work
    examined = []
    # One run under two spellings of its folder is one run.
    subjects = {(one.row, one.seed): one for one in map(Subject.of, models)}.values()
    for index, subject in enumerate(subjects, start=1):
        summary = named(progress, f"model {index}/{len(subjects)}, {Path(subject.model).name}")
        kept = _Kept(folder, ModelUnderTest(load(subject.model), source))
        examined.append(Examined(subject, {part: kept.part(part, summary) for part in dict.fromkeys(parts)}))
    return Checkup(source.file, len(source.pairs), tuple(examined))


@dataclass(frozen=True)
class _Kept:
    """What is known of a model already, in a file for each part."""

    folder: Path | None
    examinee: ModelUnderTest

    def part(self, name: str, progress: Progress | None) -> Measures:
        """The measures of a part, read back or made."""
        if self.folder is None:
            return PARTS[name](self.examinee, progress)
        path = self.folder / "parts" / f"{self._key(name)}.json"
        try:
            found: Measures = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = PARTS[name](self.examinee, progress)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(found)
            atomic_write(path, lambda draft: draft.write_text(text, encoding="utf-8"))
        return found

    def _key(self, name: str) -> str:
        source = self.examinee.source
        grammar = source.language.name if name in GRAMMATICAL else ""
        metadata = [name, model_key(self.examinee.encoder), source.metadata, grammar]
        return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()
