"""The notebooks of examples/: made from their scripts, and shown with output; `make docs` runs them in a kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "site"))

import notebooks  # noqa: E402
import outputs  # noqa: E402

SCRIPTS = notebooks.scripts()


def test_there_are_eight() -> None:
    assert len(SCRIPTS) == 8
    assert sorted(path.stem for path in (ROOT / "examples").glob("*.ipynb")) == [path.stem for path in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_that_of_its_script(script: Path) -> None:
    made = script.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert made == notebooks.written(script), "run: python docs/site/notebooks.py"
    cells = json.loads(made)["cells"]
    assert cells[0]["cell_type"] == "markdown" and cells[0]["source"].startswith("# ")
    assert {"markdown", "code"} == {cell["cell_type"] for cell in cells}


def test_cells() -> None:
    found = notebooks.notebook("# %% [markdown]\n# # Title\n#\n# Words\n\n# %%\n# %matplotlib inline\nx\n")["cells"]
    assert [(cell["cell_type"], cell["source"]) for cell in found] == [
        ("markdown", "# Title\n\nWords"), ("code", "%matplotlib inline\nx"),
    ]  # fmt: skip


def test_outputs_are_kept_from_markdown(tmp_path: Path) -> None:
    shown = [
        {"output_type": "stream", "name": "stdout", "text": ["\x1b[1m<a>\x1b[0m\n"]},
        {"output_type": "stream", "name": "stderr", "text": "a notice"},
        {"output_type": "execute_result", "data": {"text/plain": "<Axes>", "image/png": "AAAA\n"}},
        {"output_type": "display_data", "data": {"text/html": ["<b>", "x_y_z</b>"], "text/plain": "x"}},
    ]
    cells = [{"cell_type": "markdown", "source": "# A"}, {"cell_type": "code", "source": ["f()"], "outputs": shown}]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    text, found = outputs.page(tmp_path / "a.ipynb")
    assert text.count("data-output") == 3 and "```python\nf()\n```" in text and "<b>" not in text
    page = outputs.filled(text, found)
    assert "<pre><code>&lt;a&gt;\n</code></pre>" in page and "base64,AAAA'" in page and "<b>x_y_z</b>" in page
    assert "a notice" not in page and "data-output" not in page
