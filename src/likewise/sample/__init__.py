"""The built-in sample corpus, written for Likewise: sentences, scored pairs, words in context, queries."""

from __future__ import annotations

import csv
from pathlib import Path

SAMPLES = {
    f"sample/{name}": Path(__file__).with_name(f"{name}.csv") for name in ("sentences", "pairs", "words", "queries")
}
"""The file of each built-in data set."""


def sample_sentences() -> list[str]:
    """The 300 sentences of the sample corpus.

    >>> len(sample_sentences())
    300
    """
    with SAMPLES["sample/sentences"].open(encoding="utf-8", newline="") as stream:
        return [row["text"] for row in csv.DictReader(stream)]


def sample_queries() -> dict[str, list[str]]:
    """Six news queries, each with the ids of the sample sentences that answer it.

    >>> len(sample_queries()["volcano erupted"])
    4
    """
    with SAMPLES["sample/queries"].open(encoding="utf-8", newline="") as stream:
        return {row["query"]: row["relevant"].split() for row in csv.DictReader(stream)}
