"""A cache of contributions: what a text's units add to its vector, computed once and found by the text's hash."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.encoder import Encoder
from likewise.encoder.encoder import identity
from likewise.errors import UsageError
from likewise.explain.settings import Settings
from likewise.explain.texts import Contributions, TextInput, Unit, contribution_stream
from likewise.progress import Progress, Ticker

log = logging.getLogger("likewise")

FORMAT = 1
MOST_BYTES = 2**28
"""What the folder may take; beyond, the files used longest ago go first."""

DRAFT_SECONDS = 3600.0
"""Seconds after which a draft belongs to no running process."""

DAMAGED = (OSError, EOFError, ValueError, LookupError, TypeError, zipfile.BadZipFile, zlib.error, RuntimeError)
"""What reading a missing or damaged file raises; NotImplementedError and UnicodeError are among them."""

IRRELEVANT = ("memory", "seed")
"""Settings that contributions by bilrp do not depend on."""


@dataclass(frozen=True)
class ContributionCache:
    """Contributions by bilrp in a folder, one file a text."""

    encoder: Encoder
    settings: Settings
    folder: Path
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        if self.settings.split:
            raise UsageError("split shares are not cached; call contributions for them")

    def of(self, texts: Sequence[TextInput], progress: Progress | None = None) -> list[Contributions]:
        """The contributions of each text; those not in the cache are computed together."""
        unique = list(dict.fromkeys(texts))
        found = {text: one for text in unique if (one := self._read(text)) is not None}
        new = [text for text in unique if text not in found]
        ticker = Ticker(progress, len(new), "explained texts")
        for index, one in contribution_stream(self.encoder, new, "bilrp", self.settings):
            found[new[index]] = one
            self._store(new[index], one)
            ticker.add()
        ticker.close()
        if new:
            with contextlib.suppress(OSError):
                self._prune()
        return [found[text] for text in texts]

    @cached_property
    def _identity(self) -> dict[str, Any]:
        chosen = {name: value for name, value in asdict(self.settings).items() if name not in IRRELEVANT}
        return {"format": FORMAT, "settings": chosen} | identity(self.encoder)

    def _path(self, text: TextInput) -> Path:
        prompt = self.encoder.modules_config.prompt_for(None) if text.prompt is None else text.prompt
        metadata = json.dumps([self._identity, asdict(replace(text, prompt=prompt))], sort_keys=True, default=str)
        return self.folder / f"{hashlib.sha256(metadata.encode()).hexdigest()}.npz"

    def _read(self, text: TextInput) -> Contributions | None:
        path = self._path(text)
        try:
            found = _contributions(path)
        except DAMAGED:
            return None
        with contextlib.suppress(OSError):  # a folder that is read-only still answers
            os.utime(path)
        return found

    def _store(self, text: TextInput, one: Contributions) -> None:
        """Write it; a cache that cannot be written costs only time."""
        try:
            self._write(text, one)
        except OSError as error:
            log.warning("contributions cannot be cached in %s (%s)", self.folder, error.strerror)

    def _write(self, text: TextInput, one: Contributions) -> None:
        units = [(unit.text, unit.start, unit.end, unit.tokens, unit.kind) for unit in one.units]
        metadata = {"text": one.text, "units": units, "truncated": one.truncated, "ids": one.ids}
        data = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
        path = self._path(text)
        draft = path.with_suffix(f".{uuid.uuid4().hex}.draft")
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as stream:
            np.savez(stream, values=one.values, bias=one.bias, vector=one.vector, metadata=data)
        draft.replace(path)

    def _prune(self) -> None:
        """Keep the folder in its bounds, and delete what killed processes left half written."""
        files = sorted((stat.st_mtime, stat.st_size, path) for path, stat in _stats(self.folder))
        excess = sum(size for _, size, _ in files) - self.most_bytes
        for written, size, path in files:
            if path.suffix == ".draft" and time.time() - written < DRAFT_SECONDS:
                continue
            if excess > 0 or path.suffix == ".draft":
                path.unlink(missing_ok=True)
                excess -= size


def _stats(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in [*folder.glob("*.npz"), *folder.glob("*.draft")]:
        with contextlib.suppress(FileNotFoundError):  # another process may prune too
            yield path, path.stat()


def _contributions(path: Path) -> Contributions:
    """Read a file of the cache; raises if it is anything else."""
    with np.load(path, allow_pickle=False) as stored:
        values, bias, vector = (np.asarray(stored[name]) for name in ("values", "bias", "vector"))
        metadata = json.loads(np.asarray(stored["metadata"]).tobytes())
    units = tuple(Unit(name, start, end, tuple(indices), kind) for name, start, end, indices, kind in metadata["units"])
    if values.shape != (len(units), *vector.shape) or bias.shape != vector.shape or vector.ndim != 1:
        raise ValueError("shapes that do not fit")
    return Contributions(
        metadata["text"], units, values, bias, vector, metadata["truncated"], ids=tuple(metadata["ids"])
    )
