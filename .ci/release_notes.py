"""Prints the version to release; fails where a place names another version, or where the notes are missing."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = {
    "src/likewise/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"^## (\d.+)$",
}
"""Files that name the version, and where."""


def flaws(version: str) -> list[str]:
    """What is missing for a release of this version."""
    found = []
    for name, pattern in PLACES.items():
        named = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        if named is None or named[1] != version:
            found.append(f"{name} names {named[1] if named else 'no version'}; pyproject.toml has {version}")
    if not (notes := ROOT / "docs" / "releases" / f"{version}.md").is_file():
        found.append(f"{notes.relative_to(ROOT)} is missing; write the release notes")
    return found


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if found := flaws(project["version"]):
        sys.exit("\n".join(found))
    if "urls" not in project:
        print("note: pyproject.toml has no [project.urls]; add the repository's address to publish", file=sys.stderr)
    print(project["version"])
