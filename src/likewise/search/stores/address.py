"""Addresses of stores on servers and in Milvus Lite databases; none holds a user or a password."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from likewise.errors import UsageError
from likewise.search.stores.folder import FORMS, POINTER, check_pointer
from likewise.storage import write_text

DEFAULT_COLLECTION = "likewise"  # Of a Milvus Lite database
SERVERS = {"milvus": "Milvus", "qdrant": "Qdrant", "postgresql": "PostgreSQL"}
SECRETS = {"milvus": "MILVUS_TOKEN", "qdrant": "QDRANT_API_KEY", "postgresql": "PGUSER and PGPASSWORD"}
"""The environment variables that let a user in."""
MOST_NODES = 16
MOST_TABLE = 48  # Characters; PostgreSQL's greatest name is 63, and two tables and their indexes add to it
_LITE_FORM = re.compile(r"(?P<file>.+\.db)(#(?P<collection>.*))?", re.DOTALL)
_NODE_FORM = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_NAME_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


@dataclass(frozen=True)
class Address:
    """Where a collection of a server, or of a Milvus Lite database, is.

    >>> Address.parse("qdrant://one:6333,two:6333/news").nodes
    ('one:6333', 'two:6333')
    """

    written: str  # as the user wrote it
    kind: str  # one of FORMS
    collection: str
    nodes: tuple[str, ...] = field(default=())  # HOST:PORT of each node of a cluster
    database: str = ""  # of PostgreSQL
    file: Path | None = None  # the database of Milvus Lite, or None for a server

    @classmethod
    def parse(cls, written: str) -> Address:
        """Read an address in one of the FORMS; another one raises UsageError."""
        kind, _, rest = written.partition(":")
        if kind not in FORMS:
            raise UsageError(f"unknown store {written!r}; give {' or '.join(FORMS.values())}")
        address = _lite(written, rest) if kind == "milvus" and not rest.startswith("//") else _server(written, kind)
        if address is None:
            raise UsageError(f"{written!r} is not an address of {SERVERS[kind]}; write {FORMS[kind]}")
        for name in (address.collection, *([address.database] if kind == "postgresql" else [])):
            if not _NAME_FORM.fullmatch(name):
                what = "table or database" if kind == "postgresql" else "collection"
                raise UsageError(f"{SERVERS[kind]} knows no {what} named {name!r}; use letters, digits and underscores")
        if kind == "postgresql" and len(address.collection) > MOST_TABLE:
            raise UsageError(f"the table {address.collection!r} has too long a name; use at most {MOST_TABLE} letters")
        return address

    @property
    def server(self) -> str:
        """The product's name."""
        return "Milvus Lite" if self.file is not None else SERVERS[self.kind]

    @property
    def secrets(self) -> str:
        """The environment variables that let a user in."""
        return SECRETS[self.kind]

    @property
    def absolute(self) -> str:
        """The same address as it can be read from any folder."""
        return self.written if self.file is None else f"{self.kind}:{self.file}#{self.collection}"


def write_pointer(folder: Path, store: str) -> None:
    """Make a folder point at a store; the address is absolute."""
    check_pointer(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / POINTER, json.dumps({"store": Address.parse(store).absolute}))


def _server(written: str, kind: str) -> Address | None:
    head, _, path = written.removeprefix(f"{kind}://").partition("/")
    if "@" in head:
        raise UsageError(
            f"an address of {SERVERS[kind]} holds no user and no password; set the environment variable {SECRETS[kind]}"
        )
    nodes = tuple(head.split(","))
    most = 1 if kind == "milvus" else MOST_NODES
    if not written.startswith(f"{kind}://") or len(nodes) > most or not all(map(_is_node, nodes)):
        return None
    database, _, collection = path.rpartition("/")
    if bool(database) != (kind == "postgresql"):
        return None
    return Address(written, kind, collection, nodes, database)


def _is_node(node: str) -> bool:
    """Whether it is HOST:PORT, and nothing more."""
    match = _NODE_FORM.fullmatch(node)
    return match is not None and 0 < int(match["port"]) < 2**16


def _lite(written: str, rest: str) -> Address | None:
    match = _LITE_FORM.fullmatch(rest)
    if match is None or "\0" in rest:
        return None
    try:
        # Absolute: the process may change its directory, and two spellings of a path are one database.
        file = Path(os.path.abspath(Path(match["file"]).expanduser()))
    except RuntimeError:  # a user's home that does not exist
        return None
    collection = DEFAULT_COLLECTION if match["collection"] is None else match["collection"]
    return Address(written, "milvus", collection, file=file)
