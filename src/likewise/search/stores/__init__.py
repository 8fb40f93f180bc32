"""Stores: where the texts and vectors of an index are: memory, a folder, Milvus, Qdrant or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from likewise.search.stores.address import Address
from likewise.search.stores.folder import FolderStore, address_of, has_scheme
from likewise.search.stores.server_store import ServerStore
from likewise.search.stores.store import Searched, Store, StoredRows, Writer

__all__ = ["Searched", "ServerStore", "Store", "StoredRows", "Writer", "open_store", "server_store"]


def open_store(where: str | Path, verify: bool = True) -> Store:
    """The store of an address: a folder, a folder that points elsewhere, or a server."""
    address = address_of(where)
    if has_scheme(address):
        return server_store(address).open(address)
    return FolderStore.open(Path(address), verify)


def server_store(address: str) -> type[ServerStore]:
    """The class for an address with a scheme; its client library is imported when it connects."""
    kind = Address.parse(address).kind
    if kind == "milvus":
        from likewise.search.stores.milvus import MilvusStore

        return MilvusStore
    if kind == "qdrant":
        from likewise.search.stores.qdrant import QdrantStore

        return QdrantStore
    from likewise.search.stores.pgvector import PostgresStore

    return PostgresStore
