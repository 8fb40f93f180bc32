"""Hits: what a search found, best first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from likewise.plotting.hits import DrawnHit, hits_fragment, hits_lines
from likewise.search.store import Hit


@dataclass(frozen=True)
class Hits:
    """The best texts for one query, and what ranked them.

    >>> found = Hits("cats", (Hit("7", "A cat sat.", 0.5),), "minilm, exact")
    >>> found[0].id, found.to_dict()["hits"][0]["rank"]
    ('7', 1)
    """

    query: str
    hits: tuple[Hit, ...]
    ranker: str

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]

    def to_dict(self) -> dict[str, Any]:
        """The query and its hits with their ranks from 1."""
        rows = [
            {"rank": index, "id": hit.id, "score": hit.score, "text": hit.text}
            for index, hit in enumerate(self.hits, start=1)
        ]
        return {"query": self.query, "ranker": self.ranker, "hits": rows}

    def drawn(self) -> list[DrawnHit]:
        """What the drawing room takes."""
        return [DrawnHit(hit.id, hit.score, hit.text) for hit in self.hits]

    def _repr_html_(self) -> str:
        return hits_fragment(self.query, self.ranker, self.drawn())

    def lines(self) -> list[Text]:
        """For a terminal."""
        return hits_lines(self.query, self.ranker, self.drawn())
