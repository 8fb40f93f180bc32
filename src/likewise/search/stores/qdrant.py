"""Qdrant: a collection on one node or on all nodes of a cluster; a connection moves on from a node that fails."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from likewise.errors import DataError, MissingExtra, UsageError, first_line
from likewise.search.engines import Vectors
from likewise.search.filters import Filter
from likewise.search.stores.address import Address
from likewise.search.stores.conditions import qdrant_condition
from likewise.search.stores.connection import (
    BUILD_WIDTH,
    CALL_SECONDS,
    INDEX_SECONDS,
    LINKS,
    PATIENCE_SECONDS,
    SEARCH_WIDTH,
    Scored,
    patiently,
)  # fmt: skip
from likewise.search.stores.server_rows import BATCH_ROWS, Limits, Row, batches, uuid_of
from likewise.search.stores.server_store import ServerStore

GREATEST_K = 1_000_000
EXACT_FROM = 16_384  # For so many hits, a graph is slower than comparing every row
OLDEST = (1, 16)  # The first server that stores metadata of collections
NODE_SECONDS = 15.0  # How long one of several nodes may take before another one is asked
REPLICAS = 2
NUMBERS = ("place", "number")  # Fields that rows are selected by


class QdrantConnection:
    """A connection to Qdrant: a client for each node."""

    limits = Limits("Qdrant")
    greatest_k = GREATEST_K

    def __init__(self, where: Address) -> None:
        self.where, self.collection, self._node, self._is_open = where, where.collection, 0, True
        seconds = CALL_SECONDS if len(where.nodes) == 1 else NODE_SECONDS
        self._clients = [_client(node, seconds) for node in where.nodes]
        try:
            found = self._answer("info", {}, 0.0).version
        except _failures() as error:
            self.close()
            flaw = f"no Qdrant answers at {', '.join(where.nodes)} ({_message(error)})"
            raise DataError(f"{flaw}; start it, or check the address and QDRANT_API_KEY") from error
        numbers = re.match(r"(\d+)\.(\d+)", str(found))
        if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
            self.close()
            oldest = ".".join(map(str, OLDEST))
            raise DataError(f"{where.nodes[0]} is Qdrant {found}; Likewise needs {oldest} or newer, so update it")

    def close(self) -> None:
        """Leave all nodes."""
        if self._is_open:
            self._is_open = False
            for client in self._clients:
                client.close()

    def ask(self, method: str, **arguments: Any) -> Any:
        """Call a method of Qdrant's client on a node that answers; what it raises becomes a DataError of one line."""
        if not self._is_open:
            raise UsageError(f"the store {self.where.written} is closed; open it again")
        try:
            return self._answer(method, arguments, PATIENCE_SECONDS)
        except _failures() as error:
            flaw = f"Qdrant failed at {method} on {self.where.written} ({_message(error)})"
            raise DataError(f"{flaw}; check Qdrant and run the same command again") from error

    def _answer(self, method: str, arguments: dict[str, Any], seconds: float) -> Any:
        """The answer of the present node or, while nodes are away, of the next one that answers."""

        def call() -> Any:
            for _ in self._clients:
                try:
                    return getattr(self._clients[self._node], method)(**arguments)
                except Exception as error:
                    last = error
                    if not _is_away(error):
                        raise
                    self._node = (self._node + 1) % len(self._clients)
            raise last

        return patiently(call, _is_away, seconds)

    def target(self) -> str | None:
        """The collection of the alias; or one of that name itself, which Likewise did not make."""
        name = self.where.collection
        for alias in self.ask("get_aliases").aliases:
            if alias.alias_name == name:
                return str(alias.collection_name)
        return name if self.exists(name) else None

    def point_to(self, name: str) -> None:
        """Delete the alias and create it anew in one operation."""
        from qdrant_client import models

        alias = self.where.collection
        new = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=alias))
        old = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
        operations = [new] if self.target() is None else [old, new]
        self.ask("update_collection_aliases", change_aliases_operations=operations)

    def exists(self, name: str) -> bool:
        """Whether there is a collection of this name."""
        return bool(self.ask("collection_exists", collection_name=name))

    def create(self, dimension: int, with_origins: bool, properties: dict[str, str]) -> None:  # noqa: ARG002
        """Make the collection, with replicas if there are several nodes."""
        from qdrant_client import models

        how: dict[str, Any] = {
            "vectors_config": models.VectorParams(size=dimension, distance=models.Distance.DOT),
            "hnsw_config": models.HnswConfigDiff(m=LINKS, ef_construct=BUILD_WIDTH),
            "metadata": properties,
        }
        peers = getattr(self.ask("cluster_status"), "peers", None) or {}
        if len(peers) > 1:
            # One of the replicas is enough for a write; Qdrant brings those that missed it up to date.
            how |= {"replication_factor": min(REPLICAS, len(peers)), "write_consistency_factor": 1}
        try:
            self.ask("create_collection", collection_name=self.collection, **how)
        except DataError:
            # A node may have failed after it had made the collection.
            if not self.exists(self.collection) or self.properties() != properties:
                raise

    def drop(self, name: str) -> None:
        """Remove a collection, and its alias."""
        from qdrant_client import models

        if self.target() == name != self.where.collection:
            old = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.where.collection))
            self.ask("update_collection_aliases", change_aliases_operations=[old])
        self.ask("delete_collection", collection_name=name)

    def _info(self) -> Any:
        return self.ask("get_collection", collection_name=self.collection)

    def properties(self) -> dict[str, str]:
        """The metadata of the collection."""
        return dict(self._info().config.metadata or {})

    def set_properties(self, properties: dict[str, str]) -> None:
        """Change the metadata of the collection."""
        self.ask("update_collection", collection_name=self.collection, metadata=self.properties() | properties)

    def make_ready(self) -> None:
        """Index the fields by which rows are selected."""
        known = self._info().payload_schema
        for name in NUMBERS:
            if name not in known:
                how: dict[str, Any] = {"field_name": name, "field_schema": "integer", "wait": True}
                self.ask("create_payload_index", collection_name=self.collection, **how)

    def finish(self) -> None:
        """Wait until all rows are in the graph; until then Qdrant compares those that are not."""
        until = time.monotonic() + INDEX_SECONDS
        while str(self._info().status.value) == "yellow":
            if time.monotonic() > until:
                flaw = f"Qdrant has not built the index of {self.where.written} in {INDEX_SECONDS / 60:.0f} minutes"
                raise DataError(f"{flaw}; all rows are stored, so run the same command again")
            time.sleep(0.2)

    @property
    def engine(self) -> str:
        """Qdrant's graph, or none."""
        return "exact" if self.exact_note else "HNSW"

    @property
    def exact_note(self) -> str:
        """Why every row is compared: Qdrant leaves small segments without a graph."""
        found = self._info()
        if found.indexed_vectors_count:
            return ""
        size = found.config.optimizer_config.indexing_threshold
        return f"Qdrant compares a query with every row; it builds a graph for segments of more than {size or 0:,} kB"

    def count(self, condition: Any = None, only_first: bool = False) -> int:
        """The number of rows."""
        first = [{"key": "number", "match": {"value": 1}}] if only_first else []
        return int(self.ask("count", **self._chosen(condition, *first, name="count_filter"), exact=True).count)

    def _chosen(self, condition: Any, *others: dict[str, Any], name: str) -> dict[str, Any]:
        """The collection, and a filter for rows that meet everything."""
        from qdrant_client import models

        parts = [*others, *([condition] if condition else [])]
        found: dict[str, Any] = {"collection_name": self.collection}
        return found | ({name: models.Filter.model_validate({"must": parts})} if parts else {})

    def end(self) -> int:
        """The first free ``place``."""
        from qdrant_client import models

        order = models.OrderBy(key="place", direction=models.Direction.DESC)
        how: dict[str, Any] = {"order_by": order, "limit": 1, "with_payload": ["place"]}
        points, _ = self.ask("scroll", collection_name=self.collection, **how)
        return 1 + int(points[0].payload["place"]) if points else 0

    def page(self, low: int, high: int, fields: list[str], condition: Any = None) -> list[Row]:
        """The rows of some places."""
        return self._scrolled({"key": "place", "range": {"gte": low, "lt": high}}, fields, condition)

    def sample(self, numbers: list[int], fields: list[str]) -> list[Row]:
        """The rows of these places."""
        return self._scrolled({"key": "place", "match": {"any": numbers}}, fields)

    def _scrolled(self, chosen: dict[str, Any], fields: list[str], condition: Any = None) -> list[Row]:
        how = self._chosen(condition, chosen, name="scroll_filter") | _output(fields) | {"limit": BATCH_ROWS}
        found: list[Row] = []
        start = None
        while True:
            points, start = self.ask("scroll", offset=start, **how)
            found += map(_row, points)
            if start is None:
                return found

    def rows(self, keys: Sequence[str], fields: list[str]) -> Iterator[list[Row]]:
        """The rows of these keys."""
        for batch in batches([len(key) for key in keys]):
            ids = [str(uuid_of(key)) for key in keys[batch]]
            points = self.ask("retrieve", collection_name=self.collection, ids=ids, **_output(["id", *fields]))
            yield list(map(_row, points))

    def upsert(self, rows: list[Row]) -> None:
        """Store rows, each with its key as a number."""
        from qdrant_client import models

        points = models.Batch(
            ids=[str(uuid_of(row["id"])) for row in rows],
            vectors=[row["vector"].tolist() for row in rows],
            payloads=[{name: value for name, value in row.items() if name != "vector"} for row in rows],
        )
        self.ask("upsert", collection_name=self.collection, points=points, wait=True)

    def delete(self, keys: list[str]) -> None:
        """Delete rows."""
        ids = [str(uuid_of(key)) for key in keys]
        self.ask("delete", collection_name=self.collection, points_selector=ids, wait=True)

    def search(self, queries: Vectors, k: int, condition: Any = None) -> Scored:
        """What Qdrant's graph finds."""
        from qdrant_client import models

        params = models.SearchParams(hnsw_ef=max(SEARCH_WIDTH, k), exact=k > EXACT_FROM)
        chosen = None if condition is None else models.Filter.model_validate(condition)
        requests = [
            models.QueryRequest(query=query.tolist(), filter=chosen, limit=k, params=params, with_payload=["id"])
            for query in queries
        ]
        answers = self.ask("query_batch_points", collection_name=self.collection, requests=requests)
        return [[(float(hit.score), str(hit.payload["id"])) for hit in answer.points] for answer in answers]

    def condition(self, where: Filter) -> tuple[Any, bool]:
        """A filter of Qdrant."""
        return qdrant_condition(where)

    def locked(self) -> AbstractContextManager[None]:
        """Qdrant has no locks."""
        return nullcontext()


class QdrantStore(ServerStore):
    """An index in Qdrant."""

    connection_type = QdrantConnection


def _client(node: str, seconds: float) -> Any:
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        raise MissingExtra("qdrant-client", "qdrant") from error
    token = os.environ.get("QDRANT_API_KEY") or None
    client = QdrantClient(url=f"http://{node}", api_key=token, timeout=int(seconds), check_compatibility=False)
    return client


def _failures() -> tuple[type[Exception], ...]:
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    return ApiException, QdrantException


def _is_away(error: Exception) -> bool:
    """Whether the node, or another one, may answer soon."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, UnexpectedResponse):
        return int(error.status_code or 0) >= 500 or error.status_code == 408
    return isinstance(error, ResponseHandlingException)


def _message(error: Exception) -> str:
    """What went wrong; a response holds it as JSON."""
    content = bytes(getattr(error, "content", b"")).decode("utf-8", "replace")
    found = re.search(r'"error":"(.*?)"[,}]', content)
    return first_line(Exception(found[1] if found else content or str(error)))[:300]


def _output(fields: list[str]) -> dict[str, Any]:
    return {"with_payload": [name for name in fields if name != "vector"], "with_vectors": "vector" in fields}


def _row(point: Any) -> Row:
    return dict(point.payload) | ({} if point.vector is None else {"vector": point.vector})
