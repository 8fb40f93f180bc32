"""Where Likewise keeps things on the user's machine."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder for what can be made or downloaded again; it need not exist.

    ``$LIKEWISE_CACHE``, else ``$XDG_CACHE_HOME/likewise``, else ``~/.cache/likewise``.

    >>> user_cache()  # doctest: +SKIP
    PosixPath('/home/ada/.cache/likewise')
    """
    own = os.environ.get("LIKEWISE_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(shared).expanduser() / "likewise"
