"""Data: files and named datasets -> typed examples."""

from likewise.data.alignments import AlignedPair, WordLink, read_alignments
from likewise.data.annotations import (
    JudgedFiles,
    Judgement,
    Query,
    SenseExample,
    beir_files,
    read_documents,
    read_qrels,
    read_queries,
    read_senses,
)
from likewise.data.columns import GUESSED, Columns
from likewise.data.dataset import (
    Dataset,
    Datasets,
    LabelledPair,
    LabelledText,
    Pair,
    Rows,
    ScoredPair,
    Text,
    holds_pairs,
    mixed_pairs,
    pair_columns,
    read_labelled_pairs,
    read_labelled_texts,
    read_pairs,
    read_scored_pairs,
    read_texts,
)
from likewise.data.rows import SkippedRows, locate

__all__ = [
    "GUESSED", "AlignedPair", "Columns", "Dataset", "Datasets", "JudgedFiles", "Judgement", "LabelledPair",
    "LabelledText", "Pair", "Query", "Rows", "ScoredPair", "SenseExample", "SkippedRows", "Text", "WordLink",
    "beir_files", "holds_pairs", "locate", "mixed_pairs", "pair_columns", "read_alignments",
    "read_documents", "read_labelled_pairs", "read_labelled_texts", "read_pairs", "read_qrels", "read_queries",
    "read_scored_pairs", "read_senses", "read_texts",
]  # fmt: skip
