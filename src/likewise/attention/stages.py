"""Stages: what a long study has finished is kept in its folder, under a key of all that it was made from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def key_of(*parts: Any) -> str:
    """A name for everything that a stage's result depends on.

    >>> key_of("minilm", {"seed": 1}) == key_of("minilm", {"seed": 1}), key_of(1) == key_of(2)
    (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Stages:
    """The folder of a study's finished stages."""

    folder: Path

    def place(self, name: str, key: str) -> Path:
        """A stage's own folder; what another key left there is cleared away."""
        folder, note = self.folder / name, self.folder / name / "key.txt"
        if not note.exists() or note.read_text() != key:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            note.write_text(key)
        return folder

    def document(self, name: str, key: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, as JSON has it, or what is there from before."""
        path = self.place(name, key) / "result.json"
        if not path.exists():
            _written(path, lambda draft: draft.write_text(json.dumps(make()), encoding="utf-8"))
        return json.loads(path.read_text(encoding="utf-8"))

    def arrays(self, name: str, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, NDArray[Any]]:
        """The arrays that ``make`` gives, or those that are there from before."""
        path = self.place(name, key) / "result.npz"
        if not path.exists():
            _written(path, lambda draft: _save_arrays(draft, make()))
        with np.load(path) as kept:
            return dict(kept)


def _written(path: Path, write: Callable[[Path], Any]) -> None:
    """Whole or not at all: a break while writing leaves no half a file under its name."""
    draft = path.with_suffix(".draft")
    write(draft)
    os.replace(draft, path)


def _save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)
