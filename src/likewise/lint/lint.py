"""Linting: rules that find pairs with suspicious scores, each with its evidence from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.encoder import CrossEncoder, load_scoring
from likewise.encoder.cross_encoder import Scoring, pooling_of
from likewise.encoder.encoder import Source
from likewise.errors import DataError, UsageError
from likewise.explain.cross_encoder import explain_cross_encoder_many
from likewise.explain.explanation import Array
from likewise.explain.pairs import explain_many
from likewise.explain.settings import PLAIN
from likewise.grammar import Grammar
from likewise.lint.cross_evidence import cross_evidence
from likewise.lint.evidence import PairEvidence, ParsedSides, Strongest, evidence, parsed_sides, scores_of
from likewise.metrics import Interval
from likewise.plotting.axes import PALETTE, axes_or_new, drawable, literal
from likewise.progress import Progress
from likewise.results import Column, Figure, Result, Table

DESCRIPTIONS = {
    "special": "rests mostly on special tokens or a bias",
    "stop-words": "rests mostly on stop words and punctuation",
    "negation": "ignores a negation in one text only",
    "number": "high although a number differs",
    "roles": "high although subject and object are swapped",
    "matching": "plain token matching where the human score is low",
}
"""The rules by name, and what each says of a score."""
WRONG_THINGS = ("negation", "number", "roles", "matching")
"""Rules that find pairs a model should tell apart: they look at high scores only."""
ONE_SIDED_NUMBER = 0.5  # Strength of a number where the other text has none: it may just be left out


@dataclass(frozen=True)
class LintRules:
    """Thresholds of the rules. A high score is relative to the file, since models differ in where cosines begin."""

    high: float = 0.5  # a score is high from this quantile of the file's predicted similarities on
    high_similarity: float | None = None  # a score is high from this similarity on; None: by the quantile
    special_share: float = 2 / 3  # special: beyond this share of the ledger's absolute relevance
    stop_share: float = 0.5  # stop-words: beyond this share of the positive relevance; half of a cell to either word
    negation_share: float = 0.1  # negation: the negating words lower the score by less than this share of it
    match_share: float = 0.5  # matching: beyond this share of the positive relevance of words, in equal words
    low_human: float = 1 / 3  # matching: up to this part of the scale between the file's lowest and highest human score

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
    severity: float  # 0 to 1: strength of the evidence x rank of the score in the file x how little people agree
    evidence: str
    similarity: float
    human: float | None
    left: str
    right: str


@dataclass(frozen=True)
class RuleCount:
    """How often a rule fires among the pairs."""

    rule: str
    count: int
    candidates: int  # pairs with what the rule looks for, whatever their score, such as a one-sided negation
    share: Interval  # of all pairs, with its 95 % Wilson interval


@dataclass(frozen=True, eq=False, repr=False)
class LintReport(Result):
    """What linting found in n pairs; the worst findings come first."""

    data: str
    model: str
    pooling: str
    n: int
    scored: bool
    rules: LintRules
    high: float  # the similarity from which a score counts as high
    counts: tuple[RuleCount, ...]
    findings: tuple[Finding, ...]
    skipped: int = 0  # bad rows of the file
    shown: int = 10  # findings that the terminal and the page list

    run_key = "result"

    @property
    def title(self) -> str:
        """The heading of the page."""
        return f"Lint: {self.data}"

    @property
    def notes(self) -> list[str]:
        """What was linted, and from where a score is high."""
        skipped = f", {self.skipped} bad rows skipped" if self.skipped else ""
        names = f"{self.data}, {self.model}, {self.pooling}, n = {self.n}{skipped}"
        return [f"{names}; a score is high from {self.high:.3f} on"]

    def to_dict(self) -> dict[str, Any]:
        """Counts and all findings."""
        about = {"data": self.data, "model": self.model, "pooling": self.pooling, "n": self.n, "scored": self.scored}
        about |= {"thresholds": asdict(self.rules) | {"high_from": self.high}}
        counts = [asdict(one) | {"says": DESCRIPTIONS[one.rule]} for one in self.counts]
        found = [asdict(one) for one in self.findings]
        return about | {"rules": counts, "findings": found, "skipped": self.skipped}

    def tables(self) -> dict[str, Table]:
        """How often each rule fires, the worst findings, and all of them."""
        share = Column("share", "share, 95 % interval", ".1%")
        rows = [(one.rule, DESCRIPTIONS[one.rule], one.count, one.candidates, one.share) for one in self.counts]
        severity, human = Column("severity", format=".2f"), Column("human", format="g")
        worst = [
            (one.severity, one.rule, one.id, one.human, f"{one.evidence}\n{one.left}\n{one.right}")
            for one in self.findings[: self.shown]
        ]
        names, title = [field.name for field in fields(Finding)], f"the worst of {len(self.findings)} findings"
        return {
            "rules": Table.of(["rule", Column("says", "the score"), "count", "candidates", share], rows),
            "worst": Table.of([severity, "rule", "pair", human, "evidence"], worst, title, summary=True),
            "findings": Table.of(names, [astuple(one) for one in self.findings], detail=True),
        }

    def figures(self) -> dict[str, Figure]:
        """The share of pairs that each rule finds."""
        return {"rules": Figure(self.plot, "Share of pairs that each rule finds")}

    def plot(self, ax: Any = None) -> Any:
        """The share of pairs that each rule finds, with its interval."""
        ax = axes_or_new(ax, (6.4, 0.55 * len(self.counts) + 1.5))
        for index, one in enumerate(self.counts):
            share, high = one.share.value, one.share.high
            ax.barh(index, share, height=0.6, color=PALETTE[0])
            ends = [[share - one.share.low], [high - share]]
            ax.errorbar(share, index, xerr=ends, color="#222222", capsize=3, linewidth=1.2)
            ax.annotate(str(one.count), (high, index), (6, 0), textcoords="offset points", va="center", fontsize=9)
        ax.set_yticks(range(len(self.counts)), [one.rule for one in self.counts])
        ax.invert_yaxis()
        ax.set_xlim(0, min(1.15, 1.15 * max((one.share.high for one in self.counts), default=1.0)))
        ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        ax.set_xlabel("share of pairs, with 95 % interval and number of pairs")
        title = f"{self.data}, {Path(self.model).name or self.model}, n = {self.n}"
        ax.set_title(drawable(title, 90), fontsize=10, **literal())
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def hard_negatives(self) -> Table:
        """The pairs that a model finds too similar, each once under its worst rule, the worst first.

        The scores are people's, where the file has them. ``likewise train`` learns from the table as from any other
        pairs, and a contrastive task with ``views = "negatives"`` without scores.
        """
        worst: dict[tuple[str, str], Finding] = {}
        for one in self.findings:
            if one.rule in WRONG_THINGS:
                worst.setdefault((one.left, one.right), one)
        scored = ["score"] if self.scored else []
        rows = [
            (one.left, one.right, *([one.human] if scored else []), one.rule, one.severity, one.similarity, one.id)
            for one in worst.values()
        ]
        return Table.of(["sentence1", "sentence2", *scored, "rule", "severity", "cosine", "pair"], rows)


def lint(
    encoder: Scoring | Source,
    pairs: Sequence[Pair | ScoredPair],
    grammar: Grammar | ParsedSides,
    rules: LintRules | None = None,
    data: str = "pairs",
    progress: Progress | None = None,
) -> LintReport:
    """Explain every pair by token, one after the other, and report those whose score rests on the wrong things.

    ``grammar`` parses the texts, or holds them parsed. Of a cross-encoder the logits are explained.

    >>> from likewise.data import read_scored_pairs
    >>> pairs = list(read_scored_pairs("sample/pairs"))
    >>> grammar = Grammar.load("en_core_web_sm")  # doctest: +SKIP
    >>> lint("minilm", pairs, grammar).findings[0].rule  # doctest: +SKIP
    'number'
    """
    if not pairs:
        raise DataError(f"{data}: no pair to lint; give a file with at least one")
    parsed = parsed_sides(pairs, grammar, progress=progress) if isinstance(grammar, Grammar) else grammar
    scoring, options = load_scoring(encoder), {"granularity": "token", "progress": progress, **PLAIN}
    measure: Any = cross_evidence if isinstance(scoring, CrossEncoder) else evidence
    explain_all: Any = explain_cross_encoder_many if isinstance(scoring, CrossEncoder) else explain_many
    found = [
        measure(pair, explained, parsed.left[pair.left], parsed.right[pair.right])
        for pair, explained in zip(pairs, explain_all(scoring, pairs, **options), strict=True)
    ]
    return report(found, rules or LintRules(), (data, scoring.name, pooling_of(scoring)))


def report(pairs: Sequence[PairEvidence], rules: LintRules, names: tuple[str, str, str]) -> LintReport:
    """Apply the rules to the evidence of n pairs, which belong to a data set, a model and a pooling."""
    similarity, truth = np.array([one.similarity for one in pairs]), scores_of([one.pair for one in pairs])
    high = float(np.quantile(similarity, rules.high)) if rules.high_similarity is None else rules.high_similarity
    positions = [None] * len(pairs) if truth is None else scale_positions(truth).tolist()
    cases = list(zip(pairs, similarity_ranks(similarity).tolist(), positions, strict=True))
    found = [one for case in cases for one in findings(*case, rules, high)]
    fired = Counter(finding.rule for finding in found)
    counts = []
    for rule in DESCRIPTIONS:
        if truth is not None or rule != "matching":
            candidates = sum(is_candidate(rule, one, position, rules) for one, _, position in cases)
            counts.append(RuleCount(rule, fired[rule], candidates, wilson(fired[rule], len(pairs))))
    worst = sorted(found, key=lambda finding: -finding.severity)
    return LintReport(*names, len(pairs), truth is not None, rules, high, tuple(counts), tuple(worst))


def is_candidate(rule: str, pair: PairEvidence, position: float | None, rules: LintRules) -> bool:
    """Whether a pair shows what a rule looks for; ``position`` is that of its human score on the file's scale."""
    shown = {
        "negation": bool(pair.negations),
        "number": any(pair.numbers),
        "roles": bool(pair.swaps),
        "matching": position is not None and position <= rules.low_human,
    }
    return shown.get(rule, True)


def wilson(count: int, n: int) -> Interval:
    """A share and its 95 % interval by Wilson's score."""
    from scipy.stats import binomtest

    ends = binomtest(count, n).proportion_ci(method="wilson")
    return Interval(count / n, float(ends.low), float(ends.high))


def findings(
    pair: PairEvidence, rank: float, position: float | None, rules: LintRules, high: float
) -> Iterator[Finding]:
    """The findings of every rule in one pair; a score is high from ``high`` on.

    Severity = strength x ``rank`` of the similarity in the file x (1 - ``position`` of the human score on the scale);
    without human scores the last factor is 1. The strength of a share is how far it lies beyond its threshold, 0 to 1.
    """
    for rule, check in CHECKS.items():
        looks = pair.similarity >= high or rule not in WRONG_THINGS
        verdict = check(pair, rules) if looks and is_candidate(rule, pair, position, rules) else None
        if verdict is not None:
            severity = verdict[0] * rank * (1.0 if position is None else 1.0 - position)
            texts = pair.pair.left, pair.pair.right
            yield Finding(rule, pair.pair.id, severity, verdict[1], pair.similarity, pair.human, *texts)


def similarity_ranks(similarity: Array) -> Array:
    """The share of the other pairs (n,) that lie below each, ties half; 1 for a single pair."""
    from scipy.stats import rankdata

    return np.asarray((rankdata(similarity) - 1) / (len(similarity) - 1)) if len(similarity) > 1 else np.ones(1)


def scale_positions(truth: Array) -> Array:
    """Where scores (n,) lie between the lowest, 0, and the highest, 1; all in the middle where they are equal."""
    span = float(np.ptp(truth))
    return np.asarray((truth - truth.min()) / span) if span > 0 else np.full(len(truth), 0.5)


Verdict = tuple[float, str] | None
"""The strength of the evidence, 0 to 1, and its words; None if the rule does not fire."""


def _beyond(share: float, threshold: float, words: str, pair: Strongest | None = None) -> Verdict:
    """The verdict on a share: its strength is how far it lies beyond the threshold."""
    if share <= threshold:
        return None
    most = "" if pair is None else f", most in {pair[0]}-{pair[1]} {pair[2]:+.3f}"
    return (share - threshold) / (1 - threshold) if threshold < 1 else 0.0, f"{share:.0%} of {words}{most}"


def _special(pair: PairEvidence, rules: LintRules) -> Verdict:
    words = f"the absolute relevance is of special tokens or a bias (biases {pair.bias:.0%})"
    return _beyond(pair.special, rules.special_share, words)


def _stop_words(pair: PairEvidence, rules: LintRules) -> Verdict:
    words = "the words' positive relevance is of stop words and punctuation"
    return _beyond(pair.stops, rules.stop_share, words, pair.strongest_stop)


def _negation(pair: PairEvidence, rules: LintRules) -> Verdict:
    negations, similarity = pair.negations, pair.similarity
    relevance = sum(one.relevance for one in negations)
    if relevance <= -rules.negation_share * abs(similarity):
        return None
    names = ", ".join(repr(one.word) for one in negations)
    share = relevance / similarity if similarity else 0.0
    return 1.0, f"{names} only on the {negations[0].side} makes {relevance:+.3f} of {similarity:.3f} ({share:+.0%})"


def _number(pair: PairEvidence, rules: LintRules) -> Verdict:  # noqa: ARG001
    left, right = (" ".join(side) or "no number" for side in pair.numbers)
    if all(pair.numbers):
        return 1.0, f"{left} against {right}, together {pair.number_relevance:+.3f} of {pair.similarity:.3f}"
    return ONE_SIDED_NUMBER, f"{left} against {right}, similarity {pair.similarity:.3f}"


def _roles(pair: PairEvidence, rules: LintRules) -> Verdict:  # noqa: ARG001
    words = "; ".join(str(swap) for swap in pair.swaps)
    return 1.0, f"{words}; with themselves they make {pair.swap_relevance:+.3f} of {pair.similarity:.3f}"


def _matching(pair: PairEvidence, rules: LintRules) -> Verdict:
    words = "the words' positive relevance is between equal words"
    verdict = _beyond(pair.matches, rules.match_share, words, pair.strongest_match)
    return verdict and (verdict[0], f"{verdict[1]}; people say {pair.human:g}")


CHECKS: dict[str, Callable[[PairEvidence, LintRules], Verdict]] = {
    "special": _special,
    "stop-words": _stop_words,
    "negation": _negation,
    "number": _number,
    "roles": _roles,
    "matching": _matching,
}
"""By the rule's name, as in ``DESCRIPTIONS``; a check sees candidates only."""
