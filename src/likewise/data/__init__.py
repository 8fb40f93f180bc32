"""Data: from a path or a data set's name to an iterator of typed examples."""

from likewise.data.columns import GUESSED, Columns
from likewise.data.examples import LabelledPair, LabelledText, Pair, ScoredPair, Text
from likewise.data.locations import locate
from likewise.data.mixtures import mixed_pairs
from likewise.data.readers import (
    read_labelled_pairs,
    read_labelled_texts,
    read_pairs,
    read_scored_pairs,
    read_texts,
)
from likewise.data.skipped import SkippedRows

__all__ = [
    "GUESSED",
    "Columns",
    "LabelledPair",
    "LabelledText",
    "Pair",
    "ScoredPair",
    "SkippedRows",
    "Text",
    "locate",
    "mixed_pairs",
    "read_labelled_pairs",
    "read_labelled_texts",
    "read_pairs",
    "read_scored_pairs",
    "read_texts",
]
