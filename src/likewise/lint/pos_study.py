"""The study of relevance by part of speech on a file of pairs: one or two models or poolings, one or two languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import Dataset, Pair, ScoredPair, mixed_pairs
from likewise.encoder import Encoder
from likewise.encoder.pooling import pooling_parts
from likewise.errors import DataError, UsageError
from likewise.explain.comparisons import SideBySide, side_by_side
from likewise.explain.explanation import Array, Explanation
from likewise.explain.pairs import explain_many
from likewise.grammar import Grammar
from likewise.lint.evidence import ParsedSides, parsed_sides, parsed_texts, scores_of, unit_classes
from likewise.lint.pos_relevance import (
    KINDS,
    ClassSums,
    Disagreement,
    LevelErrors,
    PosChange,
    PosRelevance,
    WordPair,
    disagreements,
    level_errors,
    pos_change,
    strongest_by_quarter,
    strongest_words,
)
from likewise.plotting.axes import grid_of_axes
from likewise.progress import Progress
from likewise.results import Column, Figure, Result, Table

Pairs = Sequence[Pair | ScoredPair]
TOP = 10
SETTING = ("data", "model", "pooling")


@dataclass(frozen=True, eq=False, repr=False)
class CorpusRelevance(Result):
    """One encoder on n pairs: relevance by part of speech, strongest words, errors where there are human scores."""

    data: str
    model: str
    pooling: str
    bias: str
    classes: PosRelevance
    strongest: dict[str, tuple[WordPair, ...]]  # by quarter of the predicted similarity, from top to bottom
    predicted: Array
    truth: Array | None = None
    errors: LevelErrors | None = None
    farthest: tuple[Disagreement, ...] = ()
    """where the human score and the prediction, mapped onto its scale by a least-squares line, differ most"""

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.predicted)

    @property
    def name(self) -> str:
        """Data, model and pooling in one line; of a folder only its own name."""
        return f"{self.data}, {self.short_model}, {self.pooling}"

    @property
    def short_model(self) -> str:
        """The model's name without the folders or the organisation it belongs to."""
        return Path(self.model).name or self.model

    def to_dict(self) -> dict[str, Any]:
        """Everything but the n predictions."""
        about = {"data": self.data, "model": self.model, "pooling": self.pooling, "bias_mode": self.bias, "n": self.n}
        strongest = {name: [asdict(one) for one in part] for name, part in self.strongest.items()}
        errors = None if self.errors is None else self.errors.to_dict()
        numbers = {"strongest": strongest, "errors": errors, "farthest": [asdict(one) for one in self.farthest]}
        return about | {"relevance": self.classes.to_dict()} | numbers

    def plot(self, ax: Any = None, kind: str = "summed") -> Any:
        """Relevance between the classes as a heat map, scaled."""
        return self.classes.plot(ax, kind, f"{self.name}, n = {self.n}")

    def tables(self) -> dict[str, Table]:
        """Class pairs, word pairs, and, where there are human scores, errors and disagreements."""
        pair: tuple[str | Column, ...] = (Column("id", "pair"), "left", "right")
        words = [(part, *astuple(one)) for part, some in self.strongest.items() for one in some]
        title = "strongest word pairs, from the top to the bottom quarter of predicted similarity"
        tables = {"word_pairs": Table.of(["quarter", *pair, "relevance", "similarity"], words, title)}
        if self.errors is not None:
            rows = [astuple(one) for one in self.farthest]
            title = "where human and predicted score differ most (predicted mapped by the line)"
            header = [*pair, "human", "predicted", "difference", "similarity"]
            tables |= self.errors.tables() | {"disagreements": Table.of(header, rows, title)}
        return self.classes.tables() | tables

    def figures(self) -> dict[str, Figure]:
        """Class pairs summed and averaged, and errors by level."""
        title = "Relevance between parts of speech"
        figures = {f"classes_{kind}": Figure(partial(self.plot, kind=kind), f"{title}, {kind}") for kind in KINDS}
        if self.errors is None:
            return figures
        errors = partial(self.errors.plot, title=f"{self.name}, n = {self.n}")
        return figures | {"errors_by_level": Figure(errors, "Errors by level of the human score")}


def corpus_relevance(
    encoder: Encoder,
    pairs: Pairs,
    parsed: ParsedSides,
    *,
    data: str = "pairs",
    bias: str = "separate",
    top: int = TOP,
    progress: Progress | None = None,
) -> CorpusRelevance:
    """Explain every pair by token, one after the other, and add up what the similarities rest on."""
    if not pairs:
        raise DataError(f"{data}: no pair to explain; give a file with at least one")
    sums, words, predicted = ClassSums(), list[WordPair](), np.zeros(len(pairs))
    stream = explain_many(encoder, pairs, granularity="token", progress=progress, bias=bias, reference="none")
    for row, (pair, found) in enumerate(zip(pairs, stream, strict=True)):
        left, right = parsed.left[pair.left], parsed.right[pair.right]
        sums.add(found, unit_classes(found.left, left), unit_classes(found.right, right))
        words += strongest_words(found, pair.id, top)
        predicted[row] = found.similarity
    truth, strongest = scores_of(pairs), strongest_by_quarter(words, predicted, top)
    names = data, encoder.name, encoder.pooling_config.pooling, bias
    result = CorpusRelevance(*names, sums.result(), strongest, predicted, truth)
    if truth is None or len(pairs) < 2:
        return result
    farthest = disagreements(pairs, predicted, truth, top)
    return replace(result, errors=level_errors(predicted, truth), farthest=farthest)


@dataclass(frozen=True)
class PosInput:
    """Pairs and their grammar; for mixed languages also a parallel dataset whose second texts are taken."""

    dataset: Dataset
    grammar: Grammar
    mix: str | None = None
    other_grammar: Grammar | None = None  # of the language of `mix`

    def __post_init__(self) -> None:
        if self.mix is not None and self.dataset.skip_bad:
            raise UsageError("--skip-bad does not go with --mix, whose rows must stay parallel; mend the bad rows")
        if self.mix == self.dataset.name:
            raise UsageError(f"--mix {self.mix} is the file itself; give its translation")
        if self.mix is not None and self.other_grammar is None:
            raise UsageError("--mix needs the spaCy pipeline of its language too; give it with --grammar-other")
        if self.mix is None and self.other_grammar is not None:
            raise UsageError("--grammar-other goes with --mix, which names the file in the other language")

    def read(self) -> tuple[dict[str, Pairs], int]:
        """Pairs by name (the dataset, then the other one and the mixture), and the number of skipped bad rows."""
        name, first = self.dataset.name, self.dataset.pairs()
        if self.mix is None:
            return {name: first}, first.skipped
        second = replace(self.dataset, name=self.mix).pairs()
        return {name: first, self.mix: second, f"{name} x {self.mix}": self._mixed(first, second)}, first.skipped

    def _mixed(self, first: Pairs, second: Pairs) -> Pairs:
        scored = [[pair for pair in pairs if isinstance(pair, ScoredPair)] for pairs in (first, second)]
        for name, found, pairs in zip((self.dataset.name, self.mix), scored, (first, second), strict=True):
            if len(found) < len(pairs):
                raise DataError(f"{name}: mixed pairs are matched by their scores; name the column with --score-column")
        try:
            return list(mixed_pairs(*scored))
        except DataError as error:
            raise DataError(f"{self.dataset.name} and {self.mix}: {error}") from error

    @property
    def languages(self) -> tuple[str, str, str]:
        """Names of the three kinds of pairs: en-en, de-de, en-de."""
        first = self.grammar.language
        second = first if self.other_grammar is None else self.other_grammar.language
        if first == second:
            return "first", "second", "mixed"
        return f"{first}-{first}", f"{second}-{second}", f"{first}-{second}"

    def parsed(self, data: dict[str, Pairs], progress: Progress | None) -> dict[str, ParsedSides]:
        """The grammar of the dataset's pairs and of the mixed ones, whose left texts are the same."""
        first = parsed_sides(data[self.dataset.name], self.grammar, progress=progress)
        if self.mix is None or self.other_grammar is None:
            return {self.dataset.name: first}
        name = list(data)[-1]
        right = parsed_texts(self.other_grammar, (pair.right for pair in data[name]), progress)
        return {self.dataset.name: first, name: ParsedSides(first.left, right)}


@dataclass(frozen=True)
class PosOptions:
    """What is computed of the pairs, and how."""

    bias: str = "separate"  # separate: the biases have a row of their own; shared: each bias is dealt out to the tokens
    top: int = TOP  # word pairs per quarter, and rows of largest disagreement
    row: int | None = None  # a row, from 1 on, that is also drawn as heat maps by word

    def __post_init__(self) -> None:
        if self.bias not in ("separate", "shared"):
            raise UsageError(f"unknown bias {self.bias!r}; choose from separate, shared")
        if self.top < 1:
            raise UsageError(f"--top takes a number from 1 on, got {self.top}")


@dataclass(frozen=True, eq=False, repr=False)
class PosRelevanceStudy(Result):
    """Relevance by part of speech in one or two settings, what changes between them, and one row's heat maps."""

    settings: tuple[CorpusRelevance, ...]
    change: PosChange | None = None
    row: SideBySide | None = None
    skipped: int = 0
    hashes: Mapping[str, str] = field(default_factory=dict)  # of the weights, by model

    run_key = "result"

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Relevance by part of speech: {self.settings[0].data}"

    @property
    def notes(self) -> list[str]:
        """The settings, and skipped rows."""
        skipped = f"; {self.skipped} bad rows skipped" if self.skipped else ""
        return [f"{one.name}, n = {one.n}{skipped}" for one in self.settings]

    def to_dict(self) -> dict[str, Any]:
        """A single setting as itself; two under ``settings`` with their ``change``."""
        each = [one.to_dict() for one in self.settings]
        found = each[0] if self.change is None else {"settings": each, "change": self.change.to_dict()}
        row = {} if self.row is None else {"row": self.row.to_dict()}
        return found | row | {"skipped": self.skipped}

    def tables(self) -> dict[str, Table]:
        """Tables of all settings one below the other, for files; then each setting's own, and what changes."""
        tidy: dict[str, Table] = {}
        shown: dict[str, Table] = {}
        for one, ending in zip(self.settings, self._endings, strict=True):
            for name, table in one.tables().items():
                if not table.summary:
                    before = tidy[name].rows if name in tidy else []
                    rows = [*before, *((one.data, one.model, one.pooling, *row) for row in table.rows)]
                    tidy[name] = Table((*map(Column, SETTING), *table.columns), rows, detail=True)
                if not table.detail:
                    title = f"{one.name}: {table.title}" if ending else table.title
                    shown[f"shown_{name}{ending}"] = replace(table, title=title, summary=True)
        return tidy | shown | {name: table for one in self._others for name, table in one.tables().items()}

    @property
    def _endings(self) -> list[str]:
        return [""] if len(self.settings) == 1 else [f"_{index + 1}" for index in range(len(self.settings))]

    @property
    def _others(self) -> list[Result]:
        return [one for one in (self.change, self.row) if one is not None]

    def figures(self) -> dict[str, Figure]:
        """Each setting's figures, what changes, and the row."""
        named = [*zip(self.settings, self._endings, strict=True), *((one, "") for one in self._others)]
        return {name + ending: figure for one, ending in named for name, figure in one.figures().items()}

    @property
    def main_figure(self) -> Figure:
        """One setting summed and averaged; or both settings summed and the change."""
        return Figure(self.plot)

    def plot(self, ax: Any = None) -> Any:
        """The main figure; returns the first Axes."""
        if ax is not None:
            return self.settings[0].plot(ax)
        draw: list[Callable[[Any], Any]] = [partial(self.settings[0].plot, kind=kind) for kind in KINDS]
        if self.change is not None:
            draw = [*(one.plot for one in self.settings), self.change.plot]
        panels = grid_of_axes(len(draw), (8.0, 7.8), len(draw))
        for panel, drawn in zip(panels, draw, strict=True):
            drawn(panel)
        return panels[0]


def study_pos_relevance(
    given: PosInput,
    models: Sequence[str],
    poolings: Sequence[str | None] = (None,),
    options: PosOptions | None = None,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> PosRelevanceStudy:
    """Relevance by part of speech with one model and pooling, with two of either, or in one language and mixed."""
    options = PosOptions() if options is None else options
    variants = _variants(models, poolings, given.mix is not None)
    data, skipped = given.read()
    name, rows = given.dataset.name, len(data[given.dataset.name])
    if options.row is not None and not 1 <= options.row <= rows:
        raise UsageError(f"--row {options.row}: {name} has the rows 1 to {rows} here; give one of them")
    loaded = {model: load(model) for model in dict.fromkeys(model for model, _ in variants)}
    encoders = [
        loaded[model] if pooling is None else loaded[model].with_pooling(pooling=pooling) for model, pooling in variants
    ]
    hashes = {model: encoder.hash for model, encoder in loaded.items()}
    parsed = given.parsed(data, progress)
    settings = [
        corpus_relevance(encoder, data[name], sides, data=name, bias=options.bias, top=options.top, progress=progress)
        for encoder in encoders
        for name, sides in parsed.items()
    ]
    classes = [one.classes for one in settings]
    change = pos_change(setting_names(*settings), *classes) if len(settings) == 2 else None
    row = None if options.row is None else _row(given, data, encoders, settings, options)
    return PosRelevanceStudy(tuple(settings), change, row, skipped, hashes)


def _variants(models: Sequence[str], poolings: Sequence[str | None], mixed: bool) -> list[tuple[str, str | None]]:
    """The models with their poolings; one of either goes with two of the other."""
    count = max(len(models), len(poolings))
    if count > 2 or min(len(models), len(poolings)) < 1 or (mixed and count > 1):
        raise UsageError("two settings at most are compared: give --model or --pooling twice, or --mix")
    for pooling in poolings:
        if pooling is not None:
            pooling_parts(pooling)  # rejects a wrong name before the work
    return [(models[index % len(models)], poolings[index % len(poolings)]) for index in range(count)]


def setting_names(first: CorpusRelevance, second: CorpusRelevance) -> tuple[str, str]:
    """Two settings by what differs between them; a model's folder only where its own name does not differ."""
    is_short = first.model == second.model or first.short_model != second.short_model
    names = [(one.data, one.short_model if is_short else one.model, one.pooling) for one in (first, second)]
    apart = [index for index in range(3) if names[0][index] != names[1][index]] or [0, 1, 2]
    one, other = (", ".join(name[index] for index in apart) for name in names)
    return one, other


def _row(
    given: PosInput,
    data: dict[str, Pairs],
    encoders: Sequence[Encoder],
    settings: Sequence[CorpusRelevance],
    options: PosOptions,
) -> SideBySide:
    """One row's heat maps by word: three kinds of pairs where languages are mixed, else one for each setting."""
    number = options.row or 1
    if given.mix is not None:
        rows = [pairs[number - 1] for pairs in data.values()]
        texts = {name: (row.left, row.right) for name, row in zip(given.languages, rows, strict=True)}
        return side_by_side(encoders[0], texts, number, bias=options.bias)
    pair = data[given.dataset.name][number - 1]
    names = setting_names(settings[0], settings[-1])[: len(settings)]
    found: dict[str, Explanation] = {}
    for name, encoder in zip(names, encoders, strict=True):
        found |= side_by_side(encoder, {name: (pair.left, pair.right)}, number, bias=options.bias).explanations
    return SideBySide(number, found)
