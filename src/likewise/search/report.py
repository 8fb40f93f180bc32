"""The folder of a retrieval evaluation: run.json, the table as csv, Markdown and a page, and the recall figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from likewise.metrics import Interval
from likewise.plotting.html import page, paragraph
from likewise.results.folder import Results, flat, write_results
from likewise.search.ranks import TIES
from likewise.search.recall import RetrievalTable


def write_retrieval(table: RetrievalTable, run: Mapping[str, Any], folder: Path) -> Path:
    """Write everything that a table of rankers shows; ``run`` says how it was made."""
    found = Results(
        {**run, "results": table.to_dict()}, {"recall": flat(table.header, table.rows)}, {"recall": table.plot()}
    )
    write_results(found, folder)
    first = table.results[0]
    title = f"Retrieval: {first.data}"
    asked = f"{first.n} queries, {first.metadata['texts']} texts."
    note = f"{asked} Mean and bootstrap 95 % interval; {TIES}."
    command = str(run.get("command", ""))
    rows = [[_shown(one) for one in row] for row in table.rows]
    markdown = [f"# {title}", "", note, "", f"    {command}", "", *_markdown(table.header, rows), ""]
    (folder / "recall.md").write_text("\n".join(markdown), encoding="utf-8")
    figure = "<p><img src='recall.svg' alt='recall over k' style='max-width: 100%'></p>\n"
    means = f"{asked} Means; their bootstrap 95 % intervals are in recall.md and recall.csv."
    parts = [paragraph(means), paragraph(command, note=True), table._repr_html_(), figure]
    (folder / "recall.html").write_text(page(title, parts), encoding="utf-8")
    return folder


def _shown(value: object) -> str:
    return f"{value.value:.4f} ({value.low:.3f}-{value.high:.3f})" if isinstance(value, Interval) else str(value)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
