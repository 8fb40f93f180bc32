"""The typed examples that the readers yield."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def _meta() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Text:
    """One text.

    >>> Text("A plane is taking off.", id="1").text
    'A plane is taking off.'
    """

    text: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class LabelledText:
    """One text with its class; the label is kept as it is written in the file.

    >>> LabelledText("Great book.", label="5", id="1").label
    '5'
    """

    text: str
    label: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts that belong together, such as a sentence and its compression.

    >>> Pair("A boy was seen at noon.", "A boy was seen.", id="1").right
    'A boy was seen.'
    """

    left: str
    right: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how similar people find them, on the data set's own scale.

    >>> ScoredPair("A plane.", "An air plane.", score=5.0, id="1").score
    5.0
    """

    left: str
    right: str
    score: float
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts and the class of their relation, such as entailment.

    >>> LabelledPair("A man sleeps.", "A man is awake.", label="contradiction", id="1").label
    'contradiction'
    """

    left: str
    right: str
    label: str
    id: str
    meta: Mapping[str, str] = field(default_factory=_meta, compare=False, repr=False)
    """The remaining columns."""
