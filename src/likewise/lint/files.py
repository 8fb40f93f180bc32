"""Linting a file of pairs: grammar and explanations together."""

from __future__ import annotations

from collections.abc import Sequence

from likewise.data import Pair, ScoredPair
from likewise.encoder import Encoder
from likewise.grammar import Grammar
from likewise.lint.lint import LintReport, lint
from likewise.lint.parsed_pairs import parsed_sides
from likewise.lint.rules import LintRules
from likewise.progress import Progress


def lint_pairs(
    encoder: Encoder,
    pairs: Sequence[Pair | ScoredPair],
    grammar: Grammar,
    rules: LintRules,
    data: str = "pairs",
    progress: Progress | None = None,
) -> LintReport:
    """Parse both texts of each pair and report the pairs whose score rests on the wrong things."""
    parsed = parsed_sides(pairs, grammar, progress=progress)
    return lint(encoder, pairs, parsed, rules=rules, data=data, progress=progress)
