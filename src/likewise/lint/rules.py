"""The rules of linting: what makes a score suspicious, and from where on."""

from __future__ import annotations

from dataclasses import dataclass, fields

from likewise.errors import UsageError

DESCRIPTIONS = {
    "special": "rests mostly on special tokens or a bias",
    "stop-words": "rests mostly on stop words and punctuation",
    "negation": "ignores a negation in one text only",
    "number": "high although a number differs",
    "roles": "high although subject and object are swapped",
    "matching": "plain token matching where the human score is low",
}
"""The rules by name, and what each says of a score."""

NEEDS_SCORES = frozenset({"matching"})


@dataclass(frozen=True)
class LintRules:
    """Thresholds of the rules. A high score is relative to the file, for models differ in where cosines begin."""

    high: float = 0.5
    """a score is high from this quantile of the file's predicted similarities on"""
    high_similarity: float | None = None
    """a score is high from this similarity on, whatever the others are; None: by the quantile"""
    special_share: float = 2 / 3
    """special: beyond this share of the ledger's absolute relevance"""
    stop_share: float = 0.5
    """stop-words: beyond this share of the positive relevance between words, half of each cell to either word"""
    negation_share: float = 0.1
    """negation: the negating words lower the score by less than this share of it"""
    match_share: float = 0.5
    """matching: beyond this share of the positive relevance between words, in pairs of equal words"""
    low_human: float = 1 / 3
    """matching: up to this part of the scale, from the file's lowest to its highest human score"""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "high_similarity" and not 0 <= value <= 1:
                raise UsageError(f"--{field.name.replace('_', '-')} lies between 0 and 1, got {value:g}")


@dataclass(frozen=True)
class Finding:
    """A pair that a rule finds suspicious, with what the ledger shows."""

    rule: str
    id: str
    severity: float
    """0 to 1: strength of the evidence x rank of the score in the file x how little people agree with it"""
    evidence: str
    similarity: float
    human: float | None
    left: str
    right: str
