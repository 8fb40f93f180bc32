"""Published models: hub ids, short names, families, sizes, prompts and licences, read from ``published.json``.

Every entry names the addresses that say so; docs/models.md is made from the same file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("published.json")
KINDS = ("embedding", "reranker", "static")


@dataclass(frozen=True)
class PublishedModel:
    """A model on the hub, as its sources describe it; None where no source says."""

    name: str
    kind: str
    own_code: bool  # the folder names code of its own (auto_map), which is never run
    loads: bool
    source: tuple[str, ...]
    short: str | None = None
    family: str | None = None  # the model_type of config.json, or the module of a static model
    dimensions: int | None = None
    limit: int | None = None  # in tokens
    prompts: dict[str, str] | None = None
    licence: str | None = None
    instead: str | None = None  # what to use in place of a model that does not load


@cache
def published_models() -> tuple[PublishedModel, ...]:
    """All entries, in the order of the file; read at the first call, so that other commands start as fast as before.

    >>> next(model.family for model in published_models() if model.name == "BAAI/bge-m3")
    'xlm-roberta'
    """
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(PublishedModel(**entry | {"source": tuple(entry["source"])}) for entry in entries)


@cache
def short_names() -> dict[str, str]:
    """Short names of published models, with their hub ids.

    >>> short_names()["bert-base-uncased"]
    'google-bert/bert-base-uncased'
    """
    return {model.short: model.name for model in published_models() if model.short}
