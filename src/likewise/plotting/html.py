"""HTML: self-contained pages that need no network, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from likewise.plotting.text import printable

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --soft: #9da7b3; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; } .wide { overflow-x: auto; margin-bottom: 1.2rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td { white-space: pre-line; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: pre; }
p.note { color: var(--soft); } code { font-size: .9em; }
"""


@dataclass(frozen=True)
class Number:
    """A cell of a table with a number that is already text, in its own lines; bold where it is marked."""

    text: str
    marked: bool = False


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document from pieces of HTML.

    >>> "<title>a &lt; b</title>" in page("a < b", [])
    True
    """
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{_safe(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{_safe(title)}</h1>\n{''.join(parts)}</body></html>\n"
    )


def section(heading: str, parts: Iterable[str]) -> str:
    """A heading and what stands under it."""
    return f"<h2>{_safe(heading)}</h2>\n{''.join(parts)}"


def paragraph(text: str, note: bool = False) -> str:
    """A paragraph of plain text."""
    return f"<p{' class=note' if note else ''}>{_safe(text)}</p>\n"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers are set to the right, floats with three decimals.

    >>> "<td class=number>0.500</td>" in table(["x"], [[0.5]])
    True
    """
    head = "".join(f"<th>{_safe(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"


def _cell(value: object) -> str:
    if isinstance(value, Number):
        shown = _safe(value.text)
        return f"<td class=number>{f'<b>{shown}</b>' if value.marked else shown}</td>"
    if isinstance(value, float):
        return f"<td class=number>{value:.3f}</td>"
    if isinstance(value, int):
        return f"<td class=number>{value}</td>"
    return f"<td>{_safe(str(value))}</td>"


def _safe(text: str) -> str:
    return escape(printable(text))
