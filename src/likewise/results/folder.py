"""Documents of a run: what made it, package versions, and JSON without NaN."""

from __future__ import annotations

import json
import math
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("likewise", "torch", "transformers", "tokenizers", "numpy", "scipy", "spacy")


def made_by(command: str, began: float) -> dict[str, Any]:
    """What made a result, when that began (seconds since the epoch), and how long it took."""
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    return {"command": command, "time": when, "seconds": round(time.time() - began, 1)}


def write_document(document: dict[str, Any], path: Path) -> None:
    """Write a document as JSON; numbers that JSON does not have become null."""
    text = json.dumps(finite(document), indent=2, ensure_ascii=False, default=str)
    # The command may hold a path that is not UTF-8, which cannot be written.
    path.write_text(text, encoding="utf-8", errors="replace")


def finite(value: Any) -> Any:
    """A document in which numbers that JSON does not have are null."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def versions() -> dict[str, str]:
    """The versions of all packages that a result may depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
