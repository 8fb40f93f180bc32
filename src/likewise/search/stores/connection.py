"""What differs between servers: a connection that makes, fills, searches and switches collections.

``ServerStore`` does the rest in one place for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from likewise.search.engines import Vectors
from likewise.search.filters import Filter
from likewise.search.stores.address import Address
from likewise.search.stores.server_rows import Limits, Row

CONNECT_SECONDS = 5.0
CALL_SECONDS = 60.0
INDEX_SECONDS = 1800.0
PATIENCE_SECONDS = 60.0  # How long a server may be away during a change or a search
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
LINKS, BUILD_WIDTH, SEARCH_WIDTH = 16, 200, 128  # Of every server's HNSW graph
Scored = list[list[tuple[float, str]]]
"""For each query the scores and keys of rows, best first."""
Answer = TypeVar("Answer")


class Connection(Protocol):
    """A connection to a server, and the collection that it works on.

    The address's name stands for a collection of another name (an alias, or a view), so that it can be switched. Every
    method may be called again after a failure, and a failure is a DataError of one line. A ``condition`` is what
    ``condition`` returned, None for all rows.
    """

    where: Address
    collection: str
    limits: Limits
    greatest_k: int

    def __init__(self, where: Address) -> None:
        """Connect; a server that is away, too old or of another kind raises DataError."""

    def target(self) -> str | None:
        """The collection that the address's name stands for; None without one."""

    def point_to(self, name: str) -> None:
        """Let the address's name stand for this collection from now on, in one step."""

    def exists(self, name: str) -> bool:
        """Whether there is a collection of this name."""

    def create(self, dimension: int, with_origins: bool, properties: dict[str, str]) -> None:
        """Make the collection, with its properties or not at all."""

    def drop(self, name: str) -> None:
        """Remove a collection, and the address's name if it stands for it."""

    def properties(self) -> dict[str, str]:
        """What ``create`` and ``set_properties`` stored."""

    def set_properties(self, properties: dict[str, str]) -> None:
        """Store properties; others stay."""

    def make_ready(self) -> None:
        """Everything that a search needs and a killed writer may have left undone."""

    def finish(self) -> None:
        """Let the server flush all rows and build its index."""

    @property
    def engine(self) -> str:
        """The name of the server's index, or exact."""

    @property
    def exact_note(self) -> str:
        """Why every row is compared; empty for an approximate index."""

    def count(self, condition: Any = None, only_first: bool = False) -> int:
        """The number of rows; ``only_first`` counts the first passage of each document."""

    def end(self) -> int:
        """The first free ``place``. It is not stored, so that a killed build cannot leave a wrong one."""

    def page(self, low: int, high: int, fields: list[str], condition: Any = None) -> list[Row]:
        """The rows whose ``place`` is from low on and below high, in any order."""

    def sample(self, numbers: list[int], fields: list[str]) -> list[Row]:
        """The rows whose ``place`` is one of these numbers."""

    def rows(self, keys: Sequence[str], fields: list[str]) -> Iterator[list[Row]]:
        """The rows of these keys with their ids, in any order, some at a time; unknown keys are skipped."""

    def upsert(self, rows: list[Row]) -> None:
        """Store rows; those with a key that is stored replace it."""

    def delete(self, keys: list[str]) -> None:
        """Delete the rows of these keys."""

    def search(self, queries: Vectors, k: int, condition: Any = None) -> Scored:
        """At most k rows for each query (q, d) by inner product, as the server's index finds them."""

    def condition(self, where: Filter) -> tuple[Any, bool]:
        """A condition that holds for every match of a filter, and whether it holds for matches only."""

    def locked(self) -> AbstractContextManager[None]:
        """Keep other writers out, where the server can."""

    def close(self) -> None:
        """Leave the server."""


def patiently(call: Callable[[], Answer], is_away: Callable[[Exception], bool], seconds: float) -> Answer:
    """The answer of a call, which is repeated for some seconds while the server is away."""
    until, tries = time.monotonic() + seconds, 0
    while True:
        try:
            return call()
        except Exception as error:
            if not is_away(error) or time.monotonic() > until:
                raise
        time.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
        tries += 1
