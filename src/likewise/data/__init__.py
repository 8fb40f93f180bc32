"""Data: a path or a data set's name -> typed examples."""

from likewise.data.bad_rows import SkippedRows
from likewise.data.catalogue import locate
from likewise.data.columns import GUESSED, Columns
from likewise.data.dataset import Dataset, Datasets, Rows, mixed_pairs
from likewise.data.judgements import JudgedFiles, Judgement, Query, beir_files, read_documents, read_qrels, read_queries
from likewise.data.readers import (
    LabelledPair,
    LabelledText,
    Pair,
    ScoredPair,
    SenseExample,
    Text,
    holds_pairs,
    pair_columns,
    read_labelled_pairs,
    read_labelled_texts,
    read_pairs,
    read_scored_pairs,
    read_senses,
    read_texts,
)

__all__ = [
    "GUESSED", "Columns", "Dataset", "Datasets", "JudgedFiles", "Judgement", "LabelledPair", "LabelledText", "Pair",
    "Query", "Rows", "ScoredPair", "SenseExample", "SkippedRows", "Text", "beir_files", "holds_pairs", "locate",
    "mixed_pairs", "pair_columns", "read_documents", "read_labelled_pairs", "read_labelled_texts", "read_pairs",
    "read_qrels", "read_queries", "read_scored_pairs", "read_senses", "read_texts",
]  # fmt: skip
