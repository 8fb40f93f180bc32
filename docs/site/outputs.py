"""Notebooks that were run -> pages of the site: Markdown with a mark for each output, and the HTML of each output."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

MARK = "<div data-output='{}'></div>"
MARKS = re.compile(r"<div data-output='(\d+)'></div>")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def page(path: Path) -> tuple[str, list[str]]:
    """The Markdown of a notebook, and the HTML of its outputs, which Markdown must not touch."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    shown: list[str] = []
    for cell in cells:
        source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if text := drawn(output):
                parts.append(MARK.format(len(shown)))
                shown.append(text)
    return "\n\n".join(parts) + "\n", shown


def drawn(output: dict[str, Any]) -> str:
    """The HTML of an output; empty for what goes to stderr, such as notices."""
    if output["output_type"] == "stream":
        return _pre(output["text"]) if output["name"] == "stdout" else ""
    data = output.get("data", {})
    if "text/html" in data:
        return f"<div class=likewise-output>{_text(data['text/html'])}</div>"
    if "image/png" in data:
        return (
            f"<p><img alt='the figure of this cell' src='data:image/png;base64,{_text(data['image/png']).strip()}'></p>"
        )
    return _pre(data["text/plain"]) if "text/plain" in data else ""


def filled(page_html: str, shown: list[str]) -> str:
    """A page with its outputs in place of the marks."""
    return MARKS.sub(lambda mark: shown[int(mark[1])], page_html)


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def _pre(value: str | list[str]) -> str:
    return f"<pre><code>{html.escape(COLOURS.sub('', _text(value)))}</code></pre>"
