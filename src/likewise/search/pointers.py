"""Pointers: a folder that only says in which Milvus collection its index is."""

from __future__ import annotations

import json
from pathlib import Path

from likewise.errors import DataError, UsageError
from likewise.search.manifest import MANIFEST, UNFINISHED
from likewise.search.milvus_address import Address, is_milvus

POINTER = "store.json"


def place_of(folder: str | Path | None, store: str | None = None) -> str:
    """Where an index is: a Milvus address, given or pointed at, or the folder itself.

    >>> place_of("news"), place_of("news", "milvus:news.db")
    ('news', 'milvus:news.db')
    """
    if store is not None:
        if not is_milvus(store):
            raise UsageError(f"unknown store {store!r}; give milvus://HOST:PORT/COLLECTION or milvus:FILE.db")
        return store
    path = Path(str(folder)) / POINTER
    if folder is None or is_milvus(str(folder)) or not path.is_file():
        return str(folder)
    try:
        store = json.loads(path.read_text(encoding="utf-8"))["store"]
        if isinstance(store, str) and is_milvus(store):
            return store
    except (ValueError, KeyError, TypeError):
        pass
    raise DataError(f"{path} is damaged; give the store itself, or point to it again with likewise index --store")


def check_pointer(folder: Path) -> None:
    """Refuse to let a folder point elsewhere that is an index itself."""
    if (folder / MANIFEST).exists() or (folder / UNFINISHED).exists():
        raise UsageError(f"{folder} already holds an index of its own; give another --out")


def write_pointer(folder: Path, store: str) -> None:
    """Let a folder point at a store, from wherever it will be read."""
    check_pointer(folder)
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"{POINTER}.draft"
    beside.write_text(json.dumps({"store": Address.parse(store).absolute}), encoding="utf-8")
    beside.replace(folder / POINTER)
