"""Places: folders of this machine, which are nobody's business but of who started the studio."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def without_places(words: str, places: Iterable[Path]) -> str:
    """Words that do not tell where things lie on this machine.

    A bare name such as ``runs`` is left, since it tells nothing and may be a word like others.

    >>> without_places("/home/me/runs/one holds files; these runs stay", [Path("/home/me/runs"), Path("runs")])
    '…/one holds files; these runs stay'
    """
    spelled = {path for place in places for path in (place, place.absolute(), place.resolve()) if len(path.parts) > 1}
    for place in sorted(map(str, spelled), key=len, reverse=True):
        words = words.replace(place, "…")
    return words
