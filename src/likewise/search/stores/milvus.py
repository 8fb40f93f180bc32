"""Milvus: a collection on a server or in a Milvus Lite database in this process, with the same code for both.

Only the index type differs: HNSW on a server, FLAT in Milvus Lite. There, with 20 000 vectors of 384 dimensions on one
core, HNSW took 20 s to build and 21 ms to search; FLAT, which compares every row, took 43 ms and needs no build.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

from likewise.errors import DataError, LikewiseError, MissingExtra, UsageError, first_line
from likewise.search.engines import Vectors
from likewise.search.filters import Filter
from likewise.search.stores.address import Address
from likewise.search.stores.conditions import milvus_condition
from likewise.search.stores.connection import (
    BUILD_WIDTH,
    CALL_SECONDS,
    CONNECT_SECONDS,
    INDEX_SECONDS,
    LINKS,
    PATIENCE_SECONDS,
    SEARCH_WIDTH,
    Scored,
    patiently,
)  # fmt: skip
from likewise.search.stores.server_rows import BATCH_ROWS, METADATA, PASSAGE, Limits, Row, batches
from likewise.search.stores.server_store import COPIES, ServerStore
from likewise.storage import only_writer

TEXT_BYTES = 65_535  # Milvus's greatest VARCHAR
GREATEST_K = 16_384  # Milvus's greatest answer
LOGGERS = ("pymilvus", "pymilvus.milvus_client", "milvus_lite")
EXACT = ("FLAT", "BRUTE_FORCE")
INDEX = {
    "server": {"index_type": "HNSW", "params": {"M": LINKS, "efConstruction": BUILD_WIDTH}},
    "lite": {"index_type": "FLAT", "params": {}},
}
OLDEST = (2, 3)  # The first server with JSON fields, properties of collections and aliases as they are used here
STARTING = (101, 503)  # Error codes: the collection is not loaded, or one of its channels is not available
NOT_FOUND = (100, 1600)  # Error codes: no such collection, no such alias

# Milvus Lite runs one server per database in this process; the last user stops it.
_USERS: Counter[str] = Counter()
_USERS_LOCK = Lock()


class _NotFound(DataError):
    """A collection or an alias that does not exist."""


class MilvusConnection:
    """A connection to Milvus."""

    limits = Limits("Milvus", TEXT_BYTES)
    greatest_k = GREATEST_K

    def __init__(self, where: Address) -> None:
        client_class = _client_class(where)
        if where.file is not None and where.file.is_file():
            raise DataError(f"{where.file} is not a database of Milvus Lite 3; give another name")
        token = os.environ.get("MILVUS_TOKEN", "") if where.file is None else ""
        self.where, self.collection, self._engine, self._client = where, where.collection, "", None
        self._is_lite = where.file is not None
        self._uri = f"http://{where.nodes[0]}" if where.file is None else str(where.file)
        with _USERS_LOCK:
            _USERS[self._uri] += 1
        try:
            # A shared connection would stay open after close().
            self._client = client_class(uri=self._uri, token=token, timeout=CONNECT_SECONDS, dedicated=True)
            self._check_version()
        except BaseException as error:
            self._leave()
            if isinstance(error, _failures()):
                raise self._refusal(error) from error
            raise

    def close(self) -> None:
        """Leave Milvus; the last connection to a Milvus Lite database stops it."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
            self._leave()

    def _leave(self) -> None:
        with _USERS_LOCK:
            _USERS[self._uri] -= 1
            if self.where.file is not None and _USERS[self._uri] == 0:
                from milvus_lite import server_manager_instance

                server_manager_instance.release_server(self._uri)

    def _check_version(self) -> None:
        if self.where.file is None:
            found = str(self.ask("get_server_version", timeout=CONNECT_SECONDS))
            self._is_lite = found.startswith("milvus_lite")
            numbers = re.match(r"\D*(\d+)\.(\d+)", found)
            if numbers is not None and tuple(map(int, numbers.groups())) < OLDEST:
                oldest = ".".join(map(str, OLDEST))
                raise DataError(f"{self._uri} is Milvus {found}; Likewise needs {oldest} or newer, so update it")

    def _refusal(self, error: Exception) -> LikewiseError:
        """The reason that there is no connection, with its cure."""
        file = self.where.file
        if file is None:
            flaw = f"no Milvus answers at {self._uri} ({_message(error)})"
            return DataError(f"{flaw}; start it, or check the address and MILVUS_TOKEN")
        from milvus_lite import DataDirLockedError, MilvusLite

        try:
            MilvusLite(self._uri).close()  # pymilvus hides the reason, so ask once more
        except DataDirLockedError:
            return UsageError(f"another process has {file} open and Milvus Lite serves only one; wait for it")
        except Exception as reason:
            return DataError(f"{file} cannot be opened ({first_line(reason)}); give another file")
        return DataError(f"{file} cannot be opened ({_message(error)}); try again")

    def ask(self, method: str, *given: Any, timeout: float | None = None, **arguments: Any) -> Any:
        """Call a method of pymilvus's client; what it raises becomes a DataError of one line."""
        if self._client is None:
            raise UsageError(f"the store {self.where.written} is closed; open it again")
        call, arguments["timeout"] = getattr(self._client, method), CALL_SECONDS if timeout is None else timeout
        try:
            return patiently(lambda: call(*given, **arguments), _is_away, PATIENCE_SECONDS)
        except _failures() as error:
            kind = _NotFound if getattr(error, "code", 0) in NOT_FOUND else DataError
            flaw = f"Milvus failed at {method} on {self.where.written} ({_message(error)})"
            raise kind(f"{flaw}; check Milvus and try again") from error

    def target(self) -> str | None:
        """The collection that the address's name stands for: by an alias, or its own."""
        name = self.where.collection
        try:
            return str(self.ask("describe_alias", name)["collection_name"])
        except _NotFound:
            return name if self.exists(name) else None

    def point_to(self, name: str) -> None:
        """Alter the alias; a collection that has the alias's name moves out of its way first."""
        old, alias = self.target(), self.where.collection
        if old not in (None, alias):
            self.ask("alter_alias", name, alias)
            return
        if old is not None:
            spare = next(f"{alias}{ending}" for ending in COPIES if f"{alias}{ending}" != name)
            if self.exists(spare):
                self.drop(spare)
            self.ask("rename_collection", alias, spare)
        self.ask("create_alias", name, alias)

    def exists(self, name: str) -> bool:
        """Whether there is a collection of this name."""
        return bool(self.ask("has_collection", name))

    def create(self, dimension: int, with_origins: bool, properties: dict[str, str]) -> None:
        """Make the collection."""
        schema = _schema(dimension, with_origins)
        how: dict[str, Any] = {"properties": properties, "consistency_level": "Strong"}
        self.ask("create_collection", self.collection, schema=schema, **how)

    def drop(self, name: str) -> None:
        """Remove a collection, and its alias."""
        if self.target() == name and name != self.where.collection:
            self.ask("drop_alias", self.where.collection)
        self.ask("drop_collection", name)

    def properties(self) -> dict[str, str]:
        """The properties of the collection."""
        return dict(self.ask("describe_collection", self.collection)["properties"])

    def set_properties(self, properties: dict[str, str]) -> None:
        """Alter the properties of the collection."""
        self.ask("alter_collection_properties", self.collection, properties=properties)

    def make_ready(self) -> None:
        """Load the collection; first make its index if a killed build could not."""
        if not self._index():
            # Not sync: there is nothing to wait for yet, and Milvus Lite does not know how pymilvus waits.
            self.ask("create_index", self.collection, index_params=_index_params(self.where), sync=False)
        self.ask("load_collection", self.collection, timeout=INDEX_SECONDS)
        self._engine = str(self._index()["index_type"])

    def finish(self) -> None:
        """Let Milvus flush everything, build its index and load it."""
        self.ask("flush", self.collection, timeout=INDEX_SECONDS)
        self._wait_for_index()
        self.ask("load_collection", self.collection, timeout=INDEX_SECONDS)
        if not self._is_lite:  # Milvus Lite, also behind a port, never says that it has refreshed
            # Until then a server compares every new row, and its graph would be measured as exact.
            self.ask("refresh_load", self.collection, timeout=INDEX_SECONDS)

    def _index(self) -> dict[str, Any]:
        """What Milvus says of its index; empty without one."""
        return self.ask("describe_index", self.collection, index_name="vector") or {}

    def _wait_for_index(self) -> None:
        until = time.monotonic() + INDEX_SECONDS
        while True:
            found = self._index()
            if found.get("state") == "Failed":
                raise DataError(f"Milvus could not build the index of {self.where.written}; see its log")
            if found.get("state") == "Finished" and not int(found.get("pending_index_rows", 0)):
                return
            if time.monotonic() > until:
                flaw = f"Milvus has not built the index of {self.where.written} in {INDEX_SECONDS / 60:.0f} minutes"
                raise DataError(f"{flaw}; all rows are stored, so run the same command again")
            time.sleep(0.5)

    @property
    def engine(self) -> str:
        """The type of Milvus's index."""
        return self._engine

    @property
    def exact_note(self) -> str:
        """Why every row is compared."""
        name = self.where.server
        is_exact = self._engine in EXACT
        return f"{name} compares a query with every row; a Milvus server builds a graph" if is_exact else ""

    def query(self, condition: str, fields: list[str], **arguments: Any) -> list[Row]:
        """The rows that meet a condition, at the consistency level Strong."""
        how: dict[str, Any] = {"filter": condition, "output_fields": fields, "consistency_level": "Strong"}
        return list(self.ask("query", self.collection, **how, **arguments))

    def count(self, condition: Any = None, only_first: bool = False) -> int:
        """The number of rows."""
        wanted = [*([f"({condition})"] if condition else []), *(["number == 1"] if only_first else [])]
        return int(self.query(" and ".join(wanted), ["count(*)"])[0]["count(*)"])

    def end(self) -> int:
        """The first free ``place``."""
        end = self.count()  # higher places exist only after deletions
        while found := self.query(f"place >= {end}", ["place"], limit=BATCH_ROWS):
            end = 1 + max(int(row["place"]) for row in found)
        return end

    def page(self, low: int, high: int, fields: list[str], condition: Any = None) -> list[Row]:
        """The rows of some places."""
        chosen = f" and ({condition})" if condition else ""
        return self.query(f"place >= {low} and place < {high}{chosen}", fields)

    def sample(self, numbers: list[int], fields: list[str]) -> list[Row]:
        """The rows of these places."""
        return self.query(f"place in {numbers}", fields)

    def rows(self, keys: Sequence[str], fields: list[str]) -> Iterator[list[Row]]:
        """The rows of these keys."""
        how: dict[str, Any] = {"output_fields": ["id", *fields], "consistency_level": "Strong"}
        for batch in batches([len(key) for key in keys]):
            yield list(self.ask("get", self.collection, ids=list(keys[batch]), **how))

    def upsert(self, rows: list[Row]) -> None:
        """Store rows."""
        self.ask("upsert", self.collection, data=rows)

    def delete(self, keys: list[str]) -> None:
        """Delete rows."""
        self.ask("delete", self.collection, ids=keys)

    def search(self, queries: Vectors, k: int, condition: Any = None) -> Scored:
        """What Milvus's index finds."""
        params = {"ef": max(SEARCH_WIDTH, k)} if self._engine == "HNSW" else {}
        # Without any output field, Milvus Lite sends all.
        how: dict[str, Any] = {"anns_field": "vector", "output_fields": ["place"], "consistency_level": "Strong"}
        how |= {"filter": condition} if condition else {}
        how["search_params"] = {"metric_type": "IP", "params": params}
        answers = self.ask("search", self.collection, data=list(queries), limit=k, **how)
        return [[(float(hit["distance"]), str(hit["id"])) for hit in hits] for hits in answers]

    def condition(self, where: Filter) -> tuple[Any, bool]:
        """An expression of Milvus."""
        return milvus_condition(where)

    def locked(self) -> AbstractContextManager[None]:
        """Lock a Milvus Lite database against other writers; a server's collection is not locked."""
        file = self.where.file
        return nullcontext() if file is None else only_writer(Path(f"{file}.lock"), file)


class MilvusStore(ServerStore):
    """An index in Milvus or Milvus Lite."""

    connection_type = MilvusConnection


def _failures() -> tuple[type[Exception], ...]:
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    return MilvusException, RpcError


def _is_away(error: Exception) -> bool:
    """Whether the server may be back soon: it starts, or loads its collections again; pymilvus waits for the rest."""
    return getattr(error, "code", 0) in STARTING or "service not ready" in str(error)


def _message(error: Exception) -> str:
    return first_line(Exception(getattr(error, "message", "") or str(error)))


def _client_class(address: Address) -> Any:
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingExtra("pymilvus", "milvus") from error
    if address.file is not None:
        try:
            import milvus_lite  # noqa: F401
        except ImportError as error:
            raise MissingExtra("milvus-lite", "milvus") from error
    for name in LOGGERS:
        # They also print the tracebacks of errors that are raised.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return MilvusClient


def _schema(dimension: int, with_origins: bool) -> Any:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=TEXT_BYTES)
    schema.add_field("place", DataType.INT64)
    schema.add_field("text", DataType.VARCHAR, max_length=TEXT_BYTES)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
    if with_origins:
        schema.add_field("number", DataType.INT64)
        schema.add_field(PASSAGE, DataType.JSON)
        schema.add_field(METADATA, DataType.JSON)
    return schema


def _index_params(where: Address) -> Any:
    from pymilvus import MilvusClient

    params = MilvusClient.prepare_index_params()
    kind = INDEX["server" if where.file is None else "lite"]
    params.add_index(field_name="vector", index_name="vector", metric_type="IP", **kind)
    return params
