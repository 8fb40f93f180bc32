"""Word senses: whether a model's layers tell the meanings of a word apart, on occurrences with known senses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import GUESSED, Columns, SenseExample, read_senses
from likewise.encoder import Encoder
from likewise.encoder.batches import windows
from likewise.encoder.device import steady_memory
from likewise.errors import DataError, UsageError
from likewise.geometry.senses import SenseGeometry, SenseVectors, check_nearest, sense_geometry
from likewise.geometry.words import averaged_tokens, require_layers, tokens_of_spans
from likewise.metrics import Interval
from likewise.plotting.curves import Panel, curve_panels
from likewise.plotting.html import paragraph, section, table
from likewise.plotting.text import unique_labels
from likewise.progress import Progress, Ticker

WINDOW = 2048
"""Texts whose tokens are held at a time."""
AXES = ("layer", "mean cosine, share right")


@dataclass(frozen=True)
class SenseTask:
    """Occurrences to be judged and, apart from them, those that their nearest are looked up among."""

    name: str
    asked: Sequence[SenseExample]
    known: Sequence[SenseExample] | None = None
    """None: each is compared with the others of ``asked``"""
    train: str | None = None
    """where ``known`` comes from"""
    skipped: int = 0
    """bad rows"""
    repeated: int = 0
    """occurrences left out since their text has the word already, where each is compared with the others"""

    @property
    def misspelt(self) -> int:
        """Occurrences at whose index something else than a form of the word seems to stand."""
        return sum(not example.is_form for example in [*self.asked, *(self.known or ())])


@dataclass(frozen=True)
class SenseSource:
    """Where occurrences come from: a file or a name, another one to look up the nearest in, and how both are read."""

    file: str
    train: str | None = None
    words: tuple[str, ...] = ()
    """only these words; all where there are none"""
    limit: int | None = None
    """the first occurrences of each word only, in each file"""
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit takes a number of occurrences from 1 on, got {self.limit}")

    def read(self) -> SenseTask:
        """The whole task; files are read in full."""
        bad: list[DataError] = []
        asked = self._examples(self.file, bad)
        if self.train is not None:
            return SenseTask(self.file, asked, self._examples(self.train, bad), self.train, len(bad))
        # A word that stands in the same text again would be answered by that very text.
        once = list({(example.word, example.text): example for example in reversed(asked)}.values())[::-1]
        return SenseTask(self.file, once, skipped=len(bad), repeated=len(asked) - len(once))

    def _examples(self, file: str, bad: list[DataError]) -> list[SenseExample]:
        on_bad = bad.append if self.skip_bad else None
        found = list(read_senses(file, columns=self.columns, data_dir=self.data_dir, on_bad=on_bad))
        present = sorted({example.word for example in found})
        if absent := [word for word in self.words if word not in present]:
            raise DataError(f"{file}: no word {absent[0]!r} (--words); there are {', '.join(present)}")
        seen: Counter[str] = Counter()
        chosen = []
        for example in found:
            seen[example.word] += 1
            if (not self.words or example.word in self.words) and (not self.limit or seen[example.word] <= self.limit):
                chosen.append(example)
        return chosen


def occurrence_vectors(
    encoder: Encoder, examples: Sequence[SenseExample], progress: Progress | None = None
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The mean of each word's tokens in its text, in all layers (L + 1, n, D), and which were not cut off (n,).

    Only the words' own vectors are kept: 4 (L + 1) n D bytes, which is 470 MB for 23,000 words, 12 layers and 384
    dimensions.

    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> vectors, whole = occurrence_vectors(encoder, [SenseExample("Rob a bank .", "bank", 6, 10, "money", "1")])
    >>> vectors.shape, whole.tolist()
    ((7, 1, 384), [True])
    """
    shape = (encoder.model_view.layers + 1, len(examples), encoder.model_view.hidden_size)
    vectors, whole = np.zeros(shape, np.float32), np.zeros(len(examples), bool)
    ticker, start = Ticker(progress, len(examples), "texts"), 0
    with steady_memory():
        for window in windows(examples, WINDOW):
            for indices, found in _word_batches(encoder, window):
                rows = np.array(indices, np.int64) + start
                vectors[:, rows], whole[rows] = found, True
                ticker.add(len(indices))
            start += len(window)
    ticker.close()
    return vectors, whole


def _word_batches(
    encoder: Encoder, examples: Sequence[SenseExample]
) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Places of examples whose word has a token, and the words' vectors (L + 1, m, D)."""
    for batch in encoder.state_batches([example.text for example in examples], report=False):
        indices, groups = [], []
        for row, (index, tokens) in enumerate(zip(batch.indices, batch.tokens, strict=True)):
            [own] = tokens_of_spans(tokens, [(examples[index].start, examples[index].end)])
            if own:
                indices.append(index)
                groups.append((row, own))
        if indices:
            yield indices, averaged_tokens(batch.hidden, groups).float().cpu().numpy()


@dataclass(frozen=True)
class SenseStudy:
    """One model on one file of occurrences."""

    data: str
    model: str
    geometry: SenseGeometry
    nearest: str = "neighbour"
    """what was looked up: the nearest neighbour, or the nearest centroid of a sense"""
    train: str | None = None
    cut: int = 0
    """occurrences whose word was cut off at the model's limit, left out of everything"""
    skipped: int = 0
    """bad rows"""
    misspelt: int = 0
    """occurrences at whose index something else than a form of the word seems to stand"""
    repeated: int = 0
    """occurrences left out since their text has the word already"""

    @property
    def way(self) -> str:
        """How accuracy was taken, in words."""
        where = "among the other occurrences" if self.train is None else f"in {self.train}"
        what = "nearest neighbour" if self.nearest == "neighbour" else "nearest mean of a sense"
        return f"{what} {where}, same word, by cosine"

    def to_dict(self) -> dict[str, Any]:
        """Every layer, and every word at the best layer."""
        found, best = self.geometry, self.geometry.best.layer
        return {
            "data": self.data, "train": self.train, "model": self.model, "by": self.nearest, "n": found.n,
            "layers": [layer.to_dict() for layer in found.layers], "best_layer": best,
            "words": [
                {"word": word.word, "n": word.n, "senses": word.senses, "accuracy": word.accuracy[best],
                 "baseline": word.baseline, "within": word.within[best], "between": word.between[best]}
                for word in found.words
            ],
            "baseline_accuracy": found.baseline.value, "baseline_macro_accuracy": found.macro_baseline.value,
            "unanswered": found.unanswered, "cut": self.cut, "skipped": self.skipped, "misspelt": self.misspelt,
            "repeated": self.repeated,
        }  # fmt: skip

    @property
    def layer_rows(self) -> list[tuple[int | Interval, ...]]:
        """A row per layer: its number, same sense, other senses, difference, accuracy and macro-accuracy."""
        return [(layer.layer, *layer.intervals.values()) for layer in self.geometry.layers]

    @property
    def word_rows(self) -> list[tuple[str | int | float, ...]]:
        """A row per word: occurrences, senses, most frequent sense, accuracy, and both cosines, at the best layer."""
        best = self.geometry.best.layer
        return [
            (one.word, one.n, one.senses, one.baseline, one.accuracy[best], one.within[best], one.between[best])
            for one in self.geometry.words
        ]

    @property
    def panel(self) -> Panel:
        """What ``curve_panels`` draws."""
        names = {
            "cosine, same sense": "within",
            "cosine, other senses": "between",
            f"right by {self.nearest}": "macro_accuracy",
        }
        series = {}
        for name, measure in names.items():
            each = [layer.intervals[measure] for layer in self.geometry.layers]
            series[name] = ([one.value for one in each], [one.low for one in each], [one.high for one in each])
        numbers = [layer.layer for layer in self.geometry.layers]
        chance = [self.geometry.macro_baseline.value] * len(numbers)
        return numbers, series | {"most frequent sense": (chance, None, None)}

    def plot(self) -> Any:
        """Cosines and accuracy over the layers."""
        return SenseTable((self,)).plot()

    def _repr_html_(self) -> str:
        return SenseTable((self,))._repr_html_()


LAYER_HEADER = ("layer", "same sense", "other senses", "difference", "accuracy", "macro-accuracy")
WORD_HEADER = ("word", "n", "senses", "most frequent", "accuracy", "same sense", "other senses")


@dataclass(frozen=True)
class SenseTable:
    """Several models on the same occurrences."""

    results: tuple[SenseStudy, ...]

    def to_dict(self) -> dict[str, Any]:
        """A single result as itself, several under ``results``."""
        rows = [result.to_dict() for result in self.results]
        return rows[0] if len(rows) == 1 else {"results": rows}

    def plot(self) -> Any:
        """A panel per model on common axes; returns the first."""
        named = zip(unique_labels([one.model for one in self.results]), self.results, strict=True)
        panels = [(f"{name}: {one.data}, n = {one.geometry.n}", one.panel) for name, one in named]
        notes = [
            "Cosine: mean over pairs of occurrences of a word. All curves average over words.",
            f"Right: {self.results[0].way}.",
        ]
        return curve_panels(panels, AXES, notes)[0]

    def _repr_html_(self) -> str:
        return "".join(section(one.model, _parts(one)) for one in self.results)


def _parts(one: SenseStudy) -> list[str]:
    found = one.geometry
    layers = [[each.value if isinstance(each, Interval) else each for each in row] for row in one.layer_rows]
    baseline = f"Most frequent sense: {found.baseline.value:.3f}, macro {found.macro_baseline.value:.3f}"
    return [
        paragraph(f"{one.data}, {found.n} occurrences; {one.way}. {baseline}.", note=True),
        table(LAYER_HEADER, layers),
        paragraph(f"Words at layer {found.best.layer}, which has the highest macro-accuracy here.", note=True),
        table(WORD_HEADER, one.word_rows),
    ]


def study_senses(
    encoder: Encoder, task: SenseTask, nearest: str = "neighbour", progress: Progress | None = None
) -> SenseStudy:
    """Measure one encoder; occurrences whose word is cut off at the model's limit are left out and counted."""
    check_nearest(nearest)
    require_layers(encoder)
    asked, cut = _sense_vectors(encoder, task.asked, task.name, progress)
    known, cut_known = (
        (None, 0) if task.known is None else _sense_vectors(encoder, task.known, str(task.train), progress)
    )
    found = sense_geometry(asked, known, nearest, progress)
    counts = (cut + cut_known, task.skipped, task.misspelt, task.repeated)
    return SenseStudy(task.name, encoder.name, found, nearest, task.train, *counts)


def _sense_vectors(
    encoder: Encoder, examples: Sequence[SenseExample], name: str, progress: Progress | None
) -> tuple[SenseVectors, int]:
    """Those that were not cut off, and how many were."""
    vectors, whole = occurrence_vectors(encoder, examples, progress)
    if not whole.any():
        raise DataError(f"{name}: every word is cut off at the model's limit; give shorter texts or another model")
    kept = [example for example, ok in zip(examples, whole, strict=True) if ok]
    chosen = vectors if whole.all() else vectors[:, whole]
    words, senses = [example.word for example in kept], [example.sense for example in kept]
    return SenseVectors(chosen, words, senses), len(examples) - len(kept)


def compare_senses(
    task: SenseTask,
    models: Sequence[str],
    nearest: str = "neighbour",
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> SenseTable:
    """Measure several models on the same occurrences."""
    check_nearest(nearest)  # told before the work, not after it
    return SenseTable(tuple(study_senses(load(model), task, nearest, progress) for model in dict.fromkeys(models)))
