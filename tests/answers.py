"""Checks of every command's output: one JSON document, or one line of error.

Apart from ``command_line.py``, which is a plugin that pytest must import first.
"""

from __future__ import annotations

import json
from typing import Any

import pytest


def one_document(answer: Any) -> Any:
    """Standard output as the single line of JSON it must be; NaN is no JSON."""
    assert answer.code == 0 and answer.out.endswith("\n") and answer.out.count("\n") == 1, answer
    return json.loads(answer.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def refusal(answer: Any) -> str:
    """The one line of an error."""
    assert (answer.code, answer.out) == (2, ""), answer
    assert answer.err.startswith("likewise: ") and answer.err.count("\n") == 1 and answer.err.endswith("\n")
    return str(answer.err)
