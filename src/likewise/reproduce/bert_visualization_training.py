"""The future work of the study of BERT's geometry: biased data, frozen layers and contrastive training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import ScoredPair
from likewise.encoder import Encoder
from likewise.errors import UsageError
from likewise.evaluation.sts import StsResult, evaluate_sts
from likewise.geometry import Geometry, geometry_of
from likewise.geometry.geometry import ConfidenceBand
from likewise.metrics import Interval
from likewise.reproduce.bert_visualization_layers import (
    SAME_NOTE,
    control_of,
    difference,
    layer_figure,
    settings,
    spaced,
)
from likewise.reproduce.controls import spearman_difference
from likewise.reproduce.study import Context, Finding
from likewise.reproduce.verdicts import Verdict, above, below
from likewise.results import Column, Figure, Table
from likewise.train.config import TrainConfig
from likewise.train.runs import Row, RunContext, parse_plan, presets
from likewise.train.runs_table import train_table
from likewise.train.tasks import Limits

FILES = {
    "en": {},
    "zh": {'["snli/dev", "snli/test"]': '"mstsb/zh_train"', '"snli/dev"': '"mstsb/zh_train"', '"stsb/': '"mstsb/zh_'},
}  # the files of presets, and what replaces them in another language
ENGLISH_ROWS = ("captions only", "scores follow length", "supervised")
"""Rows that need genres, words between spaces, or entailments, which the files of other languages lack."""
TINY_ROWS = 64  # of each file at the tiny budget
BEFORE = "before training"
MEASURES = {
    "baseline": "baseline", "self_similarity_adjusted": "self-similarity - baseline",
    "intra_similarity_adjusted": "intra-sentence - baseline", "isoscore": "IsoScore",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Measured:
    """A model's agreement with human scores, and the geometry of its layers on the same texts."""

    sts: StsResult
    space: Geometry

    @property
    def baseline(self) -> Interval:
        """The baseline of the last layer."""
        return self.space.raw.baseline.intervals[-1]


Runs = Mapping[str, Sequence[Measured]]  # the runs of each row, one for each seed


@dataclass(frozen=True)
class Training:
    """Runs of an item: trained in its folder, where an interrupted one continues, and measured on the same pairs."""

    context: Context
    name: str

    @property
    def folder(self) -> Path:
        """Of this budget alone: other budgets have other settings."""
        return self.context.work / self.context.budget / self.name

    def rows(self, preset: str, **changes: Any) -> list[Row]:
        """The rows of a preset with every seed, with files of the language; the last epoch counts, not the best."""
        text, context = presets()[preset], self.context
        if context.language not in FILES:
            raise UsageError(f"the training data are in {', '.join(FILES)}; leave out --language {context.language}")
        for old, new in FILES[context.language].items():
            text = text.replace(old, new)
        text = text.replace("seeds = [1, 2, 3]", f"seeds = {list(range(1, context.seeds + 1))}")
        plan = parse_plan(text, preset, model=context.model, **changes)
        rows = [row for row in plan.rows if context.language == "en" or row.name not in ENGLISH_ROWS]
        return [replace(row, config=_without_dev(row.config)) for row in rows]

    def trained(self, rows: Sequence[Row]) -> list[str]:
        """Train the rows; the folders of their models."""
        context = self.context
        limits = Limits(TINY_ROWS) if context.budget == "tiny" else Limits()
        train_table(RunContext(self.load, context.data_dir, limits), rows, self.folder, True, context.progress)
        return [str(self.folder / row.slug) for row in rows]

    def runs(self, rows: Sequence[Row], start: Measured) -> dict[str, list[Measured]]:
        """Train and measure the rows; the starting model comes first."""
        found = {BEFORE: [start]}
        for row, folder in zip(rows, self.trained(rows), strict=True):
            found.setdefault(row.name, []).append(self.measured(self.load(folder)))
        return found

    def load(self, model: str) -> Encoder:
        """A model with this run's threads."""
        return Encoder.load(model, threads=self.context.threads)

    @cached_property
    def pairs(self) -> list[ScoredPair]:
        """The test pairs that all models are measured on."""
        name = {"en": "stsb/test", "zh": "mstsb/zh_test"}[self.context.language]
        every = list(self.context.dataset(name).scored_pairs())
        return spaced(every, self.context.size(tiny=40, quick=400, standard=None))

    def measured(self, encoder: Encoder) -> Measured:
        """Measure a model."""
        texts = list(dict.fromkeys(text for pair in self.pairs for text in (pair.left, pair.right)))
        # Of the geometry only the averages are needed, not the samples.
        small = settings(self.context, corrections=False, max_contexts=20, sample_rows=200, sample_points=100)
        space = geometry_of(encoder, texts, small, "test pairs", self.context.progress)
        return Measured(evaluate_sts(encoder, self.pairs, "test pairs", self.context.progress), space)


def _without_dev(config: TrainConfig) -> TrainConfig:
    """Test files stay, since train rows that are in them are left out."""
    tasks = [replace(task, dev=(), test=() if task.kind == "mlm" else task.test) for task in config.tasks]
    return replace(config, tasks=tuple(tasks))


# What runs show


def over_seeds(intervals: Sequence[Interval]) -> Interval:
    """The mean, and ends that hold for every seed.

    >>> over_seeds([Interval(0.2, 0.1, 0.3), Interval(0.4, 0.3, 0.5)])
    Interval(value=0.30000000000000004, low=0.1, high=0.5)
    """
    ends = min(one.low for one in intervals), max(one.high for one in intervals)
    return Interval(float(np.mean([one.value for one in intervals])), *ends)


def baseline_change(runs: Sequence[Measured], others: Sequence[Measured]) -> Interval:
    """The last layer's baseline of runs minus that of others: the same seeds, or the one model before training."""
    return over_seeds([difference(run.baseline, _partner(others, seed).baseline) for seed, run in enumerate(runs)])


def agreement_change(runs: Sequence[Measured], others: Sequence[Measured]) -> Interval:
    """Spearman of runs minus that of others, over the same pairs."""
    changes = []
    for seed, run in enumerate(runs):
        other = _partner(others, seed).sts
        changes.append(spearman_difference(run.sts.truth, run.sts.predicted, other.predicted))
    return over_seeds(changes)


def _partner(others: Sequence[Measured], seed: int) -> Measured:
    return others[seed if len(others) > 1 else 0]


def finding(found: Runs, verdicts: Sequence[Verdict], notes: Sequence[str] = ()) -> Finding:
    """Tables and figures of all runs."""
    rows = []
    for name, runs in found.items():
        bands = [[run.space.bands[measure].intervals[-1] for run in runs] for measure in MEASURES]
        spearman = over_seeds([run.sts.agreement["spearman"] for run in runs])
        rows.append((name, len(runs), spearman, *map(over_seeds, bands)))
    columns: list[str | Column] = ["training", "seeds", Column("spearman", "Spearman", ".3f")]
    columns += [Column(name, heading, ".3f") for name, heading in MEASURES.items()]
    pairs = next(iter(found.values()))[0].sts.n
    note = f"{pairs} test pairs; the geometry is that of the last layer. Intervals hold for every seed."
    table = Table.of(columns, rows, "After training", note)
    return Finding({"runs": table}, {"layers": _figure(found)}, tuple(verdicts), (*notes, SAME_NOTE))


def _figure(found: Runs) -> Figure:
    """The first seed of each row over the layers."""
    panels: dict[str, dict[str, ConfidenceBand]] = {
        MEASURES[measure]: {name: runs[0].space.bands[measure] for name, runs in found.items()}
        for measure in ("baseline", "self_similarity_adjusted")
    }
    return layer_figure("The layers after training", panels, "cosine", "The first seed.")


# Items


def biased_data(context: Context) -> Finding:
    """Training sets with a bias against as many pairs without one."""
    training = Training(context, "biased-data")
    samples, epochs = context.size(tiny=16, quick=512, standard=1024), context.size(tiny=1, standard=2)
    rows = training.rows("biased", samples=samples, epochs=epochs)
    found = training.runs(rows, training.measured(context.encoder))
    fair, verdicts = found["no bias"], []
    for name in list(found)[2:]:
        raised, lost = baseline_change(found[name], fair), agreement_change(found[name], fair)
        plain = baseline_change(fair, found[BEFORE]), agreement_change(fair, found[BEFORE])
        verdicts.append(
            above(f"A training set with a bias ({name}) raises the last layer's baseline.",
                  "baseline minus that after as much training without a bias", raised, seeds=context.seeds,
                  control=control_of("training without a bias, against none,", plain[0], raised))
        )  # fmt: skip
        verdicts.append(
            below(f"A training set with a bias ({name}) costs agreement with people.",
                  "Spearman minus that after as much training without a bias", lost, seeds=context.seeds,
                  control=control_of("training without a bias, against none,", plain[1], lost, is_above=False))
        )  # fmt: skip
    return finding(found, verdicts, notes_of(context))


def frozen_layers(context: Context) -> Finding:
    """Training for similarity with parts of the model frozen."""
    training = Training(context, "frozen-layers")
    rows = training.rows("layers", samples=context.size(tiny=16, quick=512, standard=None))
    # The control: another layer frozen in place of the last one.
    lasts = [row for row in rows if row.config.freeze == "last"]
    rows += [Row("first layer frozen", replace(row.config, freeze=(1,))) for row in lasts]
    found = training.runs(rows, training.measured(context.encoder))
    whole, lower, upper, last, first = list(found.values())[1:]
    gain, lost, moved = (
        agreement_change(whole, found[BEFORE]),
        agreement_change(whole, last),
        baseline_change(whole, last),
    )
    other = "the first layer frozen in place of the last"
    verdicts = [
        above("Training the upper half gives more agreement than training the lower half.",
              "Spearman with the lower half frozen minus that with the upper half frozen",
              agreement_change(lower, upper), seeds=context.seeds),
        above("Training without the last layer loses agreement.",
              f"Spearman with nothing frozen minus that with the last layer frozen; training gains {gain.value:+.3f}",
              lost, seeds=context.seeds, control=control_of(other, agreement_change(whole, first), lost)),
        above("The last layer matters more than the first one.",
              "Spearman with the first layer frozen minus that with the last layer frozen",
              agreement_change(first, last), seeds=context.seeds),
        below("Training everything lowers the last layer's baseline more than training with it frozen.",
              "baseline with nothing frozen minus that with the last layer frozen",
              moved, seeds=context.seeds, control=control_of(other, baseline_change(whole, first), moved, False)),
    ]  # fmt: skip
    return finding(found, verdicts, notes_of(context))


def contrastive(context: Context) -> Finding:
    """Contrastive training of a model whose last training was masked language modelling."""
    training, samples = Training(context, "contrastive"), context.size(tiny=64, quick=1280, standard=6400)
    start, notes = context.model, list(notes_of(context))
    if not context.is_plain:
        lengths = {} if context.budget in ("standard", "full") else {"samples": samples, "epochs": 1}
        [row] = training.rows("mlm", **lengths)
        [start] = training.trained([replace(row, name="masked language modelling")])
        notes.append(
            f"{context.short} is contrastive already: the start is the same model after masked language modelling."
        )
    rows = [_from(row, start) for row in training.rows("contrastive", samples=samples)]
    [more] = training.rows("mlm", samples=samples, epochs=1)
    rows += [_from(replace(more, name="more masked language modelling"), start)]
    found = training.runs(rows, training.measured(training.load(start)))
    before, control = found[BEFORE], found["more masked language modelling"]
    verdicts = []
    for name in [row for row in ("unsupervised", "supervised") if row in found]:
        lower, better = baseline_change(found[name], before), agreement_change(found[name], before)
        verdicts.append(
            below(f"Contrastive training ({name}) lowers the last layer's baseline.", "baseline after minus before",
                  lower, seeds=context.seeds, control=control_of(
                      "as many texts of masked language modelling", baseline_change(control, before), lower, False))
        )  # fmt: skip
        verdicts.append(
            above(f"Contrastive training ({name}) raises agreement with people.", "Spearman after minus before",
                  better, seeds=context.seeds, control=control_of(
                      "as many texts of masked language modelling", agreement_change(control, before), better))
        )  # fmt: skip
    return finding(found, verdicts, notes)


def _from(row: Row, model: str) -> Row:
    return replace(row, config=replace(row.config, model=model))


def notes_of(context: Context) -> tuple[str, ...]:
    """Which rows of the data are left out."""
    notes = []
    if context.language != "en":
        notes.append(
            "Without the trainings that need genres, words between spaces or entailments: the files have none."
        )
    if context.budget == "tiny":
        notes.append(f"A test of the commands: only the first {TINY_ROWS} rows of each file, which are all captions.")
    return tuple(notes)
