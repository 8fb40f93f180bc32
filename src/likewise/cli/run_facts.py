"""What a folder of results says of the command that made it."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from likewise.results.folder import made_by


def run_facts(began: float) -> dict[str, Any]:
    """The command, when it began (seconds since the epoch), and how long it took."""
    return made_by(shlex.join(["likewise", *sys.argv[1:]]), began)
