"""Generates the page of each study in docs/results from the run files of ``likewise reproduce``.

python docs/results.py           writes the pages
python docs/results.py --check   fails if one of them is not current

A run file is copied from the --out folder of a run to docs/results/runs; nothing in the pages is typed by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from likewise.reproduce.records import Record, records
from likewise.reproduce.report import sentence
from likewise.reproduce.studies import STUDIES
from likewise.reproduce.study import Study
from likewise.reproduce.verdicts import RULE
from likewise.results import Table

FOLDER = Path(__file__).with_name("results")
RUNS = FOLDER / "runs"


def page(study: Study, runs: list[Record]) -> str:
    """The page of a study."""
    head = [f"# Results: {study.title}", study.published.citation]
    head += [f"Made by `python docs/results.py` from the run files in `docs/results/runs/{study.name}`. {RULE}"]
    rows = [
        f"| [{item.name}](#{_anchor(study, item.name)}) | {item.original} | {_verdicts(item.name, runs)} |"
        for item in study.items
    ]
    summary = "\n".join(["| item | in the study | verdicts |", "|---|---|---|", *rows])
    parts = [*head, summary]
    for item in study.items:
        parts += [f"## {_heading(study, item.name)}", f"Claim: {item.claim}"]
        own = sorted((run for run in runs if run.item == item.name), key=lambda run: bool(run.origin))
        parts += [part for run in own for part in section(run)] or ["Not run yet."]
    return "\n\n".join(parts) + "\n"


def section(run: Record) -> Iterator[str]:
    """What one run found."""
    yield f"### {'Earlier: ' if run.origin else ''}{run.model}"
    if run.stand_in:
        yield run.stand_in
    if run.verdicts:
        yield "\n".join(f"- {sentence(verdict)}" for verdict in run.verdicts)
    yield from run.notes
    for table in run.tables.values():
        if not table.detail:
            yield markdown(table)
    for name, figure in run.figures.items():
        yield f"![{figure.title or name}](runs/{run.study}/{figure.file})"
    file = f"[run file](runs/{run.study}/{run.stem}.json)"
    if run.origin:
        yield f"```bash\n{run.command}\n```"
        yield f"Imported from {run.origin} ({run.made}; {file})"
    else:
        yield f"`{run.command}` ({run.made}; {file})"


def markdown(table: Table) -> str:
    """A table in Markdown; intervals stay in one cell."""
    rows = [[cell.replace("\n", " [", 1) + "]" if "\n" in cell else cell for cell in row] for row in table.texts()]
    rows = [[cell.replace(" to ", ", ") if cell.endswith("]") else cell for cell in row] for row in rows]
    marks = ["---:" if table.numeric(index) else "---" for index in range(len(table.columns))]
    lines = [_line(table.headings), _line(marks), *map(_line, rows)]
    title = [f"{table.title}. {table.note}".strip(". ") + ":", ""] if table.title or table.note else []
    return "\n".join([*title, *lines])


def pages() -> dict[Path, str]:
    """All pages by their files."""
    found = list(records(RUNS))
    return {FOLDER / f"{one.name}.md": page(one, [run for run in found if run.study == one.name]) for one in STUDIES}


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _heading(study: Study, name: str) -> str:
    item = study.item(name)
    return f"{name} ({item.original})" if item.original else name


def _anchor(study: Study, name: str) -> str:
    kept = "".join(letter for letter in _heading(study, name).lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _verdicts(item: str, runs: list[Record]) -> str:
    own = [run for run in runs if run.item == item]
    found = [
        f"{run.model}: {', '.join(one.verdict for one in run.verdicts) or 'no claim'}" for run in own if not run.origin
    ]
    return "; ".join(found) or ("earlier runs" if own else "")


if __name__ == "__main__":
    outdated = [path.name for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        sys.exit(f"not current: {', '.join(outdated)}; run python docs/results.py" if outdated else 0)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
