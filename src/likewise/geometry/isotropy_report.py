"""The folder of a study of isotropy: run.json, the table, the figure and a page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.geometry.isotropy import IsotropyTable
from likewise.plotting.html import page, paragraph
from likewise.plotting.inline_svg import inline_svg
from likewise.results.folder import Results, Table, flat, write_results


def write_isotropy(found: IsotropyTable, run: Mapping[str, Any], folder: Path) -> Path:
    """Write everything that a table of corrections shows; ``run`` says how it was made."""
    figure = found.plot()
    document = {**run, "results": found.to_dict()}
    write_results(Results(document, {"isotropy": _settings(found)}, {"isotropy": figure}), folder)
    drawn = f"<div class=wide>{inline_svg(figure, 'baseline, Spearman and recall by setting')}</div>\n"
    parts = [paragraph(str(run.get("command", "")), note=True), drawn, found._repr_html_()]
    title = f"Isotropy: {found.results[0].data}"
    (folder / "isotropy.html").write_text(page(title, parts), encoding="utf-8")
    return folder


def _settings(found: IsotropyTable) -> Table:
    """Every setting of every model."""
    rows = [(result.model, *one.cells) for result in found.results for one in result.settings]
    return flat(("model", *found.results[0].header), rows)
