"""Shapes: what a file of texts or pairs holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from likewise.data import holds_pairs, read_pairs, read_scored_pairs, read_texts
from likewise.errors import DataError


@dataclass(frozen=True)
class Shape:
    """How many rows a file has, whether they are pairs, and whether these have scores."""

    rows: int
    pairs: bool
    scored: bool
    longest: int
    """letters of its longest text"""


def shape_of(source: str | Path, data_dir: Path | None = None) -> Shape:
    """The shape of a file or a named data set; all of it is read, so that a bad row is found now.

    >>> shape_of("sample/pairs")
    Shape(rows=60, pairs=True, scored=True, longest=64)
    """
    pairs = holds_pairs(source, data_dir=data_dir)
    if pairs:
        sizes = [max(len(one.left), len(one.right)) for one in read_pairs(source, data_dir=data_dir)]
    else:
        sizes = [len(one.text) for one in read_texts(source, data_dir=data_dir)]
    return Shape(len(sizes), pairs, pairs and _is_scored(source, data_dir), max(sizes, default=0))


def _is_scored(source: str | Path, data_dir: Path | None) -> bool:
    try:
        return sum(1 for _ in read_scored_pairs(source, data_dir=data_dir)) > 0
    except DataError:
        return False
