"""The folder of a lint report: the rules' counts, all findings, and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, fields
from typing import Any

from likewise.explain.lint import LintReport
from likewise.explain.lint_rules import DESCRIPTIONS, Finding
from likewise.reports.folder import Results, Table


def lint_results(report: LintReport, run: Mapping[str, Any]) -> Results:
    """What ``likewise lint --out`` writes; the findings stand in their own table."""
    header = ("rule", "count", "candidates", "share", "low", "high", "says")
    tables: dict[str, Table] = {
        "rules": (header, [(*one.row, DESCRIPTIONS[one.rule]) for one in report.counts]),
        "findings": ([field.name for field in fields(Finding)], [astuple(one) for one in report.findings]),
    }
    facts = {key: value for key, value in report.to_json().items() if key != "findings"}
    return Results({**run, "result": facts}, tables, {"rules": report.plot()})
