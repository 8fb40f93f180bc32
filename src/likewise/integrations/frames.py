"""Columns of texts -> columns of results: what the modules for pandas and polars have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from likewise.data.rows import shown
from likewise.encoder import as_encoder, pair_scores
from likewise.encoder.encoder import Source
from likewise.errors import UsageError
from likewise.explain import Explanation, explain_many
from likewise.integrations.hit_metadata import hit_metadata
from likewise.integrations.texts import text_list
from likewise.search import Index, IndexSettings

Columns = dict[str, list[Any]]
OWN = ("query", "rank", "id", "score", "percentile", "probability", "text", "reasons")
"""The columns of hits; a column of metadata with such a name gets a prefix."""


def column_of(columns: Mapping[str, Sequence[Any]], name: str) -> Sequence[Any]:
    """A column by its name; an unknown one is refused with the names there are."""
    if name not in columns:
        raise UsageError(f"no column {name!r}; choose from {', '.join(map(str, columns))}")
    return columns[name]


def similarity_columns(
    columns: Mapping[str, Sequence[Any]], left: str, right: str, model: Source, strongest: int
) -> Columns:
    """The cosine of the two texts of each row, and on request their strongest pairs of words.

    >>> similarity_columns({"a": ["A cat sat."], "b": ["A cat slept."]}, "a", "b", "minilm", 1)["reasons"][0][0]["left"]
    'cat'
    """
    if strongest < 0:
        raise UsageError(f"strongest is a number of word pairs from 0 on, got {strongest}")
    encoder = as_encoder(model)
    texts = [text_list(column_of(columns, name), name) for name in (left, right)]
    pairs = list(zip(*texts, strict=True))
    if not strongest:
        return {"cosine": pair_scores(encoder, pairs).tolist()}
    explained = list(explain_many(encoder, pairs, granularity="word"))
    return {"cosine": [one.similarity for one in explained], "reasons": [_pairs(one)[:strongest] for one in explained]}


def _pairs(explained: Explanation) -> list[dict[str, Any]]:
    """The pairs of words of an explanation, strongest first; special tokens are no words."""
    every = explained.strongest(explained.relevance.size)
    return [
        {"left": left.text, "right": right.text, "relevance": value}
        for left, right, value in every
        if left.kind == right.kind == "text"
    ]


def index_of(columns: Mapping[str, Sequence[Any]], text: str, model: Source, id: str | None = None) -> Index:
    """An index in memory of a column of texts; the other columns are the metadata of its hits."""
    texts = text_list(column_of(columns, text), text)
    ids = [str(one) for one in column_of(columns, id)] if id is not None else [str(n) for n in range(len(texts))]
    others = {name: list(values) for name, values in columns.items() if name not in (text, id)}
    rows = [dict(zip(others, row, strict=True)) for row in zip(*others.values(), strict=True)] or [{}] * len(texts)
    return Index.from_texts(model, list(zip(ids, texts, rows, strict=True)), IndexSettings(metadata=True))


def hit_columns(index: Index, queries: str | Sequence[str], k: int, **options: Any) -> Columns:
    """One row for each hit of each query: rank, id, score, its meaning, text, metadata and, if explained, reasons."""
    rows = []
    for query in text_list([queries] if isinstance(queries, str) else queries, "queries"):
        for rank, hit in enumerate(index.search(query, k, **options), start=1):
            found = {"query": query, "rank": rank, "id": hit.id, "score": hit.score, "text": hit.text}
            if hit.meaning is not None:
                found |= hit.meaning.to_dict()
            metadata = {f"metadata_{name}" if name in OWN else name: value for name, value in hit.metadata.items()}
            why = {"reasons": hit_metadata(hit)["reasons"]} if options.get("explain") else {}
            rows.append(found | metadata | why)
    names = list(dict.fromkeys(["query", "rank", "id", "score", "text", *(name for row in rows for name in row)]))
    return {name: [row.get(name) for row in rows] for name in names}


def vectors_of(columns: Mapping[str, Sequence[Any]], text: str, model: Source, name: str) -> Any:
    """The vectors (n, d) of a column of texts, for a new column with this name."""
    if name in columns:
        raise UsageError(f"the frame has a column {shown(name)}; give the new one another name")
    return as_encoder(model).encode(text_list(column_of(columns, text), text))
