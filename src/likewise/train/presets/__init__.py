"""Ready-made configs, shipped in the package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from likewise.errors import UsageError


def presets() -> dict[str, str]:
    """The TOML text of each ready-made config, by name.

    >>> "sts-mean" in presets()
    True
    """
    found = [each for each in files(__name__).iterdir() if each.name.endswith(".toml")]
    return {each.name.removesuffix(".toml"): each.read_text(encoding="utf-8") for each in sorted(found, key=str)}


def described(text: str) -> str:
    """What a config says of itself in its first comment.

    >>> described("# Two towers.\\nmodel = 'minilm'")
    'Two towers.'
    """
    first = text.partition("\n")[0]
    return first.lstrip("# ").strip() if first.startswith("#") else ""


def config_text(name: str) -> str:
    """The text of a ready-made config or of a file."""
    known, path = presets(), Path(name).expanduser()
    if name in known:
        return known[name]
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        names = ", ".join(known)
        raise UsageError(
            f"{name} is no TOML file that can be read; give one, or a ready-made one of {names}"
        ) from error
