"""The folder of a checkup: every number, tables, curves over the layers, and a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from likewise.plotting.axes import save_figure
from likewise.plotting.curves import Series, curves
from likewise.plotting.html import inline_svg, page, paragraph, section, table
from likewise.results.folder import Table, versions, write_csv, write_document
from likewise.train.benchmark import Checkup
from likewise.train.benchmark_parts import FIRST_LAYER
from likewise.train.table import Spread

Line = list[Spread | None]
"""A measure in every layer."""

NOTES = {
    "sts": "How well cosines follow the scores that people gave: over all pairs, by column, and by thirds of length.",
    "space": "The vectors of the texts: the expected cosine of two different ones (baseline), IsoScore, and the share"
    " of highly scored pairs whose other text is found.",
    "layers": "The words in every layer: cosine of two random words (baseline), of a word with itself and with its"
    " sentence beyond that, IsoScore and effective rank.",
    "skipped": "Spearman with one layer left out.",
    "classes": "Shares of all absolute relevance by pairs of parts of speech; the largest of the first model.",
    "lint": "The share of pairs that each rule finds suspicious.",
}


def write_checkup(found: Checkup, metadata: Mapping[str, Any], folder: Path) -> Path:
    """Write results.json, a table for each part, figures and report.html."""
    folder.mkdir(parents=True, exist_ok=True)
    write_document({**found.to_dict(), "run": {**metadata, "versions": versions()}}, folder / "results.json")
    summary = [paragraph(str(metadata.get("command", "")), note=True), paragraph(_about(found))]
    for part in found.parts:
        summary.append(section(part, [paragraph(NOTES[part], note=True), *_part(found, part, folder)]))
    (folder / "report.html").write_text(page("Checkup", summary), encoding="utf-8")
    return folder


def _about(found: Checkup) -> str:
    several = max(found.seeds(name) for name in found.names) > 1
    over = " Means ± standard deviations (n - 1) over seeds." if several else ""
    return f"{found.data}, {found.n} pairs; {len(found.examined)} models.{over}"


def _part(found: Checkup, part: str, folder: Path) -> list[str]:
    pieces = []
    header, rows = found.table(part)
    if rows:
        write_csv(_exact(found, part), folder / f"{part}.csv")
        pieces.append(table(header, [[str(cell) for cell in row] for row in rows]))
    lines = found.curves(part)
    if lines:
        write_csv(_by_layer(lines, part), folder / f"{part}-layers.csv")
    for measure, each in lines.items():
        ax = _drawn(measure, each, part)
        for ending in ("png", "svg"):
            save_figure(ax, folder / "figures" / f"{part}-{measure.replace(' ', '-')}.{ending}")
        pieces.append(f"<p>{inline_svg(ax, measure)}</p>\n")
    return pieces


def _exact(found: Checkup, part: str) -> Table:
    rows = [
        (measure, name, found.seeds(name), value.mean, "" if value.deviation is None else value.deviation)
        for measure, each in found.measures(part).items()
        for name, value in each.items()
    ]
    return ("measure", "model", "seeds", "mean", "sd"), rows


def _by_layer(lines: Mapping[str, Mapping[str, Line]], part: str) -> Table:
    rows = [
        (measure, name, layer, value.mean, "" if value.deviation is None else value.deviation)
        for measure, each in lines.items()
        for name, line in each.items()
        for layer, value in enumerate(line, start=FIRST_LAYER.get(part, 0))
        if value is not None
    ]
    return ("measure", "model", "layer", "mean", "sd"), rows


def _drawn(measure: str, lines: Mapping[str, Line], part: str) -> Any:
    """A line for each model over its layers; models of other depths are drawn along the share of their depth."""
    longest, first = max(map(len, lines.values())), FIRST_LAYER.get(part, 0)
    series: dict[str, Series] = {}
    for name, line in lines.items():
        means = np.array([np.nan if value is None else value.mean for value in line])
        spread = np.array([0.0 if value is None else value.deviation or 0.0 for value in line])
        where = np.linspace(0, longest - 1, len(line))
        along = np.arange(longest)
        bands = [np.interp(along, where, each) for each in (means, means - spread, means + spread)]
        series[name] = (bands[0], bands[1], bands[2]) if spread.any() else (bands[0], None, None)
    return curves(np.arange(first, first + longest), series, ("layer", measure), "", whole=True)
