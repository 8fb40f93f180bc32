"""Milvus addresses, and the connection to a Milvus server or to a Milvus Lite database in this process."""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from likewise.errors import DataError, LikewiseError, MissingExtra, UsageError, first_line
from likewise.search.folder import POINTER, SCHEME, check_pointer, is_milvus
from likewise.storage import only_writer, write_text

DEFAULT_COLLECTION = "likewise"
BATCH_ROWS = 1024  # of the longest texts these are 67 MB; a server sends at most 100 MB at once
BATCH_BYTES = 8_000_000
CONNECT_SECONDS = 5.0
CALL_SECONDS = 60.0
LOGGERS = ("pymilvus", "pymilvus.milvus_client", "milvus_lite")
_LITE_FORM = re.compile(r"(?P<file>.+\.db)(#(?P<collection>.*))?", re.DOTALL)
_COLLECTION_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_EMPTY_ID = "%"  # no quoted id is a lone percent sign
_READABLE = " /:@#+=,"
Row = dict[str, Any]

# Milvus Lite runs one server per database in this process; the last user stops it.
_USERS: Counter[str] = Counter()
_USERS_LOCK = Lock()


@dataclass(frozen=True)
class Address:
    """Where a collection is."""

    written: str  # as the user wrote it
    uri: str  # as pymilvus takes it
    collection: str
    file: Path | None = None  # the database of Milvus Lite, or None for a server

    @classmethod
    def parse(cls, written: str) -> Address:
        """Read ``milvus://HOST:PORT/COLLECTION`` or ``milvus:FILE.db#COLLECTION``."""
        rest = written.removeprefix(SCHEME)
        address = _server(written) if rest.startswith("//") else _lite(written, rest)
        if not is_milvus(written) or address is None:
            cure = "write milvus://HOST:PORT/COLLECTION or milvus:FILE.db"
            raise UsageError(f"{written!r} is not an address of Milvus; {cure}")
        if not _COLLECTION_FORM.fullmatch(name := address.collection):
            raise UsageError(f"Milvus knows no collection named {name!r}; use letters, digits and underscores")
        return address

    @property
    def absolute(self) -> str:
        """The same address as it can be read from any folder."""
        return self.written if self.file is None else f"{SCHEME}{self.file}#{self.collection}"


def write_pointer(folder: Path, store: str) -> None:
    """Make a folder point at a store; the address is absolute."""
    check_pointer(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / POINTER, json.dumps({"store": Address.parse(store).absolute}))


def key_of(name: str) -> str:
    """An id as Milvus stores it: in ASCII, without quotes and backslashes.

    pymilvus puts primary keys between quotes without escaping them, and Milvus Lite has no parameters for filters,
    so a key must not be able to end its own quotes.
    """
    return quote(name, safe=_READABLE, errors="surrogatepass") or _EMPTY_ID


def id_of(key: str) -> str:
    """The id that a key was made of."""
    return "" if key == _EMPTY_ID else unquote(key, errors="surrogatepass")


class Connection:
    """The connection to one collection, which need not exist yet."""

    def __init__(self, where: Address) -> None:
        client_class = _client_class(where)
        if where.file is not None and where.file.is_file():
            raise DataError(f"{where.file} is not a database of Milvus Lite 3; give another name")
        token = os.environ.get("MILVUS_TOKEN", "") if where.file is None else ""
        self.where = where
        with _USERS_LOCK:
            _USERS[where.uri] += 1
        try:
            # A shared connection would stay open after close().
            self._client = client_class(uri=where.uri, token=token, timeout=CONNECT_SECONDS, dedicated=True)
        except BaseException as error:
            self._leave()
            if isinstance(error, _failures()):
                raise _refusal(where, error) from error
            raise

    def close(self) -> None:
        """Leave Milvus; the last connection to a Milvus Lite database stops it."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
            self._leave()

    def _leave(self) -> None:
        with _USERS_LOCK:
            _USERS[self.where.uri] -= 1
            if self.where.file is not None and _USERS[self.where.uri] == 0:
                from milvus_lite import server_manager_instance

                server_manager_instance.release_server(self.where.uri)

    def ask(self, method: str, *, timeout: float = CALL_SECONDS, **arguments: Any) -> Any:
        """Call a method of pymilvus's client for the collection; what it raises becomes a DataError of one line."""
        if self._client is None:
            raise UsageError(f"the store {self.where.written} is closed; open it again")
        try:
            return getattr(self._client, method)(self.where.collection, timeout=timeout, **arguments)
        except _failures() as error:
            flaw = f"Milvus failed at {method} on {self.where.written} ({_message(error)})"
            raise DataError(f"{flaw}; check Milvus and try again") from error

    def query(self, condition: str, fields: list[str], **arguments: Any) -> list[Row]:
        """The rows that meet a condition, at the consistency level Strong."""
        how: dict[str, Any] = {"filter": condition, "output_fields": fields, "consistency_level": "Strong"}
        return list(self.ask("query", **how, **arguments))

    def rows(self, keys: Sequence[str], fields: list[str]) -> Iterator[list[Row]]:
        """The rows of these keys, in no order, some at a time; unknown keys are skipped."""
        how: dict[str, Any] = {"output_fields": ["id", *fields], "consistency_level": "Strong"}
        for batch in batches([len(key) for key in keys]):
            yield list(self.ask("get", ids=list(keys[batch]), **how))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock a Milvus Lite database against other writers; a server's collection is not locked."""
        file = self.where.file
        with nullcontext() if file is None else only_writer(Path(f"{file}.lock"), file):
            yield


def batches(sizes: Sequence[int]) -> Iterator[slice]:
    """Cut rows of these sizes in bytes into batches that a server accepts.

    >>> list(batches([5_000_000, 5_000_000, 1]))
    [slice(0, 1, None), slice(1, 3, None)]
    """
    start = total = 0
    for index, size in enumerate(sizes):
        if index > start and (index - start == BATCH_ROWS or total + size > BATCH_BYTES):
            yield slice(start, index)
            start, total = index, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def _failures() -> tuple[type[Exception], ...]:
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    return MilvusException, RpcError


def _message(error: Exception) -> str:
    return first_line(Exception(getattr(error, "message", "") or str(error)))


def _server(written: str) -> Address | None:
    try:
        parts = urlsplit(written)
        port = parts.port
    except ValueError:
        return None
    if parts.username is not None:
        raise UsageError("an address of Milvus holds no password; set the environment variable MILVUS_TOKEN")
    if not parts.hostname or port is None or parts.query or parts.fragment:
        return None
    return Address(written, f"http://{parts.netloc}", parts.path.strip("/"))


def _lite(written: str, rest: str) -> Address | None:
    match = _LITE_FORM.fullmatch(rest)
    if match is None:
        return None
    # Absolute: the process may change its directory, and two spellings of a path are one database.
    file = Path(os.path.abspath(Path(match["file"]).expanduser()))
    collection = DEFAULT_COLLECTION if match["collection"] is None else match["collection"]
    return Address(written, str(file), collection, file)


def _client_class(address: Address) -> Any:
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        raise MissingExtra("pymilvus", "search") from error
    if address.file is not None:
        try:
            import milvus_lite  # noqa: F401
        except ImportError as error:
            raise MissingExtra("milvus-lite", "search") from error
    for name in LOGGERS:
        # They also print the tracebacks of errors that are raised.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return MilvusClient


def _refusal(address: Address, error: Exception) -> LikewiseError:
    """The reason that there is no connection, with its cure."""
    if address.file is None:
        flaw = f"no Milvus answers at {address.uri} ({_message(error)})"
        return DataError(f"{flaw}; start it, or check the address and MILVUS_TOKEN")
    from milvus_lite import DataDirLockedError, MilvusLite

    try:
        MilvusLite(address.uri).close()  # pymilvus hides the reason, so ask once more
    except DataDirLockedError:
        return UsageError(f"another process has {address.file} open and Milvus Lite serves only one; wait for it")
    except Exception as reason:
        return DataError(f"{address.file} cannot be opened ({first_line(reason)}); give another file")
    return DataError(f"{address.file} cannot be opened ({_message(error)}); try again")
