"""A folder of Parquet files, which other engines read: a shard for each window, written by the worker that encodes it.

The manifest lists the shards that are whole. What is not in it is written again, with the same name and bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data.remote import AnyPath, arrow, write_atomically
from likewise.encoder.encoder import Encoder
from likewise.encoder.stream import Append, Manifest, Shard
from likewise.encoder.windows import TextWindow
from likewise.encoder.workers import Team
from likewise.errors import LikewiseError, first_line
from likewise.progress import Progress

PREFIX = "_"  # Engines that read a folder ignore such names


@dataclass(frozen=True)
class Receipt:
    """What a worker says of a shard; it holds the file's bytes if the worker could not write them."""

    shard: Shard
    truncated: int
    data: bytes | None = None


@dataclass(frozen=True)
class WriteShard:
    """The task of a worker: encode a window and write its shard, or return it if ``path`` is None."""

    prompt: str
    path: AnyPath | None

    def __call__(self, encoder: Encoder, window: TextWindow, progress: Progress | None) -> Receipt:
        """The receipt of a shard with the columns id and vector."""
        encoded = encoder.encode_with_stats(window.texts, prompt=self.prompt, progress=progress)
        ids = arrow("pyarrow").array([name.encode("utf-8", "replace").decode() for name, _ in window.items], "string")
        data = parquet_bytes({"id": ids, "vector": vector_column(encoded.vectors)})
        name = f"part-{window.first:012d}.parquet"
        shard = {"file": name, "rows": len(window), "sha256": hashlib.sha256(data).hexdigest()}
        if self.path is None:
            return Receipt(shard, encoded.truncated, data)
        write_file(self.path / name, data)
        return Receipt(shard, encoded.truncated)


class ParquetFolder:
    """A folder or a URI whose shards are Parquet files."""

    prefix = PREFIX
    seconds_between_commits = 2.0  # the manifest grows with the shards

    def __init__(self, path: AnyPath) -> None:
        arrow("parquet")  # a missing extra is an error before hours of work
        self.path, self.own = path, {"layout": "parquet"}

    def task(self, prompt: str, team: Team) -> WriteShard:
        """Workers write the shards, or this process does if they do not reach the folder."""
        return WriteShard(prompt, self.path if team.reaches(self.path) else None)

    @contextmanager
    def writing(self, done: Manifest) -> Iterator[Append]:  # noqa: ARG002
        """List the shards; write those that workers could not."""
        yield self._append

    def _append(self, window: TextWindow, receipt: Receipt, done: Manifest) -> Manifest:
        if receipt.data is not None:
            write_file(self.path / receipt.shard["file"], receipt.data)
        rows, truncated = done.rows + len(window), done.truncated + receipt.truncated
        return replace(done, rows=rows, truncated=truncated, shards=(*done.shards, receipt.shard))


def write_file(path: AnyPath, data: bytes) -> None:
    """Write a file whole, or say in one line why not."""
    try:
        write_atomically(path, data)
    except OSError as error:
        flaw = first_line(error) if error.strerror is None else error.strerror
        raise LikewiseError(f"{path} cannot be written ({flaw}); run the same command again to go on") from error


def vector_column(vectors: NDArray[np.float32]) -> Any:
    """Vectors (n, d) as a column of lists of d numbers."""
    flat = np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1)
    library = arrow("pyarrow")
    return library.FixedSizeListArray.from_arrays(library.array(flat), vectors.shape[1])


def parquet_bytes(columns: dict[str, Any]) -> bytes:
    """The content of a Parquet file with these columns."""
    library = arrow("pyarrow")
    sink = library.BufferOutputStream()
    # Vectors do not get smaller by a dictionary or by compression, only slower.
    names = [name for name in columns if name != "vector"]
    arrow("parquet").write_table(
        library.table(columns),
        sink,
        use_dictionary=names,
        compression=dict.fromkeys(names, "zstd") | {"vector.list.element": "none"},
    )
    return bytes(sink.getvalue())
