"""Linting: pairs whose score rests on the wrong things, each with its evidence from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.explain.explanation import Array
from likewise.explain.pairs import explain_many
from likewise.explain.settings import PLAIN
from likewise.lint.evidence import PairEvidence, evidence
from likewise.lint.judgement import human_places, judged
from likewise.lint.parsed_pairs import ParsedSides, scores_of
from likewise.lint.rules import DESCRIPTIONS, NEEDS_SCORES, Finding, LintRules
from likewise.metrics import Interval
from likewise.plotting.axes import axes_or_new
from likewise.plotting.html import paragraph, table
from likewise.plotting.style import PALETTE, drawable, literal
from likewise.progress import Progress

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class RuleCount:
    """How often a rule fires among the pairs."""

    rule: str
    count: int
    candidates: int
    """pairs that show what the rule looks for, whatever their score: a one-sided negation, a number that differs"""
    share: Interval
    """of all pairs, with its 95 % Wilson interval"""

    @property
    def row(self) -> tuple[str, int, int, float, float, float]:
        """Rule, count, candidates, share and its interval's ends."""
        return self.rule, self.count, self.candidates, self.share.value, self.share.low, self.share.high


@dataclass(frozen=True, eq=False)
class LintReport:
    """What linting found in n pairs; the worst findings come first."""

    data: str
    model: str
    pooling: str
    n: int
    scored: bool
    rules: LintRules
    high: float
    """the similarity from which a score counts as high"""
    counts: tuple[RuleCount, ...]
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """Counts and all findings."""
        metadata = {"data": self.data, "model": self.model, "pooling": self.pooling, "n": self.n, "scored": self.scored}
        counts = [asdict(one) | {"says": DESCRIPTIONS[one.rule]} for one in self.counts]
        thresholds = asdict(self.rules) | {"high_from": self.high}
        return metadata | {
            "thresholds": thresholds,
            "rules": counts,
            "findings": [asdict(one) for one in self.findings],
        }

    def plot(self, ax: Any = None) -> Any:
        """The share of pairs that each rule finds, with its interval."""
        ax = axes_or_new(ax, (6.4, 0.55 * len(self.counts) + 1.5))
        for index, one in enumerate(self.counts):
            share = one.share
            ends = [[share.value - share.low], [share.high - share.value]]
            ax.barh(index, share.value, height=0.6, color=PALETTE[0])
            ax.errorbar(share.value, index, xerr=ends, color="#222222", capsize=3, linewidth=1.2)
            label = f"{one.count}"
            ax.annotate(label, (share.high, index), (6, 0), textcoords="offset points", va="center", fontsize=9)
        ax.set_yticks(range(len(self.counts)), [one.rule for one in self.counts])
        ax.invert_yaxis()
        ax.set_xlim(0, min(1.15, 1.15 * max((one.share.high for one in self.counts), default=1.0)))
        ax.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        ax.set_xlabel("share of pairs, with 95 % interval; the number of pairs beside it")
        title = f"{self.data}, {Path(self.model).name or self.model}, n = {self.n}"
        ax.set_title(drawable(title, 90), fontsize=10, **literal())
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _repr_html_(self) -> str:
        worst = [(one.rule, one.severity, one.id, one.evidence) for one in self.findings[:20]]
        rules = table(("rule", "count", "candidates", "share", "low", "high"), [one.row for one in self.counts])
        scores = paragraph(f"a score is high from {self.high:.3f} on", note=True)
        return rules + scores + table(("rule", "severity", "pair", "evidence"), worst)


def lint(
    encoder: Encoder,
    pairs: Sequence[Pair | ScoredPair],
    parsed: ParsedSides,
    *,
    rules: LintRules | None = None,
    data: str = "pairs",
    progress: Progress | None = None,
) -> LintReport:
    """Explain every pair by token, one after the other, and report those whose score rests on the wrong things.

    >>> from likewise.data import read_scored_pairs
    >>> from likewise.lint.parsed_pairs import parsed_sides
    >>> from likewise.grammar import Grammar
    >>> pairs = list(read_scored_pairs("sample/pairs"))
    >>> parsed = parsed_sides(pairs, Grammar.load("en_core_web_sm"))  # doctest: +SKIP
    >>> lint(Encoder.load("minilm"), pairs, parsed).findings[0].rule  # doctest: +SKIP
    'number'
    """
    if not pairs:
        raise DataError(f"{data}: no pair to look at; give a file with at least one")
    stream = explain_many(encoder, pairs, granularity="token", progress=progress, **PLAIN)
    metadata = [
        evidence(pair, found, parsed.left[pair.left], parsed.right[pair.right])
        for pair, found in zip(pairs, stream, strict=True)
    ]
    return report(metadata, rules or LintRules(), (data, encoder.name, encoder.pooling_config.pooling))


def report(metadata: Sequence[PairEvidence], rules: LintRules, names: tuple[str, str, str]) -> LintReport:
    """Judge the evidence of n pairs, which belong to a data set, a model and a pooling."""
    similarity, truth = np.array([one.similarity for one in metadata]), scores_of([one.pair for one in metadata])
    high = float(np.quantile(similarity, rules.high)) if rules.high_similarity is None else rules.high_similarity
    found = judged(metadata, rules, high)
    fired = Counter(finding.rule for finding in found)
    counts = [
        RuleCount(rule, fired[rule], candidates(rule, metadata, truth, rules), wilson(fired[rule], len(metadata)))
        for rule in DESCRIPTIONS
        if truth is not None or rule not in NEEDS_SCORES
    ]
    worst = sorted(found, key=lambda finding: -finding.severity)
    return LintReport(*names, len(metadata), truth is not None, rules, high, tuple(counts), tuple(worst))


def candidates(rule: str, metadata: Sequence[PairEvidence], truth: Array | None, rules: LintRules) -> int:
    """The pairs that show what a rule looks for, whatever their score."""
    if rule == "matching":
        return 0 if truth is None else int((human_places(truth) <= rules.low_human).sum())
    return sum(SHOWS[rule](one) if rule in SHOWS else True for one in metadata)


SHOWS: dict[str, Callable[[PairEvidence], bool]] = {
    "negation": lambda one: bool(one.negations),
    "number": lambda one: one.has_number,
    "roles": lambda one: bool(one.swaps),
}
"""Whether a pair shows what a rule looks for; any pair does for the others."""


def wilson(count: int, n: int) -> Interval:
    """A share and its 95 % interval by Wilson's score.

    >>> interval = wilson(0, 10)
    >>> interval.value, interval.low, round(interval.high, 3)
    (0.0, 0.0, 0.278)
    """
    share, z2 = count / n, NORMAL_95**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_95 / (1 + z2 / n) * float(np.sqrt(share * (1 - share) / n + z2 / (4 * n**2)))
    # Within rounding the share itself is an end where none or all count.
    return Interval(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)))
