"""Pointers: a folder that only says in which Milvus collection its index is."""

from __future__ import annotations

import json
from pathlib import Path

from likewise.errors import DataError, UsageError
from likewise.retrieval.manifest import MANIFEST
from likewise.retrieval.milvus import is_milvus

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
        return str(json.loads(path.read_text(encoding="utf-8"))["store"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged; give the store itself with --store") from error


def write_pointer(folder: Path, store: str) -> None:
    """Let a folder point at a store."""
    if (folder / MANIFEST).exists():
        raise UsageError(f"{folder} already holds an index of its own; give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"{POINTER}.draft"
    beside.write_text(json.dumps({"store": store}), encoding="utf-8")
    beside.replace(folder / POINTER)
