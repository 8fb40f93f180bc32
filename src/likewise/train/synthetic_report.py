"""The folder of a noun study: its numbers, the figure and a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.plotting.axes import save_figure
from likewise.plotting.html import inline_png, page, paragraph, section
from likewise.results.folder import versions, write_csv, write_document
from likewise.train.synthetic import NounStudy


def write_nouns(found: NounStudy, metadata: Mapping[str, Any], folder: Path) -> Path:
    """Write results.json, acs.csv, the figure and report.html."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document({**found.to_dict(), "run": {**metadata, "versions": versions()}}, folder / "results.json")
    rows = [(name, one.value, one.low, one.high) for name, one in found.agreement.items()]
    write_csv((("method", "acs", "low", "high"), rows), folder / "acs.csv")
    summary = [
        paragraph(str(metadata.get("command", "")), note=True),
        paragraph(
            f"{found.model} on {found.data}: ACS is the mean cosine of explanation and truth over the {found.compared}"
            " pairs that share a noun, with 95 % intervals."
        ),
        found._repr_html_(),
    ]
    if found.examples:
        ax = found.plot()
        for ending in ("png", "svg"):
            save_figure(ax, folder / f"examples.{ending}")
        drawn = inline_png(ax, "true and explained interactions")
        summary.append(section("Pairs that share 1, 2 and 5 nouns", [f"<p>{drawn}</p>\n"]))
    (folder / "report.html").write_text(page("Counting nouns", summary), encoding="utf-8")
    return folder
