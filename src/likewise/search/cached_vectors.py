"""Vectors of a file's texts in the user's cache: encoded once, in bounded memory; an interrupted run continues."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from likewise.encoder import Encoder
from likewise.encoder.forward import IdAndText
from likewise.encoder.stream import MANIFEST, encode_stream, open_vectors
from likewise.encoder.weights import identity
from likewise.errors import DataError
from likewise.progress import Progress
from likewise.search.engines import Vectors
from likewise.storage import content_key, prune_folders, user_cache

MOST_BYTES = 2**33  # The size of all cached vectors, without those in use


@dataclass(frozen=True, eq=False)
class CachedVectors:
    """The memory-mapped vectors (n, d), their folder, and how many texts were cut at the model's limit."""

    vectors: Vectors
    folder: Path
    truncated: int


def cached_vectors(
    encoder: Encoder,
    source: object,
    items: Callable[[], Iterable[IdAndText]],
    total: int,
    prompt: str | None = None,
    progress: Progress | None = None,
) -> CachedVectors:
    """The vectors of (id, text) items, which ``source`` identifies, encoded now or by an earlier run.

    The folder may also hold other files of the same run.
    """
    how = {"device": encoder.device.type, "threads": torch.get_num_threads(), "prompt": prompt}
    folder = user_cache() / "vectors" / content_key(source, identity(encoder), how)[:32]
    try:
        done = encode_stream(encoder, items(), folder, prompt=prompt, total=total, progress=progress)
        vectors, _ = open_vectors(folder)
    except DataError:
        # The user does not know of this folder: what is damaged is encoded again.
        shutil.rmtree(folder, ignore_errors=True)
        done = encode_stream(encoder, items(), folder, prompt=prompt, total=total, progress=progress)
        vectors, _ = open_vectors(folder)
    with suppress(OSError):  # another process may be pruning too
        (folder / MANIFEST).touch()
        prune_folders(folder, MOST_BYTES)
    return CachedVectors(vectors, folder, done.truncated)
