"""Texts, as they may be shown anywhere."""

from __future__ import annotations

CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def printable(text: str) -> str:
    """A text without control characters: they could drive a terminal, and XML does not allow them.

    >>> printable("\\x1b[31mred")
    '\\ufffd[31mred'
    """
    return text.translate(CONTROLS)
