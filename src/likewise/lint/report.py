"""The folder of a lint report: the rules' counts, all findings, and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, fields
from typing import Any

from likewise.lint.lint import LintReport
from likewise.lint.rules import DESCRIPTIONS, Finding
from likewise.results.folder import Results, Table

WRONG_THINGS = ("negation", "number", "roles", "matching")
"""Rules whose findings are pairs that a model should hold apart."""


def hard_negatives(report: LintReport) -> Table:
    """The pairs that a model finds too similar, each once under its worst rule, the worst first.

    The scores are people's, where the file has them: ``likewise train`` learns from the table as from any other pairs,
    and a contrastive task with ``views = "negatives"`` without scores.
    """
    worst: dict[tuple[str, str], Finding] = {}
    for one in report.findings:
        if one.rule in WRONG_THINGS:
            worst.setdefault((one.left, one.right), one)
    scored = ["score"] if report.scored else []
    rows = [
        (one.left, one.right, *([one.human] if scored else []), one.rule, one.severity, one.similarity, one.id)
        for one in worst.values()
    ]
    return ["sentence1", "sentence2", *scored, "rule", "severity", "cosine", "pair"], rows


def lint_results(report: LintReport, run: Mapping[str, Any]) -> Results:
    """What ``likewise lint --out`` writes; the findings stand in their own table."""
    header = ("rule", "count", "candidates", "share", "low", "high", "says")
    tables: dict[str, Table] = {
        "rules": (header, [(*one.row, DESCRIPTIONS[one.rule]) for one in report.counts]),
        "findings": ([field.name for field in fields(Finding)], [astuple(one) for one in report.findings]),
    }
    metadata = {key: value for key, value in report.to_dict().items() if key != "findings"}
    return Results({**run, "result": metadata}, tables, {"rules": report.plot()})
