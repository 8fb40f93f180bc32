"""Streams: any number of texts -> a memory-mapped array of embeddings on disk, in bounded memory; runs can resume.

float32 results depend on the batch shape. So the stream is cut into windows by input position alone, and a window is
encoded and committed as a whole. An interrupted run that is resumed writes the same bytes as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from likewise.data import Dataset, SkippedRows, read_texts
from likewise.data.remote import AnyPath, write_atomically
from likewise.encoder import forward
from likewise.encoder.encoder import Encoded, Encoder
from likewise.encoder.forward import TOKEN_BUDGET, IdAndText, steady_memory
from likewise.encoder.postprocessing import PostProcessing, check_kind, fit_postprocessing
from likewise.encoder.tokens import report_truncation
from likewise.encoder.weights import identity
from likewise.encoder.windows import Cut, TextWindow, add_to, file_stream, plain_windows
from likewise.encoder.workers import Task, Team, team_of
from likewise.errors import DataError, UsageError
from likewise.progress import Progress, Ticker, tracked
from likewise.storage import only_writer

FORMAT = 1
VECTORS, IDS, MANIFEST, POSTPROCESSING = "vectors.npy", "ids.jsonl", "manifest.json", "postprocessing.safetensors"


Shard = dict[str, Any]
"""A file of a manifest: its name, its rows and its sha256."""


@dataclass(frozen=True)
class Manifest:
    """What a folder of vectors holds, how it was made and how far it got."""

    settings: dict[str, Any]
    dimension: int
    rows: int = 0
    truncated: int = 0
    ids_bytes: int = 0
    texts_sha256: str = ""
    complete: bool = False
    shards: tuple[Shard, ...] = ()  # the files of a folder that keeps vectors in several

    def write(self, folder: AnyPath, name: str = MANIFEST) -> None:
        """Commit: the folder holds the old manifest or the new one, never half of one."""
        values = {key: value for key, value in vars(self).items() if key != "shards" or value}
        write_atomically(folder / name, json.dumps(values, indent=1, ensure_ascii=False).encode())

    @classmethod
    def read(cls, folder: AnyPath, name: str = MANIFEST) -> Manifest | None:
        """The folder's manifest, or None if it has none."""
        path = folder / name
        if not path.exists():
            return None
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
            dict(found.settings)  # raises if it is not a mapping
            return replace(found, shards=tuple(found.shards))
        except (ValueError, TypeError) as error:
            raise DataError(f"{path} is not a manifest ({error}); give another --out") from error


class Layout(Protocol):
    """How a folder keeps vectors."""

    path: AnyPath
    own: dict[str, Any]  # settings that it adds to the manifest
    prefix: str  # of the names of all files but those with vectors
    seconds_between_commits: float

    def task(self, prompt: str, team: Team) -> Task[TextWindow, Any]:
        """What a worker does with a window."""

    def writing(self, done: Manifest) -> AbstractContextManager[Append]:
        """Go on after what is done: a function that adds a window and its result, and returns the new manifest."""


Append = Callable[[TextWindow, Any, Manifest], Manifest]


def encode_stream(
    encoder: Encoder,
    items: Iterable[IdAndText],
    folder: Path | Layout,
    *,
    prompt: str | None = None,
    total: int | None = None,
    progress: Progress | None = None,
    workers: int | Team | None = None,
) -> Manifest:
    """Encode (id, text) items into ``folder``; resumes a folder that was begun with the same settings.

    Several ``workers``, processes or a cluster, write the same bytes as one, each with as many threads as this process.
    None is the encoder's own team.
    """
    ticker = Ticker(progress, total, "texts")
    return _encoded(encoder, (iter(items), plain_windows), folder, prompt, ticker, team_of(encoder, workers))


def _encoded(
    encoder: Encoder,
    stream: tuple[Iterator[IdAndText], Cut],
    folder: Path | Layout,
    prompt: str | None,
    ticker: Ticker,
    team: Team,
) -> Manifest:
    layout = ArrayFolder(folder) if isinstance(folder, Path) else folder
    path = layout.path
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made ({error.strerror or error}); give another --out") from error
    cure = "wait for it or give another --out"
    with only_writer(path / ".lock", path, cure) if isinstance(path, Path) else nullcontext():
        prompt = encoder.modules_config.prompt_for(None) if prompt is None else prompt
        done = _begun(encoder, layout, prompt, team)
        with steady_memory():
            return _resume(encoder, stream, layout, done, ticker, team)


def open_vectors(folder: Path) -> tuple[NDArray[np.float32], list[str]]:
    """The memory-mapped vectors (n, d) of a finished folder, and their ids."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise DataError(f"{folder} holds no vectors; make them with: likewise encode FILE --out {folder}")
    if not manifest.complete:
        raise DataError(f"{folder} is unfinished at {manifest.rows} rows; run the same likewise encode again")
    # Not splitlines: JSON leaves U+2028 and the like as they are.
    lines = (folder / IDS).read_text(encoding="utf-8").split("\n")[:-1]
    return np.load(folder / VECTORS, mmap_mode="r"), [json.loads(line) for line in lines]


def _begun(encoder: Encoder, layout: Layout, prompt: str, team: Team) -> Manifest:
    """The manifest to resume from: the folder's own, if its settings are the same, or a new one."""
    # Everything that the bytes of a vector depend on, besides its text.
    folder = layout.path
    settings = identity(encoder) | {
        "format": FORMAT,
        "device": team.device or encoder.device.type,
        "prompt": prompt,
        "threads": torch.get_num_threads(),
        "token_budget": TOKEN_BUDGET,
        "window_texts": forward.WINDOW_TEXTS,
        "window_characters": forward.WINDOW_CHARACTERS,
        **layout.own,
    }
    found = Manifest.read(folder, name := layout.prefix + MANIFEST)
    if found is None:
        drafts = f".{name}", f".{Path(name).stem}."
        names = {path.name for path in folder.iterdir() if not path.name.startswith(drafts)}
        if strangers := names - {".lock"}:
            raise UsageError(f"{folder} already holds {min(strangers)}; give a new or empty folder as --out")
        # Written before all other files: from now on every file here is ours.
        found = Manifest(settings, encoder.dimension)
        found.write(folder, name)
    for key in settings | found.settings:
        if (former := found.settings.get(key)) != (value := settings.get(key)):
            cure = "use the same settings or give another --out"
            raise UsageError(f"{folder} was begun with {key} {former!r}, not {value!r}; {cure}")
    if encoder.postprocessing is not None:
        write_atomically(folder / (layout.prefix + POSTPROCESSING), encoder.postprocessing.to_bytes())
    return found


def _resume(
    encoder: Encoder,
    items_and_cut: tuple[Iterator[IdAndText], Cut],
    layout: Layout,
    done: Manifest,
    ticker: Ticker,
    team: Team,
) -> Manifest:
    digest, (items, cut), name = hashlib.sha256(), items_and_cut, layout.prefix + MANIFEST
    _skip(items, done, digest, ticker)
    windows = cut(items, done.rows)
    first = list(islice(windows, 1))
    if done.complete and first:
        done = replace(done, complete=False)
        done.write(layout.path, name)
    stream = team.run(encoder, layout.task(done.settings["prompt"], team), chain(first, windows), ticker)
    last = -float("inf")
    with closing(stream), layout.writing(done) as append:
        for window, result in stream:
            add_to(digest, window.items)
            done = replace(append(window, result, done), texts_sha256=digest.hexdigest())
            if time.monotonic() - last >= layout.seconds_between_commits:
                last = time.monotonic()
                done.write(layout.path, name)
    done = replace(done, complete=True)
    done.write(layout.path, name)
    ticker.close()
    report_truncation(done.truncated, done.rows, encoder.tokenizer.limit)
    return done


@dataclass(frozen=True)
class EncodeTexts:
    """The task of a worker: the vectors of a window's texts."""

    prompt: str

    def __call__(self, encoder: Encoder, window: TextWindow, progress: Progress | None) -> Encoded:
        """The vectors (n, d) and how many texts were truncated."""
        return encoder.encode_with_stats(window.texts, prompt=self.prompt, progress=progress)


class ArrayFolder:
    """The usual layout: vectors.npy and ids.jsonl, which the first process writes."""

    prefix, seconds_between_commits = "", 0.0

    def __init__(self, folder: Path) -> None:
        self.path: AnyPath = folder
        self.folder, self.own = folder, dict[str, Any]()

    def task(self, prompt: str, team: Team) -> EncodeTexts:  # noqa: ARG002
        """Workers return the vectors."""
        return EncodeTexts(prompt)

    @contextmanager
    def writing(self, done: Manifest) -> Iterator[Append]:
        """Append rows to both files."""
        for name in (VECTORS, IDS):
            (self.folder / name).touch()
        with (self.folder / VECTORS).open("r+b") as vectors, (self.folder / IDS).open("r+b") as ids:
            header = len(_header(0, done.dimension)) if done.rows else 0
            _cut_back(vectors, header + done.rows * done.dimension * 4, self.folder / VECTORS)
            _cut_back(ids, done.ids_bytes, self.folder / IDS)
            if not done.rows:
                _write_at(vectors, 0, _header(0, done.dimension))
            yield lambda window, encoded, before: _append(window, encoded, before, (vectors, ids))


def _append(window: TextWindow, encoded: Encoded, done: Manifest, files: tuple[BinaryIO, BinaryIO]) -> Manifest:
    """Write a window's rows after the committed ones; the manifest commits them."""
    vectors, ids = files
    names = "".join(json.dumps(name, ensure_ascii=False) + "\n" for name, _ in window.items).encode("utf-8", "replace")
    rows = done.rows + len(window)
    _write_at(vectors, 0, _header(rows, done.dimension))
    index = len(_header(rows, done.dimension)) + done.rows * done.dimension * 4
    _write_at(vectors, index, np.ascontiguousarray(encoded.vectors, dtype="<f4").tobytes())
    _write_at(ids, done.ids_bytes, names)
    truncated = done.truncated + encoded.truncated
    return replace(done, rows=rows, ids_bytes=done.ids_bytes + len(names), truncated=truncated)


def _skip(items: Iterator[IdAndText], done: Manifest, digest: hashlib._Hash, ticker: Ticker) -> None:
    """Skip the committed rows and check that their texts are the same."""
    for _ in range(done.rows):
        item = next(items, None)
        if item is None:
            raise DataError(f"the input now has fewer than the {done.rows} rows already encoded; give another --out")
        add_to(digest, [item])
        ticker.add()
    if done.rows and digest.hexdigest() != done.texts_sha256:
        raise DataError("the input is not the one that this folder was begun with; give another --out")


def _cut_back(stream: BinaryIO, size: int, path: Path) -> None:
    """Drop what follows the last commit: it belongs to an interrupted window."""
    if stream.seek(0, os.SEEK_END) < size:
        raise DataError(f"{path} is shorter than its manifest says; remove the folder and encode again")
    stream.truncate(size)


def _write_at(stream: BinaryIO, index: int, data: bytes) -> None:
    stream.seek(index)
    stream.write(data)
    stream.flush()
    os.fsync(stream.fileno())


def _header(rows: int, dimension: int) -> bytes:
    """The .npy header; numpy pads it, so its length does not depend on the number of rows."""
    buffer = io.BytesIO()
    shape = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(buffer, shape)
    return buffer.getvalue()


@dataclass(frozen=True)
class EncodedFile:
    """The result of ``encode_file``: the folder's manifest and the bad rows that were skipped."""

    folder: AnyPath
    manifest: Manifest
    skipped: SkippedRows

    def to_dict(self) -> dict[str, Any]:
        """The folder, what it holds, and the first bad rows."""
        counts = {name: getattr(self.manifest, name) for name in ("rows", "dimension", "truncated")}
        bad = {"skipped": self.skipped.count, "bad_rows": [str(error) for error in self.skipped.errors]}
        return {"folder": str(self.folder), **counts, **bad}


def encode_file(
    encoder: Encoder,
    source: Dataset,
    folder: Path | Layout,
    *,
    prompt: str | None = None,
    progress: Progress | None = None,
    workers: int | Team | None = None,
) -> EncodedFile:
    """Stream a file of any size into a folder; the same call again resumes. ``workers``: see ``encode_stream``.

    The whole file is checked first, so that a bad row raises before hours of work.
    """
    skipped, team = SkippedRows(), team_of(encoder, workers)
    total = sum(1 for _ in tracked(source.stream(read_texts, skipped), progress, note="rows checked"))
    ticker = Ticker(progress, total, "texts")
    manifest = _encoded(encoder, file_stream(source, team), folder, prompt, ticker, team)
    return EncodedFile(folder if isinstance(folder, Path) else folder.path, manifest, skipped)


def fit_on_file(
    encoder: Encoder,
    source: Dataset,
    kind: str,
    dim: int | None = None,
    progress: Progress | None = None,
    on_bad: Callable[[DataError], None] | None = None,
) -> PostProcessing:
    """Fit a post-processing on the encoder's vectors of a file's texts."""
    check_kind(kind)
    texts = [row.text for row in source.stream(read_texts, on_bad)]
    return fit_postprocessing(kind, encoder.with_postprocessing(None).encode(texts, progress=progress), dim)
