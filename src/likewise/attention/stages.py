"""Stages: what a long study has finished is kept in its folder, under a key of all that it was made from."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from likewise.drafts import atomic_write
from likewise.errors import UsageError

FORMAT = 2
"""Raised where a stage of before cannot be read, or would be made otherwise now."""
MARK = "about.txt"
DAMAGED = (ValueError, KeyError, TypeError, EOFError, OSError, BadZipFile)
"""What reading a missing or a damaged file raises."""


def key_of(*parts: Any) -> str:
    """A name for everything that a stage's result depends on.

    >>> key_of("minilm", {"seed": 1}) == key_of("minilm", {"seed": 1}), key_of(1) == key_of(2)
    (True, False)
    """
    return hashlib.sha256(json.dumps([FORMAT, *parts], sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Stages:
    """The folder of a study's finished stages."""

    folder: Path

    def path(self, name: str, key: str) -> Path:
        """A stage's own folder; what another key left there is cleared away."""
        self._owned()
        folder, note = self.folder / name, self.folder / name / "key.txt"
        if not note.exists() or note.read_bytes() != key.encode():
            # The key goes first: a break in between must not leave it over half of its files.
            note.unlink(missing_ok=True)
            if folder.exists():
                shutil.rmtree(folder)
            folder.mkdir()
            note.write_text(key)
        return folder

    def _owned(self) -> None:
        """Make the folder and mark it as ours; one that is somebody else's is left alone."""
        mark = self.folder / MARK
        if mark.exists():
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} holds files that are not of this command; choose another --out")
        self.folder.mkdir(parents=True, exist_ok=True)
        mark.write_text("What a study has finished; it may be deleted, and is made again.\n")

    def document(self, name: str, key: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, as JSON has it, or what is there from before."""
        # Wrapped, since half of a bare number would be a number as well.
        return self._kept(
            self.path(name, key) / "result.json",
            lambda path: json.loads(path.read_text(encoding="utf-8"))["result"],
            lambda path: path.write_text(json.dumps({"result": make()}), encoding="utf-8"),
        )

    def arrays(self, name: str, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, NDArray[Any]]:
        """The arrays that ``make`` gives, or those that are there from before."""
        found: dict[str, NDArray[Any]] = self._kept(
            self.path(name, key) / "result.npz", _arrays, lambda path: _save_arrays(path, make())
        )
        return found

    def _kept(self, path: Path, read: Callable[[Path], Any], write: Callable[[Path], Any]) -> Any:
        """What a file holds; it is made where it is missing, and again where it is damaged."""
        try:
            return read(path)
        except DAMAGED:
            atomic_write(path, write)
            return read(path)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path) as kept:
        return dict(kept)


def _save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)
