"""Runs items of studies: each writes its run file, so that an interrupted run continues with the next item."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from likewise.data import Dataset, locate
from likewise.encoder import Encoder
from likewise.errors import DataError, MissingExtra, ModelError, UsageError
from likewise.progress import Progress
from likewise.reproduce.records import Record, draw, short
from likewise.reproduce.study import BUDGETS, Context, Item, Study
from likewise.results.result import versions
from likewise.storage import content_key, file_hash

STAND_IN = "minilm"
PROBE_SECONDS = 1.0
WORK = "work"  # the folder of intermediate results
FORMAT = 1  # raised when run files of an older version cannot be used
Say = Callable[[str], None]


@dataclass(frozen=True)
class NotRun:
    """An item that could not run, and why, in one line."""

    study: str
    item: str
    model: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What runs: studies with their chosen items, the models, and how much of everything."""

    studies: Sequence[Study]
    models: Sequence[str] = ()  # none: the study's own model, or the stand-in
    budget: str = "quick"
    seeds: int = 1
    language: str = "en"
    data_dir: Path | None = None
    grammars: Mapping[str, str] = field(default_factory=dict)  # language -> spaCy pipeline
    vectors: Path | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.budget not in BUDGETS:
            raise UsageError(f"unknown budget {self.budget!r}; choose from {', '.join(BUDGETS)}")

    def contexts(self, study: Study, folder: Path, progress: Progress | None) -> Iterator[Context]:
        """A context for each model of a study."""
        for model in self.models or [study_model(study)]:
            yield Context(
                study.name, model, folder / WORK / study.name / short(model), self.budget, self.seeds, self.data_dir,
                self.grammars, self.vectors, self.language, self.threads, progress,
            )  # fmt: skip


def study_model(study: Study) -> str:
    """The study's own model if it loads here, else the stand-in."""
    for name in study.published.models:
        with suppress(ModelError):
            Encoder.load(name)
            return name
    return STAND_IN


def reproduce(
    chosen: Plan, folder: Path, progress: Progress | None = None, say: Say = lambda _: None
) -> Iterator[Record | NotRun]:
    """Run everything that has no run file in ``folder`` yet; ``say`` gets a line before each item."""
    for study in chosen.studies:
        for context in chosen.contexts(study, folder, progress):
            rate = encoding_rate(context)
            say(f"{study.name} with {context.short}: {_total(study, context, rate)}")
            for item in study.items:
                yield _attempt(study, item, context, folder, rate, say)


def _total(study: Study, context: Context, rate: float) -> str:
    """How long the items take, by the rate of this machine."""
    known = [cost for one in study.items if (cost := one.tokens(context.budget)) is not None]
    unknown = len(study.items) - len(known)
    words = f"{len(study.items)} items, about {sum(known) * 1e6 / rate / 60:.0f} minutes at {rate:,.0f} tokens/s"
    return words + (f" and {unknown} of unknown time" if unknown else "")


def _attempt(study: Study, item: Item, context: Context, folder: Path, rate: float, say: Say) -> Record | NotRun:
    """Run an item, or say in one line why it cannot run here."""
    name = f"{study.name} {item.name} ({context.short})"
    try:
        data = {name: file_hash(path) for name, path in _located(item, context).items()}
        key = _key(item, context, data)
        found = _finished(folder / study.name / f"{item.name}-{context.short}.json", key)
        if found is not None:
            say(f"{name}: done already")
            return found
        cost = item.tokens(context.budget)
        say(f"{name}: running" + ("" if cost is None else f", about {cost * 1e6 / rate:.0f} s"))
        return _run(item, context, key, data, folder, rate)
    except (DataError, ModelError, MissingExtra, UsageError) as error:
        say(f"{name}: not run: {error}")
        return NotRun(study.name, item.name, context.short, str(error))


def _located(item: Item, context: Context) -> dict[str, Path]:
    """The public files of an item, by name."""
    found, missing = {}, []
    for name in item.files(context.language):
        try:
            found[name] = locate(name, context.data_dir)
        except DataError:
            missing.append(name)
    if missing:
        sets = " ".join(dict.fromkeys(name.partition("/")[0] for name in missing))
        raise DataError(
            f"needs {', '.join(missing)}; likewise data {sets} says how to get them, --data-dir where they are"
        )
    return found


def _run(item: Item, context: Context, key: str, data: dict[str, str], folder: Path, rate: float) -> Record:
    began, started, worked = time.gmtime(), time.perf_counter(), _processor_seconds()
    finding = item.run(context)
    record = Record(
        context.study, item.name, context.short, key, _command(item, context), time.strftime("%Y-%m-%d", began),
        seconds=round(time.perf_counter() - started, 1), processor_seconds=round(_processor_seconds() - worked, 1),
        rate=round(rate), budget=context.budget, seeds=context.seeds,
        model_sha256=context.encoder.hash, data=data, versions=versions(), stand_in=stand_in_note(context),
        tables=finding.tables, verdicts=finding.verdicts, notes=finding.notes,
    )  # fmt: skip
    record = replace(record, figures=draw(finding, folder / record.study, record.stem))
    record.write(folder)
    return record


def _processor_seconds() -> float:
    """The processor time of this process and of the workers that it has ended."""
    return sum(os.times()[:4])


def _key(item: Item, context: Context, data: Mapping[str, str]) -> str:
    """A hash of everything that the numbers depend on."""
    made_of = (FORMAT, context.study, item.name, item.version, dict(data), context.encoder.hash)
    vectors = [file_hash(context.vectors)] if item.takes_vectors and context.vectors is not None else []
    grammars = {language: _pipeline(context, language) for language in item.grammars}
    return content_key(*made_of, context.budget, context.seeds, context.language, grammars, *vectors)


def _pipeline(context: Context, language: str) -> dict[str, Any]:
    """What spaCy says of the pipeline of a language; nothing if there is none."""
    with suppress(ModelError, MissingExtra):
        return dict(context.grammar(language).nlp.meta)
    return {}


def _command(item: Item, context: Context) -> str:
    """The command that repeats this item alone."""
    words = ["likewise reproduce", context.study, item.name, "--model", context.short]
    words += ["--budget", context.budget, "--seeds", str(context.seeds)]
    words += [] if context.language == "en" else ["--language", context.language]
    for language in item.grammars:
        if language in context.grammars:
            words += ["--grammar", f"{language}={short(context.grammars[language])}"]
    if item.takes_vectors and context.vectors is not None:
        words += ["--vectors", context.vectors.name]
    return " ".join(words)


def _finished(path: Path, key: str) -> Record | None:
    """The run file of an item, if it has the same settings, weights and data."""
    with suppress(DataError):  # a damaged file is written anew
        found = Record.read(path) if path.exists() else None
        return found if found is not None and found.key == key else None
    return None


def encoding_rate(context: Context) -> float:
    """How many tokens per second the model encodes on this machine, measured for a moment."""
    texts = [row.text for row in Dataset("sample/sentences").texts()]
    tokens = sum(len(each.ids) for each in context.encoder.tokenize(texts))
    began, done, passed = time.perf_counter(), 0, 0.0
    while passed < PROBE_SECONDS:
        context.encoder.encode(texts)
        done, passed = done + tokens, time.perf_counter() - began
    return done / passed


def stand_in_note(context: Context) -> str:
    """What it means that a model is not the study's own; empty if it is."""
    if context.is_original:
        return ""
    own = ", ".join(context.published.models)
    kind = "was never fine-tuned, as plain BERT" if context.is_plain else "was fine-tuned for similarity"
    return (
        f"Stand-in: {context.short} in place of {own}. It {kind}. Orders and directions can be compared with"
        " the published ones, values cannot."
    )
