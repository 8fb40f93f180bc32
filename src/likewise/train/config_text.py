"""Config texts: a config written as the TOML that ``likewise train`` reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from likewise.train import TrainConfig

ROLES = ("train", "dev", "test")
BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Names that TOML takes without quotes."""


def toml(config: TrainConfig, comment: str = "") -> str:
    """A config as TOML text, which ``parse_config`` reads back as the same config.

    >>> from likewise.train import parse_config
    >>> config = parse_config('epochs = 2\\n[[task]]\\nkind = "similarity"\\ntrain = "stsb/train"')
    >>> parse_config(toml(config, "Two epochs.")) == config
    True
    """
    settings = config.to_dict()
    tasks = settings.pop("task")
    lines = [f"# {line}" for line in comment.splitlines()] + _lines(settings)
    for task in tasks:
        lines += ["", "[[task]]", *_lines(task | {role: _sources(task[role]) for role in ROLES})]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_written(value)}" for name, value in table.items()]


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _written(name)


def _sources(sources: list[dict[str, Any]]) -> list[Any]:
    """Sources as a person would write them: a name alone where there is nothing else to say."""
    return [each["source"] if each.keys() == {"source"} else each for each in sources]


def _written(value: Any) -> str:
    """A value as TOML writes it: a table in one line, as no other is needed here."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(_lines(value))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, float):
        return repr(value)
    # JSON writes text, whole numbers and truth as TOML does, but for one letter that TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
