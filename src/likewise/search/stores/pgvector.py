"""PostgreSQL with pgvector: a table of rows, and a view that stands for it under the address's name."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Timer
from typing import Any

from likewise.errors import DataError, MissingExtra, UsageError, first_line
from likewise.search.engines import Vectors
from likewise.search.filters import Filter
from likewise.search.stores.address import Address
from likewise.search.stores.conditions import sql_condition
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
from likewise.search.stores.server_rows import METADATA, PASSAGE, Limits, Row, batches, uuid_of
from likewise.search.stores.server_store import ServerStore

GREATEST_K = 1_000_000
WIDEST_SEARCH = 1000  # pgvector's greatest ef_search; for more hits every row is compared
MOST_DIMENSIONS = 2000  # Of pgvector's graph
OLDEST = 130_000  # PostgreSQL 13, as the server writes it
GRAPH_VERSION, ITERATIVE_VERSION = (0, 5), (0, 8)  # Of pgvector: the first with HNSW; with scans that go on
FIELDS = ("id", "place", "text", "vector", "number", PASSAGE, METADATA)
VIEW = "likewise: "  # How the comment of our view begins; the name of its table follows
COLUMNS = (
    "key uuid primary key, id text not null, place bigint not null, text text not null, vector vector({}) not null, "
    "number integer not null, passage jsonb, metadata jsonb"
)
Statement = tuple[Any, Sequence[Any]]
"""A statement of SQL and its parameters."""


class PostgresConnection:
    """A connection to a database; it is made again when it breaks."""

    limits = Limits("PostgreSQL", zero=False)
    greatest_k = GREATEST_K

    def __init__(self, where: Address) -> None:
        self.where, self.collection = where, where.collection
        self._database: Any = None
        self._is_open, self._is_slow, self._is_locked = True, False, False
        self._dimension = 0
        self._version: tuple[int, ...] = ()
        library = _psycopg()
        try:
            self._connect()
        except library.Error as error:
            flaw = f"no PostgreSQL answers at {', '.join(where.nodes)} ({_message(error)})"
            raise DataError(f"{flaw}; start it, or check the address, PGUSER and PGPASSWORD") from error
        try:
            self._check_server()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        hosts, ports = zip(*(node.rsplit(":", 1) for node in self.where.nodes), strict=True)
        how: dict[str, Any] = {"host": ",".join(host.strip("[]") for host in hosts), "port": ",".join(ports)}
        how |= {"dbname": self.where.database, "application_name": "likewise", "client_encoding": "UTF8"}
        how |= {"connect_timeout": int(CONNECT_SECONDS), "options": "-c jit=off", "autocommit": True}
        self._database = _psycopg().connect(**how)
        if self._is_locked:
            self._lock()

    def _check_server(self) -> None:
        if self._database.info.server_version < OLDEST:
            found = self._database.info.parameter_status("server_version")
            raise DataError(f"{self.where.written} is PostgreSQL {found}; Likewise needs 13 or newer, so update it")
        encoding = self._database.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise DataError(f"the database {self.where.database} is in {encoding}; make one with encoding UTF8")
        query = "select extversion from pg_extension where extname = 'vector'"
        if not (found := self._run(query)):
            try:
                self._run("create extension if not exists vector")
            except DataError as error:
                cure = "install pgvector, and run CREATE EXTENSION vector as an administrator"
                raise DataError(f"{self.where.written} has no pgvector ({first_line(error)}); {cure}") from error
            found = self._run(query)
        self._version = tuple(int(part) for part in found[0][0].split(".")[:2])

    def close(self) -> None:
        """Leave the server."""
        self._is_open = False
        if self._database is not None:
            self._database.close()

    def _run(self, query: Any, *given: Any, seconds: float | None = None) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        return self._run_all([(query, given)], seconds)[0]

    def _run_all(self, statements: Sequence[Statement], seconds: float | None = None) -> list[list[tuple[Any, ...]]]:
        """The rows of each statement, all in one transaction; what psycopg raises becomes a DataError of one line."""
        if not self._is_open:
            raise UsageError(f"the store {self.where.written} is closed; open it again")
        library, most = _psycopg(), CALL_SECONDS if seconds is None else seconds
        try:
            return patiently(lambda: self._transaction(statements, most), self._is_away, PATIENCE_SECONDS)
        except library.Error as error:
            flaw = f"it took more than {most:.0f} seconds" if self._is_slow else _message(error)
            flaw = f"PostgreSQL failed on {self.where.written} ({flaw})"
            raise DataError(f"{flaw}; check PostgreSQL and run the same command again") from error

    def _transaction(self, statements: Sequence[Statement], seconds: float) -> list[list[tuple[Any, ...]]]:
        if self._database is None or self._database.closed:
            self._connect()
        self._is_slow = False
        # A server that hangs does not end its own statements.
        watch = Timer(seconds, self._cut)
        watch.daemon = True
        watch.start()
        try:
            with self._database.transaction(), self._database.cursor() as cursor:
                found = []
                for query, given in statements:
                    cursor.execute(query.encode() if isinstance(query, str) else query, given or None)
                    found.append(cursor.fetchall() if cursor.description else [])
                return found
        finally:
            watch.cancel()

    def _cut(self) -> None:
        """End the connection from this side."""
        self._is_slow = True
        with suppress(Exception), socket.socket(fileno=os.dup(self._database.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    def _is_away(self, error: Exception) -> bool:
        """Whether the connection broke, or could not be made again yet."""
        library = _psycopg()
        is_broken = self._database is None or self._database.closed
        return isinstance(error, library.OperationalError | library.InterfaceError) and is_broken and not self._is_slow

    def target(self) -> str | None:
        """The table of our view; or a table of that name itself, which Likewise did not make."""
        kinds = "select relkind, obj_description(oid, 'pg_class') from pg_class where oid = to_regclass(%s)"
        found = self._run(kinds, f'"{self.where.collection}"')
        if not found:
            return None
        kind, comment = found[0]
        is_ours = kind in ("v", b"v") and str(comment).startswith(VIEW)
        return str(comment).removeprefix(VIEW) if is_ours else self.where.collection

    def point_to(self, name: str) -> None:
        """Replace the view in one transaction."""
        columns = ", ".join("vector::vector" if field == "vector" else field for field in FIELDS)
        view = f"create or replace view {{}} as select {columns} from {{}}"
        self._run_all(
            [
                (_sql(view, self.where.collection, name), ()),
                (_sql("comment on view {} is {}", self.where.collection, literal=VIEW + name), ()),
            ]
        )

    def exists(self, name: str) -> bool:
        """Whether there is a table of this name."""
        return bool(self._run("select to_regclass(%s) is not null", f'"{name}"')[0][0])

    def create(self, dimension: int, with_origins: bool, properties: dict[str, str]) -> None:  # noqa: ARG002
        """Make the table with its settings as its comment."""
        name = self.collection
        self._run_all(
            [
                (_sql(f"create table {{}} ({COLUMNS.format(int(dimension))})", name), ()),
                (_sql("create index {} on {} (place)", f"{name}_place", name), ()),
                (_sql("comment on table {} is {}", name, literal=json.dumps(properties)), ()),
            ]
        )

    def drop(self, name: str) -> None:
        """Remove a table, and its view."""
        has_view = self.target() == name != self.where.collection
        view = [(_sql("drop view {}", self.where.collection), ())] if has_view else []
        self._run_all([*view, (_sql("drop table if exists {}", name), ())])

    def properties(self) -> dict[str, str]:
        """The comment of the table."""
        found = self._run("select obj_description(to_regclass(%s), 'pg_class')", f'"{self.collection}"')[0][0]
        try:
            return dict(json.loads(found or "{}"))
        except ValueError:
            return {}  # a table of someone else

    def set_properties(self, properties: dict[str, str]) -> None:
        """Change the comment of the table."""
        text = json.dumps(self.properties() | properties)
        self._run(_sql("comment on table {} is {}", self.collection, literal=text))

    def make_ready(self) -> None:
        """Read the number of dimensions."""
        query = "select atttypmod from pg_attribute where attrelid = to_regclass(%s) and attname = 'vector'"
        self._dimension = int(self._run(query, f'"{self.collection}"')[0][0])

    def finish(self) -> None:
        """Build the graph if there is none yet; later rows are added to it one by one."""
        index = f"{self.collection}_vector"
        if not self.exact_note and not self.exists(index):
            graph = f"using hnsw (vector vector_ip_ops) with (m = {LINKS}, ef_construction = {BUILD_WIDTH})"
            build = _sql(f"create index {{}} on {{}} {graph}", index, self.collection)
            self._run_all([("set local maintenance_work_mem = '256MB'", ()), (build, ())], INDEX_SECONDS)
        self._run(_sql("analyze {}", self.collection), seconds=INDEX_SECONDS)

    @property
    def engine(self) -> str:
        """Pgvector's graph, or none."""
        return "exact" if self.exact_note else "HNSW"

    @property
    def exact_note(self) -> str:
        """Why every row is compared."""
        if self._version < GRAPH_VERSION:
            return "PostgreSQL compares a query with every row; pgvector builds a graph from version 0.5 on"
        if self._dimension > MOST_DIMENSIONS:
            return f"PostgreSQL compares a query with every row; its graph takes at most {MOST_DIMENSIONS:,} dimensions"
        return ""

    def _select(self, fields: Sequence[str], condition: Any, tail: str, *given: Any) -> list[tuple[Any, ...]]:
        """Fields of the rows that meet a condition of ours and one of the user's."""
        text, values = condition or ("true", [])
        query = _sql(f"select {', '.join(fields)} from {{}} where ({text}) and {tail}", self.collection)
        return self._run(query, *values, *given)

    def count(self, condition: Any = None, only_first: bool = False) -> int:
        """The number of rows."""
        return int(self._select(["count(*)"], condition, "number = 1" if only_first else "true")[0][0])

    def end(self) -> int:
        """The first free ``place``."""
        return int(self._select(["coalesce(max(place) + 1, 0)"], None, "true")[0][0])

    def page(self, low: int, high: int, fields: list[str], condition: Any = None) -> list[Row]:
        """The rows of some places."""
        return _rows(fields, self._select(_output(fields), condition, "place >= %s and place < %s", low, high))

    def sample(self, numbers: list[int], fields: list[str]) -> list[Row]:
        """The rows of these places."""
        return _rows(fields, self._select(_output(fields), None, "place = any(%s)", numbers))

    def rows(self, keys: Sequence[str], fields: list[str]) -> Iterator[list[Row]]:
        """The rows of these keys."""
        wanted = ["id", *fields]
        for batch in batches([len(key) for key in keys]):
            ids = [uuid_of(key) for key in keys[batch]]
            yield _rows(wanted, self._select(_output(wanted), None, "key = any(%s)", ids))

    def upsert(self, rows: list[Row]) -> None:
        """Store rows in one statement."""
        columns = {
            "key": ("uuid", [uuid_of(row["id"]) for row in rows]),
            "id": ("text", [row["id"] for row in rows]),
            "place": ("bigint", [row["place"] for row in rows]),
            "text": ("text", [row["text"] for row in rows]),
            "vector": ("text", [json.dumps(row["vector"].tolist()) for row in rows]),
            "number": ("integer", [row.get("number", 1) for row in rows]),
            PASSAGE: ("text", [json.dumps(row[PASSAGE]) if PASSAGE in row else None for row in rows]),
            METADATA: ("text", [json.dumps(row[METADATA]) if METADATA in row else None for row in rows]),
        }
        casts = {"vector": "vector::vector", PASSAGE: "passage::jsonb", METADATA: "metadata::jsonb"}
        given = ", ".join(f"%s::{kind}[]" for kind, _ in columns.values())
        changes = ", ".join(f"{name} = excluded.{name}" for name in columns)
        query = (
            f"insert into {{}} ({', '.join(columns)}) select {', '.join(casts.get(name, name) for name in columns)}"
            f" from unnest({given}) as given({', '.join(columns)}) on conflict (key) do update set {changes}"
        )
        self._run(_sql(query, self.collection), *(values for _, values in columns.values()))

    def delete(self, keys: list[str]) -> None:
        """Delete rows."""
        self._run(_sql("delete from {} where key = any(%s)", self.collection), [uuid_of(key) for key in keys])

    def search(self, queries: Vectors, k: int, condition: Any = None) -> Scored:
        """What pgvector's graph finds; its operator gives the negative inner product."""
        text, values = condition or ("true", [])
        query = f"select -(vector <#> %s::vector), id from {{}} where {text} order by vector <#> %s::vector limit %s"
        found = _sql(query, self.collection)
        vectors = [json.dumps(each.tolist()) for each in queries]
        settings = self._search_settings(k)
        answers = self._run_all([*settings, *((found, [each, *values, each, k]) for each in vectors)])[len(settings) :]
        return [[(float(score), key) for score, key in hits] for hits in answers]

    def _search_settings(self, k: int) -> list[Statement]:
        """How wide the graph is searched; for many hits it is not."""
        if self.exact_note or k > WIDEST_SEARCH:
            return [("set local enable_indexscan = off", ())]
        found: list[Statement] = [(f"set local hnsw.ef_search = {max(SEARCH_WIDTH, k)}", ())]
        if self._version >= ITERATIVE_VERSION:
            found.append(("set local hnsw.iterative_scan = strict_order", ()))
        return found

    def condition(self, where: Filter) -> tuple[Any, bool]:
        """A condition of SQL with its parameters."""
        return sql_condition(where)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold an advisory lock, which ends with the connection."""
        self._is_locked = True
        try:
            self._run("select 1")  # a broken connection is made again, with the lock
            self._lock()
            yield
        finally:
            self._is_locked = False
            if not self._database.closed:
                self._run("select pg_advisory_unlock_all()")

    def _lock(self) -> None:
        query = "select pg_try_advisory_lock(hashtextextended(%s, 0))"
        if not self._database.execute(query, (f"likewise {self.where.collection}",)).fetchone()[0]:
            raise UsageError(f"another process is writing to {self.where.written}; wait for it to end")


class PostgresStore(ServerStore):
    """An index in PostgreSQL."""

    connection_type = PostgresConnection


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra("psycopg", "pgvector") from error
    return psycopg


def _sql(text: str, *names: str, literal: str | None = None) -> Any:
    """A statement with quoted names, and perhaps a quoted text, in place of its braces."""
    from psycopg import sql

    parts = [sql.Identifier(name) for name in names]
    return sql.SQL(text).format(*parts, *([] if literal is None else [sql.Literal(literal)]))


def _message(error: Exception) -> str:
    return first_line(error)


def _output(fields: Sequence[str]) -> list[str]:
    return ["vector::text" if name == "vector" else name for name in fields]


def _rows(fields: Sequence[str], found: list[tuple[Any, ...]]) -> list[Row]:
    rows = [dict(zip(fields, values, strict=True)) for values in found]
    return [row | {"vector": json.loads(row["vector"])} if "vector" in row else row for row in rows]
