"""Places: folders of this machine, which are nobody's business but of who started the studio."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def without_paths(words: str, paths: Iterable[Path]) -> str:
    """Words that do not tell where things lie on this machine.

    A bare name such as ``runs`` is left, since it tells nothing and may be a word like others.

    >>> without_paths("/home/me/runs/one holds files; these runs stay", [Path("/home/me/runs"), Path("runs")])
    '…/one holds files; these runs stay'
    """
    spelled = {path for path in paths for path in (path, path.absolute(), path.resolve()) if len(path.parts) > 1}
    for path in sorted(map(str, spelled), key=len, reverse=True):
        words = words.replace(path, "…")
    return words
