"""What a folder of results says of the run that made it."""

from __future__ import annotations

import shlex
import sys
import time
from typing import Any


def run_facts(began: float) -> dict[str, Any]:
    """The command, when it began (seconds since the epoch), and how long it took."""
    command = shlex.join(["likewise", *sys.argv[1:]])
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    return {"command": command, "time": when, "seconds": round(time.time() - began, 1)}
