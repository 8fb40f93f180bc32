"""The catalogue: a path or a data set's name -> a file."""

from __future__ import annotations

import os
from pathlib import Path

from likewise.data.bad_rows import shown
from likewise.data.rows import FORMATS
from likewise.errors import DataError
from likewise.sample import SAMPLES, sample_path
from likewise.storage import user_cache

SUFFIXES = tuple(f"{suffix}{packed}" for suffix in FORMATS for packed in ("", ".gz"))


def locate(name: str | Path, data_dir: Path | None = None) -> Path:
    """The file behind a path, a built-in name, or a name such as ``stsb/test`` in a data folder.

    Data folders are ``data_dir``, ``$LIKEWISE_DATA`` and ``data`` in the user's cache, in this order.

    >>> locate("sample/pairs").name
    'pairs.csv'
    """
    # Not Path.exists: it raises on a name that is too long, such as a text in place of a file.
    if os.path.isfile(name):
        return Path(name)
    if str(name) in SAMPLES:
        return sample_path(str(name))
    folders = _data_folders(data_dir)
    for folder in folders if _is_relative(Path(name)) else []:
        for suffix in ("", *SUFFIXES):
            candidate = folder / f"{name}{suffix}"
            if os.path.isfile(candidate):
                return candidate
    if os.path.exists(name):
        return Path(name)  # a folder or a device: its reader raises the right error
    raise DataError(_not_found(str(name), folders))


def _data_folders(data_dir: Path | None) -> list[Path]:
    shared = os.environ.get("LIKEWISE_DATA")
    given = [data_dir, Path(shared) if shared else None, user_cache() / "data"]
    return [Path(folder).expanduser() for folder in given if folder is not None]


def _is_relative(name: Path) -> bool:
    """Whether the name stays inside the data folder."""
    return not name.is_absolute() and ".." not in name.parts


def _not_found(name: str, folders: list[Path]) -> str:
    kind = "file" if name.lower().endswith(SUFFIXES) else "data set"
    locations = ", ".join(["the current folder", *map(str, folders)])
    return (
        f"no {kind} {shown(name)} in {locations}; check the path, or download the data set and pass "
        f"--data-dir DIR or set LIKEWISE_DATA; built in: {', '.join(SAMPLES)}"
    )
