"""The settings of an explanation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

from likewise.encoder.modes import RULES
from likewise.errors import UsageError

GIGABYTE = 2**30

BIASES = ("separate", "local", "traced", "shared")
"""Where the biases go."""


@dataclass(frozen=True)
class Settings:
    """How contributions are computed, beside the method and the grouping."""

    rules: tuple[str, ...] = RULES
    """the factors that bilrp holds: attention, norm, activation; all three are replayed, fewer go by forward mode"""
    bias: str = "separate"
    """separate: the biases have a row of their own; local: a bias belongs to the token at whose position it is added;
    traced: to the tokens that this position is made of, by the attention of each layer; shared: each bias is dealt out
    to all tokens by what they make of the sum that it is added to"""
    reference: str = "filler"
    """what bilrp's contributions are relative to: a text of fillers (filler), a given text, or nothing (none). What the
    reference itself adds goes into the bias row. Why filler is the default: docs/results/explain.md"""
    steps: int = 10
    """points along the path of integrated Jacobians"""
    start_layer: int = 0
    """the layer at which integrated Jacobians begin"""
    fold_special: bool = False
    """special tokens as one unit instead of one each"""
    split: bool = False
    """split each share into word, position, type and the embedding norm's bias"""
    seed: int = 0
    """for the random baseline"""
    memory: float = 2.0
    """gigabytes that the recorded attention maps may take; beyond, they are computed again for each chunk of rows"""

    def __post_init__(self) -> None:
        if isinstance(self.rules, str):
            raise UsageError(f"rules is a tuple of names, such as ({self.rules!r},)")
        unknown = sorted(set(self.rules) - set(RULES))
        if unknown:
            raise UsageError(f"unknown rule {unknown[0]!r}; choose from {', '.join(RULES)}")
        if self.bias not in BIASES:
            raise UsageError(f"unknown bias {self.bias!r}; choose from {', '.join(BIASES)}")
        if not isinstance(self.reference, str) or not self.reference.strip():
            raise UsageError(f"no reference {self.reference!r}; choose none, filler, or give a text")
        if not isinstance(self.steps, int) or self.steps < 1:
            raise UsageError(f"integrated Jacobians take a whole number of steps from 1 on, got {self.steps!r}")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise UsageError(f"a seed is a whole number from 0 on, got {self.seed!r}")
        if not 0 < self.memory < math.inf:
            raise UsageError(f"the memory budget must be above 0 gigabytes and finite, got {self.memory:g}")
        if self.split and self.bias == "shared":
            raise UsageError("split does not go with bias='shared'; choose separate or local")

    @property
    def memory_bytes(self) -> int:
        """The budget in bytes."""
        return int(self.memory * GIGABYTE)


class SettingOptions(TypedDict, total=False):
    """The fields of :class:`Settings` as keyword arguments."""

    rules: tuple[str, ...]
    bias: str
    reference: str
    steps: int
    start_layer: int
    fold_special: bool
    split: bool
    seed: int
    memory: float


PLAIN: SettingOptions = {"bias": "separate", "reference": "none"}
"""BiLRP as it was published: contributions relative to nothing, the biases in a row of their own."""


def rule_names(text: str) -> tuple[str, ...]:
    """Read rules as the command line gives them: all, none, or names with commas.

    >>> rule_names("attention,norm")
    ('attention', 'norm')
    """
    named = {"all": RULES, "none": ()}.get(text, tuple(part.strip() for part in text.split(",")))
    return tuple(named)
