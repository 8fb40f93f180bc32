"""An index as Parquet files, which other engines read: id, text, vector, the place of a passage, and the metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

import numpy as np

from likewise.data.remote import AnyPath, arrow
from likewise.encoder.parquet_folder import PREFIX, parquet_bytes, vector_column, write_file
from likewise.encoder.stream import MANIFEST, Manifest
from likewise.errors import UsageError
from likewise.progress import Progress, Ticker
from likewise.search.stores import Store, StoredRows

SHARD_ROWS = 16384
OWN_FILES = ("part-*", PREFIX + MANIFEST, ".*")
TYPES = {"number": "float64", "text": "string", "boolean": "bool"}


def export_parquet(store: Store, path: AnyPath, progress: Progress | None = None) -> Manifest:
    """Write the rows of an index in order; the manifest, which lists all shards, is written last."""
    arrow("parquet")
    try:
        path.mkdir(parents=True, exist_ok=True)
        others = sorted(one.name for one in path.iterdir() if not any(fnmatch(one.name, own) for own in OWN_FILES))
    except OSError as error:
        raise UsageError(f"{path} cannot be made ({error.strerror or error}); give another --parquet") from error
    if others:
        raise UsageError(f"{path} already holds {others[0]}; give a new or empty folder as --parquet")
    ticker, rows, shards = Ticker(progress, len(store), "rows exported"), 0, list[dict[str, Any]]()
    columns = store.columns if store.has_origins else {}
    for part in _shards(store):
        data = parquet_bytes(_columns(part, columns, store.settings))
        name = f"part-{rows:012d}.parquet"
        write_file(path / name, data)
        shards.append({"file": name, "rows": len(part), "sha256": hashlib.sha256(data).hexdigest()})
        rows += len(part)
        ticker.add(len(part))
    settings = dict(store.settings) | {"layout": "index"}
    done = Manifest(settings, settings["dimension"], rows=rows, complete=True, shards=tuple(shards))
    done.write(path, PREFIX + MANIFEST)
    ticker.close()
    return done


def _shards(store: Store) -> Iterator[StoredRows]:
    """All rows in order, in parts of a fixed size."""
    waiting: list[StoredRows] = []
    count = 0
    for rows in store.windows():
        waiting.append(rows)
        count += len(rows)
        while count >= SHARD_ROWS:
            whole = _joined(waiting)
            yield _some(whole, slice(0, SHARD_ROWS))
            waiting, count = [_some(whole, slice(SHARD_ROWS, None))], count - SHARD_ROWS
    if count:
        yield _joined(waiting)


def _joined(parts: Sequence[StoredRows]) -> StoredRows:
    ids, texts = ([one for part in parts for one in getattr(part, name)] for name in ("ids", "texts"))
    origins = [one for part in parts for one in part.origins or ()]
    return StoredRows(ids, texts, np.concatenate([part.vectors for part in parts]), origins or None)


def _some(rows: StoredRows, which: slice) -> StoredRows:
    origins = None if rows.origins is None else rows.origins[which]
    return StoredRows(rows.ids[which], rows.texts[which], rows.vectors[which], origins)


def _columns(rows: StoredRows, columns: Mapping[str, Sequence[str]], stored: Mapping[str, Any]) -> dict[str, Any]:
    library = arrow("pyarrow")
    found = {"id": library.array(list(rows.ids), "string"), "text": library.array(list(rows.texts), "string")}
    found["vector"] = vector_column(rows.vectors)
    origins = rows.origins or ()
    if stored.get("passages") is not None:
        names = {"passage": "number", "passages": "of", "start": "start", "end": "end"}
        places = [origin.passage for origin in origins]
        found |= {
            name: library.array([getattr(one, field) for one in places], "int64") for name, field in names.items()
        }
    for name, types in columns.items():
        values = [origin.metadata.get(name) for origin in origins]
        is_one_type = len(types) == 1
        # A column with values of several types is one of JSON.
        cells = values if is_one_type else [None if value is None else json.dumps(value) for value in values]
        found[f"metadata.{name}"] = library.array(cells, TYPES[types[0]] if is_one_type else "string")
    return found
