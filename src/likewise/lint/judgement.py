"""The judgement of linting: evidence of all pairs and thresholds -> findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from likewise.explain.explanation import Array
from likewise.lint.evidence import PairEvidence, Strongest
from likewise.lint.parsed_pairs import scores_of
from likewise.lint.rules import Finding, LintRules

ONE_SIDED_NUMBER = 0.5
"""Strength of a number that the other text has no number against: it may just be left out."""


@dataclass(frozen=True)
class Case:
    """One pair before the rules: its evidence, and where it stands in the file."""

    metadata: PairEvidence
    rank: float
    """of its similarity in the file, 0 to 1"""
    index: float | None
    """of its human score between the file's lowest and highest, 0 to 1"""
    is_high: bool


Verdict = tuple[float, str] | None
"""The strength of the evidence, 0 to 1, and its words; None where there is nothing to say."""


def judged(metadata: Sequence[PairEvidence], rules: LintRules, high: float) -> list[Finding]:
    """Every finding of every rule; a score is high from ``high`` on.

    Severity = strength x rank of the similarity in the file x (1 - place of the human score on the scale); without
    human scores the last factor is 1. The strength of a share is how far it lies beyond its threshold, 0 to 1.
    """
    ranks = similarity_ranks(np.array([one.similarity for one in metadata]))
    truth = scores_of([one.pair for one in metadata])
    indices = [None] * len(metadata) if truth is None else human_places(truth).tolist()
    found = []
    for one, rank, index in zip(metadata, ranks.tolist(), indices, strict=True):
        case = Case(one, rank, index, one.similarity >= high)
        for rule, judge in JUDGES.items():
            verdict = judge(case, rules)
            if verdict is not None:
                severity = verdict[0] * rank * (1.0 if index is None else 1.0 - index)
                pair = one.pair
                where = (one.similarity, one.human, pair.left, pair.right)
                found.append(Finding(rule, pair.id, severity, verdict[1], *where))
    return found


def similarity_ranks(similarity: Array) -> Array:
    """The share of the other pairs (n,) that lie below each, ties half; 1 for a single pair.

    >>> similarity_ranks(np.array([0.2, 0.9, 0.5])).tolist()
    [0.0, 1.0, 0.5]
    """
    if len(similarity) == 1:
        return np.ones(1)
    ordered = np.sort(similarity)
    below, up_to = (np.searchsorted(ordered, similarity, side=side) for side in ("left", "right"))
    ranks: Array = (below + up_to - 1) / 2 / (len(similarity) - 1)
    return ranks


def human_places(truth: Array) -> Array:
    """Where scores (n,) stand between the lowest, 0, and the highest, 1; all in the middle where they are equal."""
    span = float(np.ptp(truth))
    indices: Array = (truth - truth.min()) / span if span > 0 else np.full(len(truth), 0.5)
    return indices


def _beyond(share: float, threshold: float) -> float:
    return (share - threshold) / (1 - threshold) if threshold < 1 else 0.0


def _shown(pair: Strongest | None) -> str:
    return "" if pair is None else f", most in {pair[0]}-{pair[1]} {pair[2]:+.3f}"


def _special(case: Case, rules: LintRules) -> Verdict:
    metadata = case.metadata
    if metadata.special <= rules.special_share:
        return None
    words = (
        f"{metadata.special:.0%} of the absolute relevance is of special tokens or a bias (biases {metadata.bias:.0%})"
    )
    return _beyond(metadata.special, rules.special_share), words


def _stop_words(case: Case, rules: LintRules) -> Verdict:
    metadata = case.metadata
    if metadata.stops <= rules.stop_share:
        return None
    words = f"{metadata.stops:.0%} of the words' positive relevance is of stop words and punctuation"
    return _beyond(metadata.stops, rules.stop_share), words + _shown(metadata.strongest_stop)


def _negation(case: Case, rules: LintRules) -> Verdict:
    metadata = case.metadata
    relevance = sum(one.relevance for one in metadata.negations)
    if not metadata.negations or not case.is_high or relevance <= -rules.negation_share * abs(metadata.similarity):
        return None
    names = ", ".join(repr(one.word) for one in metadata.negations)
    share = relevance / metadata.similarity if metadata.similarity else 0.0
    words = f"{names} only on the {metadata.negations[0].side} makes {relevance:+.3f} of {metadata.similarity:.3f}"
    return 1.0, f"{words} ({share:+.0%})"


def _number(case: Case, rules: LintRules) -> Verdict:  # noqa: ARG001
    metadata = case.metadata
    if not metadata.has_number or not case.is_high:
        return None
    left, right = (" ".join(side) or "no number" for side in metadata.numbers)
    words = f"{left} against {right}"
    if all(metadata.numbers):
        return 1.0, f"{words}, together {metadata.number_relevance:+.3f} of {metadata.similarity:.3f}"
    return ONE_SIDED_NUMBER, f"{words}, similarity {metadata.similarity:.3f}"


def _roles(case: Case, rules: LintRules) -> Verdict:  # noqa: ARG001
    metadata = case.metadata
    if not metadata.swaps or not case.is_high:
        return None
    words = "; ".join(str(swap) for swap in metadata.swaps)
    return 1.0, f"{words}; with themselves they make {metadata.swap_relevance:+.3f} of {metadata.similarity:.3f}"


def _matching(case: Case, rules: LintRules) -> Verdict:
    metadata = case.metadata
    is_low = case.index is not None and case.index <= rules.low_human
    if not is_low or not case.is_high or metadata.matches <= rules.match_share:
        return None
    words = f"{metadata.matches:.0%} of the words' positive relevance is between equal words"
    said = f"{_shown(metadata.strongest_match)}; people say {metadata.human:g}"
    return _beyond(metadata.matches, rules.match_share), words + said


JUDGES: dict[str, Callable[[Case, LintRules], Verdict]] = {
    "special": _special,
    "stop-words": _stop_words,
    "negation": _negation,
    "number": _number,
    "roles": _roles,
    "matching": _matching,
}
"""By the rule's name, as in ``lint_rules.DESCRIPTIONS``."""
