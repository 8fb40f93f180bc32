"""Datasets: a path, or a name such as ``stsb/test`` -> typed examples, for every command and analysis.

Readers stream in constant memory. A wrong file raises when the reader is called, not at the first ``next``. A bad row
raises too, unless ``on_bad`` receives its error; then reading continues with the next row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypedDict, Unpack

from likewise.data.columns import GUESSED, MEANINGS, Columns, Item, Record, RoleFinder, assigned, guess, read_examples
from likewise.data.folders import folder_rows
from likewise.data.rows import Cursor, Location, OnBad, SkippedRows, find_source, rows, suffix_of
from likewise.errors import DataError, UsageError

log = logging.getLogger("likewise")


@dataclass(frozen=True, slots=True)
class Text:
    """One text.

    >>> Text("A plane is taking off.", id="1").text
    'A plane is taking off.'
    """

    text: str
    id: str
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # the remaining columns, typed


@dataclass(frozen=True, slots=True)
class LabelledText:
    """One text with its class; the label is exactly as in the file.

    >>> LabelledText("Great book.", label="5", id="1").label
    '5'
    """

    text: str
    label: str
    id: str
    meta: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that belong together, such as a sentence and its compression.

    >>> Pair("A boy was seen at noon.", "A boy was seen.", id="1").right
    'A boy was seen.'
    """

    left: str
    right: str
    id: str
    meta: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how similar people find them, on the data set's own scale.

    >>> ScoredPair("A plane.", "An air plane.", score=5.0, id="1").score
    5.0
    """

    left: str
    right: str
    score: float
    id: str
    meta: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts and the class of their relation, such as entailment.

    >>> LabelledPair("A man sleeps.", "A man is awake.", label="contradiction", id="1").label
    'contradiction'
    """

    left: str
    right: str
    label: str
    id: str
    meta: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)


class ReadOptions(TypedDict, total=False):
    """How a reader reads a file."""

    columns: Columns
    data_dir: Path | None
    on_bad: OnBad | None
    cursor: Cursor | None  # where to begin; it moves to the end of each row that is read


def read_texts(source: str | Path, **options: Unpack[ReadOptions]) -> Iterator[Text]:
    """Yield the texts of a file or a data set, or the documents of a folder of .txt, .md and .html files.

    >>> len(next(read_texts("sample/sentences")).text) > 0
    True
    """
    return _read(source, Text, {"text": Record.text}, **options)


def read_labelled_texts(source: str | Path, **options: Unpack[ReadOptions]) -> Iterator[LabelledText]:
    """Yield texts with their classes.

    >>> next(read_labelled_texts("amazon/kindle_15k")).label  # doctest: +SKIP
    '4'
    """
    return _read(source, LabelledText, {"text": Record.text, "label": Record.label}, **options)


def read_pairs(source: str | Path, **options: Unpack[ReadOptions]) -> Iterator[Pair]:
    """Yield pairs of texts; a score or a label stays in ``meta``.

    >>> pair = next(read_pairs("sample/pairs"))
    >>> pair.left != pair.right
    True
    """
    return _read(source, Pair, {"left": Record.text, "right": Record.text}, **options)


def read_scored_pairs(source: str | Path, **options: Unpack[ReadOptions]) -> Iterator[ScoredPair]:
    """Yield pairs of texts with their similarity scores.

    >>> next(read_scored_pairs("stsb/test")).score  # doctest: +SKIP
    2.5
    """
    return _read(source, ScoredPair, {"left": Record.text, "right": Record.text, "score": Record.number}, **options)


def read_labelled_pairs(source: str | Path, **options: Unpack[ReadOptions]) -> Iterator[LabelledPair]:
    """Yield pairs of texts with the class of their relation.

    >>> next(read_labelled_pairs("snli/dev")).label  # doctest: +SKIP
    'neutral'
    """
    return _read(source, LabelledPair, {"left": Record.text, "right": Record.text, "label": Record.label}, **options)


def _read(
    source: str | Path,
    kind: Callable[..., Item],
    values: Mapping[str, Callable[[Record, str], Any]],
    *,
    columns: Columns = GUESSED,
    data_dir: Path | None = None,
    on_bad: OnBad | None = None,
    cursor: Cursor | None = None,
) -> Iterator[Item]:
    """Examples of a kind: the value of each role, then the id and the other columns."""
    path, file, wanted = find_source(source, data_dir), str(source), tuple(values)
    is_folder = path.is_dir() and kind is Text
    if not is_folder and suffix_of(path) == ".txt" and wanted != ("text",):
        what = " and ".join(MEANINGS[role] for role in wanted if role != "text")
        raise Location(file).error(f"plain text has no columns for {what}; use .csv, .tsv or .jsonl")

    def build(record: Record) -> Item:
        meta = record.typed_meta if kind is Text else record.meta
        return kind(*[value(record, role) for role, value in values.items()], record.id, meta)

    finder = RoleFinder(path, file, wanted, columns)
    return read_examples(path, finder, build, on_bad, folder_rows if is_folder else partial(rows, cursor=cursor))


def pair_columns(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None
) -> tuple[str, str] | None:
    """The columns of a pair's two texts, by the first row of a file or a data set; None if it has no pairs.

    >>> pair_columns("sample/pairs"), pair_columns("sample/sentences")
    (('sentence1', 'sentence2'), None)
    """
    first = next(rows(find_source(source, data_dir), str(source), SkippedRows()), None)
    try:
        names = () if first is None else tuple(first.values)
        found = assigned(names, ("left", "right"), columns, Location(str(source)))
    except DataError:
        return None
    return found["left"], found["right"]


def holds_pairs(source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None) -> bool:
    """Whether the first row of a file or a data set has the two texts of a pair.

    >>> holds_pairs("sample/pairs"), holds_pairs("sample/sentences")
    (True, False)
    """
    return pair_columns(source, columns=columns, data_dir=data_dir) is not None


class Rows(list[Item]):
    """The rows of a dataset; ``skipped`` counts the bad ones that were left out.

    >>> Rows(["a", "b"]).skipped
    0
    """

    skipped: int = 0


@dataclass(frozen=True)
class Dataset:
    """A file, or a name such as stsb/test, and how it is read.

    >>> pairs = Dataset("sample/pairs", limit=3).pairs()
    >>> len(pairs), pairs.skipped, pairs[0].score > 0
    (3, 0, True)
    """

    name: str
    columns: Columns = GUESSED
    data_dir: Path | None = None
    skip_bad: bool = False
    limit: int | None = None  # only the first rows

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit takes a number of rows from 1 on, got {self.limit}")

    def stream(
        self, read: Callable[..., Iterator[Item]], on_bad: OnBad | None = None, cursor: Cursor | None = None
    ) -> Iterator[Item]:
        """The rows that a reader such as ``read_texts`` finds, one by one, from a cursor on, which moves with them.

        A bad row raises, or goes to ``on_bad`` where bad rows are skipped.
        """
        how: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        how["on_bad"] = (on_bad or SkippedRows()) if self.skip_bad else None
        return islice(read(self.name, columns=self.columns, data_dir=self.data_dir, **how), self.limit)

    def rows(self, read: Callable[..., Iterator[Item]]) -> Rows[Item]:
        """The same as a list, with the number of bad rows that were skipped."""
        skipped = SkippedRows()
        found = Rows(self.stream(read, skipped))
        found.skipped = skipped.count
        return found

    def texts(self) -> Rows[Text]:
        """Texts with their ids."""
        return self.rows(read_texts)

    def scored_pairs(self) -> Rows[ScoredPair]:
        """Pairs with human scores."""
        return self.rows(read_scored_pairs)

    def pairs(self) -> Rows[Pair | ScoredPair]:
        """Pairs, with scores where the file has them; a file without any pair is an error, skipped rows are logged."""
        found = self.rows(self._any_pairs)
        if found.skipped:
            log.warning("%s: skipped %d bad row%s", self.name, found.skipped, "" if found.skipped == 1 else "s")
        if not found:
            raise DataError(f"{self.name}: no pairs; give a file with at least one")
        return found

    def sentences(self, on_bad: OnBad | None = None) -> Iterator[str]:
        """Every text: a file of pairs gives both texts of each pair."""
        if self.columns.text is None and holds_pairs(self.name, columns=self.columns, data_dir=self.data_dir):
            for pair in self.stream(read_pairs, on_bad):
                yield from (pair.left, pair.right)
        else:
            yield from (row.text for row in self.stream(read_texts, on_bad))

    def _any_pairs(self, name: str, *, on_bad: OnBad | None, **how: Any) -> Iterator[Pair | ScoredPair]:
        try:
            # Read twice up to the first pair: rows without a score are not bad if the file has no scores at all.
            read_scored_pairs(name, on_bad=None if on_bad is None else SkippedRows(), **how)
        except DataError:
            pairs = read_pairs(name, on_bad=on_bad, **how)
            first = next(pairs)
            # A missing column of scores is fine, an unreadable one is a mistake.
            if self.columns.score is not None or guess("score", list(first.meta)) is not None:
                raise
            return chain([first], pairs)
        return read_scored_pairs(name, on_bad=on_bad, **how)


@dataclass(frozen=True)
class Datasets:
    """Several datasets read as one stream of texts.

    >>> len(list(Datasets((Dataset("sample/pairs"),)).sentences()))
    120
    """

    datasets: Sequence[Dataset]

    def __post_init__(self) -> None:
        if not self.datasets:
            raise UsageError("give a file of texts or pairs, or a name such as snli/dev")

    @property
    def name(self) -> str:
        """The names of all datasets."""
        return ", ".join(one.name for one in self.datasets)

    def sentences(self, on_bad: OnBad | None = None) -> Iterator[str]:
        """Every text of every dataset."""
        return chain.from_iterable(one.sentences(on_bad) for one in self.datasets)


def mixed_pairs(first: Iterable[ScoredPair], second: Iterable[ScoredPair]) -> Iterator[ScoredPair]:
    """Pairs across two parallel datasets: left texts of the first, right texts of the second.

    >>> english = [ScoredPair("A plane.", "A jet.", 4.0, "1")]
    >>> german = [ScoredPair("Ein Flugzeug.", "Ein Jet.", 4.0, "1")]
    >>> next(mixed_pairs(english, german)).right
    'Ein Jet.'
    """
    for row, (one, other) in enumerate(zip_longest(first, second), start=1):
        if one is None or other is None:
            flaw = f"row {row}: the {'first' if one is None else 'second'} data set has ended"
            raise DataError(f"{flaw}; give two data sets that are parallel row by row")
        if abs(one.score - other.score) > 1e-6:
            flaw = f"row {row}: the scores {one.score:g} and {other.score:g} differ, so the rows are not parallel"
            raise DataError(f"{flaw}; give two translations of the same pairs in the same order")
        yield replace(one, right=other.right)
