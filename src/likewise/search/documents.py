"""Documents of an index: items -> rows, one for each passage; and rows -> documents, by their best passages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from likewise.data import Text
from likewise.errors import DataError, UsageError
from likewise.search.filters import Filter
from likewise.search.hits import Hit, Passage

if TYPE_CHECKING:
    from likewise.search.passages import PassageCutter

Item = str | tuple[str, str] | tuple[str, str, Mapping[str, Any]] | Text
"""A plain text, whose id is its number from 1 on; a text with an id, and perhaps with metadata."""
Numbers = NDArray[np.int64]
Vectors = NDArray[np.float32]
AGGREGATES = {"max": 1, "mean-top-3": 3}
"""How many of its best passages give a document its score."""
FIRST_CANDIDATES = 4  # Passages for each wanted document; more if they belong to too few documents


NO_METADATA: Mapping[str, Any] = MappingProxyType({})


def hash_of(text: str) -> int:
    """The 64-bit hash by which ids and texts are compared."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class Document(NamedTuple):
    """A text to index, with its id and metadata."""

    id: str
    text: str
    metadata: Mapping[str, Any] = NO_METADATA

    @property
    def content(self) -> int:
        """The hash of its text and metadata."""
        if not self.metadata:
            return hash_of(self.text)
        return hash_of(json.dumps([self.text, dict(self.metadata)], sort_keys=True))


@dataclass(frozen=True)
class Origin:
    """Where a row comes from: its passage, the blanks around it, and what its document has."""

    content: int  # the hash of the document
    passage: Passage | None = None  # None for a whole text
    blanks: tuple[str, str] = ("", "")  # before the passage, if it begins after the one before; after the last one
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> int:
        """A number that no other row of the document has; the first row's is the document's hash."""
        return (self.content + (0 if self.passage is None else self.passage.number - 1)) % 2**64

    def to_dict(self) -> dict[str, Any]:
        """As stores write it, without the hash."""
        place = self.passage
        found: dict[str, Any] = {} if place is None else {"passage": [place.number, place.of, place.start, place.end]}
        if any(self.blanks):
            found["blanks"] = list(self.blanks)
        return found | ({"metadata": dict(self.metadata)} if self.metadata else {})

    @classmethod
    def of(cls, found: Mapping[str, Any], content: int = 0) -> Origin:
        """What ``to_dict`` made."""
        place, blanks = found.get("passage"), found.get("blanks", ("", ""))
        passage = None if place is None else Passage(*map(int, place))
        return cls(content, passage, (blanks[0], blanks[1]), found.get("metadata", {}))


def keeps_origins(stored: Mapping[str, Any]) -> bool:
    """Whether an index with these stored settings keeps passages or metadata."""
    return bool(stored.get("passages") or stored.get("metadata"))


@dataclass(frozen=True)
class IndexRow:
    """One row of an index before it is encoded: a passage, or a whole text."""

    id: str
    text: str
    origin: Origin


def documents(items: Iterable[Any], first: int = 1, with_metadata: bool = True) -> Iterator[Document]:
    """Items with ids; a plain text has its number as its id, ``first`` for the first item."""
    for number, item in enumerate(items, start=first):
        row = (str(number), item) if isinstance(item, str) else item
        if isinstance(item, Text):
            row = (item.id, item.text, item.meta)
        if not isinstance(row, tuple) or len(row) not in (2, 3) or not all(isinstance(one, Mapping) for one in row[2:]):
            kind = f"{type(item).__name__} {str(item)[:60]!r}"
            raise DataError(f"an item is a text or a tuple (id, text), got {kind}; convert it")
        if not all(isinstance(value, str) for value in row[:2]):
            kind = f"{row[0]!r} and {type(row[1]).__name__}"
            raise DataError(f"an id and a text are strings, got {kind}; convert them with str()")
        yield Document(row[0], row[1], _metadata(*row[2:]) if with_metadata else NO_METADATA)


def _metadata(given: Mapping[Any, Any] = NO_METADATA) -> dict[str, Any]:
    """Metadata as filters compare it: texts, finite numbers, true and false; what is missing is left out."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if plain is None or plain != plain or (isinstance(plain, str) and not plain.strip()):
            continue  # nothing, not a number, or an empty cell
        is_number = isinstance(plain, int | float) and abs(plain) < 2**63
        if not isinstance(name, str) or not (isinstance(plain, str | bool) or is_number):
            flaw = f"{name!r}: {str(value)[:40]!r} ({type(value).__name__})"
            raise DataError(f"a metadata value is a text, a finite number, true or false, got {flaw}; convert it")
        found[name] = plain
    return found


def index_rows(document: Document, cutter: PassageCutter | None) -> list[IndexRow]:
    """The rows of a document: one for each passage, or a single one."""
    text, metadata, content = document.text, document.metadata, document.content
    if cutter is None:
        return [IndexRow(document.id, text, Origin(content, metadata=metadata))]
    spans, rows, done = cutter.spans(text), [], 0
    for number, (start, end) in enumerate(spans, start=1):
        after = text[end:] if number == len(spans) else ""
        origin = Origin(content, Passage(number, len(spans), start, end), (text[done:start], after), metadata)
        rows.append(IndexRow(document.id, text[start:end], origin))
        done = end
    return rows


def joined_text(passages: Iterable[tuple[str, Origin]]) -> str:
    """The text of a document from all its passages in order."""
    found = ""
    for text, origin in passages:
        start = len(found) if origin.passage is None else origin.passage.start
        found += origin.blanks[0]
        found += text[max(0, len(found) - start) :] + origin.blanks[1]
    return found


@dataclass(frozen=True)
class Selection:
    """Which documents a search finds, and which of their passages give them their score.

    >>> Selection.of("year >= 2020", "mean-top-3").passages
    3
    """

    where: Filter | None = None
    aggregate: str = "max"

    def __post_init__(self) -> None:
        if self.aggregate not in AGGREGATES:
            raise UsageError(f"unknown aggregate {self.aggregate!r}; choose from {', '.join(AGGREGATES)}")

    @classmethod
    def of(cls, where: str | Filter | None, aggregate: str) -> Selection:
        """With a filter that may be given as text."""
        return cls(Filter.parse(where) if isinstance(where, str) else where, aggregate)

    @property
    def passages(self) -> int:
        """How many of its best passages give a document its score."""
        return AGGREGATES[self.aggregate]


EVERYTHING = Selection()


class PassageSource(Protocol):
    """A store of passages."""

    def nearest(self, vectors: Vectors, k: int, where: Filter | None = None) -> list[list[Hit]]:
        """The k best rows for each query vector (q, d)."""

    def passage_scores(self, hit: Hit, vector: Vectors) -> Vectors:
        """The scores of all passages of a hit's document for a query vector (d,)."""


def nearest_documents(store: PassageSource, vectors: Vectors, k: int, selection: Selection) -> list[list[Hit]]:
    """The k best documents for each query vector (q, d): a hit is the best passage, with the document's score.

    The best passages are taken until the k best documents are certain: no passage that is left scores higher than the
    last of those taken, so no other document does either.
    """
    found: list[list[Hit]] = [[] for _ in vectors]
    waiting, wanted = list(range(len(vectors))), FIRST_CANDIDATES * k
    known: dict[tuple[int, str], float] = {}
    while waiting:
        uncertain = []
        for query, hits in zip(waiting, store.nearest(vectors[waiting], wanted, selection.where), strict=True):
            best: dict[str, Hit] = {}
            for hit in hits:
                best.setdefault(hit.id, hit)
            if selection.passages > 1:
                for name, hit in best.items():
                    if (query, name) not in known:
                        scores = store.passage_scores(hit, vectors[query])
                        known[query, name] = best_mean(scores, selection.passages)
                    best[name] = replace(hit, score=known[query, name])
            ordered = sorted(best.values(), key=lambda hit: -hit.score)[:k]
            is_certain = len(ordered) == k and (selection.passages == 1 or ordered[-1].score > hits[-1].score)
            if is_certain or len(hits) < wanted:
                found[query] = ordered
            else:
                uncertain.append(query)
        waiting, wanted = uncertain, 4 * wanted
    return found


def best_mean(scores: Vectors, count: int) -> float:
    """The mean of the highest scores (n,), at most ``count`` of them."""
    return float(np.sort(scores)[::-1][:count].astype(np.float64).mean())


@dataclass(frozen=True, eq=False)
class Groups:
    """Which of n rows belong to one document: the first row of each; the rows of a document are neighbours."""

    starts: Numbers
    rows: int

    @classmethod
    def of(cls, ids: Sequence[str] | NDArray[Any]) -> Groups:
        """From the id, or the hash of the id, of each row (n,)."""
        opens = np.ones(len(ids), bool)
        opens[1:] = ids[1:] != ids[:-1] if isinstance(ids, np.ndarray) else [a != b for a, b in pairwise(ids)]
        return cls(np.flatnonzero(opens), len(ids))

    @cached_property
    def group(self) -> Numbers:
        """The document of each row (n,), numbered from 0."""
        return np.repeat(np.arange(len(self.starts)), np.diff([*self.starts, self.rows]))

    def aggregated(self, scores: Vectors, passages: int) -> Vectors:
        """The scores of rows (b, n) -> the scores of documents (b, m)."""
        if len(self.starts) == self.rows:
            return scores
        if passages == 1:
            return np.asarray(np.maximum.reduceat(scores, self.starts, axis=1))
        documents = [slice(rows.start, rows.stop) for rows in map(self.rows_of, range(len(self.starts)))]
        means = [[best_mean(row[rows], passages) for rows in documents] for row in scores]
        return np.array(means, scores.dtype).reshape(len(scores), len(documents))

    def rows_of(self, group: int) -> range:
        """The rows of a document."""
        return range(
            int(self.starts[group]), int(self.starts[group + 1]) if group + 1 < len(self.starts) else self.rows
        )

    def best_row(self, scores: Vectors, group: int) -> int:
        """The row of a document with the highest of all scores (n,)."""
        rows = self.rows_of(group)
        return rows.start + int(np.argmax(scores[rows.start : rows.stop]))
