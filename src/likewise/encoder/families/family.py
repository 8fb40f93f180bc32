"""What a model family is: views of its weights, the defaults of its config, and the names in its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from likewise.encoder.model_view import Config, ModelView, Parts


@dataclass(frozen=True)
class Family:
    """A model family: how its weights are viewed, and how its folders are written."""

    view: Callable[[Parts], ModelView]
    architecture: str  # the class of transformers
    defaults: Config  # what the forward pass depends on, by the keys of config.json
    aliases: Config = field(default_factory=dict)  # other names of these keys
    passed: tuple[str, ...] = ()  # keys without a default that the forward pass depends on too
    may_be_zero: tuple[str, ...] = ()  # sizes that may be 0: the part is missing then
    prefixes: tuple[str, ...] = ()  # of the encoder's names in the file of a model with a head
    renamed: Config = field(default_factory=dict)  # parts of older tensor names -> present ones
    split: dict[str, tuple[str, ...]] = field(default_factory=dict)  # older tensors that hold several weights in rows
    decoder: bool = False  # whether a token sees only those before it unless the config says otherwise
