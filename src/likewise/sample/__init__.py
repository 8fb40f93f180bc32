"""The built-in sample corpus, written for Likewise: sentences, scored pairs, words in context, queries.

It is below the packages that use it: ``data`` reads it by name, ``encoder`` checks quantised models on it.
"""

from __future__ import annotations

import csv
from pathlib import Path

SAMPLES = ("sample/sentences", "sample/pairs", "sample/words", "sample/queries")


def sample_path(name: str) -> Path:
    """The file of a built-in data set.

    >>> sample_path("sample/pairs").name
    'pairs.csv'
    """
    return Path(__file__).parent / f"{name.removeprefix('sample/')}.csv"


def sample_sentences() -> list[str]:
    """The 300 sentences of the sample corpus.

    >>> len(sample_sentences())
    300
    """
    with sample_path("sample/sentences").open(encoding="utf-8", newline="") as stream:
        return [row["text"] for row in csv.DictReader(stream)]


def sample_queries() -> dict[str, list[str]]:
    """Six news queries, each with the ids of the sample sentences that answer it.

    >>> len(sample_queries()["volcano erupted"])
    4
    """
    with sample_path("sample/queries").open(encoding="utf-8", newline="") as stream:
        return {row["query"]: row["relevant"].split() for row in csv.DictReader(stream)}
