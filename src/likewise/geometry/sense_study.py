"""The study of word senses: whether the layers of a model separate the senses of a word, on labelled occurrences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Dataset, SenseExample, read_senses
from likewise.encoder import Encoder, takes_encoder
from likewise.encoder.forward import steady_memory, windows
from likewise.errors import DataError, UsageError
from likewise.geometry.occurrences import averaged_tokens, require_layers, tokens_of_spans
from likewise.geometry.senses import SenseGeometry, SenseVectors, check_nearest, sense_geometry
from likewise.plotting.curves import Panel, curve_panels
from likewise.plotting.terminal import unique_labels
from likewise.progress import Progress, Ticker
from likewise.results import Column, Comparable, Figure, ResultSet, Table

WINDOW = 2048  # Texts whose tokens are in memory at a time
AXES = ("layer", "mean cosine, share correct")
SAME, OTHER = Column("within", "same sense"), Column("between", "other senses")
WORD_COLUMNS = ("model", "word", "n", "senses", Column("baseline", "most frequent"), "layer", "accuracy", SAME, OTHER)


@dataclass(frozen=True)
class SenseTask:
    """Occurrences whose senses are predicted, and the occurrences that their nearest are looked up among."""

    name: str
    examples: Sequence[SenseExample]
    references: Sequence[SenseExample] | None = None  # None: each example is compared with the other examples
    train: str | None = None  # where `references` come from
    skipped: int = 0  # bad rows
    repeated: int = 0  # occurrences left out because their text already has the word

    @property
    def misspelt(self) -> int:
        """Occurrences at whose index there seems to be no form of the word."""
        return sum(not example.is_form for example in [*self.examples, *(self.references or ())])


def sense_task(
    dataset: Dataset, train: str | None = None, words: Sequence[str] = (), limit: int | None = None
) -> SenseTask:
    """Read a file of occurrences, and a second one, in the same format, to look the nearest up in.

    ``words``: only these; ``limit``: only the first occurrences of each word, in each file.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit takes a number of occurrences from 1 on, got {limit}")
    found, skipped = _examples(dataset, words, limit)
    if train is not None:
        references, also_skipped = _examples(replace(dataset, name=train), words, limit)
        return SenseTask(dataset.name, found, references, train, skipped + also_skipped)
    # A second occurrence in the same text would get its sense from that very text.
    once = list({(example.word, example.text): example for example in reversed(found)}.values())[::-1]
    return SenseTask(dataset.name, once, skipped=skipped, repeated=len(found) - len(once))


def _examples(dataset: Dataset, words: Sequence[str], limit: int | None) -> tuple[list[SenseExample], int]:
    """The examples, and the number of bad rows."""
    rows = dataset.rows(read_senses)
    present = sorted({example.word for example in rows})
    if absent := [word for word in words if word not in present]:
        raise DataError(f"{dataset.name}: no word {absent[0]!r} (--words); there are {', '.join(present)}")
    seen: Counter[str] = Counter()
    chosen = []
    for example in rows:
        seen[example.word] += 1
        if (not words or example.word in words) and (not limit or seen[example.word] <= limit):
            chosen.append(example)
    return chosen, rows.skipped


def occurrence_vectors(
    encoder: Encoder, examples: Sequence[SenseExample], progress: Progress | None = None
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """The mean of each word's tokens in its text, in all layers (L + 1, n, D), and which were not cut off (n,).

    Only the words' own vectors stay in memory: 4 (L + 1) n D bytes, which is 470 MB for 23,000 words, 12 layers and 384
    dimensions.
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
    """Indices of examples whose word has a token, and the words' vectors (L + 1, m, D)."""
    for batch in encoder.state_batches([example.text for example in examples], report=False):
        indices, groups = [], []
        for row, (index, tokens) in enumerate(zip(batch.indices, batch.tokens, strict=True)):
            [own] = tokens_of_spans(tokens, [(examples[index].start, examples[index].end)])
            if own:
                indices.append(index)
                groups.append((row, own))
        if indices:
            yield indices, averaged_tokens(batch.hidden, groups).float().cpu().numpy()


@dataclass(frozen=True, repr=False)
class SenseStudy(Comparable):
    """One model on one file of occurrences."""

    task: SenseTask
    model: str
    geometry: SenseGeometry
    nearest: str = "neighbour"  # what decides: the nearest neighbour, or the nearest centroid of a sense
    cut: int = 0  # occurrences whose word was cut off at the model's limit, left out of everything

    @property
    def data(self) -> str:
        """The name of the occurrences."""
        return self.task.name

    @property
    def classifier(self) -> str:
        """How accuracy was measured, in words."""
        where = "among the other occurrences" if self.task.train is None else f"in {self.task.train}"
        what = "nearest neighbour" if self.nearest == "neighbour" else "nearest mean of a sense"
        return f"{what} {where}, same word, by cosine"

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Word senses: {self.data}"

    @property
    def notes(self) -> list[str]:
        """What was measured, and the accuracy of the most frequent sense."""
        found = self.geometry
        return [
            f"{self.model} on {self.data}, n = {found.n}. Accuracy: {self.classifier}. Most frequent sense:"
            f" {found.baseline.value:.3f}, macro {found.macro_baseline.value:.3f}. Intervals: 95 %, bootstrap."
        ]

    @property
    def cautions(self) -> list[str]:
        """Rows and words that were left out, and words that do not match."""
        task, unanswered = self.task, self.geometry.unanswered
        possible = [
            (task.skipped, f"bad rows skipped: {task.skipped}"),
            (task.repeated, f"left out, because their text already has the word: {task.repeated}"),
            (task.misspelt, f"words whose index leads to another word: {task.misspelt}; does word_index count from 0?"),
        ]
        found = [f"{self.data}: {caution}" for count, caution in possible if count]
        left_out = f"words cut at the limit: {self.cut}, without another to compare with: {unanswered}"
        return [*found, *([f"{self.model}: left out: {left_out}"] if self.cut or unanswered else [])]

    def to_dict(self) -> dict[str, Any]:
        """Every layer, and every word at the best layer."""
        task, found, best = self.task, self.geometry, self.geometry.best.layer
        by_layer = ("accuracy", "within", "between")
        words = [vars(word) | {name: getattr(word, name)[best] for name in by_layer} for word in found.words]
        return {
            "data": task.name, "train": task.train, "model": self.model, "by": self.nearest, "n": found.n,
            "layers": [layer.to_dict() for layer in found.layers], "best_layer": best, "words": words,
            "baseline_accuracy": found.baseline.value, "baseline_macro_accuracy": found.macro_baseline.value,
            "unanswered": found.unanswered, "cut": self.cut, "skipped": task.skipped, "misspelt": task.misspelt,
            "repeated": task.repeated,
        }  # fmt: skip

    def tables(self) -> dict[str, Table]:
        """Every layer, every word at the best layer, and every word in every layer."""
        found, best = self.geometry, self.geometry.best
        at_all = (one.value for one in (best.accuracy, best.within, best.between))
        senses = sum(word.senses for word in found.words)
        total = (self.model, "all", found.n, senses, found.baseline.value, best.layer, *at_all)
        every = [
            (self.model, word.word, word.n, word.senses, word.baseline, layer, *values)
            for word in found.words
            for layer, values in enumerate(zip(word.accuracy, word.within, word.between, strict=True))
        ]
        at_best = [row for row in every if row[5] == best.layer]
        title = "Words at the best layer, the one with the highest macro-accuracy"
        macro = Column("macro_accuracy", "macro-accuracy")
        header = ("model", "layer", SAME, OTHER, "difference", "accuracy", macro)
        layers = [(self.model, one.layer, *one.intervals.values()) for one in found.layers]
        return {
            "layers": Table.of(header, layers, "Cosines and accuracy by layer"),
            "best_layer": Table.of(WORD_COLUMNS, [*at_best, total], title),
            "words": Table.of(WORD_COLUMNS, every, detail=True),
        }

    @property
    def panel(self) -> Panel:
        """What ``curve_panels`` draws."""
        names = {
            "cosine, same sense": "within",
            "cosine, other senses": "between",
            f"correct by {self.nearest}": "macro_accuracy",
        }
        series = {}
        for name, measure in names.items():
            each = [layer.intervals[measure] for layer in self.geometry.layers]
            series[name] = ([one.value for one in each], [one.low for one in each], [one.high for one in each])
        numbers = [layer.layer for layer in self.geometry.layers]
        chance = [self.geometry.macro_baseline.value] * len(numbers)
        return numbers, series | {"most frequent sense": (chance, None, None)}

    @classmethod
    def figures_of(cls, results: Sequence[SenseStudy]) -> dict[str, Figure]:
        """Cosines and accuracy over the layers, a panel per model on common axes."""
        named = zip(unique_labels([one.model for one in results]), results, strict=True)
        panels = [(f"{name}: {one.data}, n = {one.geometry.n}", one.panel) for name, one in named]
        notes = [
            "Cosine: mean over pairs of occurrences of a word. All curves average over words.",
            f"Correct: {results[0].classifier}.",
        ]
        return {"senses": Figure(lambda: curve_panels(panels, AXES, notes)[0], "Cosines and accuracy by layer")}


@takes_encoder
def study_senses(
    encoder: Encoder, task: SenseTask, nearest: str = "neighbour", progress: Progress | None = None
) -> SenseStudy:
    """Measure one encoder; occurrences whose word is cut off at the model's limit are left out and counted."""
    check_nearest(nearest)
    require_layers(encoder)
    vectors, cut = _sense_vectors(encoder, task.examples, task.name, progress)
    references = None
    if task.references is not None:
        references, also_cut = _sense_vectors(encoder, task.references, str(task.train), progress)
        cut += also_cut
    return SenseStudy(task, encoder.name, sense_geometry(vectors, references, nearest, progress), nearest, cut)


def _sense_vectors(
    encoder: Encoder, examples: Sequence[SenseExample], name: str, progress: Progress | None
) -> tuple[SenseVectors, int]:
    """The vectors of the examples that were not cut off, and how many were."""
    vectors, whole = occurrence_vectors(encoder, examples, progress)
    if not whole.any():
        raise DataError(f"{name}: every word is cut off at the model's limit; give shorter texts or another model")
    seen = [example for example, ok in zip(examples, whole, strict=True) if ok]
    words, senses = [example.word for example in seen], [example.sense for example in seen]
    # A mask would copy the vectors.
    return SenseVectors(vectors if whole.all() else vectors[:, whole], words, senses), len(examples) - len(seen)


def compare_senses(
    task: SenseTask,
    models: Sequence[str],
    nearest: str = "neighbour",
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> ResultSet[SenseStudy]:
    """Measure several models on the same occurrences."""
    check_nearest(nearest)  # Rejects a wrong name before a model is loaded.
    return ResultSet(tuple(study_senses(load(model), task, nearest, progress) for model in dict.fromkeys(models)))
