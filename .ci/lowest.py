"""Writes constraints-lowest.txt: the lowest versions that pyproject.toml allows, with the tools of today's tests.

python .ci/lowest.py   needs uv; make lowest runs the fast tests with the file
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAD = "# The lowest versions that pyproject.toml allows, and what they need. Made by python .ci/lowest.py.\n"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("all", "polars", "langchain")
LEFT_OUT = {"datasets"}  # a tool of benches that asks for a newer pyarrow than Likewise does


def name(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower()


def tools() -> list[str]:
    """The packages of the extra dev that are no dependency of Likewise, by the versions of constraints.txt."""
    extras = PROJECT["optional-dependencies"]
    own = {name(one) for extra, given in extras.items() if extra not in ("dev", "docs", "release") for one in given}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.lower().split("==") for line in lines if "==" in line and not line.startswith("#"))
    return [f"{name(one)}=={pins[name(one)]}" for one in extras["dev"] if name(one) not in own | LEFT_OUT]


def main() -> None:
    extras = [word for one in EXTRAS for word in ("--extra", one)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(tools()))
        file.flush()
        command = ["uv", "pip", "compile", "--quiet", "--resolution", "lowest-direct", "--python-version", "3.11"]
        command += [*extras, "--no-header", "--no-annotate", "pyproject.toml", file.name]
        found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    (ROOT / "constraints-lowest.txt").write_text(HEAD + found, encoding="utf-8")


if __name__ == "__main__":
    main()
