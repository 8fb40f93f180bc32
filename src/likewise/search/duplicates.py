"""Duplicates: rows of a corpus with the same or nearly the same text, in groups, with what sets them apart.

Identical texts are encoded once. A text that occurs k times has k - 1 pairs, each copy with its first row, and every
other pair is between first rows: so a corpus of one repeated text has a linear number of pairs and not a square one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from likewise.data import Dataset, SkippedRows, Text, read_texts
from likewise.data.writing import check_copy, copy_rows
from likewise.encoder import Encoder, as_encoder
from likewise.encoder.cross_encoder import pooling_of
from likewise.encoder.encoder import Source
from likewise.errors import DataError, LikewiseError, UsageError
from likewise.explain.text_differences import differences_of
from likewise.grammar import Grammar
from likewise.grammar.contrasts import LIGHT_RULES, MEANING_RULES, lightly_parsed, meaning_flags
from likewise.grammar.words import ParsedText
from likewise.progress import Progress, Ticker, tracked
from likewise.search.cached_vectors import cached_vectors
from likewise.search.calibrated import CalibratedThreshold
from likewise.search.documents import hash_of
from likewise.search.duplicate_report import (
    KEEP,
    READ_CHARACTERS,
    CorpusRows,
    DuplicateMetadata,
    DuplicatePair,
    Duplicates,
    PairDifferences,
    numbered,
)
from likewise.search.indexed_files import fingerprint
from likewise.search.ranker import Rows
from likewise.search.similar_pairs import Pairs, PairSearch, components, sampled_scores, similar_pairs
from likewise.storage import content_key

MOST_EXPLAINED = 1000  # Pairs whose differences are computed at once


@dataclass(frozen=True)
class DuplicateSettings:
    """How duplicates are searched, apart from the threshold."""

    engine: str = "exact"  # exact, hnsw or ivf
    max_pairs: int = 100_000
    explain: int = MOST_EXPLAINED  # so many pairs have their differences
    explain_from: int = 1  # the first of them, by score, from 1 on
    strict: bool = False  # flagged pairs make no group
    language: str = "en"  # of numbers and negations without a grammar
    prompt: str | None = None  # put before each text; None is the model's own

    def __post_init__(self) -> None:
        if not 0 <= self.explain <= MOST_EXPLAINED:
            raise UsageError(
                f"--explain is a number of pairs from 0 to {MOST_EXPLAINED}, got {self.explain};"
                " explain later pairs with --explain-from"
            )
        if self.explain_from < 1:
            raise UsageError(f"--explain-from is a pair's number from 1 on, got {self.explain_from}")
        if self.language not in LIGHT_RULES:
            raise UsageError(f"unknown language {self.language!r}; choose from {', '.join(LIGHT_RULES)}")

    @property
    def explained(self) -> slice:
        """The pairs that are explained."""
        return slice(self.explain_from - 1, self.explain_from - 1 + self.explain)


USUAL = DuplicateSettings()


def find_duplicates(
    encoder: Encoder | Source,
    source: Dataset | Sequence[str],
    threshold: float | CalibratedThreshold,
    settings: DuplicateSettings = USUAL,
    grammar: Grammar | None = None,
    progress: Progress | None = None,
) -> Duplicates:
    """The pairs of texts from a cosine on, and their groups; the same call again continues an interrupted one.

    A ``grammar`` finds swapped roles; without one, numbers, negations and names are found by word lists.

    >>> texts = ["Two boats left the harbour.", "The bank cut rates.", "Five boats left the harbour."]
    >>> found = find_duplicates("minilm", texts, 0.8, DuplicateSettings(explain=0))
    >>> found.groups, found.pairs[0].flags
    ((('1', '3'),), {'number': '2 against 5'})
    """
    least, basis = (threshold, "given") if isinstance(threshold, float | int) else (threshold.score, threshold.basis)
    search = PairSearch(least, settings.engine, settings.max_pairs)
    encoder, corpus = as_encoder(encoder), _Corpus(source)
    if settings.explain:
        _check_explainable(encoder)
    rows = corpus.read(progress)
    cached = cached_vectors(encoder, corpus.key, rows.items, len(rows.first), settings.prompt, progress)
    found, recall = similar_pairs(cached.vectors, search, cached.folder, progress)
    rules = LIGHT_RULES[settings.language] if grammar is None else tuple(MEANING_RULES)
    listed = _flagged(rows.listed(found), _parser(grammar, settings.language), rules, progress)
    groups = rows.groups(found, [not pair.flags or not settings.strict for pair in listed[: len(found)]])
    listed = sorted(listed, key=lambda pair: -pair.score)
    about = DuplicateMetadata(
        corpus.name, encoder.name, pooling_of(encoder), least, basis, settings.engine, recall, rules,
        tuple(rule for rule in MEANING_RULES if rule not in rules), cached.truncated, rows.skipped,
        len({text for pair in listed for text in (pair.left_text, pair.right_text) if len(text) > READ_CHARACTERS}),
        settings.strict,
    )  # fmt: skip
    done = Duplicates(
        about, CorpusRows(groups, rows.lengths[rows.number]), len(rows.first), tuple(listed),
        numbered(groups, rows.ids_of(groups)), sampled_scores(cached.vectors),
    )  # fmt: skip
    done = done if isinstance(threshold, float | int) else done.with_meanings(threshold.calibration)
    return explained(encoder, done, settings.explained, progress)


def explained(encoder: Encoder | Source, found: Duplicates, chosen: slice, progress: Progress | None) -> Duplicates:
    """The same with the differences of some of the pairs whose texts are not identical."""
    wanted = [number for number, pair in enumerate(found.pairs) if not pair.is_identical][chosen]
    texts = [found.pairs[number].read_texts for number in wanted]
    pairs = list(found.pairs)
    for number, one in zip(wanted, differences_of(as_encoder(encoder), texts, progress), strict=True):
        pairs[number] = replace(pairs[number], differences=PairDifferences.of(one))
    return replace(found, pairs=tuple(pairs))


def _check_explainable(encoder: Encoder) -> None:
    """Rejects a model whose differences cannot be computed, before any work."""
    try:
        differences_of(encoder, [("One text.", "Another text.")])
    except LikewiseError as error:
        raise UsageError(f"{error}; --explain 0 leaves out the spans in which texts differ") from error


@dataclass(frozen=True)
class _Corpus:
    """A file or a list of texts, which is read several times and never held as a whole."""

    source: Dataset | Sequence[str]

    @property
    def name(self) -> str:
        return self.source.name if isinstance(self.source, Dataset) else f"{len(self.source)} texts"

    @property
    def key(self) -> str:
        """What the texts are stored under."""
        return fingerprint(self.source) if isinstance(self.source, Dataset) else content_key(list(self.source))

    def stream(self, skipped: SkippedRows | None = None) -> Iterator[Text]:
        """The rows with their ids; those of a list are numbered from 1."""
        if isinstance(self.source, Dataset):
            return self.source.stream(read_texts, skipped)
        return (Text(text, str(number)) for number, text in enumerate(self.source, start=1))

    def read(self, progress: Progress | None) -> _DistinctRows:
        """Number the distinct texts; an id that names two texts raises DataError."""
        skipped, text_of, number_of = SkippedRows(), dict[int, int](), dict[int, int]()
        number, first, lengths = list[int](), list[int](), list[int]()
        for row, one in enumerate(tracked(self.stream(skipped), progress, note="rows checked")):
            text = hash_of(one.text)
            if text_of.setdefault(hash_of(one.id), text) != text:
                cure = "give each text an id of its own, or name another --id-column"
                raise DataError(f"{self.name}: the id {one.id!r} names two texts; {cure}")
            number.append(number_of.setdefault(text, len(first)))
            if number[-1] == len(first):
                first.append(row)
                lengths.append(len(one.text))
        if not first:
            raise DataError("no text to compare; give at least one")
        numbers, firsts, sizes = (np.array(values, np.int64) for values in (number, first, lengths))
        return _DistinctRows(self, numbers, firsts, sizes, skipped.count)


@dataclass(frozen=True, eq=False)
class _DistinctRows:
    """The n rows of a corpus with m distinct texts."""

    corpus: _Corpus
    number: Rows  # the distinct text of each row (n,)
    first: Rows  # the first row of each distinct text (m,)
    lengths: Rows  # the characters of each distinct text (m,)
    skipped: int = 0

    def items(self) -> Iterator[tuple[str, str]]:
        """The first row of each distinct text, as (id, text)."""
        wanted = iter([*self.first.tolist(), -1])
        following = next(wanted)
        for row, one in enumerate(self.corpus.stream()):
            if row == following:
                yield one.id, one.text
                following = next(wanted)

    def groups(self, pairs: Pairs, joins: Sequence[bool]) -> Rows:
        """The group of each row (n,): texts that pairs join, and identical ones."""
        chosen = np.array(joins, bool)
        return components(len(self.first), pairs.left[chosen], pairs.right[chosen])[self.number]

    def ids_of(self, groups: Rows) -> dict[int, str]:
        """The ids of the rows that share their group with another."""
        shared = np.bincount(groups)[groups] > 1
        return {row: one.id for row, one in enumerate(self.corpus.stream()) if shared[row]}

    def listed(self, pairs: Pairs) -> list[DuplicatePair]:
        """The found pairs with their ids and texts, then each further copy of a text with its first row."""
        left, right = self.first[pairs.left].tolist(), self.first[pairs.right].tolist()
        copies = np.setdiff1d(np.arange(len(self.number)), self.first)
        wanted = {*left, *right, *copies.tolist(), *self.first[self.number[copies]].tolist()}
        text_of: dict[int, str] = {}  # one string for all copies of a text
        rows: dict[int, tuple[str, str]] = {}
        for row, one in enumerate(self.corpus.stream()):
            if row in wanted:
                rows[row] = one.id, text_of.setdefault(int(self.number[row]), one.text)
        ends = zip(
            self.first[pairs.left].tolist(), self.first[pairs.right].tolist(), pairs.scores.tolist(), strict=True
        )
        same = ((int(self.first[self.number[row]]), int(row), 1.0) for row in copies)
        return [DuplicatePair.of(rows[left], rows[right], score) for left, right, score in (*ends, *same)]


Parse = Callable[[Iterable[str]], Mapping[str, ParsedText]]


def _parser(grammar: Grammar | None, language: str) -> Parse:
    """A function that parses distinct texts."""

    def parse(texts: Iterable[str]) -> dict[str, ParsedText]:
        unique = list(dict.fromkeys(texts))
        if grammar is not None:
            return dict(zip(unique, grammar.parse(unique), strict=True))
        return {text: lightly_parsed(text, language) for text in unique}

    return parse


FLAGGED_AT_ONCE = 1000  # Pairs whose parsed texts are in memory


def _flagged(
    pairs: Sequence[DuplicatePair], parse: Parse, rules: Sequence[str], progress: Progress | None
) -> list[DuplicatePair]:
    """The same pairs with the rules that find another meaning."""
    found, ticker = list[DuplicatePair](), Ticker(progress, len(pairs), "pairs checked")
    for start in range(0, len(pairs), FLAGGED_AT_ONCE):
        some = pairs[start : start + FLAGGED_AT_ONCE]
        parsed = parse(text for pair in some for text in pair.read_texts)
        for pair in some:
            left, right = pair.read_texts
            flags = meaning_flags(parsed[left], parsed[right], rules)
            found.append(replace(pair, flags=flags))
        ticker.add(len(some))
    ticker.close()
    return found


def check_keep(source: Dataset, keep: str | None, target: Path | None) -> None:
    """Rejects a corpus that could not be written, before any work."""
    if (keep is None) != (target is None):
        raise UsageError("--keep and --write go together; give both or leave both out")
    if keep is not None and keep not in KEEP:
        raise UsageError(f"unknown choice {keep!r} of --keep; choose from {', '.join(KEEP)}")
    if target is not None:
        check_copy(source, target)


def write_without_duplicates(source: Dataset, found: Duplicates, keep: str, target: Path) -> int:
    """Write a corpus with one row of each group, in its own format; returns the number of rows."""
    stays = found.rows.chosen(keep)
    copy_rows(source, stays.tolist(), target)
    return int(stays.sum())
