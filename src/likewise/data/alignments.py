"""Word alignments made by people: pairs of texts as words, and which groups of words correspond."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from likewise.data.columns import GUESSED, Columns, Record, RoleFinder, read_examples
from likewise.data.rows import Location, OnBad, locate, shown, suffix_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIDES = ("left", "right")
CURE = 'write {"left": [words], "right": [words], "links": [{"left": [0], "right": [1], "type": "EQUI"}]}'


@dataclass(frozen=True, slots=True)
class WordLink:
    """A group of words of each text, by their indices; one group may be empty. ``type`` is such as EQUI or NOALI.

    >>> WordLink((0, 1), (2,), "SPE1_FACT", 4.0).kind
    'SPE1'
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    type: str
    score: float | None = None

    @property
    def kind(self) -> str:
        """The type without its additions _FACT and _POL."""
        return self.type.partition("_")[0]


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """Two texts as words, and the links between them.

    >>> one = AlignedPair(("A", "cat"), ("Cats",), (WordLink((1,), (0,), "EQUI"), WordLink((0,), (), "NOALI")), "1")
    >>> one.linked().tolist()
    [[False], [True]]
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    links: tuple[WordLink, ...]
    id: str

    @property
    def texts(self) -> tuple[str, str]:
        """Both texts, their words separated by blanks."""
        return " ".join(self.left), " ".join(self.right)

    @property
    def spans(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """The character span of each word in the texts."""
        return _spans(self.left), _spans(self.right)

    def linked(self, kind: str | None = None) -> NDArray[np.bool_]:
        """Which words correspond, (n, m): every word of a group with every word of the other; of one kind or of all."""
        import numpy as np  # not needed to read files

        cells = np.zeros((len(self.left), len(self.right)), dtype=np.bool_)
        for link in self.links:
            if kind in (None, link.kind):
                cells[np.ix_(link.left, link.right)] = True
        return cells


def _spans(words: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    ends = accumulate((len(word) + 1 for word in words), initial=0)
    return tuple((start, start + len(word)) for start, word in zip(ends, words, strict=False))


def read_alignments(
    source: str | Path, *, columns: Columns = GUESSED, data_dir: Path | None = None, on_bad: OnBad | None = None
) -> Iterator[AlignedPair]:
    """Yield the pairs of a file of JSON lines: ``left`` and ``right``, lists of words, and ``links`` between them.

    >>> next(read_alignments("ists/images_test")).id  # doctest: +SKIP
    '1'
    """
    path, file = locate(source, data_dir), str(source)
    if suffix_of(path) not in (".jsonl", ".ndjson"):
        raise Location(file).error(f"alignments are JSON lines (.jsonl or .jsonl.gz); {CURE}")

    def build(record: Record) -> AlignedPair:
        left, right = (_words(record, side) for side in SIDES)
        given = record.row.values.get("links")
        if not isinstance(given, list):
            raise record.location.at("links").error(f"expected a list of links, got {shown(given)}; {CURE}")
        links = tuple(_link(record, link, {"left": len(left), "right": len(right)}) for link in given)
        return AlignedPair(left, right, links, record.id)

    return read_examples(path, _AlignmentRoles(path, file, (), columns), build, on_bad)


class _AlignmentRoles(RoleFinder):
    """Only the id may have another name."""

    def _assigned(self, present: Any, location: Location) -> dict[str, str]:
        name = self.columns.id or "id"
        if self.columns.id is not None and name not in present:
            raise location.error(f"no column {shown(name)}; its columns are {', '.join(map(shown, present))}")
        return {"id": name} if name in present else {}


def _words(record: Record, side: str) -> tuple[str, ...]:
    words = record.row.values.get(side)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise record.location.at(side).error(f"expected a list of words, got {shown(words)}; {CURE}")
    return tuple(words)


def _link(record: Record, link: Any, lengths: dict[str, int]) -> WordLink:
    location = record.location.at("links")
    if not isinstance(link, dict) or not isinstance(link.get("type"), str):
        raise location.error(f"expected a link with left, right and type, got {shown(link)}; {CURE}")
    for side, length in lengths.items():
        indices = link.get(side)
        if not isinstance(indices, list) or not all(type(index) is int for index in indices):
            raise location.error(f"expected word indices, got {shown(indices)}; {CURE}")
        for index in indices:
            if not 0 <= index < length:
                raise location.error(f"no word {index} in the {side} text, which has words 0 to {length - 1}")
    score = link.get("score")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise location.error(f"expected a number or null as score, got {shown(score)}")
    return WordLink(tuple(link["left"]), tuple(link["right"]), link["type"], None if score is None else float(score))
