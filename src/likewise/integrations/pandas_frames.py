"""pandas: texts in columns of a frame; vectors, similarities and hits as new columns or frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from likewise.encoder.encoder import Source
from likewise.errors import MissingExtra
from likewise.integrations.frames import hit_columns, index_of, similarity_columns, vectors_of
from likewise.search import Index

try:
    import pandas as pd
except ImportError as error:
    raise MissingExtra("pandas", "pandas") from error


def add_vectors(frame: pd.DataFrame, text: str, model: Source = "minilm", name: str = "vector") -> pd.DataFrame:
    """The frame with a new column: the vector of each text.

    >>> frame = pd.DataFrame({"title": ["A cat sat.", "It rains."]})
    >>> add_vectors(frame, "title")["vector"][0].shape
    (384,)
    """
    return frame.assign(**{name: list(vectors_of(frame, text, model, name))})


def add_similarity(
    frame: pd.DataFrame, left: str, right: str, model: Source = "minilm", *, strongest: int = 0
) -> pd.DataFrame:
    """The frame with a column ``cosine``, and with ``strongest`` a column ``reasons`` of that many pairs of words.

    >>> frame = pd.DataFrame({"a": ["A cat sat."], "b": ["A cat slept."]})
    >>> add_similarity(frame, "a", "b", strongest=1)["cosine"].round(2).tolist()
    [0.66]
    """
    found = similarity_columns(frame, left, right, model, strongest)
    return frame.assign(**{name: pd.Series(values, index=frame.index) for name, values in found.items()})


def index_frame(frame: pd.DataFrame, text: str, model: Source = "minilm", *, id: str | None = None) -> Index:
    """An index of a column; ids are those of the column ``id``, or the rows' numbers from 0; the rest is metadata."""
    return index_of(frame, text, model, id)


def search_frame(index: Index, queries: str | Sequence[str], k: int = 10, **options: Any) -> pd.DataFrame:
    """One row for each hit of each query; ``options`` are those of ``Index.search``.

    >>> index = index_frame(pd.DataFrame({"title": ["A cat sat.", "It rains."], "year": [2024, 2025]}), "title")
    >>> search_frame(index, "kitten", k=1)[["rank", "id", "text", "year"]].values.tolist()
    [[1, '0', 'A cat sat.', 2024]]
    """
    return pd.DataFrame(hit_columns(index, queries, k, **options))
