"""polars: texts in columns of a frame; vectors, similarities, hits and any result as columns or frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from likewise.encoder.encoder import Source
from likewise.errors import MissingExtra, UsageError
from likewise.integrations.frames import hit_columns, index_of, similarity_columns, vectors_of
from likewise.results import Result
from likewise.search import Index

try:
    import polars as pl
except ImportError as error:
    raise MissingExtra("polars", "polars") from error


def add_vectors(frame: pl.DataFrame, text: str, model: Source = "minilm", name: str = "vector") -> pl.DataFrame:
    """The frame with a new column: the vector of each text, as an array of fixed width.

    >>> frame = pl.DataFrame({"title": ["A cat sat.", "It rains."]})
    >>> add_vectors(frame, "title")["vector"].dtype
    Array(Float32, shape=(384,))
    """
    return frame.with_columns(pl.Series(name, vectors_of(_columns(frame), text, model, name)))


def add_similarity(
    frame: pl.DataFrame, left: str, right: str, model: Source = "minilm", *, strongest: int = 0
) -> pl.DataFrame:
    """The frame with a column ``cosine``, and with ``strongest`` a column ``reasons`` of that many pairs of words.

    >>> frame = pl.DataFrame({"a": ["A cat sat."], "b": ["A cat slept."]})
    >>> add_similarity(frame, "a", "b", strongest=1)["reasons"][0][0]["left"]
    'cat'
    """
    found = similarity_columns(_columns(frame), left, right, model, strongest)
    return frame.with_columns(pl.Series(name, values) for name, values in found.items())


def index_frame(frame: pl.DataFrame, text: str, model: Source = "minilm", *, id: str | None = None) -> Index:
    """An index of a column; ids are those of the column ``id``, or the rows' numbers from 0; the rest is metadata."""
    return index_of(_columns(frame), text, model, id)


def search_frame(index: Index, queries: str | Sequence[str], k: int = 10, **options: Any) -> pl.DataFrame:
    """One row for each hit of each query; ``options`` are those of ``Index.search``.

    >>> index = index_frame(pl.DataFrame({"title": ["A cat sat.", "It rains."], "year": [2024, 2025]}), "title")
    >>> search_frame(index, "kitten", k=1).select("rank", "id", "text", "year").row(0)
    (1, '0', 'A cat sat.', 2024)
    """
    return pl.DataFrame(hit_columns(index, queries, k, **options), strict=False)


def to_polars(result: Result, table: str | None = None) -> pl.DataFrame:
    """A table of any result as a frame: the first one, or the one that is named, as ``to_dataframe`` gives it."""
    tables = result.tables()
    if table is not None and table not in tables:
        raise UsageError(f"no table {table!r}; choose from {', '.join(tables)}")
    names, rows = tables[next(iter(tables)) if table is None else table].flat()
    return pl.DataFrame(rows, schema=names, orient="row", strict=False, infer_schema_length=None)


def _columns(frame: pl.DataFrame) -> Mapping[str, Sequence[Any]]:
    columns: Mapping[str, Sequence[Any]] = frame.to_dict(as_series=False)
    return columns
