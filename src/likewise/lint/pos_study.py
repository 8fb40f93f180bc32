"""Patterns of a file of pairs: one setting, or two that are compared; one language, or a mixed pair of languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from likewise.data import Pair, ScoredPair, mixed_pairs
from likewise.data.pair_files import PairFile
from likewise.encoder import Encoder
from likewise.encoder.pooling import pooling_parts
from likewise.errors import DataError, UsageError
from likewise.explain.explanation import Explanation
from likewise.explain.side_by_side import SideBySide, row_of_axes, side_by_side
from likewise.grammar import Grammar
from likewise.lint.interactions import PosChange, pos_change
from likewise.lint.parsed_pairs import ParsedSides, parsed_sides
from likewise.lint.patterns import TOP, Patterns, patterns
from likewise.lint.pos_relevance import KINDS
from likewise.progress import Progress

Pairs = Sequence[Pair | ScoredPair]


@dataclass(frozen=True)
class PatternSource:
    """A file of pairs and, for the mixed-language case, one of parallel rows whose second texts are taken."""

    file: PairFile
    grammar: Grammar
    mix: str | None = None
    other_grammar: Grammar | None = None
    """of the language of ``mix``"""

    def __post_init__(self) -> None:
        if self.mix is not None and self.file.skip_bad:
            raise UsageError("--skip-bad does not go with --mix, whose rows must stay parallel; mend the bad rows")
        if self.mix == self.file.file:
            raise UsageError(f"--mix {self.mix} is the file itself; give its translation")
        if self.mix is not None and self.other_grammar is None:
            raise UsageError("--mix needs the spaCy pipeline of its language too; give it with --grammar-other")
        if self.mix is None and self.other_grammar is not None:
            raise UsageError("--grammar-other goes with --mix, which names the file in the other language")

    def read(self) -> tuple[dict[str, Pairs], int]:
        """Pairs by name (the file, then the other one and the mixture), and how many bad rows were skipped."""
        first, skipped = self.file.read()
        if self.mix is None:
            return {self.file.file: first}, skipped
        second, _ = replace(self.file, file=self.mix).read()
        mixed = self._mixed(first, second)
        return {self.file.file: first, self.mix: second, f"{self.file.file} x {self.mix}": mixed}, skipped

    def _mixed(self, first: Pairs, second: Pairs) -> Pairs:
        scored = [[pair for pair in pairs if isinstance(pair, ScoredPair)] for pairs in (first, second)]
        for name, found, pairs in zip((self.file.file, self.mix), scored, (first, second), strict=True):
            if len(found) < len(pairs):
                raise DataError(f"{name}: mixed pairs are matched by their scores; name the column with --score-column")
        try:
            return list(mixed_pairs(*scored))
        except DataError as error:
            raise DataError(f"{self.file.file} and {self.mix}: {error}") from error

    @property
    def languages(self) -> tuple[str, str, str]:
        """How the three kinds of pairs are called: en-en, de-de, en-de."""
        first = self.grammar.language
        second = first if self.other_grammar is None else self.other_grammar.language
        same = first == second
        return ("first", "second", "mixed") if same else (f"{first}-{first}", f"{second}-{second}", f"{first}-{second}")


@dataclass(frozen=True)
class PatternOptions:
    """What is computed of the pairs, and how."""

    bias: str = "separate"
    """separate: the biases stand beside the classes; shared: each bias is dealt out to the tokens"""
    top: int = TOP
    """word pairs per quarter, and rows of largest disagreement"""
    row: int | None = None
    """a row, from 1 on, that is also drawn as heat maps by word"""

    def __post_init__(self) -> None:
        if self.bias not in ("separate", "shared"):
            raise UsageError(f"unknown bias {self.bias!r}; choose from separate, shared")
        if self.top < 1:
            raise UsageError(f"--top takes a number from 1 on, got {self.top}")


@dataclass(frozen=True, eq=False)
class PatternStudy:
    """The patterns of one or two settings, what changes from the first to the second, and one row's heat maps."""

    settings: tuple[Patterns, ...]
    change: PosChange | None = None
    row: SideBySide | None = None
    skipped: int = 0

    def to_dict(self) -> dict[str, Any]:
        """A single setting as itself; two under ``settings`` with their ``change``."""
        each = [one.to_dict() for one in self.settings]
        metadata = each[0] if self.change is None else {"settings": each, "change": self.change.to_dict()}
        row = {} if self.row is None else {"row": self.row.to_dict()}
        return metadata | row | {"skipped": self.skipped}

    def plot(self, ax: Any = None) -> Any:
        """One setting summed and averaged; or both settings summed and the change. Returns the first Axes."""
        if ax is not None:
            return self.settings[0].plot(ax)
        sides = row_of_axes(2 if self.change is None else 3, (8.0, 7.8))
        if self.change is None:
            for panel, kind in zip(sides, KINDS, strict=True):
                self.settings[0].plot(panel, kind)
            return sides[0]
        for panel, one in zip(sides, self.settings, strict=False):
            one.plot(panel)
        self.change.plot(sides[2])
        return sides[0]

    def _repr_html_(self) -> str:
        parts = [*self.settings, self.change, self.row]
        return "".join(one._repr_html_() for one in parts if one is not None)


def study_patterns(
    source: PatternSource,
    models: Sequence[str],
    poolings: Sequence[str | None] = (None,),
    options: PatternOptions | None = None,
    load: Callable[[str], Encoder] = Encoder.load,
    progress: Progress | None = None,
) -> PatternStudy:
    """The patterns of a file with one model and pooling, with two of either, or in one language and mixed."""
    options = PatternOptions() if options is None else options
    variants = _readings(models, poolings, source.mix is not None)
    data, skipped = source.read()
    _check_row(options.row, data[source.file.file], source.file.file)
    encoders = _encoders(variants, load)
    parsed = _parsed(source, data, progress)
    settings = [
        patterns(encoder, data[name], sides, data=name, bias=options.bias, top=options.top, progress=progress)
        for encoder in encoders
        for name, sides in parsed.items()
    ]
    change = None
    if len(settings) == 2:
        change = pos_change(setting_names(*settings), settings[0].classes, settings[1].classes)
    row = None if options.row is None else _row(source, data, encoders, settings, options)
    return PatternStudy(tuple(settings), change, row, skipped)


def _readings(models: Sequence[str], poolings: Sequence[str | None], mixed: bool) -> list[tuple[str, str | None]]:
    """The models with their poolings; one of either goes with two of the other."""
    count = max(len(models), len(poolings))
    if count > 2 or min(len(models), len(poolings)) < 1 or (mixed and count > 1):
        raise UsageError("two settings at most are compared: give --model or --pooling twice, or --mix")
    for pooling in poolings:
        if pooling is not None:
            pooling_parts(pooling)  # a wrong name is told before the work
    return [(models[index % len(models)], poolings[index % len(poolings)]) for index in range(count)]


def _parsed(source: PatternSource, data: dict[str, Pairs], progress: Progress | None) -> dict[str, ParsedSides]:
    """The grammar of the file's pairs and of the mixed ones, whose left texts are the same."""
    first = parsed_sides(data[source.file.file], source.grammar, progress=progress)
    if source.mix is None or source.other_grammar is None:
        return {source.file.file: first}
    name = list(data)[-1]
    texts = list(dict.fromkeys(pair.right for pair in data[name]))
    right = dict(zip(texts, source.other_grammar.parse(texts, progress=progress), strict=True))
    return {source.file.file: first, name: ParsedSides(first.left, right)}


def _encoders(variants: Sequence[tuple[str, str | None]], load: Callable[[str], Encoder]) -> list[Encoder]:
    loaded = {model: load(model) for model in dict.fromkeys(model for model, _ in variants)}
    return [
        loaded[model] if pooling is None else loaded[model].with_pooling(pooling=pooling) for model, pooling in variants
    ]


def setting_names(first: Patterns, second: Patterns) -> tuple[str, str]:
    """Two settings by what tells them apart; a model's folder only where its own name does not."""
    is_short = first.model == second.model or first.short_model != second.short_model
    metadata = [(one.data, one.short_model if is_short else one.model, one.pooling) for one in (first, second)]
    apart = [index for index in range(3) if metadata[0][index] != metadata[1][index]] or [0, 1, 2]
    one, other = (", ".join(fact[index] for index in apart) for fact in metadata)
    return one, other


def _check_row(row: int | None, pairs: Pairs, file: str) -> None:
    if row is not None and not 1 <= row <= len(pairs):
        raise UsageError(f"--row {row}: {file} has the rows 1 to {len(pairs)} here; give one of them")


def _row(
    source: PatternSource,
    data: dict[str, Pairs],
    encoders: Sequence[Encoder],
    settings: Sequence[Patterns],
    options: PatternOptions,
) -> SideBySide:
    """One row's heat maps by word: three kinds of pairs where languages are mixed, else one for each setting."""
    number = options.row or 1
    if source.mix is not None:
        rows = [pairs[number - 1] for pairs in data.values()]
        texts = {name: (row.left, row.right) for name, row in zip(source.languages, rows, strict=True)}
        return side_by_side(encoders[0], texts, number, bias=options.bias)
    pair = data[source.file.file][number - 1]
    names = setting_names(settings[0], settings[-1])[: len(settings)]
    found: dict[str, Explanation] = {}
    for name, encoder in zip(names, encoders, strict=True):
        found |= side_by_side(encoder, {name: (pair.left, pair.right)}, number, bias=options.bias).explanations
    return SideBySide(number, found)
