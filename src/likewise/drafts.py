"""Drafts: files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def atomic_write(path: Path, write: Callable[[Path], Any]) -> None:
    """Have a file written whole or not at all: a break in between leaves no half of it under its name.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> atomic_write(path, lambda draft: draft.write_text("done"))
    >>> [each.name for each in path.parent.iterdir()]
    ['note.txt']
    """
    draft = path.with_suffix(".draft")
    write(draft)
    os.replace(draft, path)
