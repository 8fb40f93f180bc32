"""The folder of a study of isotropy: run.json, the table, the figure and a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.drawing.html import page, paragraph
from likewise.drawing.inline_svg import inline_svg
from likewise.metrics import Interval
from likewise.reports.folder import Results, Table, write_results
from likewise.studies.isotropy import IsotropyTable


def write_isotropy(found: IsotropyTable, run: Mapping[str, Any], folder: Path) -> Path:
    """Write everything that a table of corrections shows; ``run`` says how it was made."""
    figure = found.plot()
    document = {**run, "results": found.to_json()}
    write_results(Results(document, {"isotropy": _flat(found)}, {"isotropy": figure}), folder)
    drawn = f"<div class=wide>{inline_svg(figure, 'baseline, Spearman and recall by setting')}</div>\n"
    parts = [paragraph(str(run.get("command", "")), note=True), drawn, found._repr_html_()]
    title = f"Isotropy: {found.results[0].data}"
    (folder / "isotropy.html").write_text(page(title, parts), encoding="utf-8")
    return folder


def _flat(found: IsotropyTable) -> Table:
    """Each interval as three columns."""
    header = ["model"]
    first = found.results[0]
    for name, cell in zip(first.header, first.settings[0].cells, strict=True):
        header += [name, f"{name}_low", f"{name}_high"] if isinstance(cell, Interval) else [name]
    rows = [
        [result.model, *(part for cell in one.cells for part in _parts(cell))]
        for result in found.results
        for one in result.settings
    ]
    return header, rows


def _parts(cell: object) -> list[object]:
    return list(vars(cell).values()) if isinstance(cell, Interval) else [cell]
