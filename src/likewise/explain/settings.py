"""The options of an explanation, declared once for Python, the command line and the web server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

from likewise.errors import UsageError

GIGABYTE = 2**30
RULES = ("attention", "norm", "activation")  # The factors that bilrp can hold constant
BIASES = ("separate", "local", "traced", "shared")  # Where the biases go
NO_REFERENCE, FILLER = "none", "filler"


@dataclass(frozen=True)
class Option:
    """What a field means to people, its lowest value, and its choices; the command line shows all three."""

    help: str
    least: int | None = None
    choices: tuple[str, ...] = ()


BIAS = Option(
    "Where the biases go. separate: a row of their own; local: to the token at the position; traced: to the tokens"
    " that attention brought there; shared: dealt out to all tokens.",
    choices=BIASES,
)
REFERENCE = Option("What shares are relative to: filler, a text of filler tokens; none; or a text.")


@dataclass(frozen=True)
class Settings:
    """How contributions are computed, apart from the method and the grouping."""

    rules: Annotated[tuple[str, ...], Option(f"What bilrp holds: all, none, or some of {','.join(RULES)}.")] = RULES
    """all three are replayed; fewer go by forward mode"""
    bias: Annotated[str, BIAS] = "separate"
    reference: Annotated[str, REFERENCE] = FILLER
    """what the reference itself adds goes into the bias row; why filler is the default: docs/results/explain.md"""
    steps: Annotated[int, Option("Points on the path of integrated Jacobians.", 1)] = 10
    start_layer: Annotated[int, Option("The layer at which integrated Jacobians begin.", 0)] = 0
    fold_special: Annotated[bool, Option("Special tokens as one unit.")] = False
    split: Annotated[bool, Option("Split each share into word, position, type and bias.")] = False
    """the embedding norm's bias"""
    seed: Annotated[int, Option("Of the random method.", 0)] = 0
    memory: Annotated[float, Option("Gigabytes that recorded attention maps may take.")] = 2.0
    """beyond, they are computed again for each chunk of rows"""

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

    @property
    def holds_all(self) -> bool:
        """Whether every rule is held, so that the encoder is linear in its input."""
        return set(self.rules) == set(RULES)


@dataclass(frozen=True)
class ExplainOptions(Settings):
    """All options of ``explain``; the command line and the studio's requests derive from these fields."""

    method: Annotated[str, Option("How relevance is computed.", choices=(
        "bilrp", "hxp", "integrated-jacobian", "embedding", "embedding-squared", "random",
    ))] = "bilrp"  # fmt: skip
    granularity: Annotated[
        str | None,
        Option("What is one unit; default token, for differences word.", choices=("token", "word", "sentence")),
    ] = None
    """None: the function's own default"""
    similarity: Annotated[str, Option("The score that is explained.", choices=("cosine", "dot"))] = "cosine"
    left_prompt: Annotated[str | None, Option("Put before the left text; default: the model's own.")] = None
    right_prompt: Annotated[str | None, Option("Put before the right text; default: the model's own.")] = None

    def keywords(self) -> dict[str, Any]:
        """The options as ``explain`` takes them."""
        given = dict(vars(self))
        return given if self.granularity is not None else {k: v for k, v in given.items() if k != "granularity"}

    def cross_encoder_keywords(self) -> dict[str, Any]:
        """The options that a cross-encoder takes: it reads both texts at once and has a logit, not a cosine."""
        if self.method != "bilrp" or not self.holds_all:
            raise UsageError("a cross-encoder is explained by bilrp with all rules; leave --method and --rules out")
        if self.similarity != "cosine" or self.right_prompt is not None:
            raise UsageError("a cross-encoder has no --similarity and no --right-prompt; leave them out")
        names = ("bias", "reference", "fold_special", "split", "memory")
        given = {name: getattr(self, name) for name in names} | {"prompt": self.left_prompt}
        return given | ({} if self.granularity is None else {"granularity": self.granularity})

    def difference_keywords(self) -> dict[str, Any]:
        """The options that ``contrast`` and ``compare`` share, without prompts; both are exact only for plain bilrp."""
        if self.method != "bilrp" or not self.holds_all or self.split:
            raise UsageError("differences are exact only by plain bilrp; leave --method, --rules and --split out")
        names = ("similarity", "bias", "reference", "memory")
        given = {name: getattr(self, name) for name in names}
        given |= {} if self.granularity is None else {"granularity": self.granularity}
        return given | ({"fold_special": True} if self.fold_special else {})


PLAIN: dict[str, Any] = {"bias": "separate", "reference": NO_REFERENCE}
"""BiLRP as it was published: contributions relative to nothing, the biases in a row of their own."""


def rule_names(text: str) -> tuple[str, ...]:
    """Read rules as the command line gives them: all, none, or names with commas."""
    named = {"all": RULES, "none": ()}.get(text, tuple(part.strip() for part in text.split(",")))
    return tuple(named)
